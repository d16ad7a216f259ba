"""Calls of clients and a leader are not taken for another writer; suppressed runs are found."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.breadth import some
from tests.builders.command_line import Zsched
from tests.builders.progress import change_progress
from tests.builders.scenes import SOON, Scene, rows_put_back
from tests.integration.archive.merging import put_back, snapshot
from tests.integration.auditor.auditing import (
    AUDITED,
    FUNC,
    HANDS,
    Auditing,
    Quiet,
    alarms,
    busy,
    faults,
    fill,
    is_due_as_its_run,
    lane,
    schedules,
)
from tests.prefix import RQ
from zsched.core.occurrences.outcomes import What
from zsched.daemon import auditor as module
from zsched.storage import restoring

SEEDS = some(range(6), 0, 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("round", [4, 10_000])
def test_concurrent_clients_and_a_leader_raise_no_alarm(
    scene: Scene, auditing: Auditing, seed: int, round: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", round)
    storm, rounds = Quiet(scene, seed), 0
    busy(storm, monkeypatch)

    with capture_logs() as told:
        for _ in range(60):
            storm.run(4)
            if storm.random.random() < 0.7:
                scene.follower.step()
            auditing.step()
            rounds += auditing.audit is not None and auditing.audit["checked"] > 0

    assert [] == faults(told)
    assert [] == rows_put_back(scene)
    assert rounds > 20


def test_an_audit_stops_at_another_history_with_the_same_entry_ids(scene: Scene, auditing: Auditing) -> None:
    before = snapshot(scene)
    scene.client.schedule(FUNC, id="lost", at=SOON)
    assert scene.follower.step()
    put_back(scene, before)
    for id in ("instead", "since-then"):
        scene.client.schedule(FUNC, id=id, at=SOON)

    with capture_logs() as told:
        auditing.step()

    assert [] == alarms(told)
    assert [] == rows_put_back(scene)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_by_another_writer_during_an_audit_are_finally_repaired(
    scene: Scene, auditing: Auditing, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storm = Quiet(scene, seed)
    fill(scene)
    auditing.run()
    busy(storm, monkeypatch)
    for _ in range(10):
        does = HANDS[storm.random.choice(AUDITED)][2]
        with capture_logs():
            try:
                does(scene)
            except (ValueError, redis.ResponseError):  # what it looks for is not there any more
                continue
            scene.follower.step()
            auditing.step()
    monkeypatch.undo()

    for _ in range(2):
        auditing.run()

    assert scene.follower.step()
    held, known = schedules(scene.in_redis()), schedules(scene.in_archive())
    # But for what the log knows nothing of, or was told when another writer had set the time: of these it only speaks;
    # and for what the log has in quarantine, which is left where it is (core.recovery.audit).
    mended = {id: value for id, value in known.items() if value[0] != "quarantine" and is_due_as_its_run(value)}
    assert mended == {id: held.get(id) for id in mended}
    assert len(mended) > 1
    assert [] == auditing.run()


def test_a_refused_restore_is_tried_again(scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(scene)
    auditing.run()
    scene.redis.zrem(lane(scene), "a")
    scene.redis.zrem(lane(scene, "high"), "b")
    does, puts = restoring.Restoring.restore, count()

    def late(*arguments: Any, **more: Any) -> Any:
        for _ in range(101):  # more than the script looks at
            scene.client.schedule(FUNC, id=f"new{next(puts)}", at=SOON)
        return does(*arguments, **more)

    monkeypatch.setattr(restoring.Restoring, "restore", late)
    told = auditing.run()
    assert [("a", False), ("b", False)] == sorted((each["schedule_id"], each["repaired"]) for each in told)
    monkeypatch.undo()

    auditing.run()

    assert [("a", "due"), ("b", "due")] == sorted(rows_put_back(scene))


def test_an_audit_keeps_a_schedule_that_a_client_put_during_the_repair(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "ROWS", 1)
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.client.schedule(FUNC, id="b", at=SOON)
    auditing.run()
    scene.redis.delete(lane(scene))
    does, puts = restoring.Restoring.restore, iter(["b"])

    def late(*arguments: Any, **more: Any) -> Any:
        for id in puts:
            scene.client.schedule(FUNC, id=id, at=SOON + timedelta(hours=1))
        return does(*arguments, **more)

    monkeypatch.setattr(restoring.Restoring, "restore", late)

    told = auditing.run()

    assert [("a", True), ("b", False)] == sorted((each["schedule_id"], each["repaired"]) for each in told)
    assert [("a", "due")] == rows_put_back(scene)
    assert SOON + timedelta(hours=1) == scene.client.get("b").next_at
    assert [] == auditing.run()


def _stand_in_the_way(scene: Scene, **fields: str) -> str:
    """Put a schedule, and a hash at the id of its next run. Return that id."""
    schedule = scene.client.schedule(FUNC, id="r", every=600)
    assert schedule.next_at is not None
    run = scene.keys.run_id("r", round(schedule.next_at.timestamp() * 1000))
    scene.redis.hset(scene.keys.rq.job(run), mapping=fields)
    return run


def test_a_suppressed_run_raises_an_alarm_and_why_names_it(scene: Scene, auditing: Auditing, redis_url: str) -> None:
    run = _stand_in_the_way(scene, status="finished")
    assert [] == auditing.run()
    scene.pass_time(600_000)
    scene.tick()

    [alarm] = auditing.run()

    assert ("run_suppressed", "r", False) == (alarm["event"], alarm["schedule_id"], alarm["repaired"])
    assert run in alarm["expected"]
    assert set() == scene.queued()
    assert [] == auditing.run()  # said once
    assert auditing.audit is not None
    assert 1 == auditing.audit["alarms"]  # and counted on
    auditing.begin()
    assert 1 == len(auditing.run())  # by the next leader, too
    [passed] = [change for change in scene.client.why("r").changes if change.what is What.DUPLICATE]
    assert run == passed.run_id
    told = Zsched(redis_url, ZSCHED_NAMESPACE=scene.keys.namespace)("why", "r").stdout
    assert ["not pushed" in line for line in told.splitlines() if run in line] == [True]


def test_a_forged_hash_does_not_suppress_a_run(scene: Scene, auditing: Auditing) -> None:
    run = _stand_in_the_way(scene, x="1")
    scene.pass_time(600_000)
    scene.tick()

    assert {run} == scene.queued()
    assert [] == auditing.run()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_pushed_run_is_not_pushed_again_and_raises_no_alarm(scene: Scene, auditing: Auditing, is_over: bool) -> None:
    schedule = scene.client.schedule(FUNC, id="r", every=600)
    assert schedule.next_at is not None
    nominal_ms = round(schedule.next_at.timestamp() * 1000)
    scene.pass_time(600_000)
    scene.tick()
    run = scene.keys.run_id("r", nominal_ms)
    assert {run} == scene.queued()
    if is_over:
        scene.redis.hset(scene.keys.rq.job(run), "status", "finished")
    change_progress(scene.redis, scene.keys, "r", nominal=nominal_ms)
    scene.redis.zadd(scene.keys.due_normal(), {"r": nominal_ms})  # it is due once more
    scene.tick()

    told = auditing.run()

    assert {run} == scene.queued()
    assert 1 == len(scene.redis.lrange(f"{RQ}:queue:default", 0, -1))
    assert not any(each["event"] == "run_suppressed" for each in told)


def test_a_one_shot_run_early_raises_no_alarm_for_a_rule_with_its_id(scene: Scene, auditing: Auditing) -> None:
    rule = scene.client.schedule(FUNC, id="r", every=20)
    assert rule.next_at is not None
    scene.client.schedule(FUNC, id="r", at=rule.next_at)
    run = scene.client.run_now("r")
    assert scene.keys.run_id("r", round(rule.next_at.timestamp() * 1000)) == run
    scene.client.schedule(FUNC, id="r", every=20, starts=rule.next_at)
    scene.pass_time(20_000)
    scene.tick()

    assert not any(each["event"] == "run_suppressed" for each in auditing.run())
    assert {run} == scene.queued()
