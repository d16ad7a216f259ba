"""
``zsched status``: daemons and the last minutes, for people and for programs. Archives: test_cli_status_archives;
problems: test_cli_status_verdict; live: test_cli_status_watch.
"""

import json
import re
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.entries import add_entry, end_fields
from tests.documents import PROJECT
from tests.integration.standing import KEYS, LAST_T, names, now_ms, report, section, status
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import DONE, UNHEALTHY, USAGE
from zsched.core.clock import from_ms
from zsched.core.model import iso
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import local_text
from zsched.health.verdict import NAMES, WORST
from zsched.storage import questions

pytestmark = pytest.mark.once
NOWHERE = "redis://127.0.0.1:1/0"
LISTS = {
    "alarms": "name problem remedy",
    "warnings": "name problem remedy",
    "daemons": (
        "ahead_s failing host id may_not_lead memory pid python redis_py role rq started_at told_at tzdata version "
        "worker"
    ),
    "held_back": "blocked_by max_per_second queue since waiting zone",
    "rate_limited": "holders limit since waiting",
    "unheard": "meant queue waiting waits_s",
    "known_failures": "at by error func name note until_at",
    "sinks": "address error kind last last_at name on",
    "next": "func id kind next_at priority queue",
    "archives": "behind complete_since host id path position state told_at trouble",
}
VALUES = {
    "audit": "alarms at checked repaired",
    "overdue": "high low normal",
    "waiting": "high low normal",
    "recent": "ahead is_cut rebuilt stretches",
    "troubled": "blocked failing overdue_paused",
}
OTHERS = (
    "epoch failures healthy hold_until late_s lease_s leader led_since log_length namespace now oldest_due_at paused "
    "problems quarantined recurring redis suspended"
)
ALARMS = (
    "archive_failed archive_lost archive_refused audit late no_archive no_leader quarantined suspended unheard "
    "wrong_type zone_unknown"
)
WARNINGS = (
    "archive_outdated archive_unknown clock_was_ahead daemon_failing deadlines_at_risk default_timeout doubt_ahead "
    "eviction failing kept_local no_replica "
    "no_standby no_worker overdue_paused schedules_blocked schedules_failing "
    "queues_unknown rebuilt refused suspended too_late tzdata versions"
)
CHECKS = (
    "redis|role|eviction|memory|hashes|persistence|append-only file|clock|test clock|tzdata|rights|sandbox|databases|"
    "passwords|key types|meta|format|daemons|archives|quarantine|leftovers|workers|serializer|queues|"
    "rq's scheduler|rq's delayed jobs|rq-scheduler|rq's cron|guards|signatures"
)


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

    told = status(zsched)

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
    told = status(zsched)

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
    told = status(zsched)

    assert [["now", "expired ×6", "f-5", "late"]] == [re.split("  +", line) for line in section(result, "FAILED")]
    assert [("f-5", 6)] == [(one["id"], one["times"]) for one in told["failures"]]


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_status_shows_the_leader_with_the_start_of_its_term_unless_it_was_trimmed(
    zsched: Zsched, led: redis.Redis, is_trimmed: bool
) -> None:
    report(led, daemon="somebody", pid=1)
    began_ms = now_ms(led) - 7_230_000
    if not is_trimmed:
        led.delete(KEYS.log())
        led.xadd(KEYS.log(), {"kind": "term", "t": (began_ms - 9000) * 1000, "daemon": "x"}, id="2-12")
        led.xadd(KEYS.log(), {"kind": "term", "t": began_ms * 1000, "daemon": "somebody"}, id="3-13")
        led.xadd(KEYS.log(), {"kind": "cancel", "t": began_ms * 1000 + 7, "rows": 1, "a": 5}, id="3-14")

    [line] = re.findall(r"^leader +([^ ]+, (?:pid|since|epoch).*)$", zsched("status").stdout, re.MULTILINE)

    since = "epoch 3, lease for " if is_trimmed else f"since {local_text(began_ms, 'UTC')} (2 h"
    assert line.startswith(f"box, pid 1, {since}")
    assert (None if is_trimmed else iso(began_ms)) == status(zsched)["led_since"]


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
    told = status(zsched)

    assert [f"s{n:02}" for n in range(10)] == [re.split("  +", row)[2] for row in rows]
    assert all("+09:00" in row for row in rows)
    assert [f"s{n:02}" for n in range(10)] == [one["id"] for one in told["next"]]
    assert {"id", "next_at", "kind", "func", "queue", "priority"} == set(told["next"][0])


