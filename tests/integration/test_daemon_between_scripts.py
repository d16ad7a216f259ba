"""Concurrent changes between two scripts of one pass: after fire and before advance."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest
import redis

from tests.builders.leaders import ALWAYS, HOUR_MS, Leader
from tests.builders.progress import change_progress
from tests.faults.overdue import put_due
from tests.ledger import entries, queued
from zsched import Client
from zsched.core.clock import from_ms
from zsched.core.occurrences.policy import USUAL, Plan
from zsched.core.options.choices import Priority
from zsched.errors import Stale
from zsched.storage.dispatch import DueRecurring, WrittenPlan, advance_words
from zsched.storage.keys import Keys

KEYS = Keys("default")
LANE = KEYS.due_normal()


class Between:
    """A leader between two scripts of a pass: it has fired a schedule "tick", due each hour, and not advanced."""

    def __init__(self, client: Client, leader: Leader, redis_client: redis.Redis) -> None:
        self.client, self.leader, self.redis = client, leader, redis_client
        self.due_ms, self.next_ms = put_due(client, redis_client, ["tick"], {"func": "app.run"})
        self.due, self.now_ms = self.fire()

    def fire(self) -> tuple[list[DueRecurring], int]:
        fired = self.leader.fire()
        return fired.recurring, fired.now_ms

    def advance(self) -> list[str]:
        return self.leader.advance(self.due, self.now_ms)

    def queued(self) -> list[str]:
        return queued(self.redis)

    def score(self) -> float | None:
        return self.redis.zscore(LANE, "tick")

    def places(self) -> list[object]:
        """Return the contents of lanes, pauses and quarantine."""
        lanes = [self.redis.zrange(KEYS.due(lane), 0, -1, withscores=True) for lane in Priority]
        return [*lanes, self.redis.hgetall(KEYS.paused()), self.redis.hgetall(KEYS.quarantine())]


@pytest.fixture
def leader(client: Client, redis_url: str) -> Iterator[Leader]:
    with closing(Leader(redis_url)) as leader:
        yield leader


@pytest.fixture
def between(client: Client, leader: Leader, redis_client: redis.Redis) -> Between:
    return Between(client, leader, redis_client)


def test_an_undisturbed_occurrence_fires(between: Between) -> None:
    assert ["fired"] == between.advance()
    assert [f"tick-{between.due_ms}"] == between.queued()
    assert between.next_ms == between.score()


def test_a_rule_changed_before_advance_does_not_fire_by_its_old_rule(between: Between) -> None:
    starts_ms = between.now_ms + HOUR_MS

    changed = between.client.update("tick", every=7200, starts=from_ms(starts_ms))

    assert ["changed"] == between.advance()
    assert [] == between.queued()
    assert starts_ms == between.score() == changed.next_at.timestamp() * 1000
    assert [] == entries(between.redis, "advance")


def test_a_rule_changed_at_the_same_due_time_is_recognised_by_its_version(between: Between) -> None:
    between.client.update("tick", args=("new payload",))  # the due time stays, and it is still due

    assert between.due_ms == between.score()
    assert ["changed"] == between.advance()
    assert [] == between.queued()
    assert ["fired"] == between.leader.advance(*between.fire())
    assert [f"tick-{between.due_ms}"] == between.queued()


OTHERS: dict[str, Callable[[Client], object]] = {
    "cancel": lambda client: client.cancel("tick"),
    "pause": lambda client: client.pause("tick"),
    "another lane": lambda client: client.update("tick", priority="high"),
    "a one-shot instead": lambda client: client.schedule("app.run", id="tick", after=timedelta(hours=9)),
    "cancel and create": lambda client: (client.cancel("tick"), client.schedule("app.run", id="tick", every=60)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_an_advance_does_not_undo_a_concurrent_change(between: Between, what: str) -> None:
    OTHERS[what](between.client)
    before = between.places()

    assert ["changed"] == between.advance()
    assert ([], before) == (between.queued(), between.places())


def test_run_now_before_advance_is_an_extra_run_that_the_occurrence_overlaps(between: Between) -> None:
    run = between.client.run_now("tick")

    assert ["changed"] == between.advance()
    assert ["overlap"] == between.leader.advance(*between.fire())
    assert [run] == between.queued()
    assert between.next_ms == between.score()


def test_repeating_an_advance_changes_nothing(between: Between) -> None:
    between.advance()
    before = between.places(), between.queued()

    assert ["changed"] == between.advance()
    assert before == (between.places(), between.queued())


def test_a_leader_that_lost_its_lease_is_refused(between: Between) -> None:
    between.redis.set(KEYS.lease(), "other:9:60000:n", px=60_000)

    for call in (between.advance, between.fire, lambda: quarantine(between, "why")):
        with pytest.raises(Stale):
            call()
    assert [] == between.queued()


def quarantine(between: Between, why: str) -> object:
    return between.leader.dispatch.quarantine(between.leader.term, [(between.due[0], why)])


def test_a_quarantine_of_a_changed_schedule_is_dropped(between: Between) -> None:
    between.client.update("tick", every=60, starts=from_ms(between.due_ms + HOUR_MS))

    assert 0 == quarantine(between, "cannot be planned")
    assert 0 == between.redis.hlen(KEYS.quarantine())


def test_a_plan_without_a_next_time_ends_the_schedule(between: Between) -> None:
    last = Plan(between.due_ms, between.due_ms, (), None, None)
    planned = between.due[0], WrittenPlan(last, advance_words(last, USUAL))

    assert ["fired"] == between.leader.dispatch.advance(between.leader.term, ALWAYS, HOUR_MS, [planned])
    assert "ended" == between.client.get("tick").state.value
    assert 0 == between.redis.zcard(LANE)


def test_schedules_get_separate_answers_however_plans_and_lanes_are_mixed(
    client: Client, leader: Leader, redis_client: redis.Redis
) -> None:
    priorities = ("normal", "high", "normal", "low", "high", "normal", "low")
    for number, priority in enumerate(priorities):
        client.schedule("app.run", id=f"s{number}", every=60, priority=priority)
        redis_client.zadd(KEYS.due(Priority(priority)), {f"s{number}": number % 2 + 1_000})
        change_progress(redis_client, KEYS, f"s{number}", nominal=number % 2 + 1_000)
    mixed = sorted(leader.fire().recurring, key=lambda one: one.id)
    changed = {b"s2", b"s4"}
    plans = {number: Plan(number + 1_000, number + 1_000, (), HOUR_MS, HOUR_MS) for number in range(2)}
    for id in changed:
        client.update(id.decode(), args=(1,))

    planned = [
        (one, WrittenPlan(plan, advance_words(plan, USUAL))) for one in mixed for plan in [plans[int(one.due_ms) % 2]]
    ]
    words = leader.dispatch.advance(leader.term, ALWAYS, HOUR_MS, planned)

    assert ["changed" if one.id in changed else "fired" for one in mixed] == words
    assert {f"{one.id.decode()}-{one.due_ms.decode()}" for one in mixed if one.id not in changed} == set(
        queued(redis_client)
    )
    assert 5 == sum(redis_client.zcount(KEYS.due(lane), HOUR_MS, HOUR_MS) for lane in Priority)
