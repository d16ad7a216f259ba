"""Changes of a schedule by another writer are found, reported and repaired."""

from __future__ import annotations

import pytest

from tests.integration.archive.ground import SOON, Scene, rows_put_back
from tests.integration.auditor.ground import FUNC, HANDS, Auditing, entries, fill, job_of, lane, schedules
from zsched.core.audit import GRACE_MS
from zsched.core.changes import What
from zsched.core.log import changes
from zsched.daemon import auditor as module


@pytest.mark.parametrize("hand", HANDS)
def test_a_change_by_another_writer_is_reported_and_repaired(scene: Scene, auditing: Auditing, hand: str) -> None:
    id, event, does = HANDS[hand]
    fill(scene)
    assert [] == auditing.run()
    before = scene.in_redis()
    does(scene)

    [told] = auditing.run()

    assert (event, id, True) == (told["event"], told["schedule_id"], told["repaired"])
    assert schedules(before) == schedules(scene.in_redis())
    assert [(id, before[next(key for key in before if key[0] == id)][0])] == rows_put_back(scene)
    assert [What.RESTORED] == [change.what for change in changes(entries(scene)[0], scene.keys.run_suffix)]
    assert [] == auditing.run()
    assert auditing.audit is not None
    assert (0, 0) == (auditing.audit["alarms"], auditing.audit["repaired"])


def test_a_due_schedule_that_another_writer_removed_fires_late(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    run = scene.client.get("a").next_at
    assert run is not None
    scene.redis.zrem(lane(scene), "a")
    auditing.pass_time(GRACE_MS + 1)
    scene.tick()
    assert set() == scene.queued()

    [told] = auditing.run()
    scene.tick()

    assert "schedule_missing" == told["event"]
    assert {scene.keys.run_id("a", round(run.timestamp() * 1000))} == scene.queued()
    assert [] == auditing.run()


def test_every_pass_of_an_audit_checks_the_due_schedules(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 1)
    for number in range(20):
        scene.client.schedule(FUNC, id=f"later{number}", at=SOON)
    scene.client.schedule(FUNC, id="now", after=1)
    auditing.run()
    scene.redis.zrem(lane(scene), "now")
    auditing.pass_time(GRACE_MS + 1001)

    [told] = auditing.run()

    assert ("schedule_missing", "now") == (told["event"], told["schedule_id"])


def test_a_round_of_audits_checks_every_schedule_once(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 4)
    monkeypatch.setattr(module, "_PAGE", 3)
    for number in range(10):
        scene.client.schedule(FUNC, id=f"s{number}", at=SOON)
    scene.redis.delete(lane(scene))

    said = [[each["schedule_id"] for each in auditing.run()] for _ in range(4)]

    assert [4, 4, 2, 0] == [len(each) for each in said]
    assert 10 == len({id for each in said for id in each})


def test_a_round_of_audits_goes_on_where_its_last_choice_ended(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 2)
    monkeypatch.setattr(module, "_CHOSEN", 2)
    for number in range(6):
        scene.client.schedule(FUNC, id=f"s{number}", at=SOON)
    auditing.run()
    scene.client.schedule(FUNC, id="put-later", at=SOON)
    scene.redis.delete(lane(scene))

    said = [[each["schedule_id"] for each in auditing.run()] for _ in range(3)]

    assert [["s2", "s3"], ["s4", "s5"], ["put-later"]] == [sorted(each) for each in said]


def test_an_audit_does_not_restore_a_schedule_whose_run_is_in_rq(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.client.schedule(FUNC, id="b", at=SOON)
    scene.redis.hset(job_of(scene, "a"), "status", "finished")
    scene.redis.hset(job_of(scene, "b"), "status", "canceled")
    scene.redis.zrem(lane(scene), "a")

    [told] = auditing.run()

    assert ("a", True) == (told["schedule_id"], told["repaired"])
    assert told["found"].endswith("its run is finished in RQ")
    assert [("a", "gone")] == rows_put_back(scene)
    assert b"finished" == scene.redis.hget(job_of(scene, "a"), "status")
    assert [] == auditing.run()
    assert {"b"} == {id for id, _ in scene.in_archive()}


@pytest.mark.parametrize("is_due", [False, True])
def test_an_audit_never_puts_a_schedule_into_quarantine(scene: Scene, auditing: Auditing, is_due: bool) -> None:
    fill(scene)
    auditing.run()
    due_ms = scene.now_ms + 10**9
    scene.redis.delete(scene.keys.quarantine())
    if is_due:
        scene.redis.zadd(lane(scene), {"bad": due_ms})

    [told] = auditing.run()

    assert ("schedule_different" if is_due else "schedule_missing") == told["event"]
    assert ("bad", False) == (told["schedule_id"], told["repaired"])
    assert (0, [], []) == (scene.redis.exists(scene.keys.quarantine()), rows_put_back(scene), auditing.run())
    assert (due_ms if is_due else None) == scene.redis.zscore(lane(scene), "bad")


def test_a_pass_logs_the_first_alarms_singly_and_counts_the_rest(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LOGGED", 2)
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.redis.zadd(lane(scene), {f"stranger{n}": 5e12 for n in range(3)})

    told = auditing.run()

    assert ["schedule_unknown", "schedule_unknown", "audit_found_more"] == [each["event"] for each in told]
    assert 1 == told[-1]["alarms"]


def test_a_schedule_unknown_to_the_log_is_reported_and_kept(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.redis.zadd(lane(scene), {"stranger": 5e12})

    [told] = auditing.run()

    assert ("schedule_unknown", "stranger", "nothing", "in normal") == (
        told["event"],
        told["schedule_id"],
        told["expected"],
        told["found"],
    )
    assert 2 == scene.redis.zcard(lane(scene))
    assert [] == auditing.run()
