"""``zsched ls`` and ``show``: the filters of the list, and the details of a schedule."""

import tomllib
from datetime import datetime

import pytest
import redis

from tests.builders.command_line import FUNC, Zsched
from tests.prefix import RQ
from zsched import Client
from zsched.cli.output import Terminal
from zsched.cli.program import USAGE
from zsched.core.clock import to_ms

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ((), {"party", "beat", "digest", "stopped"}),
        (("--state", "paused"), {"stopped"}),
        (("--kind", "every"), {"beat"}),
        (("--func", "app.digest"), {"digest"}),
        (("--queue", "email"), {"party", "digest"}),
        (("--tag", "fun"), {"party"}),
        (("--match", "d*"), {"digest"}),
        (("--due-after", "2030-01-01T00:00Z"), {"party"}),
        (("--due-before", "2030-01-01T00:00", "--tz", "Asia/Seoul", "--state", "active"), {"beat", "digest"}),
        (("--queue", "none"), set()),
    ],
)
def test_ls_lists_only_schedules_that_match_the_filters(some: Zsched, filters: tuple[str, ...], ids: set[str]) -> None:
    assert ids == set(some.ids(*filters))


def test_ls_is_an_aligned_table(some: Zsched) -> None:
    head, *rows = some("ls").output.splitlines()

    assert ["ID", "STATE", "NEXT", "LAST", "TRIGGER", "FUNC", "QUEUE", "PRIORITY", "DESCRIPTION"] == head.split()
    assert {FUNC, "app.digest"} == {row[head.index("FUNC") :].split()[0] for row in rows}
    assert "every 1m30s" in next(row for row in rows if row.startswith("beat"))
    assert "2030-12-24 18:00:00+09:00" in next(row for row in rows if row.startswith("party"))
    assert rows[-1].startswith("stopped  paused")


def test_ls_on_a_terminal_names_the_only_zone_once(some: Zsched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "of", lambda *_: Terminal(width=200, now_ms=1))

    of_one = some("ls", "--limit", "9", "--match", "party").output.splitlines()
    of_many = some("ls", "--limit", "9").output

    assert "  2030-12-24 18:00:00  " in of_one[1]
    assert "times in Asia/Seoul" == of_one[-1]
    assert "2030-12-24 18:00:00+09:00" in of_many
    assert "times in" not in of_many


def test_ls_and_show_of_a_paused_schedule_say_what_it_waits_for(some: Zsched, redis_client: redis.Redis) -> None:
    run = next(key for key in redis_client.keys(f"{RQ}:job:stopped-*"))
    redis_client.hset(run, "description", "red \x1b[31m text")

    shown = some("show", "stopped").output

    assert "a pause" in shown
    assert "\x1b" not in shown
    assert ", if resumed" in some("ls", "--state", "paused").output
    redis_client.hset("zsched:{default}:paused", "stopped", "normal 1767225600000 1767225500000 why")
    assert "ago, waits" in some("ls", "--state", "paused").output


UNPRINTABLE = "\u202eevil\u2066\x1b[2J\x9b\x7f\u200f"
COMMANDS = [
    ["export"], ["show", "x"], ["ls"], ["why", "x"], ["history"], ["history", "x"], ["next", "x"], ["log"], ["status"],
    ["show", "once"], ["why", "once"], ["set", "x", "--timeout", "70"], ["why", "x"],
]  # fmt: skip


def test_commands_print_no_character_that_is_not_printable(zsched: Zsched, redis_url: str) -> None:
    client = Client.from_url(redis_url, serializer="json")
    given = {"args": [UNPRINTABLE], "kwargs": {UNPRINTABLE: UNPRINTABLE}, "meta": {UNPRINTABLE: UNPRINTABLE}}
    client.schedule(FUNC, id="x", every=60, **given)
    client.schedule(FUNC, id="once", after=60, **given)
    for command in COMMANDS:
        done = zsched(*command)
        assert [] == [line for line in done.output.split("\n") if not line.isprintable()], command

    [x] = tomllib.loads(zsched("export").stdout)["schedules"].values()
    assert ([UNPRINTABLE], {UNPRINTABLE: UNPRINTABLE}) == (x["args"], x["kwargs"])


def test_ls_prints_a_cursor_if_there_are_more_schedules(some: Zsched) -> None:
    whole = some.ids()
    first = some("ls", "--limit", "2")

    cursor = first.stderr.split("--after ")[1].strip()

    assert whole[:2] == [row.split()[0] for row in first.stdout.splitlines()[1:]]
    assert whole[2:] == some.ids("--after", cursor)
    assert cursor == some.json("ls", "--limit", "2")[-1]["cursor"]
    assert "" == some("ls", "--limit", "4").stderr  # the last page


@pytest.mark.parametrize("arguments", [("--due-after", "2030-01-01T00:00"), ("--after", "nonsense"), ("--limit", "0")])
def test_ls_refuses_bad_filters(zsched: Zsched, arguments: tuple[str, ...]) -> None:
    assert USAGE == zsched("ls", *arguments).exit_code


def test_ls_and_show_have_the_times_and_the_description_of_a_schedule(zsched: Zsched) -> None:
    zsched("add", "once", FUNC, "--after", "1h")
    zsched(
        "add", "beat", FUNC, "--every", "1h", "--description", "The beat of the house, which everybody hears each hour"
    )
    zsched("run", "beat")

    once, beat = zsched.json("show", "once"), zsched.json("show", "beat")
    rows = {row.split()[0]: row for row in zsched("ls").output.splitlines()}

    assert once["created_at"] == once["updated_at"] is not None
    assert beat["created_at"] == beat["updated_at"] is not None
    assert once["last_nominal_at"] is None
    assert beat["last_run_id"].split("-")[1] == str(to_ms(datetime.fromisoformat(beat["last_nominal_at"])))
    assert rows["beat"].endswith("The beat of the house, which everybody …")
    assert rows["once"].endswith("normal")
    assert "last_nominal_at" in zsched("show", "beat").output


def test_show_prints_all_policies_of_a_recurring_schedule(zsched: Zsched) -> None:
    zsched("add", "plain", FUNC, "--every", "1h")
    zsched("add", "beat", FUNC, "--every", "1h", "--catch-up", "all", "--overlap", "queue", "--jitter", "10m")
    zsched("set", "beat", "--expires-after", "90m", "--catch-up-window", "0", "--overlap-limit", "3")

    plain, told = (zsched("show", id).stdout.splitlines() for id in ("plain", "beat"))

    def policies(lines: list[str]) -> list[list[str]]:
        words = ("overlap", "catch_up", "jitter", "expires_after")
        return [line.split() for line in lines if line.lstrip().startswith(words)]

    usual = ["overlap skip", "catch_up latest", "catch_up_window 1d", "catch_up_limit 100"]
    assert [line.split() for line in usual] == policies(plain)
    changed = ["overlap queue", "overlap_limit 3", "catch_up all", "catch_up_window 0s", "catch_up_limit 100"]
    assert [line.split() for line in (*changed, "jitter 10m", "expires_after 1h30m")] == policies(told)
