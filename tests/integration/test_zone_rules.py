"""
The rules of a zone change: daemons as processes with other data each, and a leader's steps by hand.

By hand, schedules stand where other rules would have had them: an hour from where ours do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from structlog.testing import capture_logs

from tests.faults.clocks import now_ms, set_back
from tests.faults.ledger import doubles, entries, queued
from tests.faults.processes import DaemonProcess, archive_of_its_own, eventually
from tests.faults.threads import DaemonThread
from tests.integration.archive.ground import ALWAYS, HOUR_MS, Scene
from tests.integration.auditor.ground import Auditing
from tests.log_rows import row_lines
from zsched import Client
from zsched.core.audit import GRACE_MS
from zsched.core.changes import What
from zsched.core.clock import ManualClock, from_ms, to_ms
from zsched.daemon import replan as module
from zsched.daemon.replan import Replanner
from zsched.daemon.tick import Tick
from zsched.embedded.guard import Guard
from zsched.storage.dispatch import FireResult
from zsched.storage.scanner import Scanner
from zsched.zone_rules import ZoneRules

pytestmark = pytest.mark.redis
FUNC, TZ = "app.task", "Europe/Berlin"
EAST, WEST = "Etc/GMT-4", "Etc/GMT+1"  # two or three hours from Berlin: its times come so much earlier, or later
OLD, NEW = ZoneRules("2025a", "here"), ZoneRules("2026z", "here")
FREE, BUSY, HELD = Tick(), Tick(has_more=True), Tick(wait_ms=5.0)


# -- daemons with data of their own -------------------------------------------------------------------


@pytest.fixture
def client(client: Client, redis_client: redis.Redis) -> Client:
    redis_client.client_kill_filter(_type="pubsub")
    return client


class Machine:
    """Where daemons run, one after the other, with the zones of a folder in which Berlin has the rules of *berlin*."""

    def __init__(self, guard: Guard, url: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._guard, self._url, self._folder, self._patch = guard, url, folder, patch
        self._archive = archive_of_its_own()

    def start(self, version: str, berlin: str) -> DaemonProcess:
        zones = self._folder / version
        (zones / "Europe").mkdir(parents=True)
        for name, rules in ((TZ, berlin), ("UTC", "UTC")):
            (zones / name).write_bytes(resources.files("tzdata").joinpath("zoneinfo", *rules.split("/")).read_bytes())
        (zones / "tzdata.zi").write_text(f"# version {version}\n")
        self._patch.setenv("PYTHONTZPATH", str(zones))
        return DaemonProcess(self._guard, self._url, ARCHIVE_PATH=self._archive)


@pytest.fixture
def machine(guard: Guard, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(guard, redis_url, tmp_path, monkeypatch)


@contextmanager
def running(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """Stops *daemon* at the end of the block."""
    yield daemon
    daemon.send(signal.SIGTERM)
    assert 0 == daemon.wait()


def daily(at_ms: int, rules: str) -> str:
    """The rule that is due at *at_ms*, and every day, by the clock of *rules*."""
    local = from_ms(at_ms).astimezone(ZoneInfo(rules))
    return f"FREQ=DAILY;BYHOUR={local.hour};BYMINUTE={local.minute};BYSECOND={local.second}"


def day_later(at_ms: int, clock_of: str, by: str) -> int:
    """The next day, when the clock of zone *by* shows what that of *clock_of* showed at *at_ms*."""
    local = from_ms(at_ms).astimezone(ZoneInfo(clock_of)).replace(tzinfo=None) + timedelta(days=1)
    return to_ms(local.replace(tzinfo=ZoneInfo(by)))


def in_whole_seconds(client: redis.Redis, ahead_s: int) -> int:
    return (now_ms(client) // 1000 + ahead_s) * 1000


def test_a_daemon_with_new_zone_rules_fires_at_the_new_time_and_logs_both_versions(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    new_ms = in_whole_seconds(redis_client, 4)
    put = client.schedule(FUNC, id="r", rrule=daily(new_ms, EAST), tz=TZ)
    client.schedule(FUNC, id="utc", cron="0 9 * * *")
    client.schedule(FUNC, id="paused", rrule=daily(new_ms, EAST), tz=TZ)
    client.pause("paused", "until May")
    assert put.next_at is not None
    old_ms = to_ms(put.next_at)
    assert new_ms + HOUR_MS < old_ms
    others = client.get("utc")

    with running(machine.start("2025a", TZ)) as before:
        before.wait_for("zone_rules_noted")
        assert b"2025a" == redis_client.hget("zsched:{default}:meta", "tzdata")
    with running(machine.start("2025b", EAST)) as after:
        said = after.wait_for("zone_rules_changed")
        eventually(lambda: redis_client.llen("rq:queue:default"))
        story = client.why("r")

    assert {"old": "2025a", "new": "2025b", "moved": 2, "level": "warning"}.items() <= said.items()
    assert [f"r-{new_ms}"] == queued(redis_client)
    assert min(entry.t for entry in entries(redis_client, "advance")) >= new_ms * 1000
    assert day_later(new_ms, EAST, EAST) == client.get("r").next_ms
    assert new_ms == client.get("paused").next_ms
    assert others == client.get("utc")
    rows = [line for entry in entries(redis_client, "replan") for line in entry.rows]
    assert sorted(f"{id} {old_ms} {new_ms} {new_ms}" for id in ("r", "paused")) == sorted(rows)
    lines = [text for _, text in story.lines if "rules changed" in text]
    assert ["2025a → 2025b"] == [line.partition("tzdata ")[2].partition(")")[0] for line in lines]
    assert " instead of " in lines[0]
    assert [What.PUT, What.REPLANNED, What.FIRED] == [change.what for change in story.changes]


def test_an_occurrence_that_fired_by_the_old_rules_does_not_fire_again(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    at_ms = in_whole_seconds(redis_client, -1)
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="r", rrule=daily(at_ms, TZ), tz=TZ)

    with running(machine.start("2025a", TZ)):
        eventually(lambda: redis_client.llen("rq:queue:default"))
    with running(machine.start("2025b", WEST)) as after:
        after.wait_for("zone_rules_changed")
        next_ms = client.get("r").next_ms
    with running(machine.start("2025c", TZ)) as back:  # an older machine takes over
        said = back.wait_for("zone_rules_changed")

    assert [f"r-{at_ms}"] == queued(redis_client)
    assert day_later(at_ms, TZ, WEST) == next_ms
    assert day_later(at_ms, TZ, TZ) == client.get("r").next_ms
    assert {"old": "2025b", "new": "2025c", "moved": 1}.items() <= said.items()


def test_an_occurrence_due_by_the_old_rules_at_start_waits_for_its_new_time(
    client: Client, redis_client: redis.Redis, machine: Machine
) -> None:
    at_ms = in_whole_seconds(redis_client, -1)
    with set_back(redis_client, HOUR_MS):
        client.schedule(FUNC, id="r", rrule=daily(at_ms, TZ), tz=TZ)
    later_ms = day_later(at_ms, TZ, WEST) - 24 * HOUR_MS
    redis_client.hset("zsched:{default}:meta", "tzdata", "2025a")

    with running(machine.start("2025b", WEST)) as after:
        after.wait_for("zone_rules_changed")
        client.schedule(FUNC, id="behind", after=0.01)
        eventually(lambda: redis_client.llen("rq:queue:default"))

    assert ["behind"] == [run.rpartition("-")[0] for run in queued(redis_client)]
    assert later_ms == client.get("r").next_ms
    assert [] == doubles(queued(redis_client))


# -- a leader's steps ---------------------------------------------------------------------------------


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(redis_client, redis_url, tmp_path, "shop")
    yield scene
    scene.close()


class Leading:
    """A leader's replanner on *scene*, a step at a time."""

    def __init__(self, scene: Scene, rules: ZoneRules = NEW) -> None:
        self.scene, self.clock = scene, ManualClock()
        self.replanner = Replanner(scene.wire, scene.keys, rules, self.clock)

    def step(self, tick: Tick = FREE) -> bool:
        return self.replanner.step_if_free(self.scene.term, tick)

    def fire(self) -> FireResult:
        """Fire what is due, as the ticker does, up to what it advances."""
        fired = self.scene.dispatch.fire(self.scene.term, ALWAYS, 100)
        assert isinstance(fired, FireResult)
        return self.replanner.keep_back(self.scene.term, fired)

    def settle(self) -> list[dict[str, Any]]:
        """Steps until all is planned by its rules; what was said."""
        with capture_logs() as said:
            while self.step():
                pass
        return [dict(each) for each in said]

    @property
    def tzdata(self) -> bytes | None:
        found: bytes | None = self.scene.redis.hget(self.scene.keys.meta(), "tzdata")
        return found


