"""Lost runs by hand, step by step: runs that no worker has any more, and the outcome of each."""

from pathlib import Path

import pytest
import structlog.testing

from tests.builders.leaders import KEYS
from tests.integration.ends.tracking import FUNC, Losing, agains, ago, lapse, recorded, taken
from tests.prefix import RQ
from zsched.core.runs.job import rq_time
from zsched.daemon import lost, tracker
from zsched.storage import jobs
from zsched.storage.jobs import Registries

LEFT = "it left its queue and no worker has it"


def test_a_lost_run_at_the_head_of_its_queue_does_not_block_others(losing: Losing) -> None:
    runs = [losing.client.enqueue(FUNC, id=id).run_id or "" for id in "abc"]
    ago(losing.redis, *runs)
    head = taken(losing.redis, runs[0])
    taken(losing.redis, runs[1])
    losing.redis.hset(KEYS.rq.job(runs[1]), "status", "finished")

    losing.step()

    assert [(runs[1], "succeeded", ""), (head, "lost", LEFT)] == [
        (run.id, run.status.value, run.error) for run in recorded(losing.link)
    ]
    assert [runs[2].encode()] == losing.redis.lrange(f"{RQ}:queue:default", 0, -1)


def test_a_run_that_left_its_queue_is_pushed_again_while_retries_are_left(losing: Losing) -> None:
    runs = [losing.client.enqueue(FUNC, id=id, retry=1).run_id or "" for id in "ab"]
    ago(losing.redis, *runs)
    taken(losing.redis, runs[0])

    losing.step()
    assert [(runs[0], 2, LEFT)] == [(row.run_id, row.count, row.why) for row in agains(losing.link)]
    assert [runs[1].encode(), runs[0].encode()] == losing.redis.lrange(f"{RQ}:queue:default", 0, -1)

    ago(losing.redis, *runs)
    taken(losing.redis, runs[0])
    losing.step()
    assert [(runs[0], "lost", 2)] == [(run.id, run.status.value, run.attempt) for run in recorded(losing.link)]


@pytest.mark.parametrize("why_not", ["in the queue", "on its way", "begun", "behind the head", "pushed just now"])
def test_a_run_that_may_still_start_is_not_lost(losing: Losing, why_not: str, tmp_path: Path) -> None:
    first, second = (losing.client.enqueue(FUNC, id=id, retry=1).run_id or "" for id in "ab")
    ago(losing.redis, first, second)
    if why_not == "on its way":
        losing.redis.rpush(f"{RQ}:queue:default:intermediate", taken(losing.redis, first))
    elif why_not == "begun":
        losing.redis.zadd(f"{RQ}:executions:{taken(losing.redis, first)}", {"x": 1})
    elif why_not == "behind the head":
        taken(losing.redis, second)
    elif why_not == "pushed just now":
        losing.be_patient((4000, 0))
        taken(losing.redis, first)

    losing.step()

    assert ([], []) == (agains(losing.link), recorded(losing.link))


