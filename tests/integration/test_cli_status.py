"""
``zsched status``: daemons and the last minutes, for people and for programs. Archives: test_cli_status_archives;
problems: test_cli_status_verdict; live: test_cli_status_watch.
"""

from __future__ import annotations

import json
import re
import signal

import pytest
import redis

from tests.faults.leases import lapse
from tests.faults.processes import DaemonProcess, eventually
from tests.faults.threads import know
from tests.integration.command_line import Zsched
from tests.integration.standing import KEYS, now_ms, report, section, status
from tests.log_rows import add_entry, end_fields
from zsched import Client
from zsched.cli.program import DONE, FAILED, UNHEALTHY, USAGE
from zsched.core.model import iso
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import local_text
from zsched.embedded.guard import Guard
from zsched.storage.questions import Questions

pytestmark = pytest.mark.once


def test_status_lists_daemons_with_their_reports(zsched: Zsched, led: redis.Redis) -> None:
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


def test_status_hides_daemons_silent_for_an_hour_except_the_leader(zsched: Zsched, led: redis.Redis) -> None:
    report(led, "one", daemon="somebody", ago_ms=3_700_000)
    report(led, "two", daemon="d2", ago_ms=3_700_000)

    told = json.loads(zsched("status", "--json").stdout)

    assert [("somebody", "leader")] == [(one["id"], one["role"]) for one in told["daemons"]]


