"""A missing or overdue occurrence is found, and the auditor draws no conclusion from incomplete data."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from tests.builders.leaders import HOUR_MS, begin_term
from tests.builders.scenes import SOON, Scene, rows_put_back
from tests.integration.auditor.auditing import FUNC, Auditing, alarms, fill, lane
from zsched.archive.recall import Recall
from zsched.core.recovery.audit import GRACE_MS
from zsched.daemon import auditor as module
from zsched.storage.archivers import Archivers, ArchiveState


@pytest.fixture(autouse=True)
def no_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JUMP_MS", HOUR_MS // 2)  # of the auditor's clocks, only the server's goes by itself


def bootstrapped_with_a_skip(scene: Scene) -> int:
    """
    Bootstrap an archive from a Redis whose rule has its next occurrence one too late. Return the missing occurrence.
    """
    scene.client.schedule(FUNC, id="r", every=600, at=None)
    nominal_ms = int(scene.redis.hget(scene.keys.schedule("r"), "nominal") or 0)
    scene.redis.hset(scene.keys.schedule("r"), "nominal", nominal_ms + 600_000)
    scene.redis.zadd(lane(scene), {"r": nominal_ms + 600_000})
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    scene.follow("late.db")
    return nominal_ms


def test_a_missing_occurrence_is_found_and_fires_late(scene: Scene, auditing: Auditing) -> None:
    nominal_ms = bootstrapped_with_a_skip(scene)
    assert [] == auditing.run()  # it is not due yet
    auditing.pass_time(600_000 + GRACE_MS // 2)
    assert [] == auditing.run()  # nor missed
    auditing.pass_time(GRACE_MS // 2 + 100)

    [told] = auditing.run()
    scene.tick()

    assert ("occurrence_missing", "r", True) == (told["event"], told["schedule_id"], told["repaired"])
    assert {scene.keys.run_id("r", nominal_ms)} == scene.queued()
    assert [] == auditing.run()
    assert nominal_ms + 600_000 == int(scene.redis.hget(scene.keys.schedule("r"), "nominal") or 0)


def test_a_clock_set_back_causes_no_missing_occurrence(scene: Scene, auditing: Auditing) -> None:
    starts = datetime(2026, 1, 1, tzinfo=UTC)
    scene.client.schedule(FUNC, id="r", every=600, starts=starts)
    assert [] == auditing.run()
    scene.pass_time(-10 * 600_000)
    scene.client.run_now("r")
    auditing.pass_time(9 * 600_000)
    scene.tick()

    assert [] == auditing.run()


def test_a_new_term_waits_a_minute_before_its_first_pass(scene: Scene, auditing: Auditing) -> None:
    auditing.run()
    auditing.audit = None
    scene.redis.delete(scene.keys.lease())
    term = begin_term(scene.wire, scene.keys)

    for wait_ms in (0, module._EVERY_MS - 1):
        auditing.clock.advance(wait_ms)
        auditing.auditor.step(term)
        assert auditing.audit is None
    auditing.clock.advance(1)
    auditing.auditor.step(term)

    assert auditing.audit is not None


def test_an_overdue_occurrence_in_its_lane_raises_an_alarm(scene: Scene, auditing: Auditing) -> None:
    for number in range(3):
        scene.client.schedule(FUNC, id=f"s{number}", after=1 + number)
    assert [] == auditing.run()
    auditing.pass_time(GRACE_MS // 4)
    assert [] == auditing.run()
    auditing.pass_time(GRACE_MS)

    [told] = auditing.run()

    assert ("occurrence_overdue", "s0", 3) == (told["event"], told["schedule_id"], told["overdue"])
    assert [] == auditing.run()  # it lasts
    assert auditing.audit is not None
    assert 1 == auditing.audit["alarms"]
    assert [] == rows_put_back(scene)
    scene.tick()
    assert [] == auditing.run()


def test_the_rows_are_read_again_only_after_another_entry_or_a_due_time(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, first_due_ms, overdue = list[str](), Recall.first_due_ms, Recall.overdue

    def read_first(self: Recall) -> int | None:
        reads.append("first")
        return first_due_ms(self)

    def read_overdue(self: Recall, before_ms: int, limit: int) -> tuple[int, list[str]]:
        reads.append("overdue")
        return overdue(self, before_ms, limit)

    monkeypatch.setattr(Recall, "first_due_ms", read_first)
    monkeypatch.setattr(Recall, "overdue", read_overdue)
    scene.client.schedule(FUNC, id="a", after=3600)
    assert [[], []] == [auditing.run(), auditing.run()]
    assert ["first"] == reads

    scene.client.schedule(FUNC, id="b", after=1800)
    assert [] == auditing.run()
    assert ["first", "first"] == reads

    auditing.pass_time(1_800_000 + GRACE_MS + 1)
    assert ["b"] == [each["schedule_id"] for each in auditing.run()]
    assert ["first", "first", "overdue"] == reads


@pytest.mark.parametrize("why", ["it leads only now", "the clock was set", "it was held"])
def test_an_occurrence_that_was_blocked_until_now_is_not_overdue(scene: Scene, auditing: Auditing, why: str) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    auditing.run()
    auditing.clock.advance(HOUR_MS if why != "the clock was set" else 0)
    scene.pass_time(HOUR_MS)
    if why == "it leads only now":
        auditing.begin()
    elif why == "it was held":
        scene.redis.hset(scene.keys.meta(), "hold", scene.now_ms + 60_000)
        auditing.steps()
        assert auditing.audit is None
        scene.redis.hset(scene.keys.meta(), "hold", 0)

    assert [] == auditing.run()
    auditing.pass_time(GRACE_MS + 1)
    assert ["occurrence_overdue"] == [each["event"] for each in auditing.run()]


def test_an_audit_waits_for_a_late_archive(scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(scene)
    monkeypatch.setattr(module, "_BEHIND", 1)
    assert [] == auditing.run()

    scene.client.schedule(FUNC, id="new", at=SOON)
    scene.client.schedule(FUNC, id="newer", at=SOON)
    auditing.steps()

    assert auditing.audit is None
    assert [] == auditing.run()


def test_an_audit_stops_when_redis_lost_its_history(scene: Scene, auditing: Auditing) -> None:
    fill(scene)
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
def test_an_audit_waits_while_an_archive_restores(scene: Scene, auditing: Auditing, state: ArchiveState) -> None:
    fill(scene)
    auditing.run()
    scene.redis.zrem(lane(scene), "a")
    Archivers(scene.wire, scene.keys).report("other", scene.archive.position, state, {})

    with capture_logs():
        auditing.steps()

    assert (auditing.audit is None) == (state is ArchiveState.LOST)


def test_an_audit_stops_at_unreadable_log_entries(scene: Scene, auditing: Auditing) -> None:
    fill(scene)
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
    assert [] == rows_put_back(scene)
