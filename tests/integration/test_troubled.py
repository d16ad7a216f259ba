"""Schedules in trouble, as ``zsched status`` and ``doctor`` show them: failing, blocked, paused past their time."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.integration.command_line import Zsched
from tests.integration.standing import KEYS, lead, now_ms, report, verdict
from zsched import Client
from zsched.cli.program import DONE
from zsched.core.clock import from_ms
from zsched.storage.troubled import BLOCKED, FAILING

pytestmark = pytest.mark.once

HOUR = 3600


@pytest.fixture
def led(redis_client: redis.Redis) -> redis.Redis:
    """A namespace in which all is well."""
    lead(redis_client)
    report(redis_client, "one", daemon="somebody")
    report(redis_client, "two", daemon="d2")
    return redis_client


def told(zsched: Zsched) -> dict[str, Any]:
    return dict(json.loads(zsched("status", "--json").stdout))


def warnings(zsched: Zsched) -> dict[str, str]:
    return {one["name"]: one["problem"] for one in told(zsched)["warnings"]}


def test_failing_schedules_are_a_warning_that_names_the_worst(zsched: Zsched, led: redis.Redis) -> None:
    led.zadd(KEYS.failing(), {"nightly": 7, "once": FAILING - 1} | {f"r{n}": FAILING for n in range(8)})

    said = warnings(zsched)

    names = "nightly (7 in a row), r7 (2 in a row), r6 (2 in a row), r5 (2 in a row) and 5 more"
    assert {"schedules_failing": f"9 schedules whose last runs failed: {names}"} == said


def test_blocked_schedules_are_a_warning(zsched: Zsched, led: redis.Redis) -> None:
    led.zadd(KEYS.blocked(), {"hourly": BLOCKED, "often": BLOCKED - 1})

    said = warnings(zsched)

    assert {"schedules_blocked": "1 schedule skipped, because a run does not end: hourly (5 in a row)"} == said


def test_a_one_shot_that_is_paused_past_its_time_is_a_warning(zsched: Zsched, led: redis.Redis, redis_url: str) -> None:
    client = Client.from_url(redis_url)
    client.schedule("app.run", id="mail-paused-once", at=from_ms(now_ms(led) - 1000), allow_past=True)
    client.schedule("app.run", id="later", after=HOUR)
    client.pause("mail-paused-once")
    client.pause("later")
    led.hset(KEYS.paused(), "strange", "?")

    result = zsched("status")

    assert (DONE, "healthy") == (result.exit_code, verdict(result)[0].partition(":")[0])
    assert "warning: 1 paused schedule is past its time: mail-paused-once" in verdict(result)
    assert "zsched resume ID lets it fire" in verdict(result)[verdict(result).index(_late(1)) + 1]


def _late(count: int) -> str:
    return f"warning: {count} paused schedule is past its time: mail-paused-once"


def test_the_number_of_many_paused_schedules_past_their_time_is_a_lower_bound(zsched: Zsched, led: redis.Redis) -> None:
    due_ms = now_ms(led) - 1000
    led.hset(KEYS.paused(), mapping={f"p{n}": f"low {due_ms - n} 5 why" for n in range(20_000)})

    late = told(zsched)["troubled"]["overdue_paused"]

    assert 2000 <= late["count"] < 20_000
    assert (False, 100) == (late["is_all"], len(late["schedules"]))
    assert warnings(zsched)["overdue_paused"].startswith("at least ")


def test_keys_of_a_wrong_type_count_nothing_and_are_a_problem(zsched: Zsched, led: redis.Redis) -> None:
    led.set(KEYS.failing(), "?")
    led.set(KEYS.blocked(), "?")

    found = told(zsched)

    assert [0, 0] == [found["troubled"][kind]["count"] for kind in ("failing", "blocked")]
    assert ["wrong_type"] * 2 == [one["name"] for one in found["alarms"]]


def test_a_namespace_without_trouble_says_so_in_json(zsched: Zsched, led: redis.Redis) -> None:
    none = {"count": 0, "schedules": []}

    assert {"failing": none, "blocked": none, "overdue_paused": none | {"is_all": True}} == told(zsched)["troubled"]