def put(scene: Scene, *ids: str, off_ms: int = HOUR_MS, **more: Any) -> dict[str, int]:
    """Daily rules in Berlin, half a day away, that wait *off_ms* from where they should; where that is."""
    should_ms, hour = {}, (from_ms(scene.now_ms).astimezone(ZoneInfo(TZ)).hour + 12) % 24
    for id in ids:
        next_at = scene.client.schedule(FUNC, id=id, **({"cron": f"0 {hour} * * *", "tz": TZ} | more)).next_at
        assert next_at is not None
        should_ms[id] = to_ms(next_at)
        plan_otherwise(scene, id, should_ms[id] + off_ms)
    return should_ms


def plan_otherwise(scene: Scene, id: str, ms: int) -> None:
    """As other rules of its zone would have had it."""
    scene.redis.hset(scene.keys.schedule(id), "nominal", ms)
    scene.redis.zadd(scene.keys.due_normal(), {id: ms})


def where(scene: Scene) -> dict[str, tuple[int | None, int | None]]:
    scanner = Scanner(scene.wire, scene.keys)
    return {row.id: (row.due_ms, row.nominal_ms) for _, rows in scanner.schedules(scanner.ids()) for row in rows}


def test_replanning_moves_every_schedule_before_it_stores_the_version(scene: Scene) -> None:
    should_ms = put(scene, *(f"r{n}" for n in range(3 * module._PAGE)))
    leading = Leading(scene)
    pages = 0

    while b"2026z" != leading.tzdata:
        assert leading.step()
        pages += 1

    assert pages > 3
    assert {id: (ms, ms) for id, ms in should_ms.items()} == where(scene)
    assert not leading.step()


