"""Following a log: a connection that breaks, another writer's values, and the state that follows from the entries."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.breadth import some
from tests.builders.scenes import Scene, assert_state_is_redis_own, schedule
from tests.faults.archives import history
from tests.integration.archive.storms import Storm
from tests.prefix import RQ
from tests.states import state_of
from zsched import Client
from zsched.archive import START
from zsched.archive.places import facts_at
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry, Position
from zsched.daemon.follower import Follower
from zsched.daemon.loop import Bell
from zsched.daemon.meter import Meter
from zsched.daemon.recovery import WAIT_MS
from zsched.errors import RedisUnavailable
from zsched.storage import records, reruns
from zsched.storage.archivers import ArchiveState
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.records import Scanner

STEPS = 250
SEEDS = some(range(4), 0, 1)


def states(scene: Scene) -> dict[str, str]:
    return {row.id: row.place for row in state_of(scene.archive)}


def leave_behind(scene: Scene) -> None:
    """Let the archive follow, then miss a trimmed part of the log."""
    schedule(scene, "a")
    assert scene.follower.step()
    schedule(scene, "b", "c")
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)


def test_a_bootstrap_whose_connection_breaks_starts_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_behind(scene)

    def lose(self: Scanner, *arguments: Any) -> Any:
        raise RedisUnavailable("lost")

    with monkeypatch.context() as patch:
        patch.setattr(Scanner, "runs", lose)
        with pytest.raises(RedisUnavailable):
            scene.follower.step()
    assert (None, {"a": "due"}) == (scene.archive.position, states(scene))

    follower = Follower(scene.archive, scene.wire, scene.keys, scene.follower._clock)
    assert follower.step()

    assert not scene.archive.is_bootstrapping
    assert {"a": "due", "b": "due", "c": "due"} == states(scene)
    assert scene.log()[-1].position == scene.archive.position


def test_a_bootstrap_whose_log_vanishes_starts_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_behind(scene)
    with monkeypatch.context() as patch:
        patch.setattr(Log, "last", lambda _: None)  # as after a FLUSHALL at this moment

        scene.follower._bootstrap(scene.log()[0], None)

        assert ({"a": "due"}, False) == (states(scene), scene.archive.is_bootstrapping)
    assert scene.follower.step()
    assert {"a": "due", "b": "due", "c": "due"} == states(scene)


def test_a_meter_receives_every_entry_once_including_bootstrapped_entries(scene: Scene) -> None:
    meter = Told()
    schedule(scene, "a", "b", "c")
    scene.redis.xtrim(scene.keys.log(), maxlen=2, approximate=False)
    follower = Follower(scene.archive, scene.wire, scene.keys, scene.follower._clock, meter=meter)

    assert follower.step()
    schedule(scene, "d", "e")
    assert follower.step()

    assert [entry.position for entry in scene.log()] == [entry.position for entry in meter.entries]


class Told(Meter):
    """A meter that remembers the entries that the archive read."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def archived(self, entries: Sequence[Entry]) -> None:
        self.entries += entries


def test_a_follower_reads_small_entries_in_few_pages(scene: Scene) -> None:
    schedule(scene, *(f"s{number}" for number in range(200)))
    scene.redis.config_resetstat()

    assert scene.follower.step()

    assert 20 > scene.redis.info("commandstats")["cmdstat_xrange"]["calls"]


def test_a_new_archive_has_position_and_name_on_disk_after_its_bootstrap(scene: Scene) -> None:
    leave_behind(scene)
    scene.follow("second.db")

    assert scene.follower.step()

    facts = facts_at(scene.archive.path)
    assert facts is not None
    assert (scene.archive.tail, scene.archive.gens) == (facts.position, facts.gens)
    assert facts.gens


def test_following_an_empty_log_adds_no_entry(scene: Scene) -> None:
    scene.redis.delete(scene.keys.log())

    assert scene.follower.step()  # it waits for the first entry

    assert (None, ArchiveState.BOOTSTRAPPING) == (scene.archive.position, scene.follower.state)


def test_another_data_set_is_refused_and_the_archive_is_unchanged(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    had = scene.archive.position
    scene.redis.hset(scene.keys.meta(), "gen", "another")
    schedule(scene, "b")
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)

    assert not scene.follower.step()

    assert (had, ArchiveState.REFUSED) == (scene.archive.position, scene.follower.state)
    assert {"a": "due"} == states(scene)


