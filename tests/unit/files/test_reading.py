"""The text of a file as entries: all that it may contain, the lines of its keys, and a complete example."""

import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.files.checking import CHECKS, Completing, reading
from zsched.core.clock import to_ms
from zsched.core.options.choices import Priority
from zsched.core.options.define import SCHEDULE_OPTIONS
from zsched.core.toml import Lines
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.spec import TriggerSpec
from zsched.files.checking import JSON_KEYS, REFUSED
from zsched.files.reading import FileEntry, read
from zsched.storage import rqjob


def entry(text: str) -> FileEntry:
    (only,) = reading(text).entries
    return only


def test_a_table_is_a_schedule_owned_by_the_file() -> None:
    found = entry("""
        [schedules.digest]
        func = "app.tasks.digest"
        cron = "0 9 * * 1-5"
        tz = "Asia/Seoul"
        kwargs = { to = "all" }
        """)

    definition = found.definition
    assert ("digest", 2, None) == (found.id, found.line, found.definition.enabled)
    assert ("digest", "file:schedules.toml", "app.tasks.digest", {"to": "all"}) == (
        definition.id, definition.owner, definition.func, definition.kwargs,
    )  # fmt: skip
    assert TriggerSpec(CRON, "0 9 * * 1-5", "Asia/Seoul") == definition.when


def test_the_owner_is_the_given_one_or_named_in_the_file_or_the_file_name() -> None:
    file = read("f.toml", b"owner = 'me'\n[schedules.a]\nfunc = 'app.a'\nevery = 60", CHECKS, "tests")

    assert ("tests", "tests") == (file.owner, file.entries[0].definition.owner)
    assert "billing" == reading('owner = "billing"\n[schedules]').owner
    assert "file:jobs.toml" == reading("[schedules]", "some/folder/jobs.toml").owner


def test_an_entry_takes_precedence_over_the_defaults() -> None:
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

    assert TriggerSpec(EVERY, str(ms), gap=found.definition.when.gap) == found.definition.when  # type: ignore[union-attr]  # recurring


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

    assert (300_000, 3_600_000, 7_200_000) == (
        definition.when.jitter_ms, definition.expires_ms, definition.policy.catch_up_window_ms,  # type: ignore[union-attr]  # recurring
    )  # fmt: skip
    assert ("1h30m", "10m", -1) == (definition.timeout, definition.result_ttl, definition.failure_ttl)


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


def test_values_that_toml_cannot_hold_are_read_as_json() -> None:
    read = entry("""
        [schedules.a]
        func = "app.a"
        every = 60
        args_json = '[1, null, {"deep": [null]}]'
        kwargs_json = '{"to": null}'
        meta_json = '{"team": null}'
        """).definition

    assert ([1, None, {"deep": [None]}], {"to": None}, {"team": None}) == (read.args, read.kwargs, read.meta)


def test_enabled_is_true_false_or_not_given() -> None:
    given = {"a": "", "b": "enabled = false", "c": "enabled = true"}

    file = reading("".join(f'[schedules.{id}]\nfunc = "app.a"\nevery = 60\n{line}\n' for id, line in given.items()))

    assert [None, False, True] == [one.definition.enabled for one in file.entries]


def test_an_option_added_by_a_check_applies_if_the_file_omits_it() -> None:
    checks = Completing({"every": 5, "queue": "tasks"})

    file = read("f.toml", b"[schedules.a]\nfunc = 'app.a'\n[schedules.b]\nfunc = 'app.b'\nqueue = 'own'", checks)

    assert ["tasks", "own"] == [one.definition.queue for one in file.entries]


# -- config/schedules.toml ---------------------------------------------------------------------------


EXAMPLE = Path(__file__).parents[3] / "config" / "schedules.toml"
COMMENTED = re.compile(r"^#(\w+) = .*$", re.MULTILINE)