def test_replanning_logs_the_versions_and_the_number_of_moved_schedules(scene: Scene) -> None:
    put(scene, "a", "b")
    scene.redis.hset(scene.keys.meta(), "tzdata", "2025a")

    said = Leading(scene).settle()

    about = {"old": "2025a", "new": "2026z", "moved": 2, "source": "here"}
    assert [{"event": "zone_rules_changed", "log_level": "warning"} | about] == said
    assert [] == Leading(scene).settle()


def test_the_first_daemon_stores_the_version_and_moves_misplaced_schedules(scene: Scene) -> None:
    assert ["zone_rules_noted"] == [each["event"] for each in Leading(scene).settle()]
    scene.redis.hdel(scene.keys.meta(), "tzdata")  # a lost Redis, and what an archive has is of before
    put(scene, "a")

    said = Leading(scene).settle()

    assert [("zone_rules_changed", "unknown", 1)] == [(each["event"], each["old"], each["moved"]) for each in said]


def test_replanning_without_a_known_version_moves_nothing(scene: Scene) -> None:
    put(scene, "a")
    before = where(scene)

    said = Leading(scene, ZoneRules(None, "here")).settle()

    assert ["zone_rules_unknown"] == [each["event"] for each in said]
    assert before == where(scene)
    assert scene.redis.hget(scene.keys.meta(), "tzdata") is None


def test_replanning_interrupted_by_the_end_of_a_term_starts_again(scene: Scene) -> None:
    should_ms = put(scene, *(f"r{n}" for n in range(3 * module._PAGE)))
    first = Leading(scene)
    assert first.step()
    assert first.tzdata is None
    moved = len(entries_of(scene))

    Leading(scene).settle()

    assert {id: (ms, ms) for id, ms in should_ms.items()} == where(scene)
    rows = [line for entry in entries_of(scene) for line in entry]
    assert moved > 0
    assert sorted(should_ms) == sorted(line.split()[0] for line in rows)


def entries_of(scene: Scene) -> list[list[str]]:
    return [row_lines(entry.body) for entry in scene.log() if entry.kind == "replan"]


def test_a_schedule_that_cannot_be_planned_does_not_stop_the_replanning(scene: Scene) -> None:
    should_ms = put(scene, "bad", "good")
    scene.redis.hset(scene.keys.schedule("bad"), "trigger", "none")

    Leading(scene).settle()

    assert should_ms["good"] == where(scene)["good"][1]
    assert should_ms["bad"] + HOUR_MS == where(scene)["bad"][1]


def test_a_refused_replanning_is_logged_once_and_tried_again(scene: Scene) -> None:
    put(scene, "a")
    leading = Leading(scene)
    assert not leading.replanner.is_settled(scene.term)
    members = scene.redis.dump(scene.keys.recurring())
    scene.redis.delete(scene.keys.recurring())
    scene.redis.set(scene.keys.recurring(), "another writer's")

    with capture_logs() as said:
        for _ in range(3):
            assert not leading.step()
            leading.clock.advance(module._RETRY_MS)
    scene.redis.restore(scene.keys.recurring(), 0, members, replace=True)

    assert ["zone_rules_not_applied"] == [each["event"] for each in said]
    assert ["zone_rules_changed"] == [each["event"] for each in leading.settle()]


