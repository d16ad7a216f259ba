"""From the text of a file to entries, or to everything that is wrong with it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.unit.files.ground import CHECKS
from zsched.core.clock import to_ms
from zsched.core.model import Definition, Priority
from zsched.core.triggers import TriggerKind, TriggerSpec
from zsched.errors import NOT_GIVEN, ConfigError, InvalidFile, InvalidSchedule, InvalidTask
from zsched.files.reading import Entry, ScheduleFile, read


class Completing:
    """Checks of functions that have *options* of their own, and take anything."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._own = options

    def define(self, func: str | None, options: Mapping[str, Any]) -> Definition:
        return CHECKS.define(func, {**self._own, **options})

    def mistakes(self, func: str, options: Mapping[str, Any]) -> Iterator[InvalidSchedule]:
        yield from ()


def reading(text: str, name: str = "schedules.toml") -> ScheduleFile:
    return read(name, dedent(text).encode(), CHECKS)


def entry(text: str) -> Entry:
    (only,) = reading(text).entries
    return only


def complaints(text: str | bytes, name: str = "schedules.toml") -> list[str]:
    raw = text if isinstance(text, bytes) else dedent(text).encode()
    with pytest.raises(InvalidFile) as caught:
        read(name, raw, CHECKS)
    return list(caught.value.complaints)


# -- what may stand in a file ---------------------------------------------------------------------------


def test_a_table_is_a_schedule_and_the_file_owns_it() -> None:
    found = entry("""
        [schedules.digest]
        func = "app.tasks.digest"
        cron = "0 9 * * 1-5"
        tz = "Asia/Seoul"
        kwargs = { to = "all" }
        """)

    definition = found.definition
    assert ("digest", 2, None) == (found.id, found.line, found.paused)
    assert ("digest", "file:schedules.toml", "app.tasks.digest", {"to": "all"}) == (
        definition.id, definition.managed_by, definition.payload.func, definition.payload.kwargs,
    )  # fmt: skip
    assert TriggerSpec(TriggerKind.CRON, "0 9 * * 1-5", "Asia/Seoul") == definition.when


def test_a_file_names_its_owner_or_its_own_name_does() -> None:
    assert "billing" == reading('owner = "billing"\n[schedules]').owner
    assert "file:jobs.toml" == reading("[schedules]", "some/folder/jobs.toml").owner


def test_an_entry_comes_before_the_defaults() -> None:
    file = reading("""
        [defaults]
        queue = "email"
        priority = "high"
        [schedules.a]
        func = "app.a"
        every = 60
        [schedules.b]
        func = "app.b"
        every = 60
        queue = "push"
        """)

    assert [("email", Priority.HIGH), ("push", Priority.HIGH)] == [
        (one.definition.queue, one.definition.priority) for one in file.entries
    ]


@pytest.mark.parametrize(
    ("said", "ms"),
    [("60", 60_000), ("0.5", 500), ('"90"', 90_000), ('"500ms"', 500), ('"1h30m"', 5_400_000), ('"2d"', 172_800_000)],
)
def test_a_duration_is_seconds_or_a_text(said: str, ms: int) -> None:
    found = entry(f'[schedules.a]\nfunc = "app.a"\nevery = {said}')

    assert TriggerSpec(TriggerKind.EVERY, str(ms), gap=found.definition.when.gap) == found.definition.when  # type: ignore[union-attr]  # recurring


def test_every_duration_may_be_a_text() -> None:
    definition = entry("""
        [schedules.a]
        func = "app.a"
        every = "1d"
        jitter = "5m"
        expires_after = "1h"
        catch_up_window = "2h"
        timeout = "1h30m"
        result_ttl = "10m"
        failure_ttl = -1
        """).definition

    payload = definition.payload
    assert (300_000, 3_600_000, 7_200_000) == (
        definition.when.jitter_ms, definition.expires_ms, definition.policy.catch_up_window_ms,  # type: ignore[union-attr]  # recurring
    )  # fmt: skip
    assert (timedelta(minutes=90), timedelta(minutes=10), -1) == (
        payload.timeout, payload.result_ttl, payload.failure_ttl,
    )  # fmt: skip


def test_a_time_is_local_in_the_zone_or_has_an_offset() -> None:
    when = entry("""
        [schedules.a]
        func = "app.a"
        every = 60
        tz = "Asia/Seoul"
        starts = 2030-01-01T00:00:00
        ends = 2031-01-01T00:00:00-05:00
        """).definition.when

    assert isinstance(when, TriggerSpec)
    assert (to_ms(datetime(2029, 12, 31, 15, tzinfo=UTC)), to_ms(datetime(2031, 1, 1, 5, tzinfo=UTC))) == (
        when.starts_ms,
        when.ends_ms,
    )


