"""Chains of runs kept by a leader, step by step, and the cost for Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from tests.builders.leaders import KEYS, Leader, know
from tests.prefix import RQ
from zsched.core.clock import ManualClock
from zsched.core.runs.job import rq_time
from zsched.daemon.chains import ChainKeeper
from zsched.errors import ServerChanged, Stale
from zsched.storage.chains import ChainNeed, Chains
from zsched.storage.connection import Link

A, B, C = (f"r-{1_767_225_600_000 + n}" for n in range(3))
AT_ONCE = 250  # chains to which something happened at the same time


class Keeping:
    """A leader that checks its chains on command, by a clock that moves on command."""

    def __init__(self, url: str, client: redis.Redis) -> None:
        self.leader, self.redis, self.clock = Leader(url), client, ManualClock()
        self._link = Link.from_url(url, 5)
        self._wire = self._link.open()
        self.keeper = ChainKeeper(KEYS, self.clock).over(self._wire)

    def close(self) -> None:
        self.leader.close()
        self._wire.close()
        self._link.pool.disconnect()

    def look(self, *after_ms: float) -> None:
        """Do a round after each of these times."""
        for ms in after_ms:
            self.clock.advance(ms)
            while self.keeper.step(self.leader.term):
                pass

    def job(self, run_id: str, status: str | None, before: str = "", silent_s: int = 0) -> None:
        """
        Write RQ's job *run_id*, which waits for the job *before*; None deletes it. The heartbeat of its worker is
        *silent_s* old.
        """
        self.redis.delete(KEYS.rq.job(run_id))
        if status is not None:
            beat = rq_time((self.redis.time()[0] - silent_s) * 1000)
            fields = {"status": status, "origin": "default", "worker_name": "w", "last_heartbeat": beat}
            fields |= {"dependency_id": before}
            self.redis.hset(KEYS.rq.job(run_id), mapping={name: value for name, value in fields.items() if value})
        if status == "deferred":
            self.redis.zadd(f"{RQ}:deferred:default", {run_id: 1})

    def chain(self, text: str, id: str = "r") -> None:
        self.redis.hset(KEYS.chains(), id, text)

    @property
    def chains(self) -> dict[str, str]:
        return {id.decode(): text.decode() for id, text in self.redis.hgetall(KEYS.chains()).items()}

    @property
    def queue(self) -> list[str]:
        return [run_id.decode() for run_id in self.redis.lrange(f"{RQ}:queue:default", 0, -1)]


@pytest.fixture
def keeping(redis_url: str, redis_client: redis.Redis) -> Iterator[Keeping]:
    know(redis_client)
    with closing(Keeping(redis_url, redis_client)) as keeping:
        yield keeping


@pytest.mark.parametrize(
    ("statuses", "delay_ms"),
    [
        (["stopped"], 0),
        (["canceled"], 0),
        (["finished"], 1500),
        (["failed"], 1500),
        ([None], 1500),
        (["finished", None], 1500),
    ],
)
def test_a_run_is_released_behind_a_stopped_run_at_once_and_behind_others_after_a_delay(
    keeping: Keeping, statuses: list[str | None], delay_ms: float
) -> None:
    *runs, waits = [A, B, C][: len(statuses) + 1]
    for run_id, status in zip(runs, statuses, strict=True):
        keeping.job(run_id, status)
    keeping.job(waits, "deferred", runs[-1])
    keeping.chain(" ".join(["queue", *runs, waits]))
    if delay_ms:
        keeping.look(0, 500, 500, 400)
        assert [] == keeping.queue

    keeping.look(delay_ms - 1400 if delay_ms else 0)

    assert ([waits], {"r": f"queue {waits}"}) == (keeping.queue, keeping.chains)


def test_a_chain_that_recovered_starts_a_new_delay(keeping: Keeping) -> None:
    keeping.job(A, "failed")
    keeping.job(B, "deferred", A)
    keeping.chain(f"queue {A} {B}")

    keeping.look(0, 1000)
    keeping.job(A, "queued")  # somebody requeued it
    keeping.look(500)
    keeping.job(A, "failed")
    keeping.look(500, 1000)

    assert [] == keeping.queue


def test_new_or_expired_runs_do_not_restart_the_delay_of_a_chain(keeping: Keeping) -> None:
    keeping.job(A, "finished")
    keeping.job(B, "deferred", A)
    keeping.chain(f"queue {A} {B}")
    keeping.look(0, 1000)

    keeping.job(B, None)
    keeping.job(C, "deferred", B)
    keeping.chain(f"queue {B} {C}")
    keeping.look(500)

    assert ([C], {"r": f"queue {C}"}) == (keeping.queue, keeping.chains)


def test_a_run_deferred_behind_an_open_run_is_left_to_rq(keeping: Keeping) -> None:
    keeping.job(A, "started")
    keeping.job(B, "deferred", A)
    keeping.chain(f"queue {B}")

    keeping.look(0, 1500, 1500)

    assert [] == keeping.queue


def test_a_run_behind_a_killed_worker_is_released_when_rq_counts_the_worker_as_dead(keeping: Keeping) -> None:
    keeping.job(A, "started", silent_s=40)
    keeping.job(B, "deferred", A)
    keeping.chain(f"queue {A} {B}")
    keeping.look(0, 5000, 5000)  # a worker may lose its connection for some seconds
    assert [] == keeping.queue

    keeping.job(A, "started", silent_s=63)
    keeping.look(0)

    assert ([B], {"r": f"queue {B}"}) == (keeping.queue, keeping.chains)
    # daemon/lost finds it, and says what became of it.
    assert b"started" == keeping.redis.hget(KEYS.rq.job(A), "status")


@pytest.mark.parametrize("other", ["started", "queued"])
def test_a_run_waits_as_long_as_an_earlier_run_may_continue(keeping: Keeping, other: str) -> None:
    keeping.job(A, "started", silent_s=100)
    keeping.job(B, other)
    keeping.job(C, "deferred", B)
    keeping.chain(f"queue {A} {B} {C}")

    keeping.look(0, 2000, 2000)

    assert [] == keeping.queue


def test_finished_runs_and_empty_chains_are_removed(keeping: Keeping) -> None:
    keeping.job(A, "finished")
    keeping.job(B, "started")
    keeping.chain(f"queue {A} {B}")
    keeping.chain(f"queue {A}", "s")
    keeping.chain(f"cancel_previous {A}", "t")

    keeping.look(0, 1500)

    assert {"r": f"queue {B}"} == keeping.chains


def test_a_queued_run_of_cancel_previous_is_withdrawn_at_once(keeping: Keeping) -> None:
    keeping.job(A, "queued")
    keeping.redis.rpush(f"{RQ}:queue:default", A, B)
    keeping.job(B, "queued")
    keeping.chain(f"cancel_previous {A} {B}")

    keeping.look(0)

    assert ([B], {"r": f"cancel_previous {B}"}) == (keeping.queue, keeping.chains)
    assert b"canceled" == keeping.redis.hget(KEYS.rq.job(A), "status")


def test_a_leader_without_its_term_releases_no_run(keeping: Keeping) -> None:
    keeping.job(A, "finished")
    keeping.job(B, "deferred", A)
    keeping.chain(f"queue {A} {B}")
    keeping.look(0)

    keeping.redis.delete(KEYS.lease())
    with pytest.raises(Stale):
        keeping.look(1500)
    keeping.redis.set(KEYS.lease(), keeping.leader.term.token)
    keeping.redis.hset(KEYS.meta(), "server", "another")
    with pytest.raises(ServerChanged):
        keeping.look(500)
    assert [] == keeping.queue


def test_a_step_without_chains_is_one_call_to_redis(keeping: Keeping) -> None:
    keeping.look(0)
    before = keeping.redis.info("stats")["total_commands_processed"]

    keeping.look(500)

    asked = keeping.redis.info("stats")["total_commands_processed"] - before
    # the script, its TIME, HMGET of meta and two of TYPE, and this INFO; with a hash tag in RQ's prefix lib/whole.lua's
    assert asked <= (7 if "{" in RQ else 6)


def test_a_long_round_is_followed_by_a_pause_of_ten_times_its_length(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Chains.page

    def slow(self: Chains, cursor: str) -> tuple[str, list[ChainNeed]]:
        keeping.clock.advance(100)
        return page(self, cursor)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Chains, "page", slow)
        keeping.look(0)
    assert 1000 == keeping.keeper.every_ms

    keeping.look(1000)
    assert 500 == keeping.keeper.every_ms


def calls(client: redis.Redis) -> tuple[int, int]:
    """Return the number of scripts and of commands that Redis executed."""
    asked = {name.removeprefix("cmdstat_"): row["calls"] for name, row in client.info("commandstats").items()}
    return asked["evalsha"], sum(asked.values())


def test_ten_thousand_chains_cost_one_script_per_hundred(keeping: Keeping) -> None:
    with keeping.redis.pipeline(transaction=False) as pipe:
        for number in range(10_000):
            runs = [f"s{number}-{1_767_225_600_000 + n}" for n in range(3)]
            first = "finished" if number < AT_ONCE else "queued"
            for run_id, status, before in zip(runs, (first, "deferred", "deferred"), ("", *runs), strict=False):
                fields = {"status": status, "origin": "default", "dependency_id": before}
                pipe.hset(KEYS.rq.job(run_id), mapping=fields)
            pipe.hset(KEYS.chains(), f"s{number}", " ".join(("queue", *runs)))
        pipe.execute()

    keeping.redis.config_resetstat()
    keeping.look(0)
    scripts, commands = calls(keeping.redis)
    keeping.look(1500)

    assert scripts <= 110
    assert commands <= 4 * 10_000  # its status, and of the one that waits also that of whom it waits for
    assert AT_ONCE == len(keeping.queue) == len(set(keeping.queue))
