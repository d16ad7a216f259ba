"""
The auditor: what a foreign hand did to a schedule is found and put right, and whatever clients and a leader do is not
taken for it. Its steps by hand, and in a daemon.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
import structlog
from click.testing import CliRunner
from structlog.testing import capture_logs

from tests.faults.processes import archive_of_its_own, eventually
from tests.faults.threads import DaemonThread, know
from tests.integration.archive.ground import HOUR_MS, Scene, State, Storm
from zsched import Client
from zsched.cli import program
from zsched.config import ArchiveSettings
from zsched.core.audit import GRACE_MS
from zsched.core.changes import What, changes
from zsched.core.clock import ManualClock
from zsched.core.entries import restored
from zsched.core.log import Entry
from zsched.core.model import iso
from zsched.daemon import auditor as module
from zsched.daemon.auditor import Auditor
from zsched.errors import InvalidSchedule, ScheduleNotFound, TriggerError
from zsched.storage import restoring
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.redis
SEEDS = range(6)
SOON = datetime.now(UTC) + timedelta(days=1)
FUNC = "app.task"
MINUTE_MS = 60_000


class Auditing:
    """An auditor by hand on *scene*: it is the archiver, as far as one is asked."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.clock = scene, ManualClock()
        self.audit: dict[str, Any] | None = None
        self.begin()

    def begin(self) -> None:
        """With an auditor that knows nothing, and has looked at the clock."""
        self.auditor = Auditor(self, self.scene.keys, self.clock).over(self.scene.wire)  # type: ignore[arg-type]
        self.auditor.step(self.scene.term)
        assert module._EVERY_MS == self.auditor.every_ms

    @property
    def path(self) -> Path:
        return self.scene.archive.path

    def pass_time(self, ms: int) -> None:
        """Time passes, for the server and for this machine."""
        self.scene.pass_time(ms)
        self.clock.advance(ms)

    def steps(self, between: Callable[[], None] = lambda: None) -> None:
        """One pass."""
        self.audit = None
        for _ in range(100):
            between()
            assert not self.auditor.step(self.scene.term)
            if self.auditor.every_ms != module._PAUSE_MS:
                return
        raise AssertionError("a pass without an end")

    def run(self) -> list[dict[str, Any]]:
        """A pass of an archive that has the whole log; what was said."""
        assert self.scene.follower.step()
        structlog.reset_defaults()
        with capture_logs() as told:
            self.steps()
        assert self.audit is not None
        return alarms(told)


def alarms(told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(each) for each in told if each["log_level"] == "error"]


def schedules(state: State) -> dict[str, Any]:
    """Without runs; of what is quarantined only where and why: its content, or its time, may be broken."""
    return {
        id: value[:-3] if value[0] == "quarantine" else (run, *value)
        for (id, run), value in state.items()
        if value[0] != "open"
    }


def is_due_as_its_run(value: tuple[Any, ...]) -> bool:
    run, _place, due_ms, *_ = value
    return not run or run.partition("-")[0] == str(due_ms)


@pytest.fixture
def auditing(scene: Scene) -> Auditing:
    return Auditing(scene)


@pytest.fixture(params=["default", "shop"])
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path, request.param)
    yield scene
    scene.close()


def ground(scene: Scene) -> None:
    """A schedule of every kind, in every place."""
    client = scene.client
    client.schedule(FUNC, id="a", at=SOON)
    client.schedule(FUNC, id="b", at=SOON, priority="high", args=(1,))
    client.schedule(FUNC, id="r", cron="0 9 * * *", tz="Europe/Berlin", args=(2,))
    client.schedule(FUNC, id="paused", at=SOON)
    client.pause("paused", "for now")
    client.schedule(FUNC, id="paused_rule", every=60)
    client.pause("paused_rule")
    client.schedule(FUNC, id="bad", at=datetime.now(UTC), allow_past=True)
    scene.redis.delete(job_of(scene, "bad"))
    client.schedule(FUNC, id="ended", every=0.001, count=1)
    scene.pass_time(10)
    scene.tick()
    assert {"due", "paused", "quarantine", "ended"} == {place for place, *_ in scene.in_redis().values()} - {"open"}