def test_what_toml_cannot_say_is_json() -> None:
    payload = entry("""
        [schedules.a]
        func = "app.a"
        every = 60
        args_json = '[1, null, {"deep": [null]}]'
        kwargs_json = '{"to": null}'
        meta_json = '{"team": null}'
        """).definition.payload

    assert ([1, None, {"deep": [None]}], {"to": None}, {"team": None}) == (payload.args, payload.kwargs, payload.meta)


def test_paused_is_yes_no_or_unsaid() -> None:
    file = reading("""
        [schedules.a]
        func = "app.a"
        every = 60
        [schedules.b]
        func = "app.b"
        every = 60
        paused = true
        [schedules.c]
        func = "app.c"
        every = 60
        paused = false
        """)

    assert [None, True, False] == [one.paused for one in file.entries]


# -- everything that is wrong ---------------------------------------------------------------------------


def test_all_mistakes_are_told_at_once_each_with_its_line() -> None:
    found = complaints("""\
        ownr = "billing"
        [defaults]
        tz = "EST"
        [schedules.digest]
        func = "app.tasks.digest"
        cron = "61 * * * *"
        queue = "a b"
        overlap = "que"
        catch_up = "all"
        [schedules.beat]
        func = "nodots"
        evry = "30s"
        [schedules.beat.retry]
        max = 0
        [schedules."bad id"]
        func = "app.a"
        every = 60
        """)

    expected = [
        "schedules.toml:1: ownr: no such key here; write owner",
        "schedules.toml:3: [defaults]: tz='EST': ",
        "schedules.toml:6: [schedules.digest]: cron='61 * * * *': ",
        "schedules.toml:7: [schedules.digest]: queue='a b': ",
        "schedules.toml:8: [schedules.digest]: overlap='que': ",
        "schedules.toml:10: [schedules.beat]: no rule; give exactly one of every, cron, rrule",
        "schedules.toml:11: [schedules.beat]: func='nodots': ",
        "schedules.toml:12: [schedules.beat]: evry='30s': no such option here; our option is every=",
        "schedules.toml:13: [schedules.beat]: retry={'max': 0}: RQ refuses it",
        "schedules.toml:15: [schedules.\"bad id\"]: id='bad id': ",
    ]
    assert expected == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("id", "write [schedules.<id>]"),
        ("managed_by", "write owner = at the top of the file"),
        ("if_exists", "leave it out"),
        ("durable", "leave it out"),
        ("allow_past", "leave it out"),
        ("at", "use zsched add, or a rule with count = 1"),
        ("after", "use zsched add, or a rule with count = 1"),
    ],
)
def test_what_is_not_of_a_lasting_schedule_is_refused(option: str, said: str) -> None:
    rule = "" if option in ("at", "after") else "every = 1"

    (complaint,) = complaints(f'[schedules.a]\nfunc = "app.a"\n{rule}\n{option} = "x"')

    assert complaint.startswith(f"schedules.toml:4: [schedules.a]: {option}: ")
    assert complaint.endswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('timeout = "1x"', "timeout: '1x' is no duration"),
        ('starts = "2030-01-01"', "starts: '2030-01-01' is a text; write the time without quotes"),
        ("starts = 2030-01-01", "starts=datetime.date(2030, 1, 1): not a datetime"),
        ("starts = 2030-01-01T00:00:00", "starts=2030-01-01T00:00:00: a naive datetime"),
        ("args_json = '{}'", "args={}: not a list of arguments"),
        ("args_json = '[1'", "args_json: not JSON"),
        ("args_json = '[NaN]'", "args_json: not JSON (NaN is not in JSON)"),
        ("args_json = [1]", "args_json: [1] is not a text"),
        ("paused = 1", "paused=1: not a yes or no"),
        ("tags = 'x'", "tags='x': not a list of tags"),
        ("on_success = { fun = 'a.b' }", "on_success={'fun': 'a.b'}: RQ refuses it"),
        ("retry = { max = 2.5 }", "retry="),
        ('urgency = "nope"', "urgency='nope': not an urgency"),
    ],
)
def test_a_bad_value_is_told_with_its_line(line: str, said: str) -> None:
    (complaint,) = complaints(f'[schedules.a]\nfunc = "app.a"\nevery = 60\n\n{line}\n')

    assert complaint.startswith(f"schedules.toml:5: [schedules.a]: {said}")