def test_status_never_asks_an_archive(zsched: Zsched, led: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    report(led)
    monkeypatch.setattr(questions, "Question", lambda *_: pytest.fail("an archive was asked"))

    assert DONE == zsched("status").exit_code


@pytest.mark.parametrize("check", ["status", "doctor"])
def test_a_check_without_redis_is_unhealthy_and_says_what_to_do(zsched: Zsched, check: str) -> None:
    result, told = zsched(check, "-u", NOWHERE), json.loads(zsched("status", "-u", NOWHERE, "--json").stderr)

    assert (UNHEALTHY, "") == (result.exit_code, result.stdout)
    said, remedy, calm, *_ = result.stderr.splitlines()
    assert said.startswith(f"zsched: cannot reach Redis at {NOWHERE} (--redis-url): ")
    assert "  → start Redis, or repair the connection to it: redis-cli -p 1 PING" == remedy
    assert "nothing is lost" in calm
    assert ("RedisUnavailable", True) == (told["type"], "redis-cli -p 1 PING" in told["remedy"])


@pytest.mark.parametrize("option", ["--every=2", "--tz=Mars/Olympus"])
def test_status_refuses_invalid_options(zsched: Zsched, option: str) -> None:
    assert USAGE == zsched("status", option).exit_code


# -- what ``--json`` promises to programs -------------------------------------------------------------


def hurt(led: redis.Redis, client: Client) -> None:
    """Cause every problem that can occur without a leader."""
    led.delete(KEYS.lease())
    at_ms = now_ms(led)
    report(led, "ill", state="failed", daemon="d1", version="1", tzdata="a", failing={"thread waker": "a bug"})
    report(led, "lost", f"3-12 {LAST_T - 1}", state="lost", awaits_people=True)
    report(led, "other", state="refused")
    report(led, "old", state="outdated")
    audit = {"at": at_ms, "checked": 10, "alarms": 3, "repaired": 2}
    sinks = {"ops": {"kind": "slack", "address": "https://hooks.example.com", "on": ["failed"]}, "broken": "text"}
    report(led, "well", daemon="d2", version="2", tzdata="b", audit=audit, unknown_entries=2, sinks=sinks)
    late = client.schedule("app.run", id="a", at=from_ms(at_ms - 60_000), allow_past=True, queue="email").run_id
    led.hset(f"{RQ}:job:{late}", "created_at", "2026-01-01T00:00:00.000000Z")  # it was not put late
    client.schedule("app.run", id="later", after=3600, queue="push")
    client.ack(func="app.other", note="why")
    run = str(client.enqueue("app.run", queue="email").run_id)
    led.hset(f"{RQ}:job:{run}", "enqueued_at", "2026-01-01T00:00:00.000000Z")
    led.sadd(KEYS.rq.limits(), "gw")
    led.zadd(KEYS.rq.limit_waiting("gw"), {run: at_ms / 1000})
    led.hset(KEYS.quarantine(), "broken", "low 5 5 why")
    led.hset(KEYS.paused(), "p", f"low {at_ms - 1} 5 why")
    led.zadd(KEYS.failing(), {"nightly": 2})
    led.zadd(KEYS.blocked(), {"hourly": 5})
    led.hset(KEYS.meta(), "doubt", at_ms + 3_600_000)
    led.hset(KEYS.meta(), "throttled", "low:email")
    led.zadd(KEYS.due_low() + ":email", {"held": 1})
    ended = [Run(f"r-{n}", RunStatus.FAILED, ended_ms=at_ms) for n in range(5)] + [Run("e-5", RunStatus.EXPIRED)]
    epoch, seq = (int(led.hget(KEYS.meta(), name) or 0) for name in ("epoch", "seq"))
    entries: list[tuple[Any, ...]] = [
        ("end", at_ms, *end_fields(*ended)),
        ("merged", at_ms, "archive", "x", "rows", 1, "3-1", 5),
        ("cancel", at_ms + 3_600_000, "rows", 1, "a", 5),
    ]
    for number, (kind, entry_ms, *texts) in enumerate(entries, seq + 1):
        add_entry(led, KEYS.log(), f"{epoch}-{number}", kind, entry_ms * 1000, *texts)


def test_status_has_every_json_key_whether_healthy_or_not(zsched: Zsched, led: redis.Redis, redis_url: str) -> None:
    quiet = status(zsched)
    hurt(led, Client.from_url(redis_url))

    found = status(zsched)

    assert {*OTHERS.split(), *LISTS, *VALUES} == set(found) == set(quiet)
    assert {name: keys.split() for name, keys in VALUES.items()} == {name: sorted(found[name]) for name in VALUES}
    assert {name: set(keys.split()) for name, keys in LISTS.items()} == {
        name: {key for one in found[name] for key in one} for name in LISTS
    }
    assert {"id", "status", "error", "ended_at", "times"} <= set(found["failures"][0])


def test_alarms_and_warnings_have_the_documented_names(zsched: Zsched, led: redis.Redis, redis_url: str) -> None:
    hurt(led, Client.from_url(redis_url))

    found = status(zsched)

    alarms = set("no_leader archive_lost late unheard archive_failed archive_refused audit quarantined".split())
    found_alarms, found_warnings = map(set, names(found))
    assert alarms == found_alarms <= set(ALARMS.split())
    expected = (
        "rebuilt doubt_ahead failing too_late no_worker archive_outdated daemon_failing archive_unknown versions tzdata"
    )
    assert set(expected.split()) <= found_warnings


def test_the_page_of_status_names_every_alarm_and_warning() -> None:
    words = set(re.findall(r"\w+", (PROJECT / "docs/reference/status.md").read_text()))

    assert {*ALARMS.split(), *WARNINGS.split(), *NAMES} <= words


def test_the_ranked_problems_are_names_of_checks() -> None:
    assert {*WORST} - {"redis_unseen", "cannot_lead"} <= {*NAMES}


def test_the_checks_of_the_doctor_keep_their_names_and_verdicts(
    zsched: Zsched, led: redis.Redis, redis_url: str
) -> None:
    hurt(led, Client.from_url(redis_url))

    result = zsched("doctor", "--json")

    found = json.loads(result.stdout)
    assert UNHEALTHY == result.exit_code
    assert {*CHECKS.split("|")} <= {one["check"] for one in found}
    assert {"ok", "warning", "problem", "skipped"} >= {one["verdict"] for one in found}
