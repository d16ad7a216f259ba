"""The number of schedules that are due soon, by queue: exact for few, an estimate for many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from zsched import Client
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.upcoming import SAMPLE, due_soon

KEYS = Keys("default")
pytestmark = pytest.mark.once


@pytest.fixture
def wire(redis_url: str, redis_client: redis.Redis) -> Iterator[Wire]:
    with Link.from_url(redis_url, 5.0).wire() as wire:
        yield wire


@pytest.fixture
def client(redis_url: str) -> Client:
    return Client.from_url(redis_url)


def test_an_empty_namespace_has_nothing_due(wire: Wire) -> None:
    assert {} == due_soon(wire, KEYS)


def test_few_schedules_are_counted_exactly_by_queue_and_time(wire: Wire, client: Client) -> None:
    for number, (after, queue, priority) in enumerate(
        [
            (30, "email", "high"),
            (300, "email", "low"),
            (300, "push", "normal"),
            (3000, "push", "low"),
            (9000, "push", "low"),
        ]
    ):
        client.schedule("app.run", id=f"s{number}", after=after, queue=queue, priority=priority)
    client.schedule("app.run", id="rule", every=60, queue="sms")

    found = due_soon(wire, KEYS)

    assert {
        "email": {"1m": 1, "10m": 2, "60m": 2},
        "push": {"1m": 0, "10m": 1, "60m": 2},
        "sms": {"1m": 1, "10m": 1, "60m": 1},
    } == found


def test_overdue_schedules_count_and_paused_ones_do_not(wire: Wire, client: Client) -> None:
    client.schedule("app.run", id="late", after=0.001, queue="email")
    client.schedule("app.run", id="paused", after=30, queue="email")
    client.pause("paused")

    assert {"email": {"1m": 1, "10m": 1, "60m": 1}} == due_soon(wire, KEYS)


def test_the_queues_of_many_schedules_are_estimated_from_a_sample(wire: Wire, client: Client) -> None:
    many, share = 100 * SAMPLE, 4
    client.schedule_many(
        {"func": "app.run", "id": f"s{n}", "after": 120 + n / 100, "queue": "push" if n % share else "email"}
        for n in range(many)
    )

    found = due_soon(wire, KEYS)

    assert many == pytest.approx(sum(one["10m"] for one in found.values()), abs=2)
    assert many / share == pytest.approx(found["email"]["10m"], rel=0.4)
    assert found["email"]["1m"] == 0


def test_the_round_trips_do_not_grow_with_the_schedules(
    wire: Wire, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.schedule_many({"func": "app.run", "id": f"s{n}", "after": 700 + n / 1000} for n in range(2000))
    commands: list[object] = []
    send = Wire.send
    monkeypatch.setattr(Wire, "send", lambda wire, *command: (commands.append(command), send(wire, *command))[1])

    due_soon(wire, KEYS)

    assert len(commands) < 3 * SAMPLE + 40
