"""The keys and names that ``zsched status --json`` and ``zsched doctor --json`` promise to programs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import redis

from tests.integration.command_line import Zsched
from tests.integration.standing import KEYS, LAST_T, now_ms, report
from tests.log_rows import add_entry, end_fields
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import UNHEALTHY
from zsched.core.clock import from_ms
from zsched.core.runs import Run, RunStatus
from zsched.health.verdict import NAMES, WORST

pytestmark = pytest.mark.once

LISTS = {
    "alarms": "name problem remedy",
    "warnings": "name problem remedy",
    "daemons": "failing host id may_not_lead pid python redis_py role rq started_at told_at tzdata version",
    "held_back": "max_per_second queue waiting",
    "unheard": "meant queue waiting waits_s",
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
ALARMS = "archive_failed archive_lost archive_refused audit late no_archive no_leader suspended unheard wrong_type"
WARNINGS = (
    "archive_outdated archive_unknown clock_was_ahead daemon_failing doubt_ahead failing no_standby no_worker "
    "overdue_paused schedules_blocked schedules_failing "
    "quarantined queues_unknown rebuilt refused suspended too_late tzdata versions"
)
CHECKS = (
    "redis|role|eviction|memory|hashes|persistence|append-only file|clock|test clock|tzdata|rights|sandbox|databases|"
    "passwords|key types|meta|format|daemons|archives|quarantine|leftovers|workers|serializer|queues|"
    "rq's scheduler|rq-scheduler|rq's cron|guards|signatures"
)


def told(zsched: Zsched) -> dict[str, Any]:
    return dict(json.loads(zsched("status", "--json").stdout))


def names(found: list[dict[str, Any]]) -> set[str]:
    return {one["name"] for one in found}


def hurt(led: redis.Redis, client: Client) -> None:
    """Cause every problem that can occur without a leader."""
    led.delete(KEYS.lease())
    at_ms = now_ms(led)
    report(led, "ill", state="failed", daemon="d1", version="1", tzdata="a", failing={"thread waker": "a bug"})
    report(led, "lost", f"3-12 {LAST_T - 1}", state="lost", awaits_people=True)
    report(led, "other", state="refused")
    report(led, "old", state="outdated")
    audit = {"at": at_ms, "checked": 10, "alarms": 3, "repaired": 2}
    report(led, "well", daemon="d2", version="2", tzdata="b", audit=audit, unknown_entries=2)
    client.schedule("app.run", id="a", at=from_ms(at_ms - 60_000), allow_past=True, queue="email")
    client.schedule("app.run", id="later", after=3600, queue="push")
    run = str(client.enqueue("app.run", queue="email").run_id)
    led.hset(f"{RQ}:job:{run}", "enqueued_at", "2026-01-01T00:00:00.000000Z")
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
    quiet = told(zsched)
    hurt(led, Client.from_url(redis_url))

    found = told(zsched)

    assert {*OTHERS.split(), *LISTS, *VALUES} == set(found) == set(quiet)
    assert {name: keys.split() for name, keys in VALUES.items()} == {name: sorted(found[name]) for name in VALUES}
    assert {name: set(keys.split()) for name, keys in LISTS.items()} == {
        name: {key for one in found[name] for key in one} for name in LISTS
    }
    assert {"id", "status", "error", "ended_at", "times"} <= set(found["failures"][0])


def test_alarms_and_warnings_have_the_documented_names(zsched: Zsched, led: redis.Redis, redis_url: str) -> None:
    hurt(led, Client.from_url(redis_url))

    found = told(zsched)

    alarms = {"no_leader", "archive_lost", "late", "unheard", "archive_failed", "archive_refused", "audit"}
    assert alarms == names(found["alarms"]) <= set(ALARMS.split())
    expected = (
        "rebuilt doubt_ahead failing too_late no_worker quarantined archive_outdated daemon_failing archive_unknown "
        "versions tzdata"
    )
    assert set(expected.split()) <= names(found["warnings"])


def test_the_help_of_status_names_every_alarm_and_warning(zsched: Zsched) -> None:
    words = set(re.findall(r"\w+", zsched("status", "--help").stdout))

    assert {*ALARMS.split(), *WARNINGS.split(), *NAMES} <= words


def test_the_ranked_problems_are_names_of_checks() -> None:
    assert {*WORST} - {"redis_unseen", "cannot_lead"} <= {*NAMES}


def test_the_checks_of_the_doctor_keep_their_names_and_keys(zsched: Zsched, led: redis.Redis, redis_url: str) -> None:
    hurt(led, Client.from_url(redis_url))

    result = zsched("doctor", "--json")

    found = json.loads(result.stdout)
    assert UNHEALTHY == result.exit_code
    assert {*CHECKS.split("|")} <= {one["check"] for one in found}
    assert {("check", "remedy", "said", "verdict")} == {tuple(sorted(one)) for one in found}
    assert {"ok", "warning", "problem", "skipped"} >= {one["verdict"] for one in found}