def test_a_schedule_due_by_other_rules_is_moved_before_it_fires(scene: Scene) -> None:
    should_ms = put(scene, "a", off_ms=-HOUR_MS)
    scene.client.schedule(FUNC, id="every", every=1)
    scene.pass_time(should_ms["a"] - HOUR_MS - scene.now_ms)
    leading = Leading(scene)

    fired = leading.fire()

    assert [b"every"] == [due.id for due in fired.recurring]
    assert fired.next_ms == fired.now_ms  # what was moved may be due now
    assert should_ms["a"] == where(scene)["a"][0]
    assert leading.tzdata is None


def test_a_leader_with_the_stored_version_fires_without_replanning(scene: Scene) -> None:
    should_ms = put(scene, "a", off_ms=-HOUR_MS)
    scene.redis.hset(scene.keys.meta(), "tzdata", "2026z")
    scene.pass_time(should_ms["a"] - scene.now_ms)

    fired = Leading(scene).fire()

    assert [b"a"] == [due.id for due in fired.recurring]


# -- its place among others ---------------------------------------------------------------------------


def test_replanning_waits_during_a_hold(scene: Scene) -> None:
    put(scene, "a")

    assert not Leading(scene).step(HELD)


def test_replanning_takes_a_tenth_of_the_time_of_a_busy_leader(scene: Scene) -> None:
    put(scene, *(f"r{n}" for n in range(2 * module._PAGE)))
    leading, at_ms = Leading(scene), []
    leading.replanner = Replanner(scene.wire, scene.keys, NEW, clock := SlowClock())

    while leading.tzdata is None:
        if leading.step(BUSY):  # for 1 ms, by that clock
            at_ms.append(ManualClock.monotonic_ms(clock))

    pauses_ms = [later_ms - ms for ms, later_ms in pairwise(at_ms)]
    assert len(pauses_ms) > 1
    assert 10 <= min(pauses_ms) <= max(pauses_ms) <= 12


def test_replanning_starts_no_page_just_before_a_due_time(scene: Scene) -> None:
    put(scene, *(f"r{n}" for n in range(2 * module._PAGE)))
    leading = Leading(scene)
    leading.replanner = Replanner(scene.wire, scene.keys, NEW, clock := SlowClock())
    assert leading.step()

    soon_ms = round(clock.monotonic_ms())

    assert not leading.step(Tick(next_ms=soon_ms + 2))
    assert leading.step(Tick(next_ms=soon_ms + 1000))


class SlowClock(ManualClock):
    """A look at it takes a ms."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


def test_tzdata_replaced_under_a_running_daemon_is_logged_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leading = Leading(scene)
    leading.settle()
    monkeypatch.setattr(module, "installed", lambda: OLD)

    with capture_logs() as said:
        leading.step()
        for _ in range(3):
            leading.clock.advance(module._LOOK_MS)
            leading.step()

    assert [("zone_rules_installed", "2026z, from here", "2025a, from here")] == [
        (each["event"], each["old"], each["new"]) for each in said
    ]


# -- what the others make of it -----------------------------------------------------------------------


def test_an_archive_follows_a_replanning(scene: Scene) -> None:
    put(scene, "a", "paused")
    scene.client.pause("paused", "until May")
    scene.follower.step()
    Leading(scene).settle()
    scene.follower.step()

    assert scene.in_redis() == scene.in_archive()


def test_the_auditor_raises_no_alarm_for_a_replanned_schedule(
    scene: Scene,
) -> None:
    should_ms = put(scene, "a", off_ms=0)["a"]
    [now] = [row for _, rows in Scanner(scene.wire, scene.keys).schedules(["a"]) for row in rows]
    version = now.split()[1]["version"].decode()
    later_ms = day_later(should_ms, TZ, TZ)
    auditing = Auditing(scene)

    scene.dispatch.replan(scene.term, "2026z", [module.Move("a", version, should_ms, should_ms, later_ms, later_ms)])
    auditing.pass_time(should_ms - scene.now_ms + 2 * GRACE_MS)

    assert [] == auditing.run()
    assert (later_ms, later_ms) == where(scene)["a"]


def test_a_schedule_moved_to_an_earlier_time_wakes_the_daemon(
    client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    next_at = client.schedule(FUNC, id="r", rrule=daily(in_whole_seconds(redis_client, 2), TZ), tz=TZ).next_at
    assert next_at is not None
    redis_client.hset("zsched:{default}:schedule:r", "nominal", to_ms(next_at) + HOUR_MS)
    redis_client.zadd("zsched:{default}:due:normal", {"r": to_ms(next_at) + HOUR_MS})

    with DaemonThread(redis_url, idle_ms=60_000) as daemon:
        daemon.wait_for("zone_rules_changed")
        eventually(lambda: redis_client.llen("rq:queue:default"))

    assert [f"r-{to_ms(next_at)}"] == queued(redis_client)
