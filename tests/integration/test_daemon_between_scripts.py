"""Concurrent changes between two scripts of one pass: after fire and before advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis

from tests.faults.leader import ALWAYS, HOUR_MS, Leader
from tests.faults.ledger import entries, queued
from tests.faults.overdue import put_due
from tests.faults.threads import know
from zsched import Client
from zsched.core.choices import Priority
from zsched.core.clock import from_ms
from zsched.core.policy import USUAL, Plan
from zsched.errors import Stale
from zsched.storage.dispatch import DueRecurring, PlannedRun, advance_words
from zsched.storage.keys import Keys

KEYS = Keys("default")
LANE = KEYS.due_normal()


@pytest.fixture
def client(redis_client: redis.Redis, redis_url: str) -> Client:
    know(redis_client)
    return Client.from_url(redis_url)


@pytest.fixture
def leader(client: Client, redis_url: str) -> Iterator[Leader]:
    leader = Leader(redis_url)
    yield leader
    leader.close()


def due_at(client: Client, redis_client: redis.Redis) -> tuple[int, int]:
    """Put a schedule "tick" that is due every hour, the first time now; return that time, and the next."""
    return put_due(client, redis_client, ["tick"], {"func": "app.run"})


def fire_when_due(leader: Leader) -> tuple[list[DueRecurring], int]:
    fired = leader.fire()
    return fired.recurring, fired.now_ms


def test_an_undisturbed_occurrence_fires(client: Client, leader: Leader, redis_client: redis.Redis) -> None:
    due_ms, next_ms = due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)

    assert ["fired"] == leader.advance(due, now_ms)
    assert [f"tick-{due_ms}"] == queued(redis_client)
    assert next_ms == redis_client.zscore(LANE, "tick")


def test_a_rule_changed_before_advance_does_not_fire_by_its_old_rule(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)

    changed = client.update("tick", every=7200, starts=from_ms(now_ms + HOUR_MS))

    assert ["changed"] == leader.advance(due, now_ms)
    assert [] == queued(redis_client)
    assert now_ms + HOUR_MS == redis_client.zscore(LANE, "tick") == changed.next_at.timestamp() * 1000
    assert [] == entries(redis_client, "advance")


def test_a_rule_changed_at_the_same_due_time_is_recognised_by_its_version(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    due_ms, _ = due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)

    client.update("tick", args=("new payload",))  # the due time stays, and it is still due

    assert due_ms == redis_client.zscore(LANE, "tick")
    assert ["changed"] == leader.advance(due, now_ms)
    assert [] == queued(redis_client)
    assert ["fired"] == leader.advance(*fire_when_due(leader))
    assert [f"tick-{due_ms}"] == queued(redis_client)


OTHERS: dict[str, Callable[[Client], object]] = {
    "cancel": lambda client: client.cancel("tick"),
    "pause": lambda client: client.pause("tick"),
    "another lane": lambda client: client.update("tick", priority="high"),
    "a one-shot instead": lambda client: client.schedule("app.run", id="tick", after=timedelta(hours=9)),
    "cancel and create": lambda client: (
        client.cancel("tick"),
        client.schedule("app.run", id="tick", every=60),
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_an_advance_does_not_undo_a_concurrent_change(
    client: Client, leader: Leader, redis_client: redis.Redis, what: str
) -> None:
    due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)
    OTHERS[what](client)
    before = _places(redis_client)

    assert ["changed"] == leader.advance(due, now_ms)

    assert [] == queued(redis_client)
    assert before == _places(redis_client)


def test_run_now_before_advance_is_an_extra_run_that_the_occurrence_overlaps(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    _, next_ms = due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)

    run = client.run_now("tick")

    assert ["overlap"] == leader.advance(due, now_ms)
    assert [run] == queued(redis_client)
    assert next_ms == redis_client.zscore(LANE, "tick")


def test_repeating_an_advance_changes_nothing(client: Client, leader: Leader, redis_client: redis.Redis) -> None:
    due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)
    leader.advance(due, now_ms)
    before = _places(redis_client), queued(redis_client)

    assert ["changed"] == leader.advance(due, now_ms)
    assert before == (_places(redis_client), queued(redis_client))


def test_a_leader_that_lost_its_lease_is_refused(client: Client, leader: Leader, redis_client: redis.Redis) -> None:
    due_at(client, redis_client)
    due, now_ms = fire_when_due(leader)
    redis_client.set(KEYS.lease(), "other:9:60000:n", px=60_000)

    with pytest.raises(Stale):
        leader.advance(due, now_ms)
    with pytest.raises(Stale):
        leader.fire()
    with pytest.raises(Stale):
        leader.dispatch.quarantine(leader.term, [(due[0], "why")])
    assert [] == queued(redis_client)


def test_a_quarantine_of_a_changed_schedule_is_dropped(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    due_at(client, redis_client)
    due, _ = fire_when_due(leader)
    client.update("tick", every=60, starts=from_ms(int(due[0].due_ms) + HOUR_MS))

    assert 0 == leader.dispatch.quarantine(leader.term, [(due[0], "cannot be planned")])
    assert 0 == redis_client.hlen(KEYS.quarantine())


def test_a_plan_without_a_next_time_ends_the_schedule(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    due_ms, _ = due_at(client, redis_client)
    due, _ = fire_when_due(leader)

    last = Plan(due_ms, due_ms, (), None, None)
    planned = PlannedRun(due[0], last, advance_words(last, USUAL))
    assert ["fired"] == leader.dispatch.advance(leader.term, ALWAYS, HOUR_MS, [planned])
    assert "ended" == client.get("tick").state.value
    assert 0 == redis_client.zcard(LANE)


def _places(client: redis.Redis) -> list[object]:
    lanes = [client.zrange(KEYS.prefix + f"due:{lane}", 0, -1, withscores=True) for lane in ("high", "normal", "low")]
    return [*lanes, client.hgetall(KEYS.paused()), client.hgetall(KEYS.quarantine())]


def test_schedules_get_separate_answers_however_plans_and_lanes_are_mixed(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    priorities = ("normal", "high", "normal", "low", "high", "normal", "low")
    for number, priority in enumerate(priorities):
        client.schedule("app.run", id=f"s{number}", every=60, priority=priority)
        redis_client.zadd(KEYS.due(Priority(priority)), {f"s{number}": number % 2 + 1_000})
        redis_client.hset(KEYS.schedule(f"s{number}"), "nominal", number % 2 + 1_000)
    due, _ = fire_when_due(leader)
    mixed = sorted(due, key=lambda one: one.id)
    changed = {b"s2", b"s4"}
    plans = {number: Plan(number + 1_000, number + 1_000, (), HOUR_MS, HOUR_MS) for number in range(2)}
    for id in changed:
        client.update(id.decode(), args=(1,))

    planned = [
        PlannedRun(one, plan, advance_words(plan, USUAL)) for one in mixed for plan in [plans[int(one.due_ms) % 2]]
    ]
    words = leader.dispatch.advance(leader.term, ALWAYS, HOUR_MS, planned)

    assert ["changed" if one.id in changed else "fired" for one in mixed] == words
    assert {f"{one.id.decode()}-{one.due_ms.decode()}" for one in mixed if one.id not in changed} == set(
        queued(redis_client)
    )
    assert 5 == sum(redis_client.zcount(KEYS.due(lane), HOUR_MS, HOUR_MS) for lane in Priority)