def entries(scene: Scene) -> list[Entry]:
    return [entry for entry in scene.log() if entry.kind == "restore"]


def put_back(scene: Scene) -> list[tuple[str, str]]:
    return [(row.id, row.place) for entry in entries(scene) for _, row in restored(entry)]


def job_of(scene: Scene, id: str) -> str:
    [run] = [key.decode() for key in scene.redis.keys(f"rq:job:{id}-*")]
    return run


# -- what a foreign hand does -------------------------------------------------------------------------


def lane(scene: Scene, name: str = "normal") -> str:
    return f"{scene.keys.prefix}due:{name}"


HANDS: dict[str, tuple[str, str, Callable[[Scene], Any]]] = {
    "takes it out of its lane": ("a", "schedule_missing", lambda s: s.redis.zrem(lane(s), "a")),
    "takes a rule out of its lane": ("r", "schedule_different", lambda s: s.redis.zrem(lane(s), "r")),
    "deletes its job": ("a", "schedule_different", lambda s: s.redis.delete(job_of(s, "a"))),
    "deletes its lane": ("b", "schedule_missing", lambda s: s.redis.delete(lane(s, "high"))),
    "moves it in time": ("a", "schedule_different", lambda s: s.redis.zincrby(lane(s), HOUR_MS, "a")),
    "moves a rule in time": ("r", "schedule_different", lambda s: s.redis.zincrby(lane(s), HOUR_MS, "r")),
    "skips an occurrence": (
        "r",
        "schedule_different",
        lambda s: s.redis.hincrby(s.keys.schedule("r"), "nominal", 24 * HOUR_MS),
    ),
    "adds it to a later lane": ("b", "schedule_in_many_places", lambda s: s.redis.zadd(lane(s, "low"), {"b": 5})),
    "adds it to an earlier lane": ("a", "schedule_in_many_places", lambda s: s.redis.zadd(lane(s, "high"), {"a": 5})),
    "adds it to all lanes": (
        "a",
        "schedule_in_many_places",
        lambda s: [s.redis.zadd(lane(s, name), {"a": 5}) for name in ("high", "low")],
    ),
    "adds what is paused to a lane": (
        "paused",
        "schedule_in_many_places",
        lambda s: s.redis.zadd(lane(s), {"paused": 5}),
    ),
    "pauses what waits": (
        "r",
        "schedule_in_many_places",
        lambda s: s.redis.hset(s.keys.paused(), "r", "normal 5 5 by hand"),
    ),
    "quarantines what waits": (
        "a",
        "schedule_in_many_places",
        lambda s: s.redis.hset(s.keys.quarantine(), "a", "normal 5 5 by hand"),
    ),
    "lets go what is paused": ("paused", "schedule_missing", lambda s: s.redis.hdel(s.keys.paused(), "paused")),
    "lets go a paused rule": (
        "paused_rule",
        "schedule_different",
        lambda s: s.redis.hdel(s.keys.paused(), "paused_rule"),
    ),
    "frees what is quarantined": ("bad", "schedule_missing", lambda s: s.redis.delete(s.keys.quarantine())),
    "deletes a rule": ("r", "schedule_different", lambda s: s.redis.delete(s.keys.schedule("r"))),
    "deletes a template": ("r", "schedule_different", lambda s: s.redis.delete(s.keys.template("r"))),
    "changes a rule": ("r", "schedule_different", lambda s: s.redis.hset(s.keys.schedule("r"), "trigger", "never")),
    "says that it does not recur": ("r", "schedule_different", lambda s: s.redis.srem(s.keys.recurring(), "r")),
    "says that it recurs": ("a", "schedule_different", lambda s: s.redis.sadd(s.keys.recurring(), "a")),
    "forgets what has ended": ("ended", "schedule_missing", lambda s: s.redis.srem(s.keys.recurring(), "ended")),
    "lets what has ended wait": ("ended", "schedule_different", lambda s: s.redis.zadd(lane(s), {"ended": 5})),
}


