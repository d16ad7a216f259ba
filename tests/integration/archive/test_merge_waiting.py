"""Runs that Redis lost while they waited for other runs of their schedule: none of them overlaps with another one."""

import pytest

from tests.builders.leaders import ALWAYS
from tests.builders.progress import progress_of
from tests.builders.scenes import Scene, rows_put_back
from tests.integration.archive.merging import lead, lose, put_back, run, snapshot
from tests.integration.archive.test_merge_held import FUNC, Busy, job_of, open_runs, rounds, track
from zsched.storage.dispatch import Unblocked

__all__ = ["rounds"]  # a fixture
MINUTE_MS = 60_000


def fire(scene: Scene, number: int, **options: str) -> list[str]:
    """Fire *number* occurrences of a schedule that queues its runs; return the runs."""
    scene.client.schedule(FUNC, id="r", every=60, overlap="queue", **options)  # type: ignore[arg-type]  # options
    runs = []
    for _ in range(number):
        scene.pass_time(MINUTE_MS)
        scene.tick()
        runs.append(progress_of(scene.redis, scene.keys, "r").get("last", ""))
    return runs


def waiting(scene: Scene) -> list[str]:
    return [run_id.decode() for run_id in scene.redis.lrange(scene.keys.waiting("r"), 0, -1)]


def unblock(scene: Scene) -> list[str]:
    """Do a round after the hold; return the launched runs."""
    scene.redis.hset(scene.keys.meta(), "hold", 0)
    found = scene.dispatch.unblock(scene.term, ALWAYS, "0")
    assert isinstance(found, Unblocked)
    return [run_id for run_id, _ in found.launched]


def execute(scene: Scene) -> str:
    """Execute the first run of the queue; return its id."""
    busy = Busy.of(scene)
    busy.begin()
    busy.finish()
    return busy.job.id


pytestmark = pytest.mark.usefixtures("rounds")


def test_runs_of_a_lost_redis_wait_again_and_are_executed_one_by_one_in_their_order(scene: Scene) -> None:
    runs = fire(scene, 4)
    assert (runs[:1], runs[1:]) == ([*scene.queued()], waiting(scene))

    lose(scene)
    lead(scene)
    run(scene)

    assert [("r", "due"), *[("r", "open")] * 4] == rows_put_back(scene)
    assert (set(), runs) == (scene.queued(), waiting(scene))
    executed = []
    for expected in runs:
        assert ([expected], {expected}) == (unblock(scene), scene.queued())
        assert [] == unblock(scene)
        executed.append(execute(scene))
    assert runs == executed
    assert [] == unblock(scene)
    assert not scene.redis.exists(scene.keys.chains(), scene.keys.waiting("r"))


def test_a_run_that_waited_and_was_launched_in_the_lost_history_waits_behind_the_run_that_redis_has(
    scene: Scene,
) -> None:
    first, second = fire(scene, 2)
    assert scene.follower.step()
    busy = Busy.of(scene)
    busy.begin()
    before = snapshot(scene)
    (third,) = fire(scene, 1)
    assert [second, third] == waiting(scene)

    lose(scene, before)
    run(scene)

    assert ([("r", "open")], [second, third]) == (rows_put_back(scene)[-1:], waiting(scene))
    assert ([], set()) == (unblock(scene), scene.queued())
    busy.finish()
    assert [second] == unblock(scene)
    assert first != second


def lose_a_launch(scene: Scene, **options: str) -> str:
    """Launch a run that waited, and lose that alone; return the run."""
    first, second = fire(scene, 2, **options)
    before = snapshot(scene)
    assert first == execute(scene)
    assert [second] == unblock(scene)

    lose(scene, before)
    lead(scene)
    scene.redis.hset(scene.keys.rq.job(first), "status", "finished")
    scene.redis.ltrim(f"{scene.keys.rq.prefix}:queue:default", 1, 0)
    return second


def test_a_launched_run_whose_launch_alone_was_lost_is_uncertain(scene: Scene) -> None:
    second = lose_a_launch(scene)

    assert [second] == unblock(scene)
    assert b"1" == job_of(scene, second).get(b"zs_uncertain")


def test_a_launched_run_whose_launch_alone_was_lost_ends_if_its_schedule_skips_uncertain_runs(scene: Scene) -> None:
    second = lose_a_launch(scene, on_uncertain="skip")

    assert ([], set()) == (unblock(scene), scene.queued())
    assert b"canceled" == job_of(scene, second)[b"status"]


def test_a_run_that_waits_is_open_in_an_archive_until_its_end(scene: Scene) -> None:
    first, second = fire(scene, 2)
    assert scene.follower.step()
    assert {first, second} == open_runs(scene).keys()

    assert first == execute(scene)
    track(scene)
    assert {second} == open_runs(scene).keys()


def test_an_archive_that_joins_later_knows_the_runs_that_wait(scene: Scene) -> None:
    runs = fire(scene, 3)
    scene.follow("new.db")

    assert scene.follower.step()
    put_back(scene)
    lead(scene)
    run(scene)

    assert (set(), runs) == (scene.queued(), waiting(scene))
