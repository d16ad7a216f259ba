"""RQ's keys under another prefix: each script works like under the usual one, and touches no other key."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.builders.namespaces import Namespace
from tests.lua.scene import CALLS, DUE_MS, contents, furnish, kept, set_back
from tests.lua.test_hostile_jobs import TERM
from tests.prefix import RQ, needs_prefix
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import of_job
from zsched.embedded import EmbeddedRedis
from zsched.errors import ConfigError, OtherPrefix
from zsched.storage.dispatch import Dispatch
from zsched.storage.jobs import Jobs, Registries
from zsched.storage.log import Log
from zsched.storage.queues import suspended, unheard
from zsched.storage.rqkeys import RqKeys
from zsched.storage.workers import workers_of

OTHER = "{app}:rq"
pytestmark = needs_prefix


@pytest.fixture
def moved(led: Namespace, redis_server: EmbeddedRedis) -> Iterator[Namespace]:
    """The same namespace, with RQ's keys under another prefix."""
    ns = Namespace(led.redis, redis_server.url, rq_prefix=OTHER)
    yield ns
    ns.close()


def renamed(value: Any) -> str:
    """Return *value* with the keys of the other prefix."""
    return repr(value).replace(f"{RQ}:", f"{OTHER}:")


@pytest.mark.parametrize("name", CALLS)
def test_a_script_works_the_same_under_another_prefix(led: Namespace, moved: Namespace, name: str) -> None:
    furnish(led)
    usual = kept(led)

    reply = CALLS[name](led)
    after = contents(led)
    set_back(led, {key.replace(f"{RQ}:".encode(), f"{OTHER}:".encode()): held for key, held in usual.items()})
    led.redis.hset(led.keys.meta(), "rq_prefix", OTHER)

    assert renamed(reply) == repr(CALLS[name](moved))
    led.redis.hset(led.keys.meta(), "rq_prefix", RQ)
    assert {renamed(key): renamed(held) for key, held in after.items()} == {
        repr(key): repr(held) for key, held in contents(moved).items()
    }
    set_back(led, usual)


def test_a_run_is_fired_executed_and_tracked_under_another_prefix(moved: Namespace) -> None:
    rq, client = moved.keys.rq, moved.redis
    moved.put(("a", DUE_MS), allow_past=1)
    run = moved.run("a", DUE_MS)
    assert OTHER.encode() == client.hget(moved.keys.meta(), "rq_prefix")
    client.sadd(rq.workers(), f"{OTHER}:worker:w")
    client.sadd(rq.queue_workers("default"), f"{OTHER}:worker:w")
    client.hset(f"{OTHER}:worker:w", mapping={"version": "2.12", "queues": "default"})
    client.set(rq.suspended(), 1)

    with closing(moved.link.open()) as wire:
        assert 1 == moved.fire().runs
        registries, dispatch, seen = Registries(wire, rq), Dispatch(wire, moved.keys), Log(wire, moved.keys).last()
        assert ({"default": 1}, ["w"]) == (registries.depths(), [worker.name for worker in workers_of(wire, rq)])
        assert (frozenset(), True) == (unheard(wire, moved.keys, ["default"]), suspended(wire, rq))
        client.lpop(rq.queue("default"))
        client.hset(rq.job(run), mapping={"status": "finished", "ended_at": rq_time(DUE_MS)})
        client.zadd(rq.registry("finished", "default"), {run: DUE_MS / 1000})
        ended = registries.members([(key, "-inf", "+inf") for key in registries.keys()])  # noqa: SIM118 - no dict
        [job] = Jobs(wire, moved.keys).read([run])
        assert seen is not None
        assert job is not None
        tracked = dispatch.track(TERM, seen.position, [(of_job(run, job, DUE_MS * 1000), job.seen)])

    assert [[run.encode()], []] == ended
    assert tracked is not None
    assert 1 == len(tracked.ended)
    assert moved.last.rows[0].startswith(f"{run} succeeded ")
    assert [] == client.keys("rq:*")


@pytest.mark.parametrize("prefix", ["", "it's", "a*", "rq:jobs[1]", "a b", "x" * 65])
def test_a_prefix_with_special_characters_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="RQ's prefix="):
        RqKeys(prefix)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "report"])  # which is about archives alone
def test_a_namespace_keeps_its_prefix_and_refuses_a_script_of_another(
    led: Namespace, moved: Namespace, name: str
) -> None:
    furnish(led)
    before = contents(led)

    with pytest.raises(
        OtherPrefix, match=re.escape(f"under RQ's prefix '{RQ}', and here that is '{OTHER}': set [rq] prefix or RQ_KEY")
    ):
        CALLS[name](moved)

    assert before == contents(led)