@pytest.mark.parametrize("hand", HANDS)
def test_what_a_foreign_hand_does_is_said_and_put_right(scene: Scene, auditing: Auditing, hand: str) -> None:
    id, event, does = HANDS[hand]
    ground(scene)
    assert [] == auditing.run()
    before = scene.in_redis()
    does(scene)

    [told] = auditing.run()

    assert (event, id, True) == (told["event"], told["schedule_id"], told["repaired"])
    assert schedules(before) == schedules(scene.in_redis())
    assert [(id, before[next(key for key in before if key[0] == id)][0])] == put_back(scene)
    assert [What.RESTORED] == [change.what for change in changes(entries(scene)[0], scene.keys.run_suffix)]
    assert [] == auditing.run()
    assert auditing.audit is not None
    assert (0, 0) == (auditing.audit["alarms"], auditing.audit["repaired"])


def test_what_was_taken_away_when_it_was_due_fires_late(scene: Scene, auditing: Auditing) -> None:
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


def test_what_should_have_fired_is_looked_at_in_every_pass(
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


def test_a_round_looks_at_every_schedule_once(
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


def test_a_run_that_rq_has_taken_over_is_not_put_back(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.client.schedule(FUNC, id="b", at=SOON)
    scene.redis.hset(job_of(scene, "a"), "status", "finished")
    scene.redis.hset(job_of(scene, "b"), "status", "canceled")
    scene.redis.zrem(lane(scene), "a")

    [told] = auditing.run()

    assert ("a", True) == (told["schedule_id"], told["repaired"])
    assert told["found"].endswith("its run is finished in RQ")
    assert [("a", "gone")] == put_back(scene)
    assert b"finished" == scene.redis.hget(job_of(scene, "a"), "status")
    assert [] == auditing.run()
    assert {"b"} == {id for id, _ in scene.in_archive()}


def test_what_the_log_never_had_is_said_and_left(scene: Scene, auditing: Auditing) -> None:
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


# -- occurrences --------------------------------------------------------------------------------------


def bootstrapped_with_a_skip(scene: Scene) -> int:
    """An archive that begins with what Redis holds: a rule whose next occurrence is one too late. The one left out."""
    scene.client.schedule(FUNC, id="r", every=600, at=None)
    nominal_ms = int(scene.redis.hget(scene.keys.schedule("r"), "nominal") or 0)
    scene.redis.hset(scene.keys.schedule("r"), "nominal", nominal_ms + 600_000)
    scene.redis.zadd(lane(scene), {"r": nominal_ms + 600_000})
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    scene.follow("late.db")
    return nominal_ms


def test_an_occurrence_that_was_left_out_is_found_and_fires_late(scene: Scene, auditing: Auditing) -> None:
    nominal_ms = bootstrapped_with_a_skip(scene)
    assert [] == auditing.run()  # it is not due yet
    auditing.pass_time(600_000 + GRACE_MS - 1000)
    assert [] == auditing.run()  # nor missed
    auditing.pass_time(1100)

    [told] = auditing.run()
    scene.tick()

    assert ("occurrence_missing", "r", True) == (told["event"], told["schedule_id"], told["repaired"])
    assert {scene.keys.run_id("r", nominal_ms)} == scene.queued()
    assert [] == auditing.run()
    assert nominal_ms + 600_000 == int(scene.redis.hget(scene.keys.schedule("r"), "nominal") or 0)


def test_a_clock_that_was_set_back_leaves_nothing_out(scene: Scene, auditing: Auditing) -> None:
    starts = datetime(2026, 1, 1, tzinfo=UTC)
    scene.client.schedule(FUNC, id="r", every=600, starts=starts)
    assert [] == auditing.run()
    scene.pass_time(-10 * 600_000)
    scene.client.run_now("r")
    auditing.pass_time(9 * 600_000)
    scene.tick()

    assert [] == auditing.run()


def test_what_waits_in_its_place_and_does_not_fire_is_said(scene: Scene, auditing: Auditing) -> None:
    for number in range(3):
        scene.client.schedule(FUNC, id=f"s{number}", after=1 + number)
    assert [] == auditing.run()
    auditing.pass_time(30_000)
    assert [] == auditing.run()
    auditing.pass_time(GRACE_MS)

    [told] = auditing.run()

    assert ("occurrence_overdue", "s0", 3) == (told["event"], told["schedule_id"], told["overdue"])
    assert [] == auditing.run()  # it lasts
    assert auditing.audit is not None
    assert 1 == auditing.audit["alarms"]
    assert [] == put_back(scene)
    scene.tick()
    assert [] == auditing.run()


@pytest.mark.parametrize("why", ["it leads only now", "the clock was set", "it was held"])
def test_what_could_not_fire_before_is_not_overdue(scene: Scene, auditing: Auditing, why: str) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    auditing.run()
    auditing.clock.advance(HOUR_MS if why != "the clock was set" else 0)
    scene.pass_time(HOUR_MS)
    if why == "it leads only now":
        auditing.begin()
    elif why == "it was held":
        scene.redis.hset(scene.keys.meta(), "hold", scene.now_ms + 1000)
        auditing.steps()
        assert auditing.audit is None
        scene.redis.hset(scene.keys.meta(), "hold", 0)

    assert [] == auditing.run()
    auditing.pass_time(GRACE_MS + 1)
    assert ["occurrence_overdue"] == [each["event"] for each in auditing.run()]


# -- when nothing can be concluded --------------------------------------------------------------------


def test_nothing_is_concluded_from_a_redis_that_lost_something(scene: Scene, auditing: Auditing) -> None:
    ground(scene)
    assert [] == auditing.run()
    lease, meta = scene.redis.get(scene.keys.lease()), scene.redis.hgetall(scene.keys.meta())
    scene.redis.flushall()
    scene.redis.set(scene.keys.lease(), lease or b"")
    scene.redis.hset(scene.keys.meta(), mapping=meta)  # type: ignore[arg-type]
    scene.client.schedule(FUNC, id="new", at=SOON)

    with capture_logs() as told:
        auditing.steps()

    assert [] == alarms(told)
    assert auditing.audit is None
    assert ["put"] == [entry.kind for entry in scene.log()]


@pytest.mark.parametrize("state", [ArchiveState.LOST, ArchiveState.FOLLOWING])
def test_nothing_is_done_while_an_archive_puts_back_what_redis_lost(
    scene: Scene, auditing: Auditing, state: ArchiveState
) -> None:
    ground(scene)
    auditing.run()
    scene.redis.zrem(lane(scene), "a")
    Archivers(scene.wire, scene.keys).report("other", scene.archive.position, state, {})

    with capture_logs():
        auditing.steps()

    assert (auditing.audit is None) == (state is ArchiveState.LOST)


def test_nothing_is_concluded_from_entries_that_cannot_be_read(scene: Scene, auditing: Auditing) -> None:
    ground(scene)
    auditing.run()
    version = scene.log()[-1].position
    scene.redis.zrem(lane(scene), "a")
    scene.redis.xadd(
        scene.keys.log(), {"kind": "of_tomorrow", "t": str(version.t_us)}, id=f"{version.epoch}-{version.seq + 1}"
    )
    scene.redis.hincrby(scene.keys.meta(), "seq", 1)

    with capture_logs():
        auditing.steps()  # not archived yet
        assert auditing.audit is None
        scene.follower.step()
        auditing.steps()

    assert auditing.audit is None
    assert [] == put_back(scene)


# -- what clients and a leader do ---------------------------------------------------------------------


class Quiet(Storm):
    """A storm in which no foreign hand does anything but RQ's own."""

    def lose_hash(self) -> None:
        self.wait()

    def break_rule(self) -> None:
        self.tick()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("page", [2, 200])
def test_whatever_clients_and_a_leader_do_is_no_alarm(
    scene: Scene, auditing: Auditing, seed: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", page)
    monkeypatch.setattr(module, "_ROUND", 2 * page)
    storm, rounds = Quiet(scene, seed), 0
    busy(auditing, storm, monkeypatch)

    with capture_logs() as told:
        for _ in range(60):
            for _ in range(4):
                storm.step()
            if storm.random.random() < 0.7:
                scene.follower.step()
            auditing.steps(lambda: storm.step() if storm.random.random() < 0.3 else None)
            rounds += auditing.audit is not None and auditing.audit["checked"] > 0

    assert [] == alarms(told)
    assert [] == put_back(scene)
    assert rounds > 20


def busy(auditing: Auditing, storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Things happen also between one question of the auditor and the next."""

    def between(owner: object, name: str) -> None:
        does = getattr(owner, name)

        def done(*arguments: Any, **options: Any) -> Any:
            if storm.random.random() < 0.2:
                storm.step()
            return does(*arguments, **options)

        monkeypatch.setattr(owner, name, done)

    between(auditing.auditor._audit, "look")
    between(auditing.auditor._log, "read")
    between(auditing.auditor._census, "schedules")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_foreign_hands_do_meanwhile_is_put_right_in_the_end(
    scene: Scene, auditing: Auditing, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    storm = Quiet(scene, seed)
    ground(scene)
    auditing.run()
    busy(auditing, storm, monkeypatch)
    for _ in range(10):
        does = storm.random.choice(list(HANDS.values()))[2]
        with capture_logs():
            try:
                does(scene)
            except (ValueError, redis.ResponseError):  # what it looks for is not there any more
                continue
            scene.follower.step()
            auditing.steps(lambda: storm.step() if storm.random.random() < 0.3 else None)
    monkeypatch.undo()

    for _ in range(2):
        auditing.run()

    assert scene.follower.step()
    held, known = schedules(scene.in_redis()), schedules(scene.in_archive())
    # But for what the log knows nothing of, or was told when a foreign hand had set the time: of these it only speaks.
    mended = {id: value for id, value in known.items() if value[0] == "quarantine" or is_due_as_its_run(value)}
    assert mended == {id: held.get(id) for id in mended}
    assert len(mended) > 1
    assert [] == auditing.run()


def test_a_restore_that_comes_too_late_is_tried_again(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground(scene)
    auditing.run()
    scene.redis.zrem(lane(scene), "a")
    scene.redis.zadd(lane(scene, "low"), {"b": 5})
    does, puts = module.Restoring.restore, count()

    def late(*arguments: Any) -> Any:
        for _ in range(21):  # more than the script looks at
            scene.client.schedule(FUNC, id=f"new{next(puts)}", at=SOON)
        return does(*arguments)

    monkeypatch.setattr(module.Restoring, "restore", late)
    told = auditing.run()
    assert [("a", False), ("b", False)] == sorted((each["schedule_id"], each["repaired"]) for each in told)
    monkeypatch.undo()
    monkeypatch.setattr(module, "_ROUND", 1)

    auditing.run()

    assert [("a", "due"), ("b", "due")] == sorted(put_back(scene))


def test_what_a_client_puts_while_others_are_put_back_stands(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "ROWS", 1)
    scene.client.schedule(FUNC, id="a", at=SOON)
    scene.client.schedule(FUNC, id="b", at=SOON)
    auditing.run()
    scene.redis.delete(lane(scene))
    does, puts = module.Restoring.restore, iter(["b"])

    def late(*arguments: Any) -> Any:
        for id in puts:
            scene.client.schedule(FUNC, id=id, at=SOON + timedelta(hours=1))
        return does(*arguments)

    monkeypatch.setattr(module.Restoring, "restore", late)

    told = auditing.run()

    assert [("a", True), ("b", False)] == sorted((each["schedule_id"], each["repaired"]) for each in told)
    assert [("a", "due")] == put_back(scene)
    assert SOON + timedelta(hours=1) == scene.client.get("b").next_at.replace(microsecond=SOON.microsecond)
    assert [] == auditing.run()


# -- in a daemon --------------------------------------------------------------------------------------


def test_a_daemon_puts_back_what_was_taken_away_and_tells_of_its_audit(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 50.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 50.0)
    know(redis_client)
    client, keys = Client.from_url(redis_url), Keys("default")
    settings, link = ArchiveSettings(path=archive_of_its_own()), Link.from_url(redis_url, 5)

    with DaemonThread(redis_url, archive=settings, lease_ms=60_000, renew_ms=20_000) as daemon:
        eventually(lambda: Archivers(link, keys).alive())
        client.schedule(FUNC, id="a", at=SOON, durable=True)
        redis_client.zrem(keys.due_normal(), "a")

        eventually(lambda: redis_client.zscore(keys.due_normal(), "a") is not None)
        eventually(lambda: any(each["event"] == "schedule_missing" for each in daemon.events))
        story = client.why("a")
        audit = daemon.daemon._archiver.audit

    link.pool.disconnect()
    assert audit is not None
    assert audit["checked"] == 1
    assert "put back" in story.lines[-1][1]


def test_a_daemon_with_busy_clients_says_nothing(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_MS", 1.0)
    monkeypatch.setattr(module, "_AGAIN_MS", 1.0)
    monkeypatch.setattr(module, "_PAUSE_MS", 1.0)
    monkeypatch.setattr(module, "_PAGE", 5)
    know(redis_client)
    settings, link = ArchiveSettings(path=archive_of_its_own()), Link.from_url(redis_url, 5)
    passes: list[Any] = []
    ends = Auditor._end
    monkeypatch.setattr(Auditor, "_end", lambda *given: (passes.append(given[1].checked), ends(*given)))

    with DaemonThread(redis_url, archive=settings, lease_ms=60_000, renew_ms=20_000) as daemon:
        eventually(lambda: Archivers(link, Keys("default")).alive())
        is_enough = threading.Event()
        clients = [threading.Thread(target=keep_busy, args=(redis_url, seed, is_enough)) for seed in range(3)]
        for client in clients:
            client.start()
        try:
            eventually(lambda: len(passes) > 20, 60)
        finally:
            is_enough.set()
            for client in clients:
                client.join(60)
        done = len(passes)
        eventually(lambda: len(passes) > done + 1)
        errors = [event for event in daemon.events if event["level"] == "error"]
    link.pool.disconnect()

    assert [] == errors
    assert sum(passes) > 100
    assert 0 == redis_client.exists("zsched:{default}:quarantine")


def keep_busy(url: str, seed: int, is_enough: threading.Event) -> None:
    """A client that does this and that."""
    client, chance = Client.from_url(url), random.Random(seed)
    for number in count():
        if is_enough.is_set():
            return
        id = f"s{chance.randrange(30)}"
        verb = chance.choice(["at", "soon", "every", "cron", "pause", "resume", "skip", "cancel", "now", "many"])
        with suppress(ScheduleNotFound, InvalidSchedule, TriggerError):
            if verb == "at":
                client.schedule(FUNC, id=id, at=SOON, args=(number,))
            elif verb == "soon":
                client.schedule(FUNC, id=id, after=chance.choice([0, 0.01, 0.1]))
            elif verb == "every":
                client.schedule(FUNC, id=id, every=chance.choice([0.02, 0.2, 60]), args=(number % 2,))
            elif verb == "cron":
                client.schedule(FUNC, id=id, cron="* * * * *")
            elif verb == "pause":
                client.pause(id)
            elif verb in ("resume", "skip"):
                client.resume(id, "skip" if verb == "skip" else "fire")
            elif verb == "cancel":
                client.cancel(id)
            elif verb == "now":
                client.run_now(id)
            else:
                client.schedule_many({"func": FUNC, "id": f"s{n}", "at": SOON} for n in chance.sample(range(30), 5))


def test_status_tells_of_the_last_audit(redis_url: str, redis_client: redis.Redis) -> None:
    keys, link, cli = Keys("default"), Link.from_url(redis_url, 5), CliRunner(env={"ZSCHED_REDIS_URL": redis_url})
    seconds, _ = redis_client.time()
    audit = {"at": seconds * 1000 - 90_000, "checked": 4000, "alarms": 3, "repaired": 2}
    older = {"at": 4_000, "checked": 1, "alarms": 0, "repaired": 0}
    for number, told in enumerate([older, audit, "odd", {"at": 9}]):
        Archivers(link, keys).report(str(number), None, ArchiveState.FOLLOWING, {"audit": told, "daemon": number})
    link.pool.disconnect()

    shown = json.loads(cli.invoke(program, ["status", "--json"]).stdout)
    text = cli.invoke(program, ["status"]).stdout

    assert audit | {"at": iso(audit["at"])} == shown["audit"]
    assert "1m 3" in text
    assert "s ago, of 4,000 schedules: 3 alarms, 2 put right" in text
    assert any(problem.startswith("the last audit: 1m 3") for problem in shown["problems"])
