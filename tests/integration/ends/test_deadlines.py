"""A leader's watch over deadlines, step by step: what it logs by RQ's state, and which deadlines are at risk."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.leaders import KEYS
from tests.clocks import pass_time
from tests.integration.ends.tracking import FUNC, Tracking, entries, finish
from tests.prefix import RQ
from zsched.core.log.kinds import changes
from zsched.core.runs.job import rq_time
from zsched.daemon.deadlines import DeadlineWatch
from zsched.storage.meta import server_now_ms


class Watched(Tracking):
    """The same with a watch over deadlines."""

    at_risk: list[tuple[str, int, int]]

    def watch(self) -> DeadlineWatch:
        return DeadlineWatch(self, KEYS).over(self.wire)  # type: ignore[arg-type]  # it has what is asked of an archiver


@pytest.fixture
def watched(tracking: Tracking) -> Watched:
    tracking.__class__ = Watched
    assert isinstance(tracking, Watched)
    return tracking


def step(watched: Watched, watch: DeadlineWatch) -> list[str]:
    """Let the archive follow, and do a step of the watch; return the states of all missed deadlines in the log."""
    watched.follow()
    watch.step(watched.leader.term)
    return [one.why for entry in entries(watched.link, "deadline") for one in changes(entry)]


def fire(watched: Watched, id: str = "a", **options: object) -> str:
    """Fire a one-shot with a deadline of ten seconds after now; return its run."""
    given = {"at": datetime.now(UTC) - timedelta(seconds=1), "allow_past": True, "done_by": 11} | options
    run_id = watched.client.schedule(FUNC, id=id, **given).run_id  # type: ignore[arg-type]
    watched.follow()
    watched.leader.tick()
    assert run_id is not None
    return run_id


def test_a_missed_deadline_is_logged_when_it_has_passed_and_once(watched: Watched) -> None:
    fire(watched)
    watch = watched.watch()

    before = step(watched, watch)
    pass_time(watched.redis, timedelta(seconds=10))
    missed = [step(watched, watch), step(watched, watch), step(watched, watched.watch())]

    assert [] == before
    assert [1, 1, 1] == list(map(len, missed))


def test_a_run_on_request_has_the_deadline_of_its_call(watched: Watched) -> None:
    run_id = watched.client.enqueue(FUNC, id="a", done_by="10s").run_id
    watched.client.enqueue(FUNC, id="b")
    watch = watched.watch()

    assert [] == step(watched, watch)
    pass_time(watched.redis, timedelta(seconds=12))
    assert 1 == len(step(watched, watch))

    [entry] = entries(watched.link, "deadline")
    assert [run_id] == [one.run_id for one in changes(entry)]


def test_an_archive_that_lacks_the_logged_deadline_waits_for_it(watched: Watched) -> None:
    fire(watched)
    pass_time(watched.redis, timedelta(seconds=10))
    step(watched, watched.watch())
    watched.follows = False
    fire_again = watched.watch()

    assert 1 == len(step(watched, fire_again))


def test_a_run_that_rq_finished_in_time_is_left_to_the_tracker(watched: Watched) -> None:
    run = fire(watched)
    finish(watched.redis, run)
    watch = watched.watch()
    pass_time(watched.redis, timedelta(seconds=10))

    assert [] == step(watched, watch)
    watched.tracker.step(watched.leader.term)
    assert [] == step(watched, watch)


def test_a_run_that_finished_after_its_deadline_missed_it(watched: Watched) -> None:
    run = fire(watched)
    watched.redis.hset(
        KEYS.rq.job(run),
        mapping={"status": "finished", "ended_at": rq_time(server_now_ms(watched.wire, KEYS) + 70_000)},
    )
    pass_time(watched.redis, timedelta(seconds=80))

    [state] = step(watched, watched.watch())

    assert state.startswith("succeeded")
    assert state.endswith("1 min too late")


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"status": "started", "worker_name": "w"}, "was running on worker w"),
        ({"status": "failed"}, "failed"),
        ({"status": "rate_limited", "rate_limit_key": "gw"}, "was queued for "),
        ({"status": "canceled"}, "was cancelled"),
    ],
    ids=lambda one: one.get("status") if isinstance(one, dict) else "",
)
def test_a_missed_deadline_has_the_state_of_its_run(watched: Watched, job: Any, expected: str) -> None:
    watched.redis.hset(KEYS.rq.job(fire(watched)), mapping=job)
    pass_time(watched.redis, timedelta(seconds=10))

    [state] = step(watched, watched.watch())

    assert expected in state
    assert ("for a slot of RQ's limit gw" in state) == ("rate_limit_key" in job)


def test_a_run_whose_job_was_deleted_missed_its_deadline(watched: Watched) -> None:
    watched.redis.delete(KEYS.rq.job(fire(watched)))
    pass_time(watched.redis, timedelta(seconds=10))

    assert ["was pushed, and RQ has no job of it"] == step(watched, watched.watch())


def test_a_retry_that_succeeded_in_time_settles_a_deadline_before_its_end_is_logged(watched: Watched) -> None:
    run = fire(watched)
    watched.redis.hset(
        KEYS.rq.job(run), mapping={"status": "failed", "ended_at": rq_time(server_now_ms(watched.wire, KEYS))}
    )
    watched.redis.zadd(f"{RQ}:failed:default", {run: watched.redis.time()[0] + 31_536_000})
    watched.step()
    retried = watched.client.retry(run)
    finish(watched.redis, retried)
    pass_time(watched.redis, timedelta(seconds=10))

    assert [] == step(watched, watched.watch())


def test_an_occurrence_that_was_left_out_too_late_never_fired(watched: Watched) -> None:
    watched.client.schedule(FUNC, id="r", every=60, done_by=10, catch_up="none")
    watched.follow()
    pass_time(watched.redis, timedelta(seconds=80))
    watched.leader.tick()

    [state] = step(watched, watched.watch())

    assert state.startswith("never fired: skipped ")


def test_many_missed_deadlines_are_logged_in_steps(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.daemon.deadlines._AT_ONCE", 2)
    for id in "abc":
        fire(watched, id)
    pass_time(watched.redis, timedelta(seconds=10))
    watch = watched.watch()

    assert [2, 3, 3] == [len(step(watched, watch)) for _ in range(3)]


def test_a_deadline_is_at_risk_if_the_usual_duration_ends_later(watched: Watched) -> None:
    watch = watched.watch()
    for id, took_s in (("slow", 600), ("quick", 1)):
        watched.client.schedule(FUNC, id=id, every=3600, done_by=300)
        for _ in range(5):
            end_of(watched, watched.client.run_now(id), took_s)

    step(watched, watch)

    [(id, at_ms, usual_ms)] = watched.at_risk
    assert ("slow", 600_000) == (id, usual_ms)
    assert (watched.client.get("slow").next_ms or 0) + 300_000 == at_ms


def end_of(watched: Watched, run: str, took_s: int) -> None:
    """Let *run* succeed after *took_s*, and record it."""
    started = rq_time((watched.redis.time()[0] - took_s) * 1000)
    watched.redis.hset(KEYS.rq.job(run), "started_at", started)
    finish(watched.redis, run)
    watched.step()