def test_the_example_is_read_without_mistakes() -> None:
    file = read("schedules.toml", EXAMPLE.read_bytes(), CHECKS)

    assert ("example", ["digest", "heartbeat", "report-monthly", "everything"]) == (
        file.owner,
        [entry.id for entry in file.entries],
    )


def test_the_example_shows_every_key() -> None:
    text = EXAMPLE.read_text()

    shown = set(re.findall(r"^#?(\w+) = ", text, re.MULTILINE)) - {"owner"}

    expected = (SCHEDULE_OPTIONS - REFUSED.keys()) | {"func"} | {f"{name}_json" for name in JSON_KEYS}
    assert expected == shown


@pytest.mark.parametrize("line", [match.group() for match in COMMENTED.finditer(EXAMPLE.read_text())])
def test_every_commented_key_of_the_example_is_valid(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rqjob, "HAS_RATE_LIMITS", True)  # RQ 2 has none
    text = EXAMPLE.read_text().replace(f"\n{line}\n", f"\n{line[1:]}\n")

    read("schedules.toml", text.encode(), CHECKS)

    assert f"\n{line[1:]}\n" in text


# -- lines -------------------------------------------------------------------------------------------


TEXT = '''\
# a comment with [schedules.no] in it
owner = "billing"   # = "x"

[defaults]
tz = "Asia/Seoul"

[schedules.digest]
func = "app.tasks.digest"
  cron = "0 9 * * *" # [not] a = table
kwargs = { text = "=[", deep = { a = 1 } }
args = [
  1,        # a comment, with = and [
  "two",
  { three = "]" },
]
meta.team = 7
retry.max = 3

[ schedules . "a.b=c" ]
func = """
[schedules.inner]
cron = "no"
""""
'quo"ted' = \'\'\'
x = 1\'\'\'
every = 30

[schedules.late.kwargs]
to = "x"

[schedules.late]
every = 5

[[schedules.late.args]]
n = 1
[[schedules.late.args]]
n = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("owner",), 2),
        (("defaults",), 4),
        (("defaults", "tz"), 5),
        (("schedules",), 7),
        (("schedules", "digest"), 7),
        (("schedules", "digest", "func"), 8),
        (("schedules", "digest", "cron"), 9),
        (("schedules", "digest", "args"), 11),
        (("schedules", "digest", "meta", "team"), 16),
        (("schedules", "digest", "meta"), 16),
        (("schedules", "digest", "retry", "max"), 17),
        (("schedules", "a.b=c"), 19),
        (("schedules", "a.b=c", "func"), 20),
        (("schedules", "a.b=c", 'quo"ted'), 24),
        (("schedules", "a.b=c", "every"), 26),
        (("schedules", "late", "kwargs", "to"), 29),
        (("schedules", "late", "every"), 32),
        (("schedules", "late", "args"), 34),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_statement_has_its_line(path: tuple[str, ...], line: int, newline: str) -> None:
    tomllib.loads(TEXT)

    assert line == Lines(TEXT.replace("\n", newline)).of(*path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("schedules", "digest", "kwargs", "text"), 10),  # inside an inline table
        (("schedules", "digest", "queue"), 7),  # not given
        (("schedules", "late"), 31),  # its own header, not that of its kwargs
        (("schedules", "late", "args", "n"), 34),  # of several tables: the first, not the last
        (("schedules", "inner"), 7),  # only in a text
        (("nothing",), 1),
    ],
)
def test_a_key_without_a_statement_has_the_line_of_its_table(path: tuple[str, ...], line: int) -> None:
    assert line == Lines(TEXT).of(*path)


def test_dotted_keys_have_their_lines_too() -> None:
    lines = Lines('schedules.digest.cron = "x"\nschedules.digest.func = "y"\nschedules.b = { every = 1 }')

    assert (1, 2, 3) == (
        lines.of("schedules", "digest"),
        lines.of("schedules", "digest", "func"),
        lines.of("schedules", "b", "every"),
    )


def test_a_file_without_a_last_newline_has_its_last_line() -> None:
    assert 2 == Lines("a = 1\nb = 2").of("b")
