"""Corrections: a following archive reads the restore of a returned archive, and knows a later change."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.scenes import SOON, Scene, assert_state_is_redis_own, schedule
from tests.integration.archive.merging import Two, Watched, due_now, lane_states, lead, put_back, run, said, watch
from tests.waiting import WITHIN_S
from zsched.config.settings import ArchiveSettings, Settings
from zsched.core.clock import from_ms
from zsched.core.log.puts import restored
from zsched.core.occurrences.outcomes import What
from zsched.core.record import Record
from zsched.daemon.archiver import Archiver
from zsched.daemon.follower import Follower
from zsched.daemon.peers import Correction
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.restoring import Restoring, Written


@pytest.fixture
def two(scene: Scene) -> Two:
    """Two archives that follow: the first one will be away."""
    return watch(scene), watch(scene, scene.follow("two.db"))


def lose_and_recover(scene: Scene, knowing: Watched, late: Watched, happen: Callable[[], object]) -> None:
    """
    Call *happen* while *late* is away, then lose all data. *knowing* restores its data and follows. *late* returns and
    restores older data before *knowing* continues.
    """
    late.go_on()
    happen()
    knowing.go_on()
    put_back(scene)
    lead(scene)
    knowing.go_on()
    run(scene, late.archive)


def lose_while_late_is_away(scene: Scene, two: Two) -> None:
    """Cancel a schedule while the first archive is away, then lose all data; no archive has restored anything."""
    late, knowing = two
    schedule(scene, "kept", "cancelled")
    late.go_on()
    scene.client.cancel("cancelled")
    knowing.go_on()
    put_back(scene)
    lead(scene)


def corrections(scene: Scene) -> list[tuple[str, str]]:
    """Return the corrected schedules, and the place of each."""
    entries = [one for one in scene.log() if one.kind == "restore" and one.body[1] == b"corrected"]
    return [(row.id, row.place) for one in entries for row in restored(one)]


def assert_both_have_what_redis_holds(scene: Scene, two: Two) -> None:
    for one in two:
        one.go_on()
        one.go_on()
        scene.archive = one.archive
        assert_state_is_redis_own(scene)


def test_a_cancelled_schedule_restored_by_another_archive_is_removed_again(scene: Scene, two: Two) -> None:
    late, knowing = two
    schedule(scene, "kept", "cancelled")
    scene.client.schedule("app.task", id="rule", every=3600)

    lose_and_recover(scene, knowing, late, lambda: [scene.client.cancel(id) for id in ("cancelled", "rule")])
    assert {"kept", "cancelled", "rule"} == set(lane_states(scene))
    knowing.go_on()

    assert {"kept": "due"} == lane_states(scene)
    assert {("cancelled", "gone"), ("rule", "gone")} == set(corrections(scene))
    assert [What.RESTORED, What.WITHDRAWN] == said(scene, "cancelled")
    assert_both_have_what_redis_holds(scene, two)
    assert 2 == len(corrections(scene))


def test_a_correction_removes_a_restored_schedule_whose_run_has_ended(scene: Scene, two: Two) -> None:
    late, knowing = two
    due_now(scene, "ended")

    lose_and_recover(scene, knowing, late, lambda: [scene.tick(), *map(scene.client.cancel_run, scene.queued())])
    assert {"ended"} == set(lane_states(scene))
    knowing.go_on()

    assert {} == scene.in_redis()
    assert_both_have_what_redis_holds(scene, two)


def test_a_schedule_restored_after_it_fired_fires_again_marked_uncertain(scene: Scene, two: Two) -> None:
    late, knowing = two
    due_now(scene, "open")

    lose_and_recover(scene, knowing, late, scene.tick)
    knowing.go_on()
    lead(scene)
    scene.tick()

    [run_id] = scene.queued()
    assert b"1" == scene.redis.hget(scene.keys.rq.job(run_id), "zs_uncertain")
    assert_both_have_what_redis_holds(scene, two)


def test_a_corrected_rule_keeps_its_later_time(scene: Scene, two: Two) -> None:
    late, knowing = two
    scene.client.schedule("app.task", id="rule", every=60)
    scene.client.schedule("app.task", id="changed", every=3600)

    def go_on() -> None:
        scene.pass_time(120_000)
        scene.tick()
        scene.client.update("changed", every=7200)
        scene.client.pause("changed")

    lose_and_recover(scene, knowing, late, go_on)
    known = scene.in_redis()
    knowing.go_on()

    assert known == scene.in_redis()
    assert [] == corrections(scene)  # it was there with its t, so nothing older was put back
    assert_both_have_what_redis_holds(scene, two)


def test_a_correction_keeps_a_schedule_put_after_the_restore(scene: Scene, two: Two) -> None:
    late, knowing = two
    schedule(scene, "again")

    lose_and_recover(scene, knowing, late, lambda: scene.client.cancel("again"))
    scene.client.schedule("app.task", args=("new",), id="again", at=from_ms(scene.now_ms) + timedelta(days=2))
    knowing.go_on()

    assert {"again": "due"} == lane_states(scene)
    assert [] == corrections(scene)
    assert_both_have_what_redis_holds(scene, two)


def test_a_cancelled_rule_that_fired_again_is_removed(scene: Scene, two: Two) -> None:
    late, knowing = two
    scene.client.schedule("app.task", id="rule", every=60)

    lose_and_recover(scene, knowing, late, lambda: scene.client.cancel("rule"))
    lead(scene)
    for _ in range(2):
        scene.pass_time(60_000)
        scene.tick()
    assert 2 == len([one for one in scene.log() if one.kind == "advance"])
    knowing.go_on()

    assert "rule" not in lane_states(scene) or "open" == lane_states(scene)["rule"]
    assert [("rule", "gone")] == corrections(scene)
    assert_both_have_what_redis_holds(scene, two)


def test_a_rule_advanced_by_the_leader_is_not_set_back(scene: Scene, two: Two) -> None:
    late, knowing = two
    scene.client.schedule("app.task", id="rule", every=60)

    lose_and_recover(scene, knowing, late, lambda: scene.client.update("rule", every=3600))
    lead(scene)
    scene.pass_time(60_000)
    scene.tick()
    knowing.go_on()

    assert [] == corrections(scene)
    assert_both_have_what_redis_holds(scene, two)


def test_the_later_change_counts_though_the_clock_was_set_back(scene: Scene, two: Two) -> None:
    late, knowing = two
    schedule(scene, "cancelled")

    lose_and_recover(scene, knowing, late, lambda: [scene.pass_time(-3_600_000), scene.client.cancel("cancelled")])
    for _ in range(3):
        knowing.go_on()
        late.go_on()

    assert {} == lane_states(scene)
    assert [("cancelled", "gone")] == corrections(scene)
    assert_both_have_what_redis_holds(scene, two)


def test_a_daemon_that_crashed_before_its_correction_corrects_after_its_restart(scene: Scene, two: Two) -> None:
    late, knowing = two
    schedule(scene, "cancelled")
    lose_and_recover(scene, knowing, late, lambda: scene.client.cancel("cancelled"))

    scene.archive = knowing.archive
    scene.reopen()
    Follower(scene.archive, scene.wire, scene.keys, knowing.clock).step()

    assert {} == lane_states(scene)


def test_a_restore_during_a_bootstrap_is_corrected(scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    late, knowing = two
    lose_while_late_is_away(scene, two)
    began = Follower._bootstrap
    monkeypatch.setattr(Follower, "_bootstrap", lambda *given: [run(scene, late.archive), began(*given)][1])

    knowing.go_on()

    assert {"kept": "due"} == lane_states(scene)
    assert_both_have_what_redis_holds(scene, two)


def test_a_rule_that_was_restored_with_an_open_run_is_corrected(scene: Scene, two: Two) -> None:
    late, knowing = two
    scene.client.schedule("app.task", id="rule", every=60)
    scene.pass_time(60_000)
    scene.tick()
    late.go_on()
    scene.client.cancel("rule")
    knowing.go_on()
    put_back(scene)
    lead(scene)
    run(scene, late.archive)
    restores = [entry for entry in scene.log() if entry.kind == "restore"]
    assert (["rule"], ["rule"]) == tuple([row.id for row in restored(entry)] for entry in restores)

    correction = Correction(knowing.archive, scene.wire, scene.keys, knowing.clock, lambda: None, hold_for_ms=1000)
    correction.answer(restores)

    assert [("rule", "gone")] == corrections(scene)
    assert not scene.redis.exists(scene.keys.schedule("rule"))


class Busy:
    """
    A Redis on which every attempt to restore takes 0.3 s of *one*'s time; before the first *tries* others write a lot.
    """

    def __init__(self, scene: Scene, one: Watched, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scene, self.one, self.tries, self.restores, self.compared = scene, one, tries, 0, 0
        self._restore, self._judge = Restoring.restore, Correction.judge
        monkeypatch.setattr(Restoring, "restore", lambda *args, **more: self.restore(*args, **more))
        monkeypatch.setattr(Correction, "judge", lambda *args: self.judge(*args))

    def restore(self, *args: Any, **more: Any) -> Written | None:
        self.one.clock.advance(300)
        self.restores += 1
        if self.restores <= self.tries:
            put = [{"func": "app.task", "id": f"other-{self.restores}-{n}", "at": SOON} for n in range(101)]
            for each in put:
                self.scene.client.schedule(**each)
        return self._restore(*args, **more)

    def judge(self, *args: Any) -> list[Record]:
        self.compared += 1
        return self._judge(*args)


def restored_too_much(scene: Scene, two: Two) -> None:
    late, knowing = two
    schedule(scene, "kept", "cancelled")
    lose_and_recover(scene, knowing, late, lambda: scene.client.cancel("cancelled"))


def test_a_correction_in_a_busy_log_holds_in_slices(scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _, knowing = two
    restored_too_much(scene, two)
    busy = Busy(scene, knowing, 3, monkeypatch)

    assert knowing.step()

    assert [2000] * 3 == knowing.holds
    assert 0 == knowing.follower.hold_for_ms
    assert (4, 1) == (busy.restores, busy.compared)
    assert [("cancelled", "gone")] == corrections(scene)


def test_a_long_correction_is_logged_and_ends_its_hold(scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _, knowing = two
    restored_too_much(scene, two)
    Busy(scene, knowing, 50, monkeypatch)

    with capture_logs() as told:
        knowing.step()

    assert {2000} == set(knowing.holds[:34])  # 10 s
    assert {0} == set(knowing.holds[35:])
    assert 50 == len(knowing.holds)
    assert 1 == sum(event["event"] == "correction_delayed" for event in told)
    assert [("cancelled", "gone")] == corrections(scene)


def test_a_slow_correction_during_a_bootstrap_does_not_begin_the_recovery_again(
    scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, knowing = two
    lose_while_late_is_away(scene, two)
    began: list[str] = []
    bootstrap = Follower._bootstrap

    def restored_meanwhile(*given: Any) -> bool:
        began.append("bootstrap")
        if len(began) == 1:
            run(scene, late.archive)
            Busy(scene, knowing, 3, monkeypatch)
        return bootstrap(*given)

    monkeypatch.setattr(Follower, "_bootstrap", restored_meanwhile)

    knowing.go_on()

    assert ["bootstrap"] == began
    assert ("cancelled", "gone") in corrections(scene)
    assert "cancelled" not in lane_states(scene)


def test_a_daemon_can_stop_during_a_correction(scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    _, knowing = two
    restored_too_much(scene, two)
    path, is_under_way = knowing.archive.path, Event()
    knowing.archive.close()
    Busy(scene, knowing, 1_000_000, monkeypatch)
    settings = Settings(namespace=scene.keys.namespace, archive=ArchiveSettings(path=str(path)))
    archiver = Archiver(settings, scene.link, knowing.clock, {"daemon": "daemon-1"})
    monkeypatch.setattr(archiver, "_hold_for_ms", lambda _: is_under_way.set() or 0)
    monkeypatch.setattr("zsched.daemon.archiver._STOP_S", WITHIN_S)

    archiver.open()
    archiver.start()
    assert is_under_way.wait(WITHIN_S)
    archiver.stop()

    assert archiver._loop.join(0)
    reports = {report.archive: report.state for report in Archivers(scene.wire, scene.keys).reports()}
    assert ArchiveState.STOPPED is reports[knowing.archive.id]
