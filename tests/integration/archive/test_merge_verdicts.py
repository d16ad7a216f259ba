"""An archive that must not restore anything, waits for another archive, or cannot read everything."""

from typing import Any

import pytest

from tests.builders.scenes import Scene, assert_state_is_redis_own, rows_put_back, schedule
from tests.integration.archive.merging import (
    lane_states,
    lead,
    lose,
    merge_of,
    once,
    put_back,
    run,
    snapshot,
    trim,
    watch,
)
from tests.states import state_of
from zsched.daemon.follower import Follower
from zsched.daemon.merge import Merge
from zsched.daemon.recovery import WAIT_MS
from zsched.storage.archivers import ArchiveState
from zsched.storage.log import Log
from zsched.storage.records import Scanner
from zsched.storage.restoring import Restoring


def test_an_archive_left_behind_by_trimming_restores_nothing_and_bootstraps(scene: Scene) -> None:
    schedule(scene, "a", "b")
    assert scene.follower.step()
    scene.client.cancel("a")
    schedule(scene, "c", "d")
    trim(scene)
    watched = watch(scene)

    watched.go_on(1)

    assert [] == rows_put_back(scene)
    assert {"b": "due", "c": "due", "d": "due"} == lane_states(scene)
    assert_state_is_redis_own(scene)


def test_positions_before_a_bootstrap_do_not_count_as_known(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    had = scene.archive.position
    assert had is not None
    schedule(scene, "b", "c")
    trim(scene)
    watched = watch(scene)
    watched.go_on(1)

    assert scene.archive.recall().number_of(had) is None
    scene.reopen()
    assert scene.archive.recall().number_of(had) is None
    assert scene.archive.recall().number_of(scene.log()[-1].position) is not None


def test_another_data_set_is_never_changed(scene: Scene) -> None:
    schedule(scene, "a")
    foreign = snapshot(scene)
    scene.redis.hset(scene.keys.meta(), "gen", "mine")
    put_back(scene)
    lead(scene)
    schedule(scene, "mine")
    scene.follow("mine.db")
    watched = watch(scene)
    watched.go_on()
    watched.follower.note_gen()
    put_back(scene, foreign)
    scene.redis.hset(scene.keys.meta(), "gen", "another")
    before, gens = scene.log(), scene.archive.gens

    for _ in range(4):
        assert not watched.step()
        watched.follower.note_gen()  # as the archiver does

    assert ArchiveState.REFUSED is watched.follower.state
    assert (before, gens) == (scene.log(), scene.archive.gens)
    assert {"mine"} == {row.id for row in state_of(scene.archive)}


@pytest.mark.parametrize("moment", ["comparing", "restore", "merged"])
def test_another_data_set_amid_a_recovery_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    schedule(scene, "a", "b")
    scene.archive.set_facts(gen="mine")
    watched = watch(scene)
    watched.go_on()
    put_back(scene)
    owner: type = Merge if moment == "comparing" else Restoring
    once(monkeypatch, owner, moment, lambda: scene.redis.hset(scene.keys.meta(), "gen", "another"))

    for _ in range(12):
        assert not watched.step()

    assert ArchiveState.REFUSED is watched.follower.state
    assert [] == [one for one in scene.log() if one.kind == ("merged" if moment == "merged" else "restore")]
    assert b"another" == scene.redis.hget(scene.keys.meta(), "gen")


def test_an_archive_in_manual_mode_waits_for_a_restore_by_hand(scene: Scene) -> None:
    schedule(scene, "a")
    lose(scene)
    watched = watch(scene)
    watched.follower = Follower(scene.archive, scene.wire, scene.keys, watched.clock, is_manual=True)

    for _ in range(4):
        assert not watched.step()
    assert (ArchiveState.LOST, True) == (watched.follower.state, watched.follower.awaits_people)
    assert (2000, []) == (watched.follower.hold_for_ms, scene.log())

    run(scene)
    watched.go_on()
    assert not watched.follower.awaits_people
    assert_state_is_redis_own(scene)


def test_an_archive_in_manual_mode_merges_at_once_if_nothing_is_missing(scene: Scene) -> None:
    schedule(scene, "a")
    old = snapshot(scene)
    schedule(scene, "b")
    scene.client.cancel("b")
    lose(scene, old)
    watched = watch(scene)
    watched.follower = Follower(scene.archive, scene.wire, scene.keys, watched.clock, is_manual=True)

    watched.go_on()

    assert ("merged", []) == (scene.log()[-1].kind, rows_put_back(scene))


def test_listing_the_rows_of_a_merge_writes_nothing(scene: Scene) -> None:
    schedule(scene, "a", "b")
    lose(scene)
    before = snapshot(scene)

    [portion] = merge_of(scene).rows()

    assert ({"a", "b"}, before) == ({row.id for row in portion}, snapshot(scene))


def test_an_unknown_entry_in_the_new_history_does_not_stop_a_merge(scene: Scene) -> None:
    schedule(scene, "a")
    lose(scene)
    schedule(scene, "b")
    scene.redis.xadd(scene.keys.log(), {"kind": "conjure", "t": "1800000000000000"}, id="0-2")
    scene.redis.hset(scene.keys.meta(), "seq", 2)

    run(scene)

    assert {"a", "b"} == lane_states(scene).keys()


def test_an_archive_that_waits_for_others_restores_nothing(scene: Scene) -> None:
    schedule(scene, "a")
    lose(scene)
    watched = watch(scene)

    for _ in range(3):
        watched.clock.advance(WAIT_MS / 4)
        assert not watched.follower.step()

    assert (ArchiveState.LOST, []) == (watched.follower.state, scene.log())
    assert 0 < watched.follower.pause_ms <= WAIT_MS
    watched.clock.advance(WAIT_MS)
    watched.go_on()
    assert {"a"} == lane_states(scene).keys()


def test_an_archive_reports_while_it_compares_a_long_log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a")
    lose(scene)
    lead(scene)
    for number in range(400):  # some nine pages
        schedule(scene, "b", args=(number,))
    watched, pages, read_back = watch(scene), [0], Log.read_back

    def slow(self: Log, *arguments: Any, **options: Any) -> Any:
        watched.clock.advance(150)
        pages[-1] += 1
        return read_back(self, *arguments, **options)

    monkeypatch.setattr(Log, "read_back", slow)
    while not watched.follower.step():  # an archiver reports after each
        pages.append(0)
    assert {"a", "b"} == lane_states(scene).keys()
    assert max(pages) <= 4


def test_entries_written_during_the_comparison_are_included(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a", "b")
    old = snapshot(scene)
    scene.client.update("a", args=("lost",))
    scene.client.update("b", args=("lost",))
    lose(scene, old)
    once(monkeypatch, Scanner, "schedules", lambda: scene.client.cancel("a"))

    run(scene)

    assert [("b", "due")] == rows_put_back(scene)
    assert {"b": "due"} == lane_states(scene)
