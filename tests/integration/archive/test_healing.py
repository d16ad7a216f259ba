"""Healing: the archive reads from Redis the effects of a known entry that it cannot read, and continues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from tests.integration.archive.ground import Scene, schedule
from tests.prefix import RQ
from zsched.core.clock import ManualClock
from zsched.daemon import follower as module
from zsched.daemon.follower import Follower


def write(scene: Scene, kind: str, **fields: str) -> None:
    """Append an entry by hand, with the next id."""
    epoch, seq = (int(text) for text in scene.redis.hmget(scene.keys.meta(), "epoch", "seq"))
    t_us = scene.now_ms * 1000
    scene.redis.xadd(scene.keys.log(), {"kind": kind, "t": t_us, **fields}, id=f"{epoch}-{seq + 1}")
    scene.redis.hset(scene.keys.meta(), "seq", seq + 1)


def follow_by(scene: Scene, clock: ManualClock) -> Follower:
    scene.follower = Follower(scene.archive, scene.wire, scene.keys, clock)
    return scene.follower


def break_a_fire(scene: Scene) -> None:
    """Push a run, and make its log entry unreadable."""
    schedule(scene, "a", "b")
    assert scene.follower.step()
    due_ms = int(scene.redis.zscore(scene.keys.due_normal(), "a"))
    run = scene.keys.run_id("a", due_ms)
    scene.redis.zrem(scene.keys.due_normal(), "a")
    scene.redis.hset(scene.keys.rq.job(run), "status", "queued")
    scene.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:default")
    scene.redis.rpush(f"{RQ}:queue:default", run)
    write(scene, "fire", runs=run, skipped="")
    write(scene, "quarantine", lines="none")


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_an_unreadable_entry_is_healed_from_redis(scene: Scene, is_trimmed: bool) -> None:
    if is_trimmed:
        schedule(scene, "before")
        scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    break_a_fire(scene)

    assert scene.follower.step()

    assert (0, 0) == (scene.archive.unknown_entries, scene.archive.unreadable_entries)
    assert scene.in_redis() == scene.in_archive()
    assert "open" == next(row.place for row, _ in scene.archive.state() if row.id == "a")
    assert scene.log()[-1].position == scene.archive.position


def test_healing_keeps_the_history_of_the_archive(scene: Scene) -> None:
    break_a_fire(scene)
    complete_since = scene.archive.complete_since

    assert scene.follower.step()

    assert complete_since == scene.archive.complete_since
    assert (
        len(scene.log()) == scene.archive._db.execute("SELECT count(*) FROM entry WHERE seq IS NOT NULL").fetchone()[0]
    )


def test_an_unreadable_entry_causes_only_one_bootstrap(scene: Scene) -> None:
    break_a_fire(scene)
    clock = ManualClock()
    follower = follow_by(scene, clock)

    with capture_logs() as told:
        for _ in range(3):
            assert follower.step()
            clock.advance(2 * module._HEAL_MS)
        scene.reopen()
        assert scene.follower.step()

    assert 1 == len([event for event in told if event["event"] == "archive_heals"])


def test_a_new_archive_with_an_unreadable_entry_is_healed(scene: Scene) -> None:
    break_a_fire(scene)
    scene.follow("another.db")

    assert scene.follower.step()
    assert scene.follower.step()

    assert 0 == scene.archive.unknown_entries
    assert scene.in_redis() == scene.in_archive()


def test_repeated_unreadable_entries_cause_a_bootstrap_once_a_minute(scene: Scene) -> None:
    clock = ManualClock()
    follower = follow_by(scene, clock)
    schedule(scene, "a")
    assert follower.step()

    with capture_logs() as told:
        for _ in range(10):
            write(scene, "cancel")
            assert follower.step()
        assert 9 == scene.archive.unreadable_entries
        clock.advance(module._HEAL_MS)
        assert follower.step()

    assert 2 == len([event for event in told if event["event"] == "archive_heals"])
    assert 0 == scene.archive.unreadable_entries


def test_an_archive_killed_before_healing_heals_when_it_is_opened(scene: Scene) -> None:
    break_a_fire(scene)
    follower = follow_by(scene, ManualClock())
    follower._next_heal_ms = float("inf")
    assert follower.step()
    assert 1 == scene.archive.unreadable_entries

    scene.reopen()
    assert 1 == scene.archive.unreadable_entries
    assert scene.follower.step()

    assert 0 == scene.archive.unreadable_entries


def test_an_entry_of_an_unknown_kind_is_counted_and_causes_no_bootstrap(scene: Scene) -> None:
    schedule(scene, "a")
    write(scene, "teleport", to="anywhere")

    with capture_logs() as told:
        assert scene.follower.step()

    assert (1, 0) == (scene.archive.unknown_entries, scene.archive.unreadable_entries)
    assert [] == [event for event in told if event["event"] == "archive_heals"]


def test_an_id_with_a_newline_is_dropped_without_a_bootstrap(scene: Scene) -> None:
    scene.client.schedule("app.task", id="a", at=datetime.now(UTC) - timedelta(seconds=1), allow_past=True)
    scene.redis.zadd(scene.keys.due_normal(), {"a\nb": 1, "x" * 1_000_000: 2})

    scene.tick()

    with capture_logs() as told:
        assert scene.follower.step()
    assert 0 == scene.archive.unknown_entries
    assert {"a": "open"} == {row.id: row.place for row, _ in scene.archive.state()}
    assert [2] == [event["number"] for event in told if event["event"] == "log_ids_dropped"]
    assert 2000 > sum(len(text) for text in scene.log()[-1].texts)
