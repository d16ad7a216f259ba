"""Corrupted values in zsched's own keys: ``status`` and ``doctor`` name them with a remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.integration.command_line import Zsched
from zsched import Client
from zsched.cli.program import FAILED, UNHEALTHY
from zsched.core.clock import LAST_MS
from zsched.errors import Garbled
from zsched.storage.keys import Keys

KEYS = Keys("default")
META = KEYS.meta()
NUMBERS = ["epoch", "seq", "hold", "doubt", "format"]
REPORT = "1-1 1 {now} following {about}"


def findings(zsched: Zsched) -> dict[str, dict[str, str]]:
    """Return the first finding of each of the doctor's checks."""
    result = zsched("doctor", "--json")
    assert UNHEALTHY == result.exit_code
    return {one["check"]: one for one in reversed(json.loads(result.stdout))}


@pytest.mark.parametrize(
    "garbage", ["", "no number", "1.5", "nan", "inf", "1e300", "0x7", "-", b"\xff\x00", "9" * 5000, LAST_MS + 1]
)
@pytest.mark.parametrize("field", [*NUMBERS, "offset_ms", "frozen_ms"])
def test_a_corrupted_number_in_meta_is_reported_with_a_remedy(
    zsched: Zsched, redis_client: redis.Redis, field: str, garbage: Any
) -> None:
    redis_client.hset(META, field, garbage)

    for arguments in (("status",), ("status", "--json")):
        told = zsched(*arguments)
        assert FAILED == told.exit_code
        assert f"{META} has {field} '" in told.output
        assert f"HDEL {META} " in told.output
    found = findings(zsched)["meta" if field in NUMBERS else "test clock"]
    assert "problem" == found["verdict"]
    assert field in found["said"]
    assert f"HDEL {META}" in found["remedy"].replace("'", "")


@pytest.mark.parametrize("garbage", ["1e300", "nan", LAST_MS])
def test_add_refuses_a_corrupted_test_clock(zsched: Zsched, redis_client: redis.Redis, garbage: str | int) -> None:
    redis_client.hset(META, "offset_ms", garbage)

    told = zsched("add", "a", "app.tasks.run", "--after", "1h")

    assert FAILED == told.exit_code
    assert f"{META} has offset_ms '{garbage}'" in told.output
    assert 0 == redis_client.exists(KEYS.log())


@pytest.mark.parametrize("key", [META, KEYS.lease(), KEYS.archivers(), KEYS.limits(), KEYS.due_low(), KEYS.paused()])
def test_a_key_of_a_wrong_type_is_named(zsched: Zsched, redis_client: redis.Redis, key: str) -> None:
    redis_client.lpush(key, "mine")

    with pytest.raises(Garbled, match="zsched doctor looks at the types of all keys") as caught:
        Client(redis_client).overview()

    assert caught.value.problem.startswith(f"{key}: ")
    assert f"{key} is a list" in findings(zsched)["key types"]["said"]


@pytest.mark.parametrize(
    "report",
    [
        b"\xff\xfe",
        "x",
        "1-1 1 -100000000000000000000 following {}",
        "1-1 1 {now}9999999999999999999 following {}",
        "9" * 5000 + "-1 1 {now} following {}",
        "1-1 1 {now} nonsense {}",
        "1-1 1 {now} following 5",
        "1-1 1 {now} following " + "[" * 100_000,
        '1-1 1 {now} following {"host": "\\ud800", "path": 5, "daemon": {"a": 1}, "audit": {"at": 1e999}}',
        '1-1 1 {now} following {"daemon": "\\ud800", "pid": "x", "started": 1e999, "complete_since": -1}',
    ],
)
def test_a_corrupted_report_hides_no_other_report(
    zsched: Zsched, redis_client: redis.Redis, report: str | bytes
) -> None:
    seconds, _ = redis_client.time()
    now = str(seconds * 1000)
    text = report if isinstance(report, bytes) else report.replace("{now}", now)
    mine = REPORT.format(now=now, about='{"daemon": "d", "host": "box", "path": "/mine.db"}')
    redis_client.hset(KEYS.archivers(), mapping={b"\xff": text, "mine": mine})

    for arguments in (("status",), ("status", "--json")):
        told = zsched(*arguments)
        assert UNHEALTHY == told.exit_code
        assert "/mine.db" in told.output
    assert "ok" == findings(zsched)["archives"]["verdict"]


def test_a_binary_lease_is_shown_escaped(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.lease(), b"\xff\xfe:1")

    assert r"\xff\xfe" in zsched("status").output
    assert r"daemon \xff\xfe leads" in findings(zsched)["daemons"]["said"]
