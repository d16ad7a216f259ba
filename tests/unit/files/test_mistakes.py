"""Every mistake in a file is reported, each with its line."""

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.files.checking import Completing, assert_complaints, complaints, reading
from zsched.core.model import Definition
from zsched.errors import NOT_GIVEN, ConfigError, InvalidFile, InvalidSchedule, InvalidTask
from zsched.files.reading import read

ENTRY = "[schedules.a]\nfunc = 'app.a'\nevery = 60\n"


def test_all_mistakes_are_reported_at_once_with_their_lines() -> None:
    text = """\
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
        """

    assert_complaints(
        text,
        "1: ownr: no such key here; write owner",
        "3: [defaults]: tz='EST': ",
        "6: [schedules.digest]: cron='61 * * * *': ",
        "7: [schedules.digest]: queue='a b': ",
        "8: [schedules.digest]: overlap='que': ",
        "11: [schedules.beat]: func='nodots': ",
        "12: [schedules.beat]: evry='30s': no such option here; our option is every=",
        "13: [schedules.beat]: retry={'max': 0}: RQ refuses it",
        "15: [schedules.\"bad id\"]: id='bad id': ",
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("id", "write [schedules.<id>]"),
        ("owner", "write owner = at the top of the file"),
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
        ("args_json = '[1]'\nargs = [1]", "args_json: args is given too; give one of the two"),
        ("enabled = 1", "enabled=1: not a boolean"),
        ("paused = true", "paused=True: no such option here; our option is enabled="),
        ("tags = 'x'", "tags='x': not a list of tags"),
        ("on_success = { fun = 'a.b' }", "on_success={'fun': 'a.b'}: RQ refuses it"),
        ("retry = { max = 2.5 }", "retry="),
        ('urgency = "nope"', "urgency='nope': not an urgency"),
    ],
)
def test_a_bad_value_is_reported_with_its_line(line: str, said: str) -> None:
    assert_complaints(f"{ENTRY}\n{line}\n", f"5: [schedules.a]: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{ENTRY}cron = '* * * * *'", "[schedules.a]: every and cron: more than one rule;"),
        *((f"[defaults]\n{key} = 1\n[schedules]", f"[defaults]: {key}: each schedule has its own; write it there")
          for key in ("func", "cron", "every")),
        ('owner = "billing"', "there is no [schedules.<id>]"),
        (f'owner = ""\n{ENTRY}', "owner='': it is empty; give a name, or leave the line out"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_form_of_a_file_is_reported_once(text: str, said: str) -> None:
    assert_complaints(text, f"{2 if text.startswith('[defaults]') else 1}: {said}")


@pytest.mark.parametrize("time", ["at = 2030-01-01T00:00:00Z", "after = 3"])
@pytest.mark.parametrize(
    ("rule", "told"), [("cron = '* * * * *'", []), ("cron = '61 * * * *'", ["3: [schedules.a]: cron='61 * * * *': "])]
)
def test_a_time_beside_a_rule_does_not_count_as_a_second_rule(time: str, rule: str, told: list[str]) -> None:
    text = f"[schedules.a]\nfunc = 'app.a'\n{rule}\n{time}"

    assert_complaints(text, *told, f"4: [schedules.a]: {time.partition(' ')[0]}: its time passes, ")


@pytest.mark.parametrize(
    ("default", "rule", "told"),
    [
        ('queue = "a b"', "every = 60", ["2: [defaults]: queue='a b': "]),
        (
            "at = 2030-01-01T00:00:00Z",
            "tags = []",
            ["2: [defaults]: at: its time passes", "3: [schedules.a]: no rule", "6: [schedules.b]: no rule"],
        ),
    ],
)
def test_a_bad_default_is_reported_once_and_a_missing_rule_each_time(default: str, rule: str, told: list[str]) -> None:
    entries = "".join(f'[schedules.{id}]\nfunc = "app.{id}"\n{rule}\n' for id in "ab")

    assert_complaints(f"[defaults]\n{default}\n{entries}", *told)


def test_standard_input_must_name_its_owner_and_a_file_may_have_no_entries() -> None:
    (complaint,) = complaints("[schedules]", "-")

    assert complaint.startswith("standard input:1: standard input has no name that could own the schedules")
    assert ("me", ()) == (reading('owner = "me"\n[schedules]', "-").owner, reading("[schedules]").entries)


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
