"""
A leader's replanner by hand, step by step.

Schedules are planned an hour away from their times by the installed rules.
"""

from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from tests.builders.entries import row_lines
from tests.builders.leaders import ALWAYS, HOUR_MS
from tests.builders.progress import change_progress
from tests.builders.scenes import Scene
from tests.clocks import day_later
from tests.integration.auditor.auditing import Auditing
from zsched.core.clock import ManualClock, from_ms, to_ms
from zsched.core.recovery.audit import GRACE_MS
from zsched.daemon import replan
from zsched.daemon import replan as module
from zsched.daemon.replan import Replanner
from zsched.daemon.tick import Tick
from zsched.storage.dispatch import FireResult
from zsched.storage.records import Scanner
from zsched.zone_rules import ZoneRules

FUNC, TZ = "app.task", "Europe/Berlin"
OLD, NEW = ZoneRules("2025a", "here"), ZoneRules("2026z", "here")
FREE, BUSY, HELD = Tick(), Tick(has_more=True), Tick(wait_ms=5.0)


class Leading:
    """A leader's replanner on *scene*, a step at a time."""

    def __init__(self, scene: Scene, rules: ZoneRules = NEW) -> None:
        self.scene, self.clock = scene, ManualClock()
        self.replanner = Replanner(scene.wire, scene.keys, rules, self.clock)

    def step(self, tick: Tick = FREE) -> bool:
        return self.replanner.step_if_free(self.scene.term, tick)

    def fire(self) -> FireResult:
        """Fire the due schedules like the ticker; return only those that may be advanced."""
        fired = self.scene.dispatch.fire(self.scene.term, ALWAYS, 100)
        assert isinstance(fired, FireResult)
        return self.replanner.keep_back(self.scene.term, fired)

    def settle(self) -> list[dict[str, Any]]:
        """Do steps until every schedule is planned by its rules; return the log events."""
        with capture_logs() as said:
            while self.step():
                pass
        return [dict(each) for each in said]

    @property
    def tzdata(self) -> bytes | None:
        found: bytes | None = self.scene.redis.hget(self.scene.keys.meta(), "tzdata")
        return found


def put(scene: Scene, *ids: str, off_ms: int = HOUR_MS, **more: Any) -> dict[str, int]:
    """Put daily rules in Berlin, *off_ms* away from their times; return the correct times."""
    should_ms, hour = {}, (from_ms(scene.now_ms).astimezone(ZoneInfo(TZ)).hour + 12) % 24
    for id in ids:
        next_at = scene.client.schedule(FUNC, id=id, **({"cron": f"0 {hour} * * *", "tz": TZ} | more)).next_at
        assert next_at is not None
        should_ms[id] = to_ms(next_at)
        plan_otherwise(scene, id, should_ms[id] + off_ms)
    return should_ms


def plan_otherwise(scene: Scene, id: str, ms: int) -> None:
    """Move schedule *id* to *ms*, as other zone rules would have planned it."""
    change_progress(scene.redis, scene.keys, id, nominal=ms)
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

    about = {"old": "2025a", "new": "2026z", "moved": 2, "kept": 0, "source": "here"}
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
    """A clock on which each reading takes a ms."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


def test_tzdata_replaced_under_a_running_daemon_is_logged_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leading = Leading(scene)
    leading.settle()
    monkeypatch.setattr(replan, "installed", lambda: OLD)

    with capture_logs() as said:
        leading.step()
        for _ in range(3):
            leading.clock.advance(Replanner.look_every_ms)
            leading.step()

    assert [("zone_rules_installed", "2026z, from here", "2025a, from here")] == [
        (each["event"], each["old"], each["new"]) for each in said
    ]


def test_an_archive_follows_a_replanning(scene: Scene) -> None:
    put(scene, "a", "paused")
    scene.client.pause("paused", "until May")
    scene.follower.step()
    Leading(scene).settle()
    scene.follower.step()

    assert scene.in_redis() == scene.in_archive()


def test_the_auditor_raises_no_alarm_for_a_replanned_schedule(scene: Scene) -> None:
    should_ms = put(scene, "a", off_ms=0)["a"]
    [now] = [row for _, rows in Scanner(scene.wire, scene.keys).schedules(["a"]) for row in rows]
    later_ms = day_later(should_ms, TZ, TZ)
    auditing = Auditing(scene)

    scene.dispatch.replan(scene.term, "tzdata", "2026z", [module.Move(now, later_ms, later_ms)])
    scene.pass_time(should_ms - scene.now_ms + 2 * GRACE_MS)

    assert [] == auditing.run()
    assert (later_ms, later_ms) == where(scene)["a"]
