"""Archives that repair themselves: an unreadable entry, a hole in the log, a corrupt file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.daemons import leading_daemon
from tests.builders.leaders import know
from tests.builders.scenes import Scene, schedule
from tests.clocks import now_ms
from tests.faults.leases import end_hold
from tests.prefix import RQ
from tests.states import state_of
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.config.settings import ArchiveSettings, Settings
from zsched.core.clock import ManualClock, SystemClock
from zsched.daemon import follower as module
from zsched.daemon import own_archive
from zsched.daemon.archiver import Archiver
from zsched.daemon.follower import Follower
from zsched.errors import RedisRefused
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

KEYS = Keys("default")


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
def test_an_unreadable_entry_is_healed_from_redis_and_the_history_is_kept(scene: Scene, is_trimmed: bool) -> None:
    if is_trimmed:
        schedule(scene, "before")
        scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    break_a_fire(scene)
    complete_since = scene.archive.complete_since

    assert scene.follower.step()

    numbered = scene.archive._db.execute("SELECT count(*) FROM entry WHERE seq IS NOT NULL").fetchone()[0]
    assert (complete_since, len(scene.log())) == (scene.archive.complete_since, numbered)
    assert (0, 0) == (scene.archive.unknown_entries, scene.archive.unreadable_entries)
    assert scene.in_redis() == scene.in_archive()
    assert "open" == next(row.place for row in state_of(scene.archive) if row.id == "a")
    assert scene.log()[-1].position == scene.archive.position


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
    assert {"a": "open"} == {row.id: row.place for row in state_of(scene.archive)}
    assert [2] == [event["number"] for event in told if event["event"] == "log_ids_dropped"]
    assert 2000 > sum(len(text) for text in scene.log()[-1].texts)


def take_out_the_last(redis_client: redis.Redis) -> None:
    """Delete the last entry like an operator, before another one comes."""
    last = "redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]"
    redis_client.eval(f"redis.call('XDEL', KEYS[1], {last})", 1, KEYS.log())


def leave_numbers_out(redis_client: redis.Redis) -> None:
    """Add an entry that skips numbers, like a client by hand, however many others come meanwhile."""
    [(last, fields)] = redis_client.xrevrange(KEYS.log(), count=1)
    epoch, _, seq = last.decode().partition("-")
    redis_client.xadd(KEYS.log(), fields, id=f"{epoch}-{int(seq) + 100_000}")


@pytest.mark.parametrize("make_hole", [take_out_the_last, leave_numbers_out])
def test_a_hole_in_the_log_stops_firing_until_the_key_of_the_log_is_renamed(
    redis_url: str, redis_client: redis.Redis, link: Link, make_hole: Callable[[redis.Redis], None]
) -> None:
    know(redis_client)
    client, queue_key = Client.from_url(redis_url), f"{RQ}:queue:default"
    with leading_daemon(redis_url) as daemon:
        client.schedule("app.tasks.run", id="rule", every=0.2, overlap="allow")
        eventually(lambda: redis_client.llen(queue_key))

        make_hole(redis_client)
        daemon.wait_for("fire_held")
        fired = redis_client.llen(queue_key)
        for number in (1, 2):  # again and again
            daemon.wait_for("recovery_began", number)
            assert int(redis_client.hget(KEYS.meta(), "hold") or 0) > now_ms(redis_client)
        assert fired == redis_client.llen(queue_key)

        redis_client.rename(KEYS.log(), f"{KEYS.log()}:old")
        daemon.wait_for("archive_bootstrapped")
        end_hold(redis_client, daemon)
        eventually(lambda: redis_client.llen(queue_key) > fired)
        eventually(Archivers(link, KEYS).alive)


def test_changes_are_refused_after_an_entry_that_skips_numbers(redis_url: str, redis_client: redis.Redis) -> None:
    know(redis_client)
    client = Client.from_url(redis_url)
    client.schedule("app.tasks.run", id="a", after=3600)

    leave_numbers_out(redis_client)

    with pytest.raises(RedisRefused, match="ID specified in XADD is equal or smaller"):
        client.schedule("app.tasks.run", id="b", after=3600)
    redis_client.rename(KEYS.log(), f"{KEYS.log()}:old")
    client.schedule("app.tasks.run", id="b", after=3600)


@pytest.fixture
def archiver(scene: Scene) -> Iterator[Archiver]:
    """An archiver with an archive of three schedules in which the first entry was changed."""
    for id in ("a", "b", "c"):
        scene.client.schedule("app.task", id=id, after=3600)
    path = scene.follow("corrupt.db").path
    assert scene.follower.step()
    scene.archive.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert 1 == db.execute("UPDATE entry SET t = t + 1 WHERE n = 1").rowcount
    settings = Settings(namespace=scene.keys.namespace, archive=ArchiveSettings(path=str(path)))
    archiver = Archiver(settings, scene.link, SystemClock(), {"daemon": "daemon-1"})
    yield archiver
    archiver.stop()


def kept(archiver: Archiver) -> list[Path]:
    assert archiver.path is not None
    return list(archiver.path.parent.glob("corrupt.db.corrupt-*"))


def test_corruption_is_found_when_the_archive_is_opened(archiver: Archiver) -> None:
    archiver.open()

    [file] = kept(archiver)
    assert (None, True) == (archiver.position, file.stat().st_size > 0)


def test_corruption_is_found_later_if_the_check_at_opening_was_cut_short(
    archiver: Archiver, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_archive, "_CHECK_AT_OPEN_MS", 0.0)  # one entry: the last
    archiver.open()
    assert [] == kept(archiver)

    archiver.start()

    last = scene.log()[-1].position
    with archiver.moved:
        assert archiver.moved.wait_for(lambda: kept(archiver) and archiver.position == last, WITHIN_S)
    assert archiver.is_healthy