def test_arguments_are_given_once() -> None:
    (complaint,) = complaints("[schedules.a]\nfunc = 'app.a'\nevery = 60\nargs = [1]\nargs_json = '[1]'")

    assert "schedules.toml:5: [schedules.a]: args_json: args stands there too; give one of the two" == complaint


def test_two_rules_are_one_mistake() -> None:
    (complaint,) = complaints("[schedules.a]\nfunc = 'app.a'\nevery = 60\ncron = '* * * * *'")

    assert "schedules.toml:1: [schedules.a]: every and cron: more than one rule" == complaint.partition(";")[0]


@pytest.mark.parametrize("time", ["at = 2030-01-01T00:00:00Z", "after = 3"])
@pytest.mark.parametrize(
    ("rule", "told"), [("cron = '* * * * *'", []), ("cron = '61 * * * *'", ["3: cron='61 * * * *': "])]
)
def test_a_time_beside_a_rule_is_no_second_rule(time: str, rule: str, told: list[str]) -> None:
    found = complaints(f"[schedules.a]\nfunc = 'app.a'\n{rule}\n{time}")

    expected = [*told, f"4: {time.partition(' ')[0]}: its time passes, "]
    short = [complaint.removeprefix("schedules.toml:").replace("[schedules.a]: ", "") for complaint in found]
    assert expected == [complaint[: len(start)] for complaint, start in zip(short, expected, strict=True)]


def test_each_entry_without_a_rule_is_told_also_where_the_defaults_have_a_time() -> None:
    found = complaints("""\
        [defaults]
        at = 2030-01-01T00:00:00Z
        [schedules.a]
        func = "app.a"
        [schedules.b]
        func = "app.b"
        """)

    assert ["2: [defaults]: at: its time passes", "3: [schedules.a]: no rule", "5: [schedules.b]: no rule"] == [
        complaint.removeprefix("schedules.toml:").partition(",")[0].partition(";")[0] for complaint in found
    ]


def test_a_bad_default_is_told_once() -> None:
    found = complaints("""\
        [defaults]
        queue = "a b"
        [schedules.a]
        func = "app.a"
        every = 60
        [schedules.b]
        func = "app.b"
        every = 60
        """)

    assert ["schedules.toml:2: [defaults]: queue='a b'"] == [line[:41] for line in found]


@pytest.mark.parametrize("key", ["func", "cron", "every"])
def test_what_each_schedule_must_have_itself_is_no_default(key: str) -> None:
    (complaint,) = complaints(f"[defaults]\n{key} = 1\n[schedules]")

    assert f"schedules.toml:2: [defaults]: {key}: each schedule has its own; write it there" == complaint


def test_a_file_that_says_no_schedules_must_say_so() -> None:
    (complaint,) = complaints('owner = "billing"')

    assert complaint.startswith("schedules.toml:1: there is no [schedules.<id>]")
    assert () == reading("[schedules]").entries


def test_standard_input_must_name_its_owner() -> None:
    (complaint,) = complaints("[schedules]", "-")

    assert complaint.startswith("standard input:1: standard input has no name that could own the schedules")
    assert "me" == reading('owner = "me"\n[schedules]', "-").owner


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[schedules.a]\nfunc = \n", "schedules.toml:2: not TOML: Invalid value at column 8"),
        (b"[schedules.a]\n[schedules.a]\n", "schedules.toml:2: not TOML: Cannot declare"),
        (b'a = "', "schedules.toml:1: not TOML: Unterminated string at the end"),
        (b"a = 1\nb = '\xff'", "schedules.toml:2: byte 11 is not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "schedules.toml:1: not TOML: "),
        (b"\n\nschedules = 3", "schedules.toml:3: there is no [schedules.<id>]"),
        (b"\n[schedules]\na = 3", "schedules.toml:3: [schedules.a]: not a table"),
        (b"defaults = 3\n[schedules]", "schedules.toml:1: [defaults]: defaults is not a table"),
        (b"owner = 3\n[schedules]", "schedules.toml:1: owner=3: not a short line of text"),
    ],
)
def test_what_is_no_such_file_is_told_with_its_line(raw: bytes, said: str) -> None:
    (complaint,) = complaints(raw)

    assert complaint.startswith(said)


