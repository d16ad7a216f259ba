"""The rounds of a leader through the chains of a real Redis: their cost, and their end with the term."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from tests.builders.leaders import ALWAYS, KEYS, Leader, know
from tests.prefix import RQ
from zsched.core.clock import ManualClock
from zsched.daemon.releases import AT_ONCE, WaitingRuns
from zsched.errors import ServerChanged, Stale

CHAINS = 10_000
TOGETHER = 250  # chains to which something happened at the same time
A, B = (f"r-{1_767_225_600_000 + n}" for n in range(2))


class Waiting:
    """A leader that goes through its chains on command, by a clock that moves on command."""

    def __init__(self, url: str, client: redis.Redis) -> None:
        self.leader, self.redis, self.clock = Leader(url), client, ManualClock(elapsed_ms=60_000)
        self.runs = WaitingRuns(self.leader.dispatch, self.clock)

    def close(self) -> None:
        self.leader.close()

    def round(self) -> None:
        """Do a whole round."""
        self.clock.advance(1000)
        while self.runs.look_if_due(self.leader.term, ALWAYS, 0, is_busy=False) == AT_ONCE:
            pass

    def waits(self, run: str, before: str, status: str = "finished") -> None:
        """Let *run* wait for *before*, which has this *status*."""
        id = run.rpartition("-")[0]
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.hset(KEYS.rq.job(before), mapping={"status": status, "origin": "default"})
            pipe.hset(KEYS.rq.job(run), mapping={"status": "deferred", "origin": "default"})
            pipe.rpush(KEYS.waiting(id), run)
            pipe.hset(KEYS.chains(), id, f"queue {before}")
            pipe.execute()

    @property
    def queue(self) -> list[str]:
        return [run_id.decode() for run_id in self.redis.lrange(f"{RQ}:queue:default", 0, -1)]


@pytest.fixture
def waiting(redis_url: str, redis_client: redis.Redis) -> Iterator[Waiting]:
    know(redis_client)
    with closing(Waiting(redis_url, redis_client)) as waiting:
        yield waiting


def test_a_waiting_run_is_launched_by_a_round(waiting: Waiting) -> None:
    waiting.waits(B, A, "started")
    waiting.round()
    assert [] == waiting.queue

    waiting.redis.hset(KEYS.rq.job(A), "status", "finished")
    waiting.round()

    assert ([B], b"queued") == (waiting.queue, waiting.redis.hget(KEYS.rq.job(B), "status"))


def test_a_leader_without_its_term_launches_no_run(waiting: Waiting) -> None:
    waiting.waits(B, A)

    waiting.redis.delete(KEYS.lease())
    with pytest.raises(Stale):
        waiting.round()
    waiting.redis.set(KEYS.lease(), waiting.leader.term.token)
    waiting.redis.hset(KEYS.meta(), "server", "another")
    with pytest.raises(ServerChanged):
        waiting.round()

    assert [] == waiting.queue


def test_ten_thousand_chains_cost_one_script_per_hundred(waiting: Waiting) -> None:
    with waiting.redis.pipeline(transaction=False) as pipe:
        for number in range(CHAINS):
            first, *runs = [f"s{number}-{1_767_225_600_000 + n}" for n in range(3)]
            status = "finished" if number < TOGETHER else "queued"
            pipe.hset(KEYS.rq.job(first), mapping={"status": status, "origin": "default"})
            for run_id in runs:
                pipe.hset(KEYS.rq.job(run_id), mapping={"status": "deferred", "origin": "default"})
            pipe.rpush(KEYS.waiting(f"s{number}"), *runs)
            pipe.hset(KEYS.chains(), f"s{number}", f"queue {first}")
        pipe.execute()

    waiting.round()
    assert TOGETHER == len(waiting.queue) == len(set(waiting.queue))
    waiting.redis.config_resetstat()
    waiting.round()

    asked = {name.removeprefix("cmdstat_"): row["calls"] for name, row in waiting.redis.info("commandstats").items()}
    assert asked["evalsha"] <= CHAINS / 100 + 10
    # Its run's job, whether its list exists, and for the round and its scripts the rest.
    assert sum(asked.values()) <= 2 * CHAINS + 10 * asked["evalsha"]
    assert TOGETHER == len(waiting.queue)
