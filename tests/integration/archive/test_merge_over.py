"""Runs that were over, and that Redis has once more because it went back to a time before their end."""

from collections.abc import Callable

import pytest
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry

from tests.builders.scenes import Scene, rows_put_back, schedule
from tests.integration.archive.merging import lose, once, run, said, snapshot, watch
from tests.integration.archive.test_merge_held import FUNC, MARK, Busy, ends, job_of, open_runs, rounds, track
from zsched.core.clock import LAST_MS
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import RunStatus
from zsched.storage.restoring import Restoring

__all__ = ["rounds"]  # a fixture


def executed(scene: Scene) -> str:
    """Enqueue a run, let a worker execute it, record its end, and roll Redis back to before it; return its id."""
    run_id = scene.client.enqueue(FUNC, id="a").run_id or ""
    assert scene.follower.step()
    before = snapshot(scene)
    execute(scene)
    track(scene)
    assert [(run_id, "succeeded")] == ends(scene)
    lose(scene, before)
    assert {run_id} == scene.queued()
    return run_id


def execute(scene: Scene) -> None:
    busy = Busy.of(scene)
    busy.finish()


def end_by_another(scene: Scene) -> None:
    """Record the ends of open runs by a daemon whose archive knows only the new history."""
    scene.follow("new.db")
    track(scene)


def follow_quietly(scene: Scene) -> None:
    """Let the archive follow the new history; no question waits for it."""
    watch(scene).go_on()
    scene.redis.delete(scene.keys.archivers())


def executed_from_its_middle(scene: Scene, func: str) -> tuple[str, dict[bytes, bytes]]:
    """Execute a run and roll Redis back to its middle, when the worker had begun it; return its job at its end, too."""
    run_id = scene.client.enqueue(func, id="a", retry=1).run_id or ""
    assert scene.follower.step()
    busy = Busy.of(scene)
    busy.begin()
    before = snapshot(scene)
    busy.job.retries_left = 0
    busy.finish()
    job = job_of(scene, run_id)
    track(scene)
    lose(scene, before)
    assert b"started" == job_of(scene, run_id)[b"status"]
    return run_id, job


pytestmark = pytest.mark.usefixtures("rounds")


def test_a_run_that_is_over_leaves_its_queue(scene: Scene) -> None:
    run_id = executed(scene)

    merge = run(scene)

    assert ([("a", "over")], {"over": 1}, set()) == (rows_put_back(scene), merge.done, scene.queued())
    assert b"canceled" == job_of(scene, run_id)[b"status"]
    assert [What.ENQUEUED, What.WITHDRAWN] == said(scene, "a")
    follow_quietly(scene)
    track(scene)
    assert [] == ends(scene)
    story = scene.client.why("a")
    assert "Redis had gone back to a time before that" in "\n".join(text for _, text in story.lines)


@pytest.mark.parametrize("begin", [Busy.begin, Busy.finish])
def test_a_finished_run_that_a_worker_takes_again_is_listed(scene: Scene, begin: Callable[[Busy], None]) -> None:
    run_id = executed(scene)
    busy = Busy.of(scene)
    begin(busy)

    merge = run(scene)

    assert ([("a", "again")], {"again": 1}) == (rows_put_back(scene), merge.done)
    assert MARK.items() <= job_of(scene, run_id).items()
    assert [What.ENQUEUED, What.RAN_AGAIN] == said(scene, "a")
    if begin is Busy.begin:
        busy.finish()
    follow_quietly(scene)
    [told] = scene.client.history("a", status="ran_again")
    assert told.run is not None
    assert (What.RAN_AGAIN, run_id, RunStatus.SUCCEEDED) == (told.what, told.run.id, told.run.status)


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_finished_run_that_ended_again_before_the_merge_is_listed_once(scene: Scene, is_forgotten: bool) -> None:
    archive = scene.archive
    run_id = executed(scene)
    execute(scene)
    end_by_another(scene)
    if is_forgotten:
        scene.redis.delete(scene.keys.rq.job(run_id))

    done = [run(scene, archive).done for _ in range(2)]

    assert ([{"again": 1}, {}], [("a", "again")]) == (done, rows_put_back(scene))
    assert [What.ENQUEUED, What.RUN_ENDED, What.RAN_AGAIN] == said(scene, "a")
    watch(scene, archive).go_on()
    scene.redis.delete(scene.keys.archivers())
    [told] = scene.client.history("a", status="ran_again")
    assert run_id == told.run_id


