"""The tracker by hand, step by step: ended runs are found and recorded once, whatever the archive knows."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.leaders import KEYS, Leader, know
from tests.integration.ends.tracking import FUNC, Tracking, ends, entries, finish, opened, recorded
from tests.prefix import RQ
from tests.waiting import eventually
from zsched.archive.runs import OpenRuns
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import Run, RunStatus
from zsched.core.runs.run_id import RunKey
from zsched.daemon import tracker
from zsched.daemon.tracker import Endings
from zsched.errors import Stale
from zsched.storage.jobs import Registries
from zsched.storage.log import Log


def test_an_end_is_recorded_once_also_while_the_archive_does_not_follow(tracking: Tracking) -> None:
    runs = [tracking.client.enqueue(FUNC, id=id).run_id for id in "ab"]
    tracking.step()
    tracking.follows = False
    tracking.redis.hset(KEYS.rq.job(runs[0]), "status", "finished")
    tracking.step()
    tracking.redis.hset(KEYS.rq.job(runs[1]), "status", "failed")
    tracking.step()
    assert [f"{runs[0]} succeeded"] == ends(tracking.link)

    tracking.follows = True
    tracking.step()

    assert [f"{runs[0]} succeeded", f"{runs[1]} failed"] == ends(tracking.link)
    assert set() == opened(tracking.path)


@pytest.mark.parametrize(("took_s", "told"), [(175, [0.97]), (160, [])])
def test_a_run_near_its_timeout_is_logged_once(tracking: Tracking, took_s: int, told: list[float]) -> None:
    run = tracking.client.enqueue(FUNC, id="a", timeout=180).run_id
    tracking.follow()
    now_ms = tracking.redis.time()[0] * 1000
    at = {"started_at": rq_time(now_ms - took_s * 1000), "ended_at": rq_time(now_ms)}
    tracking.redis.hset(KEYS.rq.job(run), mapping={"status": "finished"} | at)

    with capture_logs() as logs:
        tracking.step()
        tracking.step()

    assert told == [one["share"] for one in logs if one["event"] == "run_near_timeout"]


def test_a_new_leader_waits_until_its_archive_has_the_ends_recorded_before(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.follow()
    tracking.redis.hset(KEYS.rq.job(run), "status", "finished")
    tracking.follows = False
    tracking.redis.delete(KEYS.lease())
    with closing(Leader(tracking.url)) as second:
        tracking.another().step(second.term)
        assert [] == ends(tracking.link)

        tracking.follows = True
        tracking.follow()
        tracking.another().step(second.term)

    assert [f"{run} succeeded"] == ends(tracking.link)


def test_a_replaced_leader_records_no_end(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.redis.hset(KEYS.rq.job(run), "status", "finished")
    tracking.redis.delete(KEYS.lease())

    with pytest.raises(Stale):
        tracking.step()

    assert [] == ends(tracking.link)


def test_missing_jobs_are_not_recorded_before_the_archive_noticed_a_loss(tracking: Tracking) -> None:
    runs = [tracking.client.enqueue(FUNC, id=id).run_id for id in "ab"]
    tracking.follow()
    as_of = tracking.as_of()
    tracking.follows = False
    tracking.redis.flushall()
    know(tracking.redis)
    for _ in range(as_of.seq):  # a log with the very same ids
        tracking.client.enqueue(FUNC, id="later")

    with closing(Leader(tracking.url)) as again:
        over = [(Run(run, RunStatus.LOST), "gone") for run in runs]
        assert again.dispatch.track(again.term, as_of, over) is None
        assert not tracking.another().step(again.term)

    assert [] == entries(tracking.link)


def ended(tracking: Tracking) -> set[str]:
    return {line.split(" ")[0] for line in ends(tracking.link)}


@pytest.mark.usefixtures("no_rounds")
def test_ended_runs_are_found_behind_waiting_runs(tracking: Tracking) -> None:
    runs = [tracking.client.enqueue(FUNC, id=f"s{number:02}").run_id for number in range(30)]
    tracking.step()
    finish(tracking.redis, *runs[20:])

    tracking.step()

    assert set(runs[20:]) == ended(tracking)
    assert {f"s{number:02}" for number in range(20)} == opened(tracking.path)


@pytest.mark.usefixtures("no_rounds")
def test_a_run_that_ended_before_the_archive_saw_it_is_recorded_later(tracking: Tracking) -> None:
    tracking.step()
    tracking.follows = False
    run = tracking.client.enqueue(FUNC, id="a").run_id
    finish(tracking.redis, run)
    for _ in range(5):
        tracking.step()
    assert set() == ended(tracking)

    tracking.follows = True
    tracking.step()

    assert {run} == ended(tracking)


@pytest.mark.usefixtures("no_rounds")
def test_runs_of_recurring_schedules_are_tracked(tracking: Tracking) -> None:
    tracking.step()
    tracking.client.schedule(FUNC, id="r", every=0.001)
    tracking.client.schedule(FUNC, id="a", after=0)
    now = tracking.client.run_now("r")
    fired = eventually(lambda: (fired := tracking.leader.fire()).recurring and fired)
    tracking.leader.advance(fired.recurring, fired.now_ms)
    runs = {run.decode() for run in tracking.redis.lrange(f"{RQ}:queue:default", 0, -1)}
    finish(tracking.redis, *runs)

    tracking.step()

    assert now in runs
    assert runs == ended(tracking)
    assert set() == opened(tracking.path)


def test_a_run_whose_job_was_deleted_is_recorded_with_its_queue(tracking: Tracking) -> None:
    tracking.client.schedule(FUNC, id="rule", every=0.001, queue="email", expires_after=3600)
    tracking.client.schedule(FUNC, id="once", after=0, queue="email", expires_after=3600)
    tracking.client.enqueue(FUNC, id="asked", queue="email")
    fired = eventually(lambda: (fired := tracking.leader.fire()).recurring and fired)
    tracking.leader.advance(fired.recurring, fired.now_ms)
    runs = [run.decode() for run in tracking.redis.lrange(f"{RQ}:queue:email", 0, -1)]
    tracking.redis.delete(*map(KEYS.rq.job, runs))
    passed = {run: 1 for run in runs if not run.startswith("asked-")}
    tracking.redis.zadd(KEYS.deadlines(), passed)

    tracking.step()

    told = {run.schedule_id: (run.status.value, run.queue) for run in recorded(tracking.link)}
    assert {"rule": ("expired", "email"), "once": ("expired", "email"), "asked": ("lost", "email")} == told


@pytest.mark.usefixtures("no_rounds")
@pytest.mark.parametrize("lifetime_s", [1, 60, 86_400])
def test_the_tracker_learns_the_lifetimes_of_finished_jobs(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch, lifetime_s: int
) -> None:
    monkeypatch.setattr(tracker, "_LEARN_EVERY", 1)
    runs = [tracking.client.enqueue(FUNC, id=id).run_id for id in "abc"]
    tracking.step()
    finish(tracking.redis, runs[0], lifetime_s=lifetime_s)
    tracking.redis.zadd(f"{RQ}:finished:default", {"deleted": 2**31})
    tracking.step()
    finish(tracking.redis, *runs[1:], lifetime_s=lifetime_s)

    tracking.step()

    assert set(runs) == ended(tracking)


@pytest.mark.usefixtures("no_rounds")
@pytest.mark.parametrize("late_s", [-30, -3, 1, 2])
def test_a_workers_clock_can_be_slightly_wrong(tracking: Tracking, late_s: int) -> None:
    runs = [tracking.client.enqueue(FUNC, id=f"s{number}").run_id for number in range(9)]
    tracking.step()

    for run in runs:
        finish(tracking.redis, run, late_s=late_s)
        tracking.step()

    assert runs == [line.split(" ")[0] for line in ends(tracking.link)]


@pytest.mark.usefixtures("no_rounds")
def test_foreign_jobs_are_not_recorded(tracking: Tracking) -> None:
    tracking.client.enqueue(FUNC, id="a")
    tracking.step()
    finish(tracking.redis, "report-1795277135295", "8b1f7f9a-1c4e-4e0f-9d53-446655440000", "a-1-nother", "x")
    finish(tracking.redis, "x-" + "1" * 5000)
    tracking.redis.set(f"{RQ}:failed:default", "not a registry")
    tracking.redis.zadd(f"{RQ}:finished:default", {"never": "-inf", "ever": "+inf"})

    for _ in range(tracker._PATIENCE + 1):
        tracking.step()

    assert set() == ended(tracking)


@pytest.mark.usefixtures("no_rounds")
def test_a_requeued_run_is_recorded_again(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.step()
    now_s = tracking.redis.time()[0]
    tracking.redis.hset(KEYS.rq.job(run), mapping={"status": "failed", "ended_at": rq_time(now_s * 1000 - 2000)})
    tracking.redis.zadd(f"{RQ}:failed:default", {run: now_s + 31_536_000})
    tracking.step()
    tracking.redis.zrem(f"{RQ}:failed:default", run)
    finish(tracking.redis, run)

    for _ in range(2 * tracker._PATIENCE):
        tracking.step()

    assert [f"{run} failed", f"{run} succeeded"] == ends(tracking.link)
    assert [1, 2] == [one.attempt for one in recorded(tracking.link)]


def test_ends_that_no_registry_has_are_found_by_scanning(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_LOOKED_AT_FIRST", 4)
    monkeypatch.setattr(tracker, "_LOOKED_AT", 3)
    monkeypatch.setattr(tracker, "_ASKED", 2)
    runs = [tracking.client.enqueue(FUNC, id=f"s{number}").run_id for number in range(20)]
    tracking.client.schedule_many({"func": FUNC, "id": f"waits{number}", "after": 3600} for number in range(20))
    tracking.follow()
    end = partial(tracking.redis.hset, key="status", value="canceled")
    for run in runs[::2]:
        end(KEYS.rq.job(run))

    for _ in range(20):
        tracking.step()
    assert set(runs[::2]) == ended(tracking)

    for run in runs[1::2]:
        end(KEYS.rq.job(run))
    for _ in range(60):
        tracking.step()
    assert sorted(f"{run} cancelled" for run in runs) == sorted(ends(tracking.link))


def test_a_job_that_changed_since_the_scan_is_not_recorded(tracking: Tracking) -> None:
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.follow()
    finish(tracking.redis, run)
    tracking.redis.hset(KEYS.rq.job(run), "ended_at", rq_time(1_795_277_135_295))
    stale = Run(run, RunStatus.SUCCEEDED), "finished "

    told = tracking.leader.dispatch.track(tracking.leader.term, tracking.as_of(), [stale])

    assert told is not None
    assert [] == told.ended
    assert [] == entries(tracking.link)


def test_the_tracker_starts_again_with_a_rebuilt_archive(tracking: Tracking) -> None:
    tracking.step()
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.step()
    last = Log(tracking.link, KEYS).last()
    assert last is not None
    tracking.redis.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    tracking.rebuild()

    finish(tracking.redis, run)
    tracking.step()

    assert {run} == ended(tracking)


def test_the_first_round_takes_larger_parts_than_others(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_LOOKED_AT_FIRST", 4)
    monkeypatch.setattr(tracker, "_LOOKED_AT", 2)
    runs = [tracking.client.enqueue(FUNC, id=id).run_id for id in "abcd"]
    cancel(tracking.redis, runs[3])
    tracking.step()
    assert {runs[3]} == ended(tracking)

    tracking.step()  # nothing is left: the first round ends
    cancel(tracking.redis, *runs)

    tracking.step()
    assert {*runs[:2], runs[3]} == ended(tracking)


def test_first_rounds_of_a_term_take_large_parts_of_all(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_LOOKED_AT_FIRST", 2)
    monkeypatch.setattr(tracker, "_LOOKED_AT", 0)  # a later round finds nothing
    runs = [tracking.client.enqueue(FUNC, id=id).run_id for id in "abcd"]
    tracking.step()
    cancel(tracking.redis, *runs)
    tracking.redis.delete(KEYS.lease())

    with closing(Leader(tracking.url)) as second:
        tracking.follow()
        tracking.tracker.step(second.term)  # it goes on where the last term was
        assert set(runs[2:]) == ended(tracking)
        for _ in range(3):
            tracking.tracker.step(second.term)

    assert set(runs) == ended(tracking)


def test_a_part_of_a_round_is_due_exactly_after_its_pause(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 2 * tracker._SELDOM_MS)
    run = tracking.client.enqueue(FUNC, id="a").run_id
    tracking.step()
    tracking.step()
    tracking.step()  # the first round ends
    cancel(tracking.redis, run)

    tracking.step()
    assert set() == ended(tracking)
    tracking.step()
    assert {run} == ended(tracking)


def cancel(redis_client: redis.Redis, *runs: str) -> None:
    """Cancel runs like RQ: no registry that the tracker reads has them."""
    for run in runs:
        redis_client.hset(KEYS.rq.job(run), "status", "canceled")


def test_an_idle_tracker_has_no_work_between_two_rounds(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_ROUND_EVERY_MS", 1e9)
    tracking.step()
    tracking.step()

    assert not tracking.step()


def test_a_round_without_open_runs_is_not_repeated_until_something_is_logged(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, part = list[int](), OpenRuns.next

    def counted(self: OpenRuns, after: RunKey | None, looked_at: int, limit: int) -> Any:
        parts.append(looked_at)
        return part(self, after, looked_at, limit)

    monkeypatch.setattr(OpenRuns, "next", counted)
    tracking.client.schedule(FUNC, id="waits", after=3600)
    for _ in range(5):
        tracking.step()
    assert 1 == len(parts)

    tracking.client.enqueue(FUNC, id="a")
    for number in range(2, 5):  # while it is open, rounds follow each other
        tracking.step()
        assert number == len(parts)


def test_a_tracker_without_open_runs_scans_seldom_until_something_is_logged(
    tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans, scan = list[int](), Endings.scan

    def counted(self: Endings, registries: Registries) -> list[str]:
        scans.append(1)
        return scan(self, registries)

    monkeypatch.setattr(Endings, "scan", counted)
    tracking.client.schedule(FUNC, id="waits", after=3600)
    tracking.step()  # a round meets no open run
    assert tracking.tracker.is_at_rest
    for _ in range(round(tracker._RESTING_MS / tracker._SELDOM_MS)):
        tracking.step()
    assert 2 == len(scans)

    run = tracking.client.enqueue(FUNC, id="a").run_id
    finish(tracking.redis, run)
    tracking.step()
    assert {run} == ended(tracking)


def test_a_round_through_two_states_does_not_end_in_a_rest(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOKED_AT_FIRST", "_LOOKED_AT"):
        monkeypatch.setattr(tracker, name, 3)
    tracking.client.schedule_many({"func": FUNC, "id": f"w{number}", "after": 3600} for number in range(5))
    tracking.step()
    before, last = tracking.position, Log(tracking.link, KEYS).last()
    assert last is not None
    tracking.redis.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    tracking.rebuild()

    tracking.step()
    assert before == tracking.position
    assert not tracking.tracker.is_at_rest

    tracking.step()
    tracking.step()
    assert tracking.tracker.is_at_rest