def test_a_redis_that_lost_the_end_of_its_log_is_restored_and_followed(scene: Scene) -> None:
    schedule(scene, "a", "b")
    assert scene.follower.step()
    last = scene.log()[-1].position
    kept = scene.redis.xrange(scene.keys.log())[:-1]
    scene.redis.delete(scene.keys.log())  # not XDEL: Valkey 9 lets nobody use the id of a deleted entry again
    for id, fields in kept:
        scene.redis.xadd(scene.keys.log(), fields, id=id)
    scene.redis.zrem(scene.keys.due_normal(), "b")
    scene.redis.hset(scene.keys.meta(), "seq", last.seq - 1)
    schedule(scene, "c")
    assert last.id == scene.log()[-1].position.id
    clock = ManualClock()
    follower = Follower(scene.archive, scene.wire, scene.keys, clock)

    assert not follower.step()
    assert (ArchiveState.LOST, last) == (follower.state, scene.archive.position)
    clock.advance(WAIT_MS)
    assert follower.step()

    assert {"a": "due", "b": "due", "c": "due"} == states(scene)
    assert (scene.log()[-1].position, START) == (scene.archive.position, scene.archive.complete_since)


def test_corrupted_keys_do_not_stop_a_bootstrap(scene: Scene) -> None:
    schedule(scene, "a")
    run = f"x-1800000000000{scene.keys.run_suffix}"
    scene.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:default")
    scene.redis.rpush(f"{RQ}:queue:default", run, f"y-1800000000000{scene.keys.run_suffix}", "a job of somebody's")
    scene.redis.set(scene.keys.rq.job(run), "a text")
    scene.redis.zadd(scene.keys.due_low(), {"infinite": "inf", "half": "1.5", b"\xff": 5, "two words": 7})
    scene.redis.hset(scene.keys.paused(), mapping={"never": "normal never 5 why"})
    scene.redis.sadd(scene.keys.recurring(), "hashless")
    scene.redis.hset(scene.keys.schedule("hashless"), mapping={b"\xff": b"\xff", "progress": "-"})
    scene.redis.xtrim(scene.keys.log(), maxlen=0)
    schedule(scene, "b")

    assert scene.follower.step()

    found = states(scene)
    assert {"a": "due", "b": "due", "infinite": "due", "half": "due", "hashless": "ended"}.items() <= found.items()
    assert "x" not in found


def test_a_malformed_id_in_a_fire_hides_no_run(scene: Scene) -> None:
    now = datetime.now(UTC)
    scene.client.schedule("app.task", id="a", at=now - timedelta(seconds=1), allow_past=True)
    scene.redis.zadd(scene.keys.due_normal(), {"half": "1.5", "two words": 7})

    scene.tick()

    assert scene.follower.step()
    assert 0 == scene.archive.unknown_entries
    assert "open" == states(scene)["a"]
    assert "quarantine" == states(scene)["half"]
    assert isinstance(scene.archive.position, Position)


