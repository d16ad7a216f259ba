"""Ends are recorded once and correctly, also if a reply, the archive, a read or a worker is late."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
from rq import SimpleWorker

from tests.builders.leaders import ALWAYS, KEYS
from tests.builders.workers import perform
from tests.integration.ends.tracking import FUNC, Losing, Tracking, ago, ends, entries, finish, recorded, taken
from tests.prefix import RQ
from tests.waiting import eventually
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import EXPIRED, EXPIRED_OR_ENDED
from zsched.daemon import tracker
from zsched.errors import RedisUnavailable
from zsched.storage.dispatch import Dispatch
from zsched.storage.jobs import Jobs


def fail(client: redis.Redis, run: str, at_s: int) -> None:
    """Fail a run as RQ's worker does."""
    client.hset(KEYS.rq.job(run), mapping={"status": "failed", "ended_at": rq_time(at_s * 1000)})
    client.zadd(f"{RQ}:failed:default", {run: at_s + 31_536_000})


def unheard(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return *call* with a reply that comes too late, after Redis has executed it."""

    def without_reply(*arguments: Any) -> None:
        call(*arguments)
        raise RedisUnavailable("no reply in time", may_have_been_applied=True)

    return without_reply


def test_an_end_whose_recording_lost_its_reply_is_recorded_and_counted_once(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking.client.schedule(FUNC, id="r", every=3600, pause_after_failures=2)
    run = tracking.client.run_now("r")
    tracking.step()
    fail(tracking.redis, run, tracking.redis.time()[0])
    tracking.follows = False
    with monkeypatch.context() as slow:
        slow.setattr(Dispatch, "track", unheard(Dispatch.track))
        with pytest.raises(RedisUnavailable):
            tracking.step()

    tracking.reconnect()
    tracking.step()
    tracking.follows = True
    tracking.step()

    assert ([f"{run} failed"], "active") == (ends(tracking.link), tracking.client.get("r").state.value)


def test_a_lost_run_whose_record_got_lost_is_recorded_once(losing: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    run = taken(losing.redis, losing.client.enqueue(FUNC, id="a").run_id)
    ago(losing.redis, run)
    losing.follow()
    losing.tracker.step(losing.leader.term)
    losing.follows = False
    with monkeypatch.context() as slow:
        slow.setattr(Dispatch, "lose", unheard(Dispatch.lose))
        with pytest.raises(RedisUnavailable):
            losing.lost.step(losing.leader.term)

    losing.reconnect()
    losing.step()
    losing.follows = True
    for _ in range(2 * tracker._PATIENCE):
        losing.step()

    assert [f"{run} lost"] == ends(losing.link)


def test_a_cancelled_run_is_recorded_once_while_the_archive_is_behind(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.step()
    tracking.follows = False

    tracking.client.cancel_run(run)
    tracking.step()
    tracking.follows = True
    tracking.step()

    assert [f"{run} cancelled"] == ends(tracking.link)


def test_a_run_replaced_by_cancel_previous_is_recorded_once_with_that_reason(tracking: Tracking) -> None:
    def fire() -> None:
        fired = eventually(lambda: (fired := tracking.leader.fire()).recurring and fired)
        tracking.leader.advance(fired.recurring, fired.now_ms)
        tracking.leader.dispatch.unblock(tracking.leader.term, ALWAYS, "0")

    tracking.client.schedule(FUNC, id="r", every=0.001, overlap="cancel_previous")
    fire()
    [first] = tracking.redis.lrange(f"{RQ}:queue:default", 0, -1)
    tracking.step()
    tracking.follows = False

    fire()
    tracking.step()
    tracking.follows = True
    tracking.step()

    told = [(run.id.encode(), run.error) for run in recorded(tracking.link)]
    assert [(first, "its next occurrence came first (overlap=cancel_previous)")] == told


@pytest.mark.usefixtures("no_rounds")
def test_a_requeued_cancelled_run_is_recorded_again(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.step()
    tracking.client.cancel_run(run)
    tracking.step()

    fail(tracking.redis, run, tracking.redis.time()[0] + 2)
    for _ in range(2 * tracker._PATIENCE):
        tracking.step()

    assert [f"{run} cancelled", f"{run} failed"] == ends(tracking.link)


@pytest.mark.usefixtures("no_rounds")
def test_a_second_end_is_recorded_after_a_failed_read(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Jobs, ids: list[str]) -> list[Any]:
        if ids:
            monkeypatch.setattr(Jobs, "read", read)
            raise RedisUnavailable("no reply in time")
        return read(self, ids)

    run, read = tracking.client.enqueue(FUNC, id="a").run_id, Jobs.read
    tracking.step()
    finish(tracking.redis, run)
    tracking.step()
    tracking.redis.zrem(f"{RQ}:finished:default", run)
    fail(tracking.redis, run, tracking.redis.time()[0] + 2)
    monkeypatch.setattr(Jobs, "read", interrupted)

    for _ in range(2 * tracker._PATIENCE):
        with suppress(RedisUnavailable):
            tracking.step()

    assert read is Jobs.read  # it was interrupted
    assert [f"{run} succeeded", f"{run} failed"] == ends(tracking.link)


@pytest.mark.parametrize(("pushed_s_before", "expected"), [(59, EXPIRED), (61, EXPIRED_OR_ENDED)])
def test_expired_before_start_is_claimed_only_by_a_tracker_that_watched_the_run(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch, pushed_s_before: int, expected: str
) -> None:
    run = tracking.client.enqueue(FUNC, id="a", expires_after=1800).run_id
    tracking.follow()
    tracking.redis.delete(KEYS.rq.job(run), f"{RQ}:queue:default")
    tracking.redis.zadd(KEYS.deadlines(), {run: 1})
    pushed_ms = entries(tracking.link, "enqueue")[0].position.t_us // 1000
    monkeypatch.setattr("zsched.storage.jobs.server_now_ms", lambda *_: pushed_ms + pushed_s_before * 1000)

    tracking.step()

    assert [expected] == [one.error for one in recorded(tracking.link)]


def test_a_run_whose_deadline_passes_during_its_start_counts_as_running(tracking: Tracking) -> None:
    run = tracking.client.enqueue("platform.node", id="a", expires_after=1800).run_id
    tracking.step()
    worker = SimpleWorker(["default"], connection=tracking.redis)
    worker.register_birth()
    job, queue = worker.dequeue_job_and_maintain_ttl(1)  # type: ignore[misc]  # there is one
    execution = worker.prepare_execution(job)
    worker.prepare_job_execution(job)
    tracking.redis.delete(KEYS.rq.job(run))  # the deadline: RQ takes it away once the work horse runs
    tracking.redis.zadd(KEYS.deadlines(), {run: 1})

    tracking.step()
    assert [] == ends(tracking.link)
    perform(worker, job, queue, execution)
    tracking.step()

    assert [(f"{run} succeeded", 1)] == [
        (f"{one.id} {one.status.value}", one.attempt) for one in recorded(tracking.link)
    ]