def test_a_run_is_missing_for_a_while_before_it_counts_as_lost(losing: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    losing.be_patient((60, 5))
    now_s = losing.redis.time()[0]
    runs = [losing.client.enqueue(FUNC, id=id).run_id or "" for id in "ab"]
    ago(losing.redis, *runs)
    for run_id in runs:
        taken(losing.redis, run_id)

    for passed_s in (0, 4):
        monkeypatch.setattr(Registries, "now_s", lambda self, passed_s=passed_s: now_s + passed_s)
        losing.step()
    losing.redis.rpush(f"{RQ}:queue:default:intermediate", runs[1])  # a worker has it after all
    assert [] == recorded(losing.link)
    monkeypatch.setattr(Registries, "now_s", lambda self: now_s + 5)
    losing.step()

    assert [(runs[0], LEFT)] == [(run.id, run.error) for run in recorded(losing.link)]


def test_only_runs_that_left_a_long_queue_for_certain_are_lost(losing: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_LINE", 4)
    early, *waiting = (losing.client.enqueue(FUNC, id=f"s{number}").run_id or "" for number in range(8))
    ago(losing.redis, early, *waiting)
    front = [losing.client.enqueue(FUNC, id=f"f{number}", at_front=True).run_id or "" for number in range(5)]
    taken(losing.redis, early)

    losing.step()
    assert [] == recorded(losing.link)  # five are in front, newest first: the others cannot be seen

    for run_id in front:
        taken(losing.redis, run_id)
        losing.redis.delete(KEYS.rq.job(run_id))
    losing.tracker.step(losing.leader.term)
    losing.step()

    assert early in {run.id for run in recorded(losing.link)}
    assert not {run.id for run in recorded(losing.link)} & set(waiting)


def test_a_run_that_may_be_behind_the_scanned_part_of_a_queue_is_not_lost(losing: Losing) -> None:
    others = [f"other-{number}" for number in range(jobs._LINE)]
    for age_s, other in ((7200, others[len(others) // 2]), (7100, others[-1])):
        losing.redis.hset(f"{RQ}:job:{other}", "enqueued_at", rq_time((losing.redis.time()[0] - age_s) * 1000))
    ago(losing.redis, losing.client.enqueue(FUNC, id="a").run_id)
    losing.redis.lpush(f"{RQ}:queue:default", *reversed(others))

    losing.step()

    assert [] == recorded(losing.link)


def test_a_worker_whose_clock_is_behind_does_not_count_as_dead(losing: Losing) -> None:
    run_id = taken(losing.redis, losing.client.enqueue(FUNC, id="a", retry=1).run_id)
    losing.redis.hset(KEYS.rq.job(run_id), "status", "started")
    losing.redis.zadd(f"{RQ}:wip:default", {f"{run_id}:x": losing.redis.time()[0]})
    lapse(losing.redis, run_id)
    losing.redis.zadd(f"{RQ}:executions:{run_id}", {"x": 1})
    losing.redis.set(f"{RQ}:execution:{run_id}:x", "lives", ex=60)

    losing.step()
    assert ([], []) == (agains(losing.link), recorded(losing.link))

    losing.redis.delete(f"{RQ}:execution:{run_id}:x")
    losing.step()
    assert [run_id] == [row.run_id for row in agains(losing.link)]


def test_a_lapsed_execution_is_not_lost_while_its_worker_is_alive(losing: Losing) -> None:
    run_id = taken(losing.redis, losing.client.enqueue(FUNC, id="a", retry=1).run_id)
    now_s = losing.redis.time()[0]
    losing.redis.zadd(f"{RQ}:wip:default", {f"{run_id}:x": now_s - 1})
    beat = rq_time((now_s - 30) * 1000)
    losing.redis.hset(KEYS.rq.job(run_id), mapping={"status": "started", "last_heartbeat": beat})

    losing.step()
    assert [] == agains(losing.link)

    lapse(losing.redis, run_id)
    losing.step()
    assert [run_id] == [row.run_id for row in agains(losing.link)]


def test_an_end_is_recorded_once_also_while_the_archive_does_not_follow(losing: Losing) -> None:
    run_id = taken(losing.redis, losing.client.enqueue(FUNC, id="a").run_id)
    ago(losing.redis, run_id)
    losing.follow()
    losing.tracker.step(losing.leader.term)
    losing.follows = False

    losing.lost.step(losing.leader.term)
    for _ in range(3):
        losing.step()
    losing.follows = True
    for _ in range(2 * tracker._PATIENCE):
        losing.tracker.step(losing.leader.term)
        losing.step()

    assert [run_id] == [run.id for run in recorded(losing.link)]


def test_an_end_is_recorded_once_also_by_a_slow_leader(losing: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = taken(losing.redis, losing.client.enqueue(FUNC, id="a").run_id)
    ago(losing.redis, run_id)
    losing.follow()
    losing.tracker.step(losing.leader.term)
    now_s = Registries.now_s

    with monkeypatch.context() as slow:  # it looked three seconds before it writes
        slow.setattr(Registries, "now_s", lambda self: now_s(self) - 3)
        losing.lost.step(losing.leader.term)
    for _ in range(2 * tracker._PATIENCE):
        losing.follow()
        losing.tracker.step(losing.leader.term)

    assert [run_id] == [run.id for run in recorded(losing.link)]


def test_a_corrupted_number_of_retries_does_not_hide_other_lost_runs(losing: Losing) -> None:
    odd, good = (taken(losing.redis, losing.client.enqueue(FUNC, id=id, retry=1).run_id) for id in ("odd", "good"))
    losing.redis.hset(KEYS.rq.job(odd), "retries_left", "²")
    for run_id in (odd, good):
        losing.redis.hset(KEYS.rq.job(run_id), "status", "started")
        losing.redis.zadd(f"{RQ}:wip:default", {f"{run_id}:x": losing.redis.time()[0]})
        lapse(losing.redis, run_id)

    losing.step()

    assert ([good], [odd]) == ([row.run_id for row in agains(losing.link)], [run.id for run in recorded(losing.link)])


def test_lapsed_foreign_jobs_are_left_to_rq(losing: Losing) -> None:
    members = {f"{uuid}:x": 1 for uuid in ("1c4e", "mail-1767225600000", "1c4e-1767225600000-nother")}
    losing.redis.zadd(f"{RQ}:wip:default", members)
    losing.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:default")

    with structlog.testing.capture_logs() as events:
        losing.step()

    assert ([], 3) == (events, losing.redis.zcard(f"{RQ}:wip:default"))


def test_the_default_delay_is_longer_than_a_worker_needs_to_start() -> None:
    assert (60, 5) == (lost.QUEUED_S, lost.MISSING_S)


def test_the_search_for_lost_runs_rests_while_no_run_is_open(losing: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, now_s = list[int](), Registries.now_s

    def counted(self: Registries) -> int:
        looks.append(1)
        return now_s(self)

    losing.client.schedule(FUNC, id="waits", after=3600)
    losing.step()
    monkeypatch.setattr(Registries, "now_s", counted)

    losing.step()
    assert [] == looks

    losing.client.enqueue(FUNC, id="a")
    losing.step()
    assert looks
