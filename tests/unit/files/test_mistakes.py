"""Every mistake in a file is reported, each with its line."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.files.ground import Completing, complaints, reading
from zsched.core.model import Definition
from zsched.errors import NOT_GIVEN, ConfigError, InvalidFile, InvalidSchedule, InvalidTask
from zsched.files.reading import read


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
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
def test_an_option_that_files_cannot_have_is_refused(option: str, said: str) -> None:
    rule = "" if option in ("at", "after") else "every = 1"

    (complaint,) = complaints(f'[schedules.a]\nfunc = "app.a"\n{rule}\n{option} = "x"')

    assert complaint.startswith(f"schedules.toml:4: [schedules.a]: {option}: ")
    assert complaint.endswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('timeout = "1x"', "timeout='1x': not a duration"),
        ('starts = "2030-01-01"', "starts: '2030-01-01' is a text; write the time without quotes"),
        ("starts = 2030-01-01", "starts=datetime.date(2030, 1, 1): not a datetime"),
        ("starts = 2030-01-01T00:00:00", "starts=2030-01-01T00:00:00: a naive datetime"),
        ("args_json = '{}'", "args={}: not a list of arguments"),
        ("args_json = '[1'", "args_json: not JSON"),
        ("args_json = '[NaN]'", "args_json: not JSON (NaN is not in JSON)"),
        ("args_json = [1]", "args_json: [1] is not a text"),
        ("enabled = 1", "enabled=1: not a yes or no"),
        ("paused = true", "paused=True: no such option here; our option is enabled="),
        ("tags = 'x'", "tags='x': not a list of tags"),
        ("on_success = { fun = 'a.b' }", "on_success={'fun': 'a.b'}: RQ refuses it"),
        ("retry = { max = 2.5 }", "retry="),
        ('urgency = "nope"', "urgency='nope': not an urgency"),
    ],
)
def test_a_bad_value_is_reported_with_its_line(line: str, said: str) -> None:
    (complaint,) = complaints(f'[schedules.a]\nfunc = "app.a"\nevery = 60\n\n{line}\n')

    assert complaint.startswith(f"schedules.toml:5: [schedules.a]: {said}")


def test_args_beside_args_json_is_a_mistake() -> None:
    (complaint,) = complaints("[schedules.a]\nfunc = 'app.a'\nevery = 60\nargs = [1]\nargs_json = '[1]'")

    assert "schedules.toml:5: [schedules.a]: args_json: args is given too; give one of the two" == complaint


def test_two_rules_of_a_schedule_are_a_single_mistake() -> None:
    (complaint,) = complaints("[schedules.a]\nfunc = 'app.a'\nevery = 60\ncron = '* * * * *'")

    assert "schedules.toml:1: [schedules.a]: every and cron: more than one rule" == complaint.partition(";")[0]


@pytest.mark.parametrize("time", ["at = 2030-01-01T00:00:00Z", "after = 3"])
@pytest.mark.parametrize(
    ("rule", "told"), [("cron = '* * * * *'", []), ("cron = '61 * * * *'", ["3: cron='61 * * * *': "])]
)
def test_a_time_beside_a_rule_does_not_count_as_a_second_rule(time: str, rule: str, told: list[str]) -> None:
    found = complaints(f"[schedules.a]\nfunc = 'app.a'\n{rule}\n{time}")

    expected = [*told, f"4: {time.partition(' ')[0]}: its time passes, "]
    short = [complaint.removeprefix("schedules.toml:").replace("[schedules.a]: ", "") for complaint in found]
    assert expected == [complaint[: len(start)] for complaint, start in zip(short, expected, strict=True)]


def test_every_entry_without_a_rule_is_reported_even_if_the_defaults_have_a_time() -> None:
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


def test_a_bad_default_is_reported_once() -> None:
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
def test_func_and_rules_are_refused_as_defaults(key: str) -> None:
    (complaint,) = complaints(f"[defaults]\n{key} = 1\n[schedules]")

    assert f"schedules.toml:2: [defaults]: {key}: each schedule has its own; write it there" == complaint


def test_a_file_without_a_table_of_schedules_is_a_mistake() -> None:
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
def test_a_file_of_another_form_is_refused_with_its_line(raw: bytes, said: str) -> None:
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


def test_the_error_is_a_configuration_error_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(InvalidFile("f", ("f:1: x", "f:2: y"))))

    assert isinstance(error, ConfigError)
    assert not isinstance(error, InvalidSchedule)
    assert ("f", ("f:1: x", "f:2: y"), "f:1: x\nf:2: y") == (error.name, error.complaints, str(error))


def test_an_empty_owner_is_reported() -> None:
    (complaint,) = complaints('owner = ""\n[schedules.a]\nfunc = "app.a"\nevery = 60\n')

    assert complaint.startswith("schedules.toml:1: owner='': it is empty; give a name, or leave the line out")
