"""A missing or overdue occurrence is found, and the auditor draws no conclusion from incomplete data."""

from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from tests.builders.leaders import HOUR_MS, begin_term
from tests.builders.progress import change_progress, progress_of
from tests.builders.scenes import SOON, Scene, rows_put_back
from tests.integration.auditor.auditing import FUNC, Auditing, alarms, fill, inspected, lane
from zsched.archive.recall import Recall
from zsched.core.recovery.audit import GRACE_MS
from zsched.daemon import auditor as module
from zsched.storage.archivers import Archivers, ArchiveState


def bootstrapped_with_a_skip(scene: Scene) -> int:
    """
    Bootstrap an archive from a Redis whose rule has its next occurrence one too late. Return the missing occurrence.
    """
    scene.client.schedule(FUNC, id="r", every=600, at=None)
    nominal_ms = int(progress_of(scene.redis, scene.keys, "r").get("nominal") or 0)
    change_progress(scene.redis, scene.keys, "r", nominal=nominal_ms + 600_000)
    scene.redis.zadd(lane(scene), {"r": nominal_ms + 600_000})
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)
    scene.follow("late.db")
    return nominal_ms


def test_an_inspection_finds_a_missing_occurrence(scene: Scene) -> None:
    nominal_ms = bootstrapped_with_a_skip(scene)
    assert {} == inspected(scene)  # it is not due yet
    scene.pass_time(600_000 + GRACE_MS // 2)
    assert {} == inspected(scene)  # nor missed
    scene.pass_time(GRACE_MS // 2 + 100)

    [alarm] = inspected(scene).values()

    assert ("occurrence_missing", "r") == (alarm.event.value, alarm.id)
    assert alarm.row is not None
    assert nominal_ms == alarm.row.nominal_ms


def test_a_clock_set_back_causes_no_missing_occurrence(scene: Scene) -> None:
    starts = datetime(2026, 1, 1, tzinfo=UTC)
    scene.client.schedule(FUNC, id="r", every=600, starts=starts)
    assert {} == inspected(scene)
    scene.pass_time(-10 * 600_000)
    scene.client.run_now("r")
    scene.pass_time(9 * 600_000)
    scene.tick()

    assert {} == inspected(scene)


def test_a_new_term_waits_a_minute_before_its_first_pass(scene: Scene, auditing: Auditing) -> None:
    auditing.run()
    auditing.audit = None
    scene.redis.delete(scene.keys.lease())
    term = begin_term(scene.wire, scene.keys)

    auditing.auditor.step(term)
    assert (None, module._EVERY_MS) == (auditing.audit, auditing.auditor.every_ms)
    auditing.auditor.step(term)

    assert auditing.audit is not None


def test_a_schedule_that_is_overdue_at_two_passes_raises_an_alarm(scene: Scene, auditing: Auditing) -> None:
    for number in range(3):
        scene.client.schedule(FUNC, id=f"s{number}", after=1 + number)
    assert [] == auditing.run()
    scene.pass_time(GRACE_MS // 4)
    assert [[], []] == [auditing.run(), auditing.run()]
    scene.pass_time(GRACE_MS)
    assert [] == auditing.run()

    [told] = auditing.run()

    assert ("occurrence_overdue", "s0") == (told["event"], told["schedule_id"])
    assert "waiting, with 2 others" == told["found"]
    assert [] == auditing.run()  # it lasts
    assert auditing.audit is not None
    assert 1 == auditing.audit["alarms"]
    assert [] == rows_put_back(scene)
    scene.tick()
    assert [] == auditing.run()


def test_a_state_is_searched_for_overdue_schedules_once(
    scene: Scene, auditing: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches, first_due_ms = list[Recall](), Recall.first_due_ms

    def counted(self: Recall) -> int | None:
        searches.append(self)
        return first_due_ms(self)

    monkeypatch.setattr(Recall, "first_due_ms", counted)
    fill(scene)
    auditing.run()
    auditing.run()
    assert 1 == len(searches)

    scene.client.schedule(FUNC, id="new", at=SOON)
    auditing.run()
    assert 2 == len(searches)


def test_an_occurrence_that_a_hold_blocked_is_not_overdue(scene: Scene, auditing: Auditing) -> None:
    scene.client.schedule(FUNC, id="a", after=1)
    scene.pass_time(HOUR_MS)
    assert [] == auditing.run()
    scene.redis.hset(scene.keys.meta(), "hold", scene.now_ms + 60_000)
    auditing.step()
    assert auditing.audit is None
    scene.redis.hset(scene.keys.meta(), "hold", 0)

    assert [] == auditing.run()
    assert ["occurrence_overdue"] == [each["event"] for each in auditing.run()]


def test_an_audit_stops_when_redis_lost_its_history(scene: Scene, auditing: Auditing) -> None:
    fill(scene)
    assert [] == auditing.run()
    lease, meta = scene.redis.get(scene.keys.lease()), scene.redis.hgetall(scene.keys.meta())
    scene.redis.flushall()
    scene.redis.set(scene.keys.lease(), lease or b"")
    scene.redis.hset(scene.keys.meta(), mapping=meta)  # type: ignore[arg-type]
    scene.client.schedule(FUNC, id="new", at=SOON)

    with capture_logs() as told:
        auditing.step()

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
        auditing.step()

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
        auditing.step()  # not archived yet
        assert auditing.audit is None
        scene.follower.step()
        auditing.step()

    assert auditing.audit is None
    assert [] == rows_put_back(scene)
