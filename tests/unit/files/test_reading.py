"""From the text of a file to entries, or to everything that is wrong with it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import Any

import pytest

from tests.unit.files.ground import check
from zsched.core.clock import to_ms
from zsched.core.model import Definition, Priority
from zsched.core.triggers import TriggerKind, TriggerSpec
from zsched.errors import ConfigError, InvalidFile, InvalidSchedule, InvalidTask
from zsched.files.reading import Entry, ScheduleFile, read


def reading(text: str, name: str = "schedules.toml") -> ScheduleFile:
    return read(name, dedent(text).encode(), check)


def entry(text: str) -> Entry:
    (only,) = reading(text).entries
    return only


def complaints(text: str | bytes, name: str = "schedules.toml") -> list[str]:
    raw = text if isinstance(text, bytes) else dedent(text).encode()
    with pytest.raises(InvalidFile) as caught:
        read(name, raw, check)
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
    def check_(func: str | None, options: Mapping[str, Any]) -> Definition:
        if func is not None:
            raise InvalidTask(func, func, "its module is broken", "repair it")
        return check(func, options)

    with pytest.raises(InvalidFile) as caught:
        read("f.toml", b"[schedules.a]\nfunc = 'app.a'\nevery = 60\nqueue = 'a b'", check_)

    assert ["f.toml:2", "f.toml:4"] == [line.partition(": ")[0] for line in caught.value.complaints]


def test_what_a_check_completes_counts_where_the_file_says_nothing() -> None:
    def check_(func: str | None, options: Mapping[str, Any]) -> Definition:
        return check(func, {"every": 5, "queue": "tasks", **options})

    file = read("f.toml", b"[schedules.a]\nfunc = 'app.a'\n[schedules.b]\nfunc = 'app.b'\nqueue = 'own'", check_)

    assert ["tasks", "own"] == [one.definition.queue for one in file.entries]


def test_the_error_is_one_of_configuration_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(InvalidFile("f", ("f:1: x", "f:2: y"))))

    assert isinstance(error, ConfigError)
    assert not isinstance(error, InvalidSchedule)
    assert ("f", ("f:1: x", "f:2: y"), "f:1: x\nf:2: y") == (error.name, error.complaints, str(error))
