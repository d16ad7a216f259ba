"""Schedules in quarantine go back when what they need is in the archive, or when the cause is over."""

from typing import Any

import pytest

from tests.builders.daemons import leading_daemon
from tests.builders.leaders import know
from tests.builders.scenes import Scene, rows_put_back
from tests.clocks import now_ms
from tests.integration.auditor.auditing import FUNC, Auditing, job_of, lane, quarantine
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.daemon import auditor as module
from zsched.storage.keys import Keys

RELEASED = "schedule_released"


def lose(scene: Scene, what: str) -> None:
    """Put a due schedule "a", and delete what it needs before the leader looks."""
    if what == "job":
        scene.client.schedule(FUNC, id="a", after=1)
        scene.redis.delete(job_of(scene, "a"))
    else:
        scene.client.schedule(FUNC, id="a", every=3600, starts=from_ms(scene.now_ms + 1000))
        scene.redis.delete(getattr(scene.keys, what)("a"))
    scene.pass_time(1001)
    scene.tick()
    scene.tick()
    assert scene.redis.hexists(scene.keys.quarantine(), "a")


@pytest.mark.parametrize("what", ["job", "schedule", "template"])
def test_a_schedule_that_lost_its_hash_when_it_was_due_is_restored_at_the_next_pass(
    scene: Scene, auditing: Auditing, what: str
) -> None:
    lose(scene, what)

    [told] = auditing.run()
    scene.tick()

    assert (RELEASED, "a", True) == (told["event"], told["schedule_id"], told["repaired"])
    assert [("a", "due")] == rows_put_back(scene)
    assert ["a"] == [run.split("-")[0] for run in scene.queued()]
    assert [] == auditing.run() + auditing.run()


def test_a_one_shot_that_rq_has_does_not_run_again_when_its_schedule_was_lost(scene: Scene, auditing: Auditing) -> None:
    lose(scene, "job")
    scene.follower.step()
    [run] = [f"{id}-{rest}" for id, rest in scene.in_archive() if id == "a"]
    scene.redis.hset(scene.keys.rq.job(run), mapping={"status": "finished", "ended_at": "now"})

    auditing.run()
    scene.tick()

    assert ([("a", "gone")], set()) == (rows_put_back(scene), scene.queued())


def test_a_schedule_whose_cause_was_a_key_of_a_wrong_type_goes_back_when_the_key_is_right(
    scene: Scene, auditing: Auditing
) -> None:
    scene.redis.set("{other}", "x")
    quarantine(scene, "a", "wrong type at {other} (string)")
    quarantine(scene, "b", "wrong type at gone (string)")

    assert ["b"] == [told["schedule_id"] for told in auditing.run()]
    assert [] == auditing.run()
    scene.redis.delete("{other}")

    assert [(RELEASED, "a")] == [(told["event"], told["schedule_id"]) for told in auditing.run()]
    assert 0 == scene.redis.exists(scene.keys.quarantine())


def test_schedules_that_cannot_be_planned_and_that_no_archive_knows_stay_in_quarantine(
    scene: Scene, auditing: Auditing
) -> None:
    quarantine(scene, "rule")
    scene.redis.zadd(lane(scene), {"stranger": scene.now_ms})
    scene.tick()

    assert ([], [], []) == (auditing.run(), auditing.run(), auditing.run())
    assert {b"rule", b"stranger"} == set(scene.redis.hkeys(scene.keys.quarantine()))


def test_a_schedule_that_another_writer_moved_in_time_stays_in_quarantine(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", after=60)
    scene.client.pause("a")
    scene.redis.zadd(lane(scene), {"a": 5})
    scene.tick()
    scene.redis.hdel(scene.keys.paused(), "a")

    assert ([], [], []) == (auditing.run(), auditing.run(), auditing.run())
    assert [] == rows_put_back(scene)
    assert [b"a"] == scene.redis.hkeys(scene.keys.quarantine())


def test_a_hash_that_is_gone_when_it_is_due_is_back_with_a_real_daemon(
    redis_url: str, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 50.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 50.0)
    know(redis_client)
    client, keys = Client.from_url(redis_url), Keys("default")

    with leading_daemon(redis_url) as daemon:
        redis_client.hset(keys.meta(), "hold", now_ms(redis_client) + 60_000)
        client.schedule(FUNC, id="lost", after=0, durable=True)
        client.schedule(FUNC, id="other", after=0)
        redis_client.delete(*redis_client.keys(keys.rq.job("lost-*")))
        redis_client.hset(keys.meta(), "hold", 0)

        def queued() -> set[str]:
            return {run.decode().rpartition("-")[0] for run in redis_client.lrange(keys.rq.queue("default"), 0, -1)}

        eventually(lambda: queued() == {"lost", "other"})
        [told] = eventually(lambda: [*daemon.of(RELEASED), *daemon.of("schedule_missing")])  # which comes first?

    assert ("lost", True) == (told["schedule_id"], told["repaired"])
