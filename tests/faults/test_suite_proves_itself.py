"""
Take one safeguard out of a script, and a check of this suite must report what it prevents.

Each check below passes with the scripts as they are, and fails with the one line gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import redis

from tests.faults.leader import KEYS, Leader
from tests.faults.ledger import doubles, queued
from tests.faults.overdue import put_due
from tests.faults.threads import know
from zsched import Client
from zsched.errors import ServerChanged, Stale
from zsched.storage import scripts
from zsched.storage.dispatch import DueRecurring


@dataclass(frozen=True)
class Case:
    """A namespace with a leader and something due."""

    client: Client
    redis: redis.Redis
    leader: Leader

    def tick(self) -> tuple[int, list[DueRecurring]]:
        """A schedule "tick" that the leader found due, and the server's time of that."""
        put_due(self.client, self.redis, ["tick"], {"func": "app.run"})
        fired = self.leader.fire()
        return fired.now_ms, fired.recurring


def check_a_stale_leader_fires_nothing(case: Case) -> None:
    case.client.schedule("app.run", id="once", after=0)
    case.redis.set(KEYS.lease(), "another:9:60000:n", px=60_000)
    with suppress(Stale):
        case.leader.fire()
    assert [] == queued(case.redis), "pushed in a term that was over"


def check_a_rolled_back_history_pushes_nothing_twice_unmarked(case: Case) -> None:
    once = case.client.schedule("app.run", id="once", after=0)
    lane = case.redis.zrange(KEYS.due_normal(), 0, -1, withscores=True)
    case.leader.fire()
    case.redis.zadd(KEYS.due_normal(), dict(lane))  # a Redis that lost its last moments
    case.redis.hset(f"rq:job:{once.run_id}", "status", "scheduled")
    case.redis.hset(KEYS.meta(), "server", "the one that was promoted")
    with suppress(ServerChanged):
        case.leader.fire()
    assert [] == doubles(queued(case.redis)), "pushed twice, and nothing says that it was uncertain"


def check_a_plan_of_an_old_rule_changes_nothing(case: Case) -> None:
    now_ms, due = case.tick()
    case.client.update("tick", args=("another payload",))  # the due time stays
    assert float(due[0].due_ms) == case.redis.zscore(KEYS.due_normal(), "tick")

    assert ["changed"] == case.leader.advance(due, now_ms), "fired by a definition that is no more"


def check_one_occurrence_is_advanced_once(case: Case) -> None:
    now_ms, due = case.tick()
    for _ in range(2):
        case.leader.advance(due, now_ms)
        for run in queued(case.redis):  # a worker ran it and nothing is kept of it
            case.redis.delete(f"rq:job:{run}")
    assert [] == doubles(queued(case.redis)), "one occurrence was pushed twice"


SAFEGUARDS: dict[str, tuple[Callable[[Case], None], str, str, str]] = {
    "the fence": (
        check_a_stale_leader_fires_nothing, "lib/fence.lua",
        "redis.call('GET', lease_key) ~= token", "false",
    ),
    "the server in the fence": (
        check_a_rolled_back_history_pushes_nothing_twice_unmarked, "lib/fence.lua",
        "server ~= expected_server", "false",
    ),
    "the version in advance": (
        check_a_plan_of_an_old_rule_changes_nothing, "advance.lua",
        "score ~= due_ms or schedule[1] ~= planned_version", "score ~= due_ms",
    ),
    "the due time in advance": (
        check_one_occurrence_is_advanced_once, "advance.lua",
        "score ~= due_ms or schedule[1] ~= planned_version", "schedule[1] ~= planned_version",
    ),
}  # fmt: skip


@pytest.fixture
def fresh_scripts() -> Iterator[None]:
    scripts.load.cache_clear()
    yield
    scripts.load.cache_clear()


@pytest.fixture
def case(redis_client: redis.Redis, redis_url: str, fresh_scripts: None) -> Iterator[Case]:
    know(redis_client)
    leader = Leader(redis_url)
    yield Case(Client.from_url(redis_url), redis_client, leader)
    leader.close()


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_with_the_safeguard_the_check_passes(case: Case, name: str) -> None:
    SAFEGUARDS[name][0](case)


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_without_the_safeguard_the_check_fails(case: Case, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, file, line, without = SAFEGUARDS[name]
    read = scripts._read

    def read_without(path: str) -> str:
        text = read(path)
        assert path != file or line in text, f"{file} has no such line any more: change this test with it"
        return text.replace(line, without) if path == file else text

    monkeypatch.setattr(scripts, "_read", read_without)
    scripts.load.cache_clear()

    with pytest.raises(AssertionError, match=r"pushed|fired"):
        check(case)