def test_status_counts_recent_fires_and_ends(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    at_ms = now_ms(led)
    failed = Run(f"f-{at_ms}", RunStatus.FAILED, at_ms * 1000, at_ms, at_ms, at_ms - 5500, error="ValueError: no")
    for seq, (kind, texts) in enumerate(
        [
            ("fire", ["runs", f"a-{at_ms - 120_000} b-{at_ms - 120_000}"]),
            ("fire", ["runs", f"c-{at_ms - 250}", "expired", "d-5"]),
            ("end", end_fields(failed, Run("a-5", RunStatus.SUCCEEDED))),
        ],
        13,
    ):
        t_ms = at_ms - 120_000 if seq == 13 else at_ms
        add_entry(led, KEYS.log(), f"3-{seq}", kind, t_ms * 1000, *texts)  # type: ignore[misc]  # texts or bytes

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


def test_status_groups_equal_failures_in_one_line(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    at_ms = now_ms(led)
    runs = [Run(f"f-{n}", RunStatus.EXPIRED, ended_ms=at_ms, error="late") for n in range(6)]
    add_entry(led, KEYS.log(), "3-13", "end", at_ms * 1000, *end_fields(*runs))

    result = zsched("status")
    told = json.loads(zsched("status", "--json").stdout)

    assert [["now", "expired ×6", "f-5", "late"]] == [re.split("  +", line) for line in section(result, "FAILED")]
    assert [("f-5", 6)] == [(one["id"], one["times"]) for one in told["failures"]]


def leading(zsched: Zsched) -> str:
    """Return the text of the leader's line."""
    [line] = [
        line for line in zsched("status").stdout.splitlines() if re.match("leader +[^ ]+, (pid|since|epoch)", line)
    ]
    return line.split(maxsplit=1)[1]


def test_status_shows_the_leader_with_the_start_of_its_term(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="somebody", pid=1)
    led.delete(KEYS.log())
    began_ms = now_ms(led) - 7_230_000
    led.xadd(KEYS.log(), {"kind": "term", "t": (began_ms - 9000) * 1000, "daemon": "x"}, id="2-12")
    led.xadd(KEYS.log(), {"kind": "term", "t": began_ms * 1000, "daemon": "somebody"}, id="3-13")
    led.xadd(KEYS.log(), {"kind": "cancel", "t": began_ms * 1000 + 7, "rows": 1, "a": 5}, id="3-14")

    assert leading(zsched).startswith(f"box, pid 1, since {local_text(began_ms, 'UTC')} (2 h")
    assert iso(began_ms) == json.loads(zsched("status", "--json").stdout)["led_since"]


def test_status_omits_the_start_of_a_term_that_was_trimmed(zsched: Zsched, led: redis.Redis) -> None:
    report(led)

    assert leading(zsched).startswith("somebody, epoch 3, lease for ")
    assert json.loads(zsched("status", "--json").stdout)["led_since"] is None


def test_status_says_how_far_back_a_trimmed_log_goes(zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    led.delete(KEYS.log())
    led.xadd(KEYS.log(), {"kind": "fire", "t": (now_ms(led) - 90_500) * 1000, "runs": "a-5"}, id="3-13")

    rows = section(zsched("status"), "LAST")

    assert ["1m", "1m30s"] == [row.split()[0] for row in rows[:2]]
    assert "zsched history" in rows[2]


def test_status_shows_the_next_ten_fires_in_order(redis_url: str, zsched: Zsched, led: redis.Redis) -> None:
    report(led)
    client = Client.from_url(redis_url)
    for n in reversed(range(12)):
        client.schedule("app.run", id=f"s{n:02}", after=3600 + n, queue="mail")

    rows = section(zsched("status", "--tz", "Asia/Seoul"), "NEXT")
    told = json.loads(zsched("status", "--json").stdout)

    assert [f"s{n:02}" for n in range(10)] == [re.split("  +", row)[2] for row in rows]
    assert all("+09:00" in row for row in rows)
    assert [f"s{n:02}" for n in range(10)] == [one["id"] for one in told["next"]]
    assert {"id", "next_at", "kind", "func", "queue", "priority"} == set(told["next"][0])


def test_status_never_asks_an_archive(zsched: Zsched, led: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    report(led)
    monkeypatch.setattr(Questions, "ask", lambda *_, **__: pytest.fail("an archive was asked"))

    assert DONE == zsched("status").exit_code


KEPT = {
    "namespace", "redis", "healthy", "problems", "now", "leader", "lease_s", "epoch", "waiting", "overdue",
    "oldest_due_at", "late_s", "held_back", "recurring", "paused", "quarantined", "log_length", "hold_until",
    "archives", "audit",
}  # fmt: skip


def test_the_json_keys_of_status_stay(zsched: Zsched, led: redis.Redis) -> None:
    report(led, daemon="somebody")

    told = json.loads(zsched("status", "--json").stdout)

    new = {
        "alarms",
        "warnings",
        "daemons",
        "recent",
        "failures",
        "next",
        "led_since",
        "unheard",
        "suspended",
        "troubled",
    }
    assert KEPT | new == set(told)
    facts = {"id", "role", "host", "pid", "started_at", "told_at", "version", "python", "redis_py", "rq", "tzdata"}
    assert facts | {"may_not_lead", "failing"} == set(told["daemons"][0])


@pytest.mark.parametrize("check", ["status", "doctor"])
def test_a_check_without_redis_is_unhealthy_and_says_what_to_do(zsched: Zsched, check: str) -> None:
    result = zsched(check, "-u", "redis://127.0.0.1:1/0")

    assert (UNHEALTHY, "") == (result.exit_code, result.stdout)
    said, remedy = result.stderr.splitlines()
    assert said.startswith("zsched: cannot reach Redis at redis://127.0.0.1:1/0 (--redis-url): ")
    assert "  → start Redis, or repair the way to it: redis-cli -p 1 PING; nothing is lost, " in remedy


def test_a_check_without_redis_gives_the_remedy_in_json(zsched: Zsched) -> None:
    result = zsched("status", "-u", "redis://127.0.0.1:1/0", "--json")

    told = json.loads(result.stderr)
    assert (UNHEALTHY, "RedisUnavailable") == (result.exit_code, told["type"])
    assert "redis-cli -p 1 PING" in told["remedy"]


def test_other_commands_without_redis_fail(zsched: Zsched) -> None:
    assert FAILED == zsched("ls", "-u", "redis://127.0.0.1:1/0").exit_code


@pytest.mark.parametrize("option", ["--every=2", "--tz=Mars/Olympus"])
def test_status_refuses_invalid_options(zsched: Zsched, option: str) -> None:
    assert USAGE == zsched("status", option).exit_code


def test_status_shows_the_new_leader_after_a_leader_was_killed(
    redis_url: str, zsched: Zsched, redis_client: redis.Redis, guard: Guard
) -> None:
    know(redis_client)
    daemons = [DaemonProcess(guard, redis_url) for _ in range(2)]
    both = eventually(lambda: told if (told := status(zsched))["healthy"] and len(told["daemons"]) == 2 else None)
    leader = next(one for one in both["daemons"] if one["role"] == "leader")

    next(each for each in daemons if each.pid == leader["pid"]).send(signal.SIGKILL)
    lapse(redis_client)
    after = eventually(lambda: told if (told := status(zsched))["leader"] not in (None, leader["id"]) else None)

    assert {daemon.pid for daemon in daemons} == {one["pid"] for one in both["daemons"]}
    assert ["leader", "standby"] == [one["role"] for one in both["daemons"]]
    assert leader["id"] not in [one["id"] for one in after["daemons"] if one["role"] == "leader"]