def test_a_follower_stops_in_time_to_report_while_clients_write(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scene.follower.step()
    clock, read, reads = ManualClock(), Log.read, 0
    follower = Follower(scene.archive, scene.wire, scene.keys, clock)

    def slowly(self: Log, first: str, most: int) -> list[Entry]:
        nonlocal reads
        clock.advance(300)
        reads += 1
        for number in range(most if reads < 12 else 0):
            scene.client.enqueue("app.tasks.run", id=f"s{reads}_{number}")
        return read(self, first, most)

    monkeypatch.setattr(Log, "read", slowly)

    assert follower.step(within_ms=2000)
    assert (7, scene.archive.tail) == (reads, scene.archive.position)

    assert follower.step()
    assert (scene.log()[-1].position, scene.archive.tail) == (scene.archive.position, scene.archive.position)


def test_a_follower_waits_for_a_late_reply(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scene.follower.step()
    monkeypatch.setattr(Wire, "wait_for_data", lambda *_: False)  # not in time

    with closing(Bell()) as bell:
        assert scene.follower.wait(bell)

    assert (0, False) == (scene.wire.in_flight, scene.wire.is_broken)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_following_archive_has_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)

    for _ in range(STEPS):
        storm.step()
        if storm.random.random() < 0.2:
            assert scene.follower.step()
            assert_state_is_redis_own(scene)
        if storm.random.random() < 0.02:
            scene.reopen()

    assert scene.follower.step()
    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)
    assert (START, 0) == (scene.archive.complete_since, scene.archive.unknown_entries)
    assert len(scene.queued()) > 10
    assert scene.queued() == {f"{row.id}-{row.run}" for row in state_of(scene.archive) if row.place == "open"}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_archive_started_with_a_trimmed_log_has_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)
    storm.run(STEPS)
    scene.redis.xtrim(scene.keys.log(), maxlen=20, approximate=False)
    scene.follow("late.db")

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)
    assert str(scene.log()[0].position.t_us) == scene.archive.complete_since
    for _ in range(STEPS):
        storm.step()
        if storm.random.random() < 0.1:
            assert scene.follower.step()
            assert_state_is_redis_own(scene)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_archive_left_behind_by_trimming_gets_the_state_of_redis(scene: Scene, seed: int) -> None:
    storm = Storm(scene, seed)
    storm.run(50)
    assert scene.follower.step()
    storm.run(STEPS)
    scene.redis.xtrim(scene.keys.log(), maxlen=10, approximate=False)

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)[-10:]
    assert str(scene.log()[0].position.t_us) == scene.archive.complete_since


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bootstrap_amid_changes_has_redis_own_state(scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PAGE", 1)
    storm = Storm(scene, seed)
    storm.run(STEPS)
    scene.redis.xtrim(scene.keys.log(), maxlen=20, approximate=False)
    archive = scene.follow("late.db")
    take_in = archive.scan

    def scan(*arguments: object) -> None:
        take_in(*arguments)  # type: ignore[arg-type]  # as given
        storm.run(storm.random.randint(0, 6))

    archive.scan = scan  # type: ignore[method-assign]  # things happen between pages

    assert scene.follower.step()

    assert_state_is_redis_own(scene)
    assert scene.log() == history(scene.archive.path)


KEYS = Keys("default")
RUN = "a-1700000000000"


@pytest.mark.parametrize("status", ["queued", "deferred", "scheduled", "started", "taken", "rate_limited"])
def test_the_scanner_finds_open_runs_as_they_were_asked(redis_client: redis.Redis, redis_url: str, status: str) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:mail")
    asked_for = {"data": "call", "origin": "mail", "description": "app.task", "zs_expires": "60000"}
    way = {"status": status, "zs_deadline": "1700000060000", "zs_stop": "1700000000001"}
    redis_client.hset(KEYS.rq.job(RUN), mapping=asked_for | way)
    if status == "queued":
        redis_client.rpush(f"{RQ}:queue:mail", RUN, "somebody-elses")
    elif status == "taken":
        redis_client.rpush(f"{RQ}:queue:mail:intermediate", RUN, "somebody-elses")
    elif status == "started":
        redis_client.zadd(f"{RQ}:wip:mail", {f"{RUN}:execution": 1})
    elif status == "rate_limited":
        redis_client.sadd(f"{RQ}:rl-keys", "digest")
        redis_client.zadd(f"{RQ}:rl:digest:rate_limited", {RUN: 1, "somebody-elses": 1})
    elif status == "deferred":
        redis_client.hset(KEYS.chains(), "a", "queue")
        redis_client.rpush(KEYS.waiting("a"), RUN, "somebody-elses")
    else:
        redis_client.zadd(f"{RQ}:{status}:mail", {RUN: 1, "somebody-elses": 1})

    with Link.from_url(redis_url, 5.0).wire() as wire:
        scanner = Scanner(wire, KEYS)
        found = [*scanner.run_ids()]
        [(_, [held])] = scanner.runs(found, None)

    assert [RUN] == found
    assert {name.encode(): value.encode() for name, value in asked_for.items()} == held.request()[0]


@pytest.mark.parametrize("spoilt", [KEYS.chains(), KEYS.waiting("b")])
def test_the_scanner_finds_other_open_runs_beside_lists_of_waiting_runs_of_a_wrong_type(
    redis_client: redis.Redis, redis_url: str, spoilt: str
) -> None:
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:mail")
    redis_client.rpush(f"{RQ}:queue:mail", RUN)
    for id in ("b", "c"):
        redis_client.hset(KEYS.chains(), id, "queue")
        redis_client.rpush(KEYS.waiting(id), f"{id}-1700000000000")
    redis_client.delete(spoilt)
    redis_client.set(spoilt, "text")

    with Link.from_url(redis_url, 5.0).wire() as wire:
        found = [*Scanner(wire, KEYS).run_ids()]

    assert ([RUN] if spoilt == KEYS.chains() else ["c-1700000000000", RUN]) == found


def test_the_scanner_skips_a_run_cancelled_in_a_long_queue(
    client: Client, redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reruns, "MOST_WAITING", 1)
    runs = [client.enqueue("app.task", id=id).run_id for id in "ab"]
    assert "cancelled" == client.cancel_run(runs[1])
    assert 2 == redis_client.llen(f"{RQ}:queue:default")

    with Link.from_url(redis_url, 5.0).wire() as wire:
        scanner = Scanner(wire, KEYS)
        [(_, held)] = scanner.runs([*scanner.run_ids()], None)

    assert ["a"] == [one.id for one in held]
