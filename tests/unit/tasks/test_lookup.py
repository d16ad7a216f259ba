"""Tasks by their names: found if they can be imported, left alone otherwise. Ids made of payloads."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.integration import reminders
from tests.unit.tasks.defining import PATH, define
from zsched import InvalidSchedule, InvalidTask, NotImportable, Task
from zsched.tasks.lookup import Lookup, tasks_of

MODULE = "tests.integration.reminders"
FITTING = {"event_id": "e1", "channel": "push"}


def find(path: str) -> Task[..., Any] | None:
    return Lookup().find(path)


def options_for(path: str, options: dict[str, Any]) -> dict[str, Any]:
    return Lookup().options_for(path, options)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package ``shelf`` that can be imported during the test."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").touch()
    yield tmp_path / "shelf"
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_task_is_found_by_its_path() -> None:
    assert reminders.send_reminder is find(f"{MODULE}.send_reminder")


NO_TASKS = [f"{MODULE}.untyped", f"{MODULE}.send_reminder.schedule", "nowhere.tasks.send", "os.path.join"]
NO_TASKS += ["tests.nowhere.send", "fractions.Fraction.from_float", "send", "__main__.send", "..send", "a..b", ""]


@pytest.mark.parametrize("path", NO_TASKS)
def test_a_path_to_something_else_than_a_task_keeps_its_options(path: str) -> None:
    options = {"at": 1, "kwargs": {"any": "thing"}}

    assert find(path) is None
    assert options == options_for(path, options)


def test_options_of_a_task_are_checked_and_completed() -> None:
    told = options_for(f"{MODULE}.send_reminder", {"id": "mine", "after": 5, "args": ["e1", "push"]})

    assert {
        "id": "mine", "after": 5, "args": ["e1", "push"], "queue": "email", "priority": "high", "tags": ["reminders"],
    } == told  # fmt: skip
    with pytest.raises(InvalidSchedule, match="channel='fax'"):
        options_for(f"{MODULE}.send_reminder", {"args": ["e1", "fax"]})


def test_a_module_is_imported_only_if_it_exists(package: Path) -> None:
    assert find("shelf.absent.send") is None
    assert "shelf.absent" not in sys.modules


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 / 0", "raises ZeroDivisionError: division by zero"),
        ("import shelf.absent", "raises ModuleNotFoundError: No module named 'shelf.absent'"),
        ("import sys; sys.exit(3)", "raises SystemExit: 3"),
        ("def f(:", "raises SyntaxError"),
        ("import zsched\n@zsched.task\ndef send(at: str): ...", r"InvalidTask: task shelf\.broken\.send: at: str: a"),
    ],
)
@pytest.mark.parametrize("is_package", [False, True])
def test_an_import_that_raises_is_reported_by_module(package: Path, source: str, told: str, is_package: bool) -> None:
    path = "shelf.broken.send"
    if is_package:
        (package / "broken").mkdir()
        (package / "broken" / "__init__.py").write_text(source)
        path = "shelf.broken.more.send"
    else:
        (package / "broken.py").write_text(source)

    with pytest.raises(InvalidTask, match=told) as raised:
        find(path)
    assert "shelf.broken" == raised.value.field


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("digset", f"there is no digset in {MODULE}; did you mean digest?"),
        ("untipped", f"there is no untipped in {MODULE}; did you mean untyped?"),
        ("nothing", f"there is no nothing in {MODULE}; its tasks are send_reminder, plain, digest, poll"),
        ("digest.schedul", f"there is no schedul in {MODULE}.digest; give a function"),
        ("Next.nothing", f"there is no nothing in {MODULE}.Next; give a function"),
    ],
)
def test_a_name_that_its_module_lacks_is_a_mistake_with_the_nearest_name(path: str, told: str) -> None:
    lookup = Lookup()

    with pytest.raises(NotImportable) as raised:
        lookup.find(f"{MODULE}.{path}")

    assert str(raised.value).startswith(f"func='{MODULE}.{path}': {told}")
    assert ("func", {}) == (raised.value.field, lookup.absent)


@pytest.mark.parametrize("path", ["shelf.send", "shelf.full.nothing", "shelf.full.Nothing.send"])
def test_a_name_that_a_package_lacks_is_a_mistake_only_if_no_module_could_have_it(package: Path, path: str) -> None:
    (package / "full.py").write_text("def send(): ...\n")

    with pytest.raises(NotImportable, match=rf"there is no \w+ in {path.rpartition('.')[0].removesuffix('.Nothing')}"):
        find(path)


MISSING = {"nowhere.tasks.send": "nowhere", "tests.nowhere.send": "tests.nowhere"}
MISSING |= dict.fromkeys(["shelf.absent.send", "shelf.absent.more.send"], "shelf.absent")


@pytest.mark.parametrize("path", [*MISSING, f"{MODULE}.send_reminder", *NO_TASKS])
@pytest.mark.usefixtures("package")
def test_missing_modules_are_remembered_by_path(path: str) -> None:
    lookup = Lookup()

    lookup.find(path)

    assert ({path: MISSING[path]} if path in MISSING else {}) == lookup.absent


def test_errors_of_a_payload_are_reported_separately_from_its_options() -> None:
    path, lookup = f"{MODULE}.send_reminder", Lookup()
    options = {"kwargs": {"channel": "fax", "minutes": "5"}, "queue": "own"}

    assert {"queue": "own", "priority": "high", "tags": ["reminders"], "kwargs": options["kwargs"]} == (
        lookup.options_beside(path, options)
    )
    assert ["channel", "minutes", "event_id"] == [mistake.field for mistake in lookup.mistakes(path, options)]
    assert ["args"] == [mistake.field for mistake in lookup.mistakes(path, {"args": [1, 2, 3, 4]})]
    assert [] == list(lookup.mistakes("nowhere.send", options))


def test_a_task_is_found_under_another_name(package: Path) -> None:
    (package / "views.py").write_text(f"from {MODULE} import send_reminder as remind")

    assert reminders.send_reminder is find("shelf.views.remind")
    assert {"remind": reminders.send_reminder} == tasks_of("shelf.views")


def test_the_tasks_of_a_module_come_in_its_order() -> None:
    found = tasks_of(MODULE)

    assert ["send_reminder", "plain", "digest", "poll"] == list(found)[:4]
    assert "untyped" not in found


@pytest.mark.parametrize("name", ["nowhere", "tests.nowhere", "", "a b", ".tasks"])
def test_a_missing_module_is_an_error(name: str) -> None:
    with pytest.raises(InvalidTask, match="there is no such module here"):
        tasks_of(name)


def test_a_payload_of_the_wrong_shape_is_refused_for_a_path_too() -> None:
    wrong: dict[str, Any] = {"kwargs": [FITTING]}

    with pytest.raises(InvalidSchedule, match=r"kwargs=.*not named arguments"):
        options_for(f"{MODULE}.send_reminder", wrong)


SEND = "def send(event: Any, step: int = 1): ..."


MORE = "more than plain names"
BAD_IDS: dict[str, list[Any]] = {
    "names evnt, which is not a parameter": ["reminder-{evnt}"],
    MORE: [f"reminder-{{{name}}}" for name in ("event!r", "event.id", "event[0]", "", "0")] + ["reminder-{step:03}"],
    "id=.*: not a template": ["reminder-{event"],
    "has 'reminder:' in it": ["reminder:{event}"],
    "has 'reminder ' in it": ["reminder {event}"],
    "in it": ["{{{event}}}"],
    "not a schedule id": ["", "a" * 129],
    "id=7: not a text; give id=": [7],
}


@pytest.mark.parametrize(("id", "told"), [(id, told) for told, ids in BAD_IDS.items() for id in ids])
def test_an_invalid_id_template_is_an_error_where_the_task_is_defined(id: object, told: str) -> None:
    with pytest.raises(InvalidTask, match=told) as raised:
        define(SEND, id=id)
    assert PATH == raised.value.field


@pytest.mark.parametrize(
    ("payload", "id"),
    [
        ({"event": "e1"}, "r-e1-1"),
        ({"event": "e1", "step": 2}, "r-e1-2"),
        ({"event": 7}, "r-7-1"),
        ({"event": UUID(int=1)}, "r-00000000-0000-0000-0000-000000000001-1"),
        ({"event": ""}, "r--1"),
    ],
)
def test_an_id_is_made_from_values_and_defaults(payload: dict[str, Any], id: str) -> None:
    send = define(SEND, id="r-{event}-{step}")

    assert id == send.id_of(**payload)
    assert {"kwargs": payload, "id": id} == send.complete_options({"kwargs": payload})


def test_positional_arguments_make_the_same_id() -> None:
    send = define(SEND, id="r-{event}-{step}")

    assert "r-e1-5" == send.complete_options({"args": ["e1", 5]})["id"]


@pytest.mark.parametrize("value", ["a b", "a:b", "ü", None, 1.5, ["x"]])
def test_a_value_that_cannot_be_part_of_an_id_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidSchedule, match=r"cannot be part of an id, which task app.tasks.send makes of") as raised:
        define(SEND, id="r-{step}-{event}").id_of(event=value)
    assert ("event", value) == (raised.value.field, raised.value.value)


@pytest.mark.parametrize(("id", "value", "length"), [("r-{event}", "x" * 127, 129), ("{event}", "", 0)])
def test_an_empty_or_too_long_id_is_refused_with_its_value(id: str, value: str, length: int) -> None:
    with pytest.raises(InvalidSchedule, match=f"has {length} characters") as raised:
        define(SEND, id=id).id_of(event=value)
    assert "event" == raised.value.field


def test_an_id_template_needs_only_its_own_arguments_or_none() -> None:
    send = define("def send(event: str, text: str): ...", id="r-{event}")

    assert ("r-e1", "digest") == (send.id_of(event="e1"), define(SEND, id="digest").id_of())
    with pytest.raises(InvalidSchedule, match=r"text=1.*wants str"):
        send.id_of(event="e1", text=1)
    with pytest.raises(InvalidSchedule, match=r"the id of task app.tasks.send is made of it; give event=…"):
        send.id_of(text="t")


def test_asking_a_task_without_an_id_for_its_id_is_an_error() -> None:
    with pytest.raises(InvalidTask, match="it has no id; give the decorator id="):
        define(SEND).id_of(event="e1")
    assert "id" not in define(SEND).complete_options({"kwargs": {"event": 1}})