@pytest.mark.parametrize(("func", "status"), [(FUNC, b"finished"), ("time.strptime", b"failed")])
def test_a_run_that_is_over_and_that_redis_holds_for_running_is_ended_as_it_was(
    scene: Scene, func: str, status: bytes
) -> None:
    run_id, before = executed_from_its_middle(scene, func)
    registry = StartedJobRegistry(connection=scene.redis)
    assert [run_id] == registry.get_job_ids(cleanup=False)

    merge = run(scene)

    assert ([("a", "over")], {"over": 1}) == (rows_put_back(scene), merge.done)
    job = job_of(scene, run_id)
    assert (status, before[b"ended_at"][:23]) == (job[b"status"], job[b"ended_at"][:23])  # to the millisecond
    assert [] == registry.get_job_ids(cleanup=False)
    failed = FailedJobRegistry(connection=scene.redis).get_job_ids(cleanup=False)
    assert ([run_id] if status == b"failed" else []) == failed
    assert 0 < scene.redis.ttl(scene.keys.rq.job(run_id))
    assert [What.ENQUEUED, What.WITHDRAWN] == said(scene, "a")
    follow_quietly(scene)
    track(scene)
    assert ([], {}) == (ends(scene), open_runs(scene))
    [found] = scene.client.history("a", status="succeeded" if func == FUNC else "failed")
    assert run_id == found.run_id


def test_a_worker_that_begins_a_run_between_look_and_merge_is_marked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = executed_from_its_middle(scene, FUNC)
    key, started_at = scene.keys.rq.job(run_id), rq_time(LAST_MS)
    once(monkeypatch, Restoring, "restore", lambda: scene.redis.hset(key, "started_at", started_at))

    run(scene)

    assert [("a", "again")] == rows_put_back(scene)
    assert MARK.items() | {(b"status", b"started")} <= job_of(scene, run_id).items()


def test_a_run_that_is_over_and_that_others_wait_for_stays_and_is_marked(scene: Scene) -> None:
    run_id = scene.client.enqueue(FUNC, id="a").run_id or ""
    assert scene.follower.step()
    later = Job.create(FUNC, id="later", connection=scene.redis, depends_on=Job.fetch(run_id, connection=scene.redis))
    later.register_dependency()
    later.save()
    before = snapshot(scene)
    execute(scene)
    track(scene)
    lose(scene, before)

    run(scene)

    assert ([("a", "again")], {run_id}) == (rows_put_back(scene), scene.queued())
    assert MARK.items() <= job_of(scene, run_id).items()


def test_a_cancelled_run_leaves_its_queue_once_more(scene: Scene) -> None:
    run_id = scene.client.enqueue(FUNC, id="a").run_id or ""
    assert scene.follower.step()
    before = snapshot(scene)
    scene.client.cancel_run(run_id)
    lose(scene, before)

    run(scene)

    assert ([("a", "over")], set()) == (rows_put_back(scene), scene.queued())


def test_a_run_of_which_only_the_recorded_end_was_lost_is_left_alone(scene: Scene) -> None:
    run_id = scene.client.enqueue(FUNC, id="a").run_id or ""
    assert scene.follower.step()
    execute(scene)
    before = snapshot(scene)
    track(scene)
    job = job_of(scene, run_id)
    schedule(scene, "x")
    lose(scene, before)

    run(scene)

    assert ([("x", "due")], job) == (rows_put_back(scene), job_of(scene, run_id))


def test_a_second_archive_that_knows_the_same_adds_nothing(scene: Scene) -> None:
    first, second = watch(scene), watch(scene, scene.follow("two.db"))
    run_id = executed(scene)
    second.archive.commit()

    for one in (first, second):
        one.go_on()

    assert [("a", "over")] == rows_put_back(scene)
    assert run_id not in scene.queued()
