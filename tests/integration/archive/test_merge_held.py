"""Runs that Redis lost while a worker had them: the worker wrote a part of their jobs into the Redis that lost them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rq import Queue, SimpleWorker
from rq.executions import Execution
from rq.job import Job

from tests.builders.scenes import Scene, rows_put_back, schedule
from tests.builders.workers import perform
from tests.integration.archive.merging import due_now, lose, once, put_back, run, said, snapshot, trim, watch
from tests.states import state_of
from zsched.core.entry import Position
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import RunStatus
from zsched.daemon import tracker
from zsched.daemon.tracker import Tracker
from zsched.storage.records import Scanner

FUNC = "platform.node"


@dataclass
class Busy:
    """A worker that took a run from its queue, and was about to begin it."""

    worker: SimpleWorker
    job: Job
    queue: Queue
    execution: Execution

    @classmethod
    def of(cls, scene: Scene) -> Busy:
        worker = SimpleWorker(["default"], connection=scene.redis)
        worker.register_birth()
        taken = worker.dequeue_job_and_maintain_ttl(1)
        assert taken is not None
        return cls(worker, *taken, worker.prepare_execution(taken[0]))

    def fail(self) -> None:
        """Lose the connection at the moment when the run would begin."""
        self.worker.handle_job_failure(self.job, self.queue, exc_string="ConnectionError: lost")

    def begin(self) -> None:
        self.worker.prepare_job_execution(self.job)

    def finish(self) -> None:
        perform(self.worker, self.job, self.queue, self.execution)


MARK = {b"zs_uncertain": b"1"}
WRITES = {"failed": Busy.fail, "started": Busy.begin, "finished": Busy.finish}


class Following:
    """An archiver in the form that a tracker uses."""

    def __init__(self, scene: Scene) -> None:
        self.path: Path = scene.archive.path
        self._scene, self._watched = scene, watch(scene)

    @property
    def position(self) -> Position | None:
        return self._scene.archive.position

    def wait_until(self, _seen: Position | None, _within_s: float) -> None:
        self._watched.go_on()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tracker ask about all open runs in every step."""
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 0.0)


def track(scene: Scene) -> None:
    """Do one step of a tracker whose archive follows the new history."""
    following = Following(scene)
    following.wait_until(None, 0)
    Tracker(following, scene.keys).over(scene.wire).step(scene.term)  # type: ignore[arg-type]  # all that it asks for


def ends(scene: Scene) -> list[tuple[str, str]]:
    ended = (run for one in scene.log() if (parsed := EndEntry.of(one)) for run in parsed.ended_runs())
    return [(run.id, run.status.value) for run in ended]


def open_runs(scene: Scene) -> dict[str, Any]:
    """Return the notes of the archive's open runs, by run id."""
    return {"-".join(row.key): row.note for row in state_of(scene.archive) if row.place == "open"}


def job_of(scene: Scene, run_id: str) -> dict[bytes, bytes]:
    return scene.redis.hgetall(scene.keys.rq.job(run_id))  # type: ignore[no-any-return]


@pytest.mark.usefixtures("rounds")
@pytest.mark.parametrize("status", WRITES)
def test_a_run_with_only_a_workers_fields_is_left_to_rq_and_its_end_recorded(scene: Scene, status: str) -> None:
    old = snapshot(scene)
    run_id = scene.client.enqueue(FUNC, id="a").run_id or ""
    assert scene.follower.step()
    busy = Busy.of(scene)
    put_back(scene, old)  # a replica is promoted that has nothing of the run
    WRITES[status](busy)
    part = job_of(scene, run_id)
    assert status.encode() == part[b"status"]

    merge = run(scene)

    assert [("a", "held")] == rows_put_back(scene)
    assert ({"held": 1}, set(), part | MARK) == (merge.done, scene.queued(), job_of(scene, run_id))
    assert [What.HELD] == said(scene, "a")
    track(scene)
    words = {"failed": "failed", "finished": "succeeded"}
    expected = [(run_id, words[status])] if status in words else []
    assert expected == ends(scene)
    assert ({} if expected else {run_id: "uncertain"}) == open_runs(scene)
    told = scene.client.why("a")
    story = "\n".join([*(text for _, text in told.lines), told.verdict.text])
    assert f"found in RQ: run {run_id}, which Redis had lost before it was over" in story
    assert words.get(status, "is running") in story
    [held] = scene.client.history("a")
    assert held.run is not None
    ended_as = {"failed": RunStatus.FAILED, "finished": RunStatus.SUCCEEDED}.get(status, RunStatus.RUNNING)
    assert (What.HELD, run_id, ended_as, True) == (held.what, held.run.id, held.run.status, held.run.is_uncertain)


