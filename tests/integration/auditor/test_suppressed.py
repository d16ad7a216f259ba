"""Suppressed runs: another program made a job with a run's id. The auditor alarms, and ``why`` says so."""

from __future__ import annotations

import pytest

from tests.integration.archive.ground import Scene
from tests.integration.auditor.ground import FUNC, Auditing
from tests.integration.command_line import Zsched
from tests.prefix import RQ
from zsched.core.changes import What


def _stand_in_the_way(scene: Scene, **fields: str) -> str:
    """Put a schedule, and a hash at the id of its next run. Return that id."""
    schedule = scene.client.schedule(FUNC, id="r", every=600)
    assert schedule.next_at is not None
    run = scene.keys.run_id("r", round(schedule.next_at.timestamp() * 1000))
    scene.redis.hset(scene.keys.rq.job(run), mapping=fields)
    return run


def test_a_suppressed_run_raises_an_alarm_and_why_names_the_conflicting_job(scene: Scene, auditing: Auditing) -> None:
    run = _stand_in_the_way(scene, status="finished")
    assert [] == auditing.run()
    auditing.pass_time(600_000)
    scene.tick()

    [told] = auditing.run()

    assert ("run_suppressed", "r", False) == (told["event"], told["schedule_id"], told["repaired"])
    assert run in told["expected"]
    assert set() == scene.queued()
    assert [] == auditing.run()  # said once
    assert auditing.audit is not None
    assert 1 == auditing.audit["alarms"]  # and counted on
    auditing.begin()
    assert 1 == len(auditing.run())  # by the next leader, too
    [passed] = [change for change in scene.client.why("r").changes if change.what is What.DUPLICATE]
    assert run == passed.run_id


def test_why_on_the_command_line_names_the_run_that_was_not_pushed(
    scene: Scene, auditing: Auditing, redis_url: str
) -> None:
    run = _stand_in_the_way(scene, status="finished")
    auditing.pass_time(600_000)
    scene.tick()

    told = Zsched(redis_url, ZSCHED_NAMESPACE=scene.keys.namespace)("why", "r")

    [line] = [line for line in told.stdout.splitlines() if run in line]
    assert "not pushed" in line


def test_a_forged_hash_does_not_suppress_a_run(scene: Scene, auditing: Auditing) -> None:
    run = _stand_in_the_way(scene, x="1")
    auditing.pass_time(600_000)
    scene.tick()

    assert {run} == scene.queued()
    assert [] == auditing.run()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_pushed_run_is_not_pushed_again_and_raises_no_alarm(scene: Scene, auditing: Auditing, is_over: bool) -> None:
    schedule = scene.client.schedule(FUNC, id="r", every=600)
    assert schedule.next_at is not None
    nominal_ms = round(schedule.next_at.timestamp() * 1000)
    auditing.pass_time(600_000)
    scene.tick()
    run = scene.keys.run_id("r", nominal_ms)
    assert {run} == scene.queued()
    if is_over:
        scene.redis.hset(scene.keys.rq.job(run), "status", "finished")
    scene.redis.hset(scene.keys.schedule("r"), "nominal", nominal_ms)
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
    auditing.pass_time(20_000)
    scene.tick()

    assert not any(each["event"] == "run_suppressed" for each in auditing.run())
    assert {run} == scene.queued()