def test_a_function_that_is_refused_does_not_hide_the_rest() -> None:
    class Refusing(Completing):
        def define(self, func: str | None, options: Mapping[str, Any]) -> Definition:
            if func is not None:
                raise InvalidTask("app", "", NOT_GIVEN, "its module is broken", "repair it")
            return super().define(func, options)

    with pytest.raises(InvalidFile) as caught:
        read("f.toml", b"[schedules.a]\nfunc = 'app.a'\nqueue = 'a b'", Refusing({}))

    assert ["f.toml:2", "f.toml:3"] == [line.partition(": ")[0] for line in caught.value.complaints]


def test_what_a_check_completes_counts_where_the_file_says_nothing() -> None:
    checks = Completing({"every": 5, "queue": "tasks"})

    file = read("f.toml", b"[schedules.a]\nfunc = 'app.a'\n[schedules.b]\nfunc = 'app.b'\nqueue = 'own'", checks)

    assert ["tasks", "own"] == [one.definition.queue for one in file.entries]


# -- a mistake does not hide another, nor make one up ---------------------------------------------------

TASKS = """
from typing import Literal
from zsched import task

@task(queue="email")
def remind(
    edition: str, channel: Literal["push", "email", "sms"] = "push", copies: list[int] | None = None
) -> None: ...

@task(cron="0 9 * * *")
def digest(edition: str = "all") -> None: ...

def plain(*anything): ...
"""


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of tasks, ``papers``."""
    (tmp_path / "papers.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("papers", None)


@pytest.mark.usefixtures("papers")
def test_bad_arguments_hide_nothing_and_all_of_them_are_told() -> None:
    found = complaints("""\
        [schedules."bad id"]
        func = "papers.remind"
        cron = "61 * * * *"
        tz = "EST"
        urgency = "soon"
        overlap = "never"
        catch_up = "x"
        catch_up_window = "1 w"
        prio = "high"
        kwargs = { channel = "fax", copies = [1, "2"], colour = "red", chanel = "push" }
        [schedules.b]
        func = "papers.remind"
        every = 60
        [schedules.b.kwargs]
        edition = 7
        """)

    at = '[schedules."bad id"]: '
    task = "task papers.remind"
    expected = [
        f"1: {at}id='bad id': ",
        f"3: {at}cron='61 * * * *': ",
        f"4: {at}tz='EST': ",
        f"5: {at}urgency='soon': not an urgency; ",
        f"6: {at}overlap='never': not one of its values; ",
        f"7: {at}catch_up='x': not one of its values; ",
        f"8: {at}catch_up_window: '1 w' is no duration",
        f"9: {at}prio='high': no such option here; our option is priority=",
        f"10: {at}channel='fax': {task}: give one of 'push', 'email', 'sms'",
        f"10: {at}copies=[1, '2']: {task} wants list[int] | None: ",
        f"10: {at}colour='red': {task} has no such parameter; its parameters are edition: str, ",
        f"10: {at}chanel='push': {task} has no such parameter; did you mean channel?",
        f"10: {at}edition: {task} needs it; give edition=…",
        f"15: [schedules.b]: edition=7: {task} wants str, not int",
    ]
    found = [complaint.removeprefix("schedules.toml:") for complaint in found]
    assert expected == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('kwarg = { edition = "a" }', ["4: kwarg={'edition': 'a'}: no such option here; our option is kwargs="]),
        ('kwargs_jsn = "{}"', ["4: kwargs_jsn='{}': no such option here; our option is kwargs="]),
        ('params = { edition = "a" }', ["4: params={'edition': 'a'}: no such option here; our option is args="]),
        ("body = { edition = 'a' }", ["4: body={'edition': 'a'}: no such option here; "]),
        ("edition = 'a'", ["4: edition='a': no such option here; ", "4: edition: an argument; write it in kwargs"]),
        ("kwargs_json = '{'", ["4: kwargs_json: not JSON"]),
        ("args = 5", ["4: args=5: not a list of arguments"]),
        ("kwarg = 1\nargs = [7]", ["4: kwarg=1: no such", "5: edition=7: task papers.remind wants str, not int"]),
        (
            "que = 'a'",
            ["1: edition: task papers.remind needs it", "4: que='a': no such option here; our option is queue="],
        ),
        ("args = ['a', 'push', [], 4]", ["4: args=['a', 'push', [], 4]: task papers.remind takes 3 by position"]),
        ("args = ['a']\nkwargs = { edition = 'b' }", ["5: edition='b': task papers.remind gets it by position too"]),
    ],
)
def test_what_may_be_the_cause_of_missing_arguments_is_told_instead_of_them(lines: str, told: list[str]) -> None:
    found = complaints(f"[schedules.a]\nfunc = 'papers.remind'\nevery = 60\n{lines}")

    short = [complaint.removeprefix("schedules.toml:").replace("[schedules.a]: ", "") for complaint in found]
    assert told == [complaint[: len(start)] for complaint, start in zip(short, told, strict=True)]


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('every = "30 s"', ["3: every: '30 s' is no duration"]),
        ('every = "30 s"\ncount = 0', ["3: every: '30 s' is no duration", "4: count=0: "]),
        ('every = 60\ntz = "EST"\nstarts = 2030-01-01T00:00:00', ["4: tz='EST': "]),
        ('every = 60\novrlap = "queue"\noverlap_limit = 5', ["4: ovrlap='queue': no such", "5: overlap_limit=5: with"]),
        ('every = 60\noverlap = "que"\noverlap_limit = 5', ["4: overlap='que': "]),
        ('every = 60\noverlap = "que"\ncatch_up = "all"\ncatch_up_limit = 0', ["4: overlap", "6: catch_up_limit=0: "]),
        ('every = 60\ncatch_up = "al"\ncatch_up_limit = 5\ncatch_up_window = 5', ["4: catch_up='al': "]),
        ('every = 60\njitter = "x"\nexpires_after = 0\nurgency = "digest"', ["4: jitter: 'x'", "5: expires_after=0: "]),
        ('every = "9d"\nurgency = "digest"\njitter = "2d"\nexpires_after = 0', ["6: expires_after=0: "]),
        ('every = 86400\nurgency = "digst"\njitter = -5', ["4: urgency='digst': ", "5: jitter=-5: "]),
        ('cron = "0 0 31 2 *"\nqueue = "a b"', ["3: ", "4: queue='a b': "]),
    ],
)  # fmt: skip
def test_a_bad_option_hides_no_other_and_makes_none_up(lines: str, told: list[str]) -> None:
    found = complaints(f"[schedules.a]\nfunc = 'papers.plain'\n{lines}")

    short = [complaint.removeprefix("schedules.toml:").replace("[schedules.a]: ", "") for complaint in found]
    assert told == [complaint[: len(start)] for complaint, start in zip(short, told, strict=True)]


@pytest.mark.usefixtures("papers")
def test_a_function_that_its_module_lacks_is_told_at_its_line_with_the_nearest() -> None:
    found = complaints("[schedules.a]\nfunc = 'papers.digset'\nqueue = 'a b'\nkwargs = { edition = 7 }")

    missing = "func='papers.digset': there is no digset in papers; did you mean digest?"
    assert [f"schedules.toml:2: [schedules.a]: {missing}", "schedules.toml:3: [schedules.a]: queue='a b'"] == [
        found[0],
        found[1].partition(": not")[0],
    ]
    assert 2 == len(found)


@pytest.mark.usefixtures("papers")
def test_a_default_that_cannot_be_read_makes_no_arguments_missing() -> None:
    found = complaints("""\
        [defaults]
        kwargs_json = "{"
        jitter = "x"
        [schedules.a]
        func = "papers.remind"
        every = 60
        [schedules.b]
        func = "papers.remind"
        every = 60
        """)

    expected = ["schedules.toml:2: [defaults]: kwargs_json: not JSON", "schedules.toml:3: [defaults]: jitter: 'x'"]
    assert expected == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]


def test_an_owner_that_is_given_counts_before_the_files() -> None:
    file = read("f.toml", b"owner = 'me'\n[schedules.a]\nfunc = 'app.a'\nevery = 60", CHECKS, "tests")

    assert ("tests", "tests") == (file.owner, file.entries[0].definition.managed_by)


def test_the_error_is_one_of_configuration_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(InvalidFile("f", ("f:1: x", "f:2: y"))))

    assert isinstance(error, ConfigError)
    assert not isinstance(error, InvalidSchedule)
    assert ("f", ("f:1: x", "f:2: y"), "f:1: x\nf:2: y") == (error.name, error.complaints, str(error))


def test_an_empty_owner_is_told() -> None:
    (complaint,) = complaints('owner = ""\n[schedules.a]\nfunc = "app.a"\nevery = 60\n')

    assert complaint.startswith("schedules.toml:1: owner='': it is empty; give a name, or leave the line out")
