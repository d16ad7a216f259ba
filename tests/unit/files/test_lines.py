"""The line numbers of keys in a TOML text."""

from __future__ import annotations

import tomllib

import pytest

from zsched.core.toml import Lines

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
