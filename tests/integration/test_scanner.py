"""Open runs as a bootstrap reads them from Redis."""

from __future__ import annotations

import pytest
import redis

from tests.prefix import RQ
from zsched import Client
from zsched.storage import reruns
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.scanner import Scanner

KEYS = Keys("default")
RUN = "a-1700000000000"


@pytest.mark.parametrize("status", ["queued", "deferred", "scheduled", "started", "taken", "rate_limited"])
def test_the_scanner_finds_open_runs_and_drops_temporary_fields(
    redis_client: redis.Redis, redis_url: str, status: str
) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:mail")
    asked_for = {"data": "call", "origin": "mail", "description": "app.task", "zs_expires": "60000"}
    way = {"status": status, "dependency_id": "b", "zs_deadline": "1700000060000", "zs_stop": "1700000000001"}
    redis_client.hset(KEYS.rq.job(RUN), mapping=asked_for | way)
    if status == "queued":
        redis_client.rpush(f"{RQ}:queue:mail", RUN, "somebody-elses")
    elif status == "taken":
        redis_client.rpush(f"{RQ}:queue:mail:intermediate", RUN, "somebody-elses")
    elif status == "started":
        redis_client.zadd(f"{RQ}:wip:mail", {f"{RUN}:execution": 1})
    elif status == "rate_limited":
        redis_client.sadd(f"{RQ}:rl-keys", "digest")
        redis_client.zadd(f"{RQ}:rl:digest:rate_limited", {RUN: 1, "somebody-elses": 1})
    else:
        redis_client.zadd(f"{RQ}:{status}:mail", {RUN: 1, "somebody-elses": 1})

    with Link.from_url(redis_url, 5.0).wire() as wire:
        scanner = Scanner(wire, KEYS)
        found = [*scanner.run_ids()]
        [(_, [held])] = scanner.runs(found, None)

    assert [RUN] == found
    assert {name: value.encode() for name, value in asked_for.items()} == held.asked_for()[0]


def test_the_scanner_skips_a_run_cancelled_in_a_long_queue(
    client: Client, redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reruns, "MOST_WAITING", 1)
    runs = [client.enqueue("app.task", id=id).run_id for id in "ab"]
    assert "cancelled" == client.cancel_run(runs[1])
    assert 2 == redis_client.llen(f"{RQ}:queue:default")

    with Link.from_url(redis_url, 5.0).wire() as wire:
        scanner = Scanner(wire, KEYS)
        [(_, held)] = scanner.runs([*scanner.run_ids()], None)

    assert ["a"] == [one.id for one in held]
