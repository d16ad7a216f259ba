"""
``zsched status``: what it shows of daemons, archives and the last minutes, to people and to programs, what is a problem
and what to do about it. Live: test_cli_status_watch.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from tests.faults.processes import DaemonProcess, archive_of_its_own, eventually
from tests.faults.threads import DaemonThread, know
from zsched import Client
from zsched.cli import program
from zsched.cli.exits import DONE, FAILED, UNHEALTHY, USAGE
from zsched.config import ArchiveSettings
from zsched.core.clock import from_ms
from zsched.core.model import iso
from zsched.core.runs import Run, RunStatus, row_of
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.questions import Questions

Zsched = Callable[..., Result]
KEYS = Keys("default")
LAST_T = 1_767_225_600_000_000  # of the log's last entry, 3-12
NOBODY_FOLLOWS = "no archive follows the log"


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return lambda *arguments: CliRunner().invoke(program, arguments, env={"ZSCHED_REDIS_URL": redis_url})


@pytest.fixture
def led(redis_client: redis.Redis) -> redis.Redis:
    """A namespace that somebody leads; its log ends with 3-12."""
    redis_client.set(KEYS.lease(), "somebody:3:2000:x", px=600_000)
    redis_client.hset(KEYS.meta(), mapping={"epoch": 3, "seq": 12})
    for seq in range(1, 13):
        entry = {"kind": "cancel", "t": LAST_T - 12 + seq, "id": "a", "due": 5}
        redis_client.xadd(KEYS.log(), entry, id=f"3-{seq}")
    return redis_client


def report(
    client: redis.Redis, archive: str = "archive-1", at: str = f"3-12 {LAST_T}", *,
    state: str = "following", ago_ms: int = 0, **about: Any,
) -> int:  # fmt: skip
    """Write what an archiver reported *ago_ms* ago; when that was."""
    seconds, micros = client.time()
    told_ms = seconds * 1000 + micros // 1000 - ago_ms
    told = {"host": "box", "path": f"/var/{archive}.db", "complete_since": "start"} | about
    client.hset(KEYS.archivers(), archive, f"{at} {told_ms} {state} {json.dumps(told)}")
    return told_ms


def archives(result: Result) -> list[str]:
    """What the lines of archives say."""
    return [line.split(maxsplit=1)[1] for line in result.stdout.splitlines() if line.startswith("archive ")]


def problems(zsched: Zsched) -> list[str]:
    return list(json.loads(zsched("status", "--json").stdout)["problems"])


# -- one line each ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "state", "about", "line"),
    [
        (f"3-12 {LAST_T}", "following", {}, "following, up to date, complete since the beginning"),
        (f"3-11 {LAST_T - 1}", "following", {}, "following, 1 entry behind, complete since the beginning"),
        (f"2-9 {LAST_T - 9}", "following", {}, "following, 3 entries behind, complete since the beginning"),
        (
            f"3-12 {LAST_T}",
            "following",
            {"complete_since": "1767225600123456"},
            "following, up to date, complete since 2026-01-01T00:00:00.123Z",
        ),
        ("- 0", "bootstrapping", {"complete_since": None}, "bootstrapping, nothing on its disk yet"),
        (f"3-12 {LAST_T - 1}", "refused", {"complete_since": ""}, "refused, at 3-12, which this log does not have"),
        (f"4-13 {LAST_T + 1}", "failed", {"complete_since": ""}, "failed, at 4-13, which this log does not have"),
        (
            f"3-2 {LAST_T - 10}",
            "failed",
            {"trouble": "disk full"},
            "failed, 10 entries behind, complete since the beginning: disk full",
        ),
    ],
)
def test_an_archive_is_one_line(
    zsched: Zsched, led: redis.Redis, at: str, state: str, about: dict[str, Any], line: str
) -> None:
    report(led, "archive-1", at, state=state, **about)

    assert [f"box:/var/archive-1.db, {line}"] == archives(zsched("status"))


def test_without_an_archive_there_is_no_line(zsched: Zsched, led: redis.Redis) -> None:
    assert [] == archives(zsched("status"))


def test_archives_are_listed_by_place_whoever_told_last(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "c", ago_ms=2)
    report(led, "a", ago_ms=1)
    report(led, "b", ago_ms=3)

    lines = archives(zsched("status"))

    assert ["box:/var/a.db", "box:/var/b.db", "box:/var/c.db"] == [line.split(",")[0] for line in lines]


@pytest.mark.parametrize(
    ("ago_ms", "ends"),
    [(25_000, "complete since the beginning"), (300_000, "heard of 5m ago"), (3_500_000, "heard of 58m 20s ago")],
)
def test_one_that_is_silent_for_long_says_when_it_was_heard_of(
    zsched: Zsched, led: redis.Redis, ago_ms: int, ends: str
) -> None:
    report(led, ago_ms=ago_ms)

    [line] = archives(zsched("status"))

    assert line.endswith(ends)


def test_one_that_is_silent_for_an_hour_is_not_shown(zsched: Zsched, led: redis.Redis) -> None:
    report(led, ago_ms=3_601_000)

    assert [] == archives(zsched("status"))
    assert [] == json.loads(zsched("status", "--json").stdout)["archives"]


def test_a_daemons_archive_of_before_is_not_shown_beside_its_present_one(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "none-d1", "- 0", state="failed", ago_ms=500, daemon="d1", trouble="disk full")
    report(led, "mended", ago_ms=10, daemon="d1")
    report(led, "other", ago_ms=400, daemon="d2")

    result = zsched("status")

    assert DONE == result.exit_code
    assert ["box:/var/mended.db", "box:/var/other.db"] == [line.split(",")[0] for line in archives(result)]


def test_what_a_report_says_cannot_steer_the_terminal(zsched: Zsched, led: redis.Redis) -> None:
    report(led, path="/a\x1b[2J\nleader  me", trouble="\x07", complete_since="\x1b")

    result = zsched("status")

    assert not {"\x1b", "\x07"} & set(result.stdout)
    assert 1 == len(archives(result))


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "3-12 x 1 following {}", "3-12 1 1 dreaming {}", "3-12 1 1 following", "3-12 1 1 following {",
        "3-12 1 99999999999999999999 following {}", "3-12 1 1 following 5", "3-12 1 1 following [1]",
        "3-12 1 1 following null",
    ],
)  # fmt: skip
def test_a_report_that_a_foreign_hand_wrote_hides_no_other(zsched: Zsched, led: redis.Redis, text: str) -> None:
    led.hset(KEYS.archivers(), "foreign", text)
    report(led)

    result = zsched("status")

    assert (DONE, 1) == (result.exit_code, len(archives(result)))


@pytest.mark.parametrize("about", [{}, {"host": 1, "path": ["x"]}, {"complete_since": 5}, {"complete_since": "9" * 40}])
def test_a_report_that_says_strange_things_of_itself_is_shown_all_the_same(
    zsched: Zsched, led: redis.Redis, about: dict[str, Any]
) -> None:
    report(led, **{"host": None, "path": None, "daemon": ["?"]} | about)

    result = zsched("status")

    assert (DONE, 1) == (result.exit_code, len(archives(result)))


# -- for programs -------------------------------------------------------------------------------------


def test_with_json_every_archive_tells_all_of_it(zsched: Zsched, led: redis.Redis) -> None:
    told_ms = report(led, "archive-1", f"3-2 {LAST_T - 10}", complete_since="1767225600123456")
    failed_ms = report(led, "archive-2", "- 0", state="failed", complete_since=None, trouble="disk full", ago_ms=5)
    whole_ms = report(led, "archive-3")

    told = json.loads(zsched("status", "--json").stdout)

    expected = [
        {
            "id": "archive-1", "host": "box", "path": "/var/archive-1.db", "state": "following", "position": "3-2",
            "behind": 10, "complete_since": "2026-01-01T00:00:00.123Z", "told_at": iso(told_ms), "trouble": None,
        },
        {
            "id": "archive-2", "host": "box", "path": "/var/archive-2.db", "state": "failed", "position": None,
            "behind": None, "complete_since": None, "told_at": iso(failed_ms), "trouble": "disk full",
        },
        {
            "id": "archive-3", "host": "box", "path": "/var/archive-3.db", "state": "following", "position": "3-12",
            "behind": 0, "complete_since": "start", "told_at": iso(whole_ms), "trouble": None,
        },
    ]  # fmt: skip
    assert expected == told["archives"]


# -- what is a problem --------------------------------------------------------------------------------


def test_with_an_archive_that_follows_all_is_well(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "archive-1", f"3-2 {LAST_T - 10}")

    assert DONE == zsched("status").exit_code
    assert [] == problems(zsched)


@pytest.mark.parametrize("state", ["failed", "refused"])
def test_an_archive_in_trouble_is_a_problem_with_its_reason(zsched: Zsched, led: redis.Redis, state: str) -> None:
    report(led, "well")
    report(led, "ill", state=state, trouble="disk full")

    assert UNHEALTHY == zsched("status").exit_code
    assert [f"archive box:/var/ill.db {state}: disk full"] == problems(zsched)


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"trouble": "Redis lost it: run zsched recover", "awaits_people": True}, "run zsched recover"),
        ({"trouble": "disk full"}, "Redis lost something that this archive has, and it is being put back"),
        ({}, "Redis lost something that this archive has, and it is being put back"),
    ],
)
def test_what_redis_lost_is_a_problem_with_what_becomes_of_it(
    zsched: Zsched, led: redis.Redis, about: dict[str, Any], says: str
) -> None:
    report(led, "well")
    report(led, "other", f"3-12 {LAST_T - 1}", state="lost", **about)

    result = zsched("status")

    [problem] = problems(zsched)
    assert (UNHEALTHY, True, True) == (result.exit_code, says in problem, problem.startswith("archive box:/var/other"))
    assert archives(result)[0].startswith("box:/var/other.db, lost, at 3-12, which this log does not have")
    assert archives(result)[0].endswith(says)


def test_trouble_of_an_archive_that_is_silent_since_is_no_problem_of_now(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "well")
    report(led, "ill", state="failed", trouble="disk full", ago_ms=31_000)

    assert [] == problems(zsched)


@pytest.mark.parametrize(
    ("state", "ago_ms"),
    [
        ("following", 31_000), ("bootstrapping", 0), ("failed", 40_000), ("following", 4_000_000),
        ("following", -60_000),  # before the clock was set back
    ],
)  # fmt: skip
def test_a_leader_without_an_archive_that_follows_is_a_problem(
    zsched: Zsched, led: redis.Redis, state: str, ago_ms: int
) -> None:
    report(led, state=state, ago_ms=ago_ms)

    assert UNHEALTHY == zsched("status").exit_code
    assert [NOBODY_FOLLOWS] == problems(zsched)


def test_without_any_report_the_missing_archive_is_a_problem(zsched: Zsched, led: redis.Redis) -> None:
    assert [NOBODY_FOLLOWS] == problems(zsched)


def test_without_a_leader_the_missing_leader_is_the_problem(zsched: Zsched, led: redis.Redis) -> None:
    led.delete(KEYS.lease())

    assert ["nobody leads: no daemon of this namespace is running"] == problems(zsched)


# -- a daemon -----------------------------------------------------------------------------------------


def test_a_daemons_archive_is_soon_up_to_date_and_complete(
    redis_url: str, zsched: Zsched, redis_client: redis.Redis
) -> None:
    know(redis_client)
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path)) as daemon:
        daemon.wait_for("archive_bootstrapped")
        daemon.wait_for("term_began")
        Client.from_url(redis_url).schedule("app.run", id="a", after=3600)

        [archive] = eventually(lambda: [one for one in status(zsched)["archives"] if one["behind"] == 0])
        told = status(zsched)

    assert (path, "following", "start", None) == tuple(archive[name] for name in _NAMES)
    assert (True, []) == (told["healthy"], told["problems"])


_NAMES = ("path", "state", "complete_since", "trouble")


def status(zsched: Zsched) -> dict[str, Any]:
    return dict(json.loads(zsched("status", "--json").stdout))


# -- the verdict --------------------------------------------------------------------------------------


def verdict(result: Result) -> list[str]:
    """What stands above the first empty line."""
    return result.stdout.split("\n\n")[0].splitlines()


def now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def test_the_first_line_says_that_all_is_well(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="somebody")
    report(led, "other", daemon="d2")

    result = zsched("status")

    expected = "healthy: one daemon leads, 1 stands by; nothing is overdue; 2 archives follow"
    assert (DONE, [expected]) == (result.exit_code, verdict(result))


def test_what_is_wrong_comes_first_the_worst_before_all_each_with_a_remedy(
    redis_url: str, zsched: Zsched, led: redis.Redis
) -> None:
    led.delete(KEYS.lease())
    report(led, "ill", state="failed", trouble="disk full")
    report(led, "lost", f"3-12 {LAST_T - 1}", state="lost", awaits_people=True)
    Client.from_url(redis_url).schedule("app.run", id="a", at=from_ms(now_ms(led) - 60_000), allow_past=True)
    audit = {"at": now_ms(led), "checked": 10, "alarms": 3, "repaired": 2}
    report(led, "well", audit=audit)

    result = zsched("status")
    told = json.loads(zsched("status", "--json").stdout)

    lines = verdict(result)
    assert UNHEALTHY == result.exit_code
    assert lines[0] == "UNHEALTHY: nobody leads: no daemon of this namespace is running"
    assert all(line.startswith("also: ") for line in lines[2::2])
    assert all(re.match("  → .{10}", line) for line in lines[1::2])
    assert ["no_leader", "archive_lost", "late", "archive_failed", "audit"] == [one["name"] for one in told["alarms"]]
    assert told["problems"] == [one["problem"] for one in told["alarms"]]
    assert 2 * len(told["alarms"]) == len(lines)


def test_where_daemons_run_and_none_leads_they_are_named(zsched: Zsched, led: redis.Redis) -> None:
    led.delete(KEYS.lease())
    report(led, daemon="d1", host="box", pid=42)

    result = zsched("status")

    assert "UNHEALTHY: nobody leads; heard of within 30 s: box, pid 42" == verdict(result)[0]
    assert "leading_refused" in verdict(result)[1]


def test_quarantine_is_a_warning_and_no_problem(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    led.hset(KEYS.quarantine(), mapping={"a": "low 5 5 broken", "b": "low 5 5 broken"})

    result = zsched("status")
    told = json.loads(zsched("status", "--json").stdout)

    assert (DONE, "healthy") == (result.exit_code, verdict(result)[0].partition(":")[0])
    assert "warning: 2 schedules in quarantine: broken, and not fired" == verdict(result)[1]
    assert (True, ["quarantined"]) == (told["healthy"], [one["name"] for one in told["warnings"]])


@pytest.mark.parametrize(
    ("facts", "name", "says"),
    [
        ({"version": "0.2.0"}, "versions", "0.1.0 (box, pid 1), 0.2.0 (box, pid 2)"),
        ({"tzdata": "2026a"}, "tzdata", "2025b (box, pid 1), 2026a (box, pid 2)"),
    ],
)
def test_daemons_that_differ_are_a_warning(
    zsched: Zsched, led: redis.Redis, facts: dict[str, Any], name: str, says: str
) -> None:
    usual = {"version": "0.1.0", "tzdata": "2025b"}
    report(led, "one", daemon="somebody", pid=1, **usual)
    report(led, "two", daemon="d2", pid=2, **usual | facts)
    report(led, "stopped", daemon="d3", pid=3, stopped=True, version="0.0.1", tzdata="2001a")
    report(led, "old", daemon="d4", pid=4)  # tells neither

    told = json.loads(zsched("status", "--json").stdout)

    [warning] = told["warnings"]
    assert (name, True, True) == (warning["name"], warning["problem"].endswith(says), told["healthy"])


def test_an_archive_whose_daemon_has_stopped_follows_no_more(zsched: Zsched, led: redis.Redis) -> None:
    report(led, stopped=True)

    assert [NOBODY_FOLLOWS] == problems(zsched)
    assert ["box:/var/archive-1.db, its daemon has stopped, up to date, complete since the beginning"] == archives(
        zsched("status")
    )


# -- the sections -------------------------------------------------------------------------------------


def section(result: Result, heading: str) -> list[str]:
    """The lines of the section that begins so."""
    [found] = [part for part in result.stdout.split("\n\n") if part.startswith(heading)]
    return found.splitlines()[1:]


def test_daemons_are_listed_with_what_they_told(zsched: Zsched, led: redis.Redis) -> None:
    started = now_ms(led) - 7_200_500
    report(led, "one", daemon="somebody", pid=1, version="0.1.0", tzdata="2025b", started=started)
    report(led, "old", daemon="d2", host="attic", ago_ms=5500)
    report(led, "gone", daemon="d3", ago_ms=120_500, pid=3)

    rows = [re.split("  +", row) for row in section(zsched("status"), "DAEMON")]

    assert [
        ["leader", "box", "1", "0.1.0", "2h ago", "2025b", "now", "somebody"],
        ["standby", "attic", "?", "?", "?", "?", "5s ago", "d2"],
        ["silent", "box", "3", "?", "?", "?", "2m ago", "d3"],
    ] == rows


def test_daemons_that_are_silent_for_an_hour_are_not_shown_but_the_leader_always_is(
    zsched: Zsched, led: redis.Redis
) -> None:
    report(led, "one", daemon="somebody", ago_ms=3_700_000)
    report(led, "two", daemon="d2", ago_ms=3_700_000)

    told = json.loads(zsched("status", "--json").stdout)

    assert [("somebody", "leader")] == [(one["id"], one["role"]) for one in told["daemons"]]


def test_what_happened_lately_is_counted(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    at_ms = now_ms(led)
    failed = Run(f"f-{at_ms}", RunStatus.FAILED, at_ms * 1000, at_ms, at_ms, at_ms - 5500, error="ValueError: no")
    for seq, (kind, fields) in enumerate(
        [
            ("fire", {"runs": f"a-{at_ms - 120_000} b-{at_ms - 120_000}"}),
            ("fire", {"runs": f"c-{at_ms - 250}", "expired": "d-5"}),
            ("end", {"rows": "\n".join(map(row_of, (failed, Run("a-5", RunStatus.SUCCEEDED))))}),
        ],
        13,
    ):
        t_ms = at_ms - 120_000 if seq == 13 else at_ms
        led.xadd(KEYS.log(), {"kind": kind, "t": t_ms * 1000, **fields}, id=f"3-{seq}")

    result = zsched("status")
    told = json.loads(zsched("status", "--json").stdout)

    rows = [re.split("  +", row) for row in section(result, "LAST")]
    assert [
        ["1m", "1", "0.02", "250.0 ms", "1", "0", "1", "1", "0", "0"],
        ["5m", "3", "0.01", "250.0 ms", "1", "0", "1", "1", "0", "0"],
        ["30m", "3", "0.00", "250.0 ms", "1", "0", "1", "1", "0", "0"],
    ] == rows
    assert [["5s ago", "failed", f"f-{at_ms}", "ValueError: no"]] == [
        re.split("  +", row) for row in section(result, "FAILED")
    ]
    assert [1, 3, 3] == [stretch["happened"]["fired"] for stretch in told["recent"]["stretches"]]
    assert [f"f-{at_ms}"] == [run["id"] for run in told["failures"]]


def test_a_log_that_was_trimmed_says_how_far_it_goes(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    led.delete(KEYS.log())
    led.xadd(KEYS.log(), {"kind": "fire", "t": (now_ms(led) - 90_500) * 1000, "runs": "a-5"}, id="3-13")

    rows = section(zsched("status"), "LAST")

    assert ["1m", "1m30s"] == [row.split()[0] for row in rows[:2]]
    assert "zsched history" in rows[2]


def test_the_next_ten_fires_are_shown_in_order(redis_url: str, zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    client = Client.from_url(redis_url)
    for n in reversed(range(12)):
        client.schedule("app.run", id=f"s{n:02}", after=3600 + n, queue="mail")

    rows = section(zsched("status", "--tz", "Asia/Seoul"), "NEXT")
    told = json.loads(zsched("status", "--json").stdout)

    assert [f"s{n:02}" for n in range(10)] == [re.split("  +", row)[1] for row in rows]
    assert all("+09:00" in row for row in rows)
    assert [f"s{n:02}" for n in range(10)] == [one["id"] for one in told["next"]]
    assert {"id", "next_at", "kind", "func", "queue", "priority"} == set(told["next"][0])


def test_no_archive_is_asked_so_nobody_waits_for_one_that_is_ill(
    zsched: Zsched, led: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(led)
    monkeypatch.setattr(Questions, "ask", lambda *_, **__: pytest.fail("an archive was asked"))

    assert DONE == zsched("status").exit_code


KEPT = {
    "namespace", "redis", "healthy", "problems", "now", "leader", "lease_ms", "epoch", "waiting", "overdue",
    "oldest_due_at", "late_ms", "held_back", "recurring", "paused", "quarantined", "log_length", "hold_until",
    "archives", "audit",
}  # fmt: skip


def test_the_keys_for_programs_stay(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="somebody")

    told = json.loads(zsched("status", "--json").stdout)

    assert KEPT | {"alarms", "warnings", "daemons", "recent", "failures", "next"} == set(told)
    facts = {"id", "role", "host", "pid", "started_at", "told_at", "version", "python", "redis_py", "rq", "tzdata"}
    assert facts == set(told["daemons"][0])


def test_with_redis_gone_it_fails_and_says_so(zsched: Zsched) -> None:
    result = zsched("status", "-u", "redis://127.0.0.1:1/0")

    assert (FAILED, "") == (result.exit_code, result.stdout)
    assert "cannot reach Redis" in result.stderr


@pytest.mark.parametrize("option", ["--every=2", "--tz=Mars/Olympus"])
def test_options_that_make_no_sense_are_refused(zsched: Zsched, option: str) -> None:
    assert USAGE == zsched("status", option).exit_code


def test_two_daemons_one_of_them_killed(
    redis_url: str, zsched: Zsched, redis_client: redis.Redis, guard: Guard
) -> None:
    know(redis_client)
    daemons = [DaemonProcess(guard, redis_url, DAEMON_LEASE_MS="500", DAEMON_RENEW_MS="100") for _ in range(2)]
    both = eventually(lambda: told if (told := status(zsched))["healthy"] and len(told["daemons"]) == 2 else None)
    leader = next(one for one in both["daemons"] if one["role"] == "leader")

    next(each for each in daemons if each.pid == leader["pid"]).send(signal.SIGKILL)
    after = eventually(lambda: told if (told := status(zsched))["leader"] not in (None, leader["id"]) else None)

    assert {daemon.pid for daemon in daemons} == {one["pid"] for one in both["daemons"]}
    assert ["leader", "standby"] == [one["role"] for one in both["daemons"]]
    assert leader["id"] not in [one["id"] for one in after["daemons"] if one["role"] == "leader"]


@pytest.fixture
def guard() -> Iterator[Guard]:
    with Guard() as guard:
        yield guard


@pytest.mark.parametrize(("failed", "well", "warned"), [(3, 26, True), (3, 27, False), (2, 0, False)])
def test_when_a_tenth_of_the_runs_fail_there_is_a_warning(
    zsched: Zsched, led: redis.Redis, failed: int, well: int, warned: bool
) -> None:
    report(led)
    ended = [RunStatus.FAILED] * (failed - 1) + [RunStatus.LOST] + [RunStatus.SUCCEEDED] * well
    rows = "\n".join(row_of(Run(f"a-{n}", status)) for n, status in enumerate(ended))
    led.xadd(KEYS.log(), {"kind": "end", "t": now_ms(led) * 1000, "rows": rows}, id="3-13")

    told = json.loads(zsched("status", "--json").stdout)

    expected = [f"3 of {3 + well} runs that ended in the last 5 min failed or were lost"] if warned else []
    assert (expected, True) == ([one["problem"] for one in told["warnings"]], told["healthy"])
