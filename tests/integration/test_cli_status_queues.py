"""``zsched status`` of queues that nobody listens to: what fires there is not run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from rq import Queue

from tests.integration.standing import Zsched, lead, report, verdict, zsched_at
from zsched import Client
from zsched.cli.exits import DONE, UNHEALTHY
from zsched.storage.connection import Wire

HOUR = 3600


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return zsched_at(redis_url)


@pytest.fixture
def led(redis_client: redis.Redis) -> redis.Redis:
    """A namespace in which all is well."""
    lead(redis_client)
    report(redis_client, "one", daemon="somebody")
    report(redis_client, "two", daemon="d2")
    return redis_client


@pytest.fixture
def client(redis_url: str) -> Client:
    return Client.from_url(redis_url)


def listens(redis_client: redis.Redis, queues: str, name: str = "w1") -> None:
    """Register a worker as RQ does."""
    redis_client.hset(f"rq:worker:{name}", mapping={"version": "2.8.0", "queues": queues})
    redis_client.sadd("rq:workers", f"rq:worker:{name}")


def told(zsched: Zsched) -> dict[str, Any]:
    return dict(json.loads(zsched("status", "--json").stdout))


def test_runs_that_nobody_takes_are_a_problem(zsched: Zsched, led: redis.Redis, client: Client) -> None:
    listens(led, "default,sms")
    for n in range(3):
        client.enqueue("app.run", id=f"now-{n}", queue="email")

    result, found = zsched("status"), told(zsched)

    assert UNHEALTHY == result.exit_code
    lines = verdict(result)
    assert "UNHEALTHY: nobody listens to queue email, where 3 jobs should be taken" == lines[0]
    assert "rq worker email" in lines[1]
    assert (["unheard"], []) == ([one["name"] for one in found["alarms"]], found["warnings"])
    assert [{"queue": "email", "waiting": 3}] == found["unheard"]


def test_jobs_of_others_in_a_queue_that_schedules_use_are_a_problem_too(
    zsched: Zsched, led: redis.Redis, client: Client
) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    Queue("email", connection=led).enqueue("app.run")

    assert ["nobody listens to queue email, where 1 job should be taken"] == told(zsched)["problems"]


def test_a_queue_that_only_others_use_is_their_matter(zsched: Zsched, led: redis.Redis) -> None:
    Queue("theirs", connection=led).enqueue("app.run")

    result = zsched("status")

    assert (DONE, 1, []) == (result.exit_code, len(verdict(result)), told(zsched)["unheard"])


def test_a_queue_that_schedules_will_use_is_a_warning(zsched: Zsched, led: redis.Redis, client: Client) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    client.schedule("app.run", id="rule", every=HOUR, queue="push")

    result = zsched("status")

    assert (DONE, "healthy") == (result.exit_code, verdict(result)[0].partition(":")[0])
    assert "warning: nobody listens to 2 queues (email, push), which schedules use" == verdict(result)[1]
    assert "rq worker email push" in verdict(result)[2]


def test_with_a_worker_for_each_queue_all_is_well(zsched: Zsched, led: redis.Redis, client: Client) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    client.enqueue("app.run", id="now", queue="push")
    listens(led, "email", "w1")
    listens(led, "push", "w2")

    assert (DONE, 1) == (zsched("status").exit_code, len(verdict(zsched("status"))))


def test_where_workers_cannot_be_asked_for_the_rest_is_told(zsched: Zsched, led: redis.Redis, client: Client) -> None:
    client.enqueue("app.run", id="now", queue="email")
    led.set("rq:workers", "of a wrong type")

    result = zsched("status")

    assert (DONE, None) == (result.exit_code, told(zsched)["unheard"])
    assert "whether workers listen to them cannot be told" in " ".join(result.stdout.split())


def test_thousands_of_queues_take_few_round_trips(
    zsched: Zsched, led: redis.Redis, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [f"q{n}" for n in range(5000)]
    led.sadd("rq:queues", *(f"rq:queue:{queue}" for queue in queues))
    trips, wait = [], Wire.execute
    monkeypatch.setattr(Wire, "execute", lambda wire, *command: (trips.append(command), wait(wire, *command))[1])

    assert [] == client.unheard_queues()

    assert len(trips) < 20