@pytest.mark.usefixtures("rounds")
@pytest.mark.parametrize("is_told", [False, True])
def test_a_run_that_ends_while_its_archive_begins_a_new_history_has_one_end_in_the_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> None:
    run_id = scene.client.enqueue(FUNC, id="a", done_by="1h").run_id or ""
    assert scene.follower.step()
    trim(scene)
    old, archive = snapshot(scene), scene.archive
    schedule(scene, "lost")
    lose(scene, old)
    if is_told:  # a daemon whose archive knows only the new history
        scene.follow("new.db")
        assert scene.follower.step()
        Busy.of(scene).finish()
        track(scene)
        scene.archive = archive
    else:
        once(monkeypatch, Scanner, "run_ids", lambda: Busy.of(scene).finish())

    track(scene)

    assert ([(run_id, "succeeded")], {}) == (ends(scene), open_runs(scene))


def test_a_skip_run_that_a_worker_has_is_left_to_rq_not_skipped(scene: Scene) -> None:
    old = snapshot(scene)
    due_now(scene, "a", on_uncertain="skip")
    assert 1 == scene.tick().runs
    assert scene.follower.step()
    busy = Busy.of(scene)
    put_back(scene, old)
    busy.fail()

    merge = run(scene)

    assert ([("a", "held")], {"held": 1}, set()) == (rows_put_back(scene), merge.done, scene.queued())


@pytest.mark.usefixtures("rounds")
def test_a_run_of_a_rule_that_continued_over_a_flush_is_not_pushed_again(scene: Scene) -> None:
    schedule(scene, "r", at=None, every=3600)
    scene.client.update("r", func=FUNC)
    run_id = scene.client.run_now("r")
    assert scene.follower.step()
    busy = Busy.of(scene)
    busy.begin()
    put_back(scene)
    busy.finish()

    run(scene)

    assert [("r", "due"), ("r", "held")] == rows_put_back(scene)
    assert (set(), [What.RESTORED, What.HELD]) == (scene.queued(), said(scene, "r"))
    assert b"finished" == job_of(scene, run_id)[b"status"]


@pytest.mark.parametrize("place", ["held", "open"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_run_that_two_archives_restore_is_logged_once(scene: Scene, order: tuple[int, int], place: str) -> None:
    old = snapshot(scene)
    first = watch(scene)
    run_id = scene.client.enqueue(FUNC, id="a").run_id
    second = watch(scene, scene.follow("two.db"))  # which knows of the push only that it was before
    busy = Busy.of(scene) if place == "held" else None
    for one in (first, second):
        one.go_on()
    put_back(scene, old)
    if busy:
        busy.fail()

    for number in (*order, *order):
        run(scene, (first, second)[number].archive)

    assert ([("a", place)], set() if busy else {run_id}) == (rows_put_back(scene), scene.queued())


def test_runs_in_both_histories_are_not_logged_again(scene: Scene) -> None:
    scene.client.enqueue(FUNC, id="a")
    assert scene.follower.step()
    old = snapshot(scene)
    schedule(scene, "x")
    lose(scene, old)

    run(scene)

    assert [("x", "due")] == rows_put_back(scene)
