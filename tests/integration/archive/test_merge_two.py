"""Two archives with different knowledge: both restore what they know, in any order."""

import pytest

from tests.builders.scenes import Scene, assert_state_is_redis_own, rows_put_back, schedule
from tests.integration.archive.merging import (
    SEEDS,
    Two,
    Watched,
    assert_is_known,
    lane_states,
    lead,
    merge_of,
    put_back,
    run,
    skips,
    snapshot,
    watch,
)
from tests.integration.archive.storms import Storm
from tests.prefix import RQ
from tests.states import State
from zsched.core.log.puts import MergedEntry
from zsched.daemon.merge import OtherRestores
from zsched.storage.archivers import Archivers, ArchiveState


@pytest.fixture
def two(scene: Scene) -> Two:
    """Two archives with a common history and separate additions: the second one has more."""
    first = watch(scene)
    second = watch(scene, scene.follow("two.db"))
    schedule(scene, "both", "older", "taken")
    first.go_on()
    second.go_on()
    return first, second


def in_either_order(scene: Scene, two: Two, saved: dict[bytes, bytes] | None) -> list[State]:
    """Return what Redis holds after both archives have merged with *saved*, the one first or the other."""
    results = []
    for order in (two, two[::-1]):
        put_back(scene, saved)
        for one in order:
            run(scene, one.archive)
        results.append(scene.in_redis())
    return results


def test_two_different_archives_merge_in_either_order_with_the_same_result(scene: Scene, two: Two) -> None:
    first, second = two
    old = snapshot(scene)
    schedule(scene, "of-both", "open")
    scene.client.update("older", args=("known to both",))
    scene.client.run_now("open")
    first.go_on()
    schedule(scene, "of-second")
    scene.client.update("older", args=("known to the second",))
    scene.client.cancel("taken")
    scene.client.pause("of-both")
    second.go_on()

    results = in_either_order(scene, two, old)

    assert results[0] == results[1]
    places = {"both": "due", "older": "due", "of-both": "paused", "of-second": "due", "open": "open"}
    assert places == lane_states(scene)
    for one in two:
        one.go_on()
        scene.archive = one.archive
        assert_state_is_redis_own(scene)


def test_an_archive_that_waited_compares_again_after_another_archive_merged(scene: Scene) -> None:
    behind = watch(scene)
    ahead = watch(scene, scene.follow("two.db"))
    schedule(scene, "cancelled")
    behind.go_on()
    scene.client.cancel("cancelled")
    ahead.go_on()
    put_back(scene)
    assert not behind.step()

    run(scene, ahead.archive)
    behind.go_on()

    assert [] == rows_put_back(scene)
    assert {} == lane_states(scene)


def test_an_emptied_redis_is_filled_by_two_archives_in_either_order(scene: Scene, two: Two) -> None:
    _, second = two
    scene.client.update("older", args=("known to the second",))
    scene.client.pause("taken")
    schedule(scene, "of-second")
    second.go_on()

    results = in_either_order(scene, two, None)

    scene.archive = second.archive
    assert results[0] == results[1] == scene.in_archive()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_busy", [False, True])
def test_two_archives_restore_their_state_after_repeated_rollbacks(scene: Scene, seed: int, is_busy: bool) -> None:
    storm = Storm(scene, seed)
    both = [watch(scene), watch(scene, scene.follow("two.db"))]
    saved: list[dict[bytes, bytes] | None] = [None]
    for _ in range(4):
        storm.random.shuffle(both)
        for one in both:  # the second one knows more
            storm.run(storm.random.choice([1, 10, 30]))
            saved.append(snapshot(scene))
            one.go_on()
        scene.archive = both[1].archive
        known, skipped = scene.in_archive(), skips(scene)
        back_to = storm.random.randrange(len(saved))
        put_back(scene, saved[back_to])
        before = scene.in_redis()
        if not is_busy:  # what was lost stays lost; else also a Redis that was thought to be lost comes back
            del saved[back_to + 1 :]

        in_turn(both, storm, is_busy=is_busy)

        if not is_busy:
            assert_is_known(scene, known, before, skipped)
        lead(scene)
        for one in both:
            one.go_on()
            scene.archive = one.archive
            assert_state_is_redis_own(scene)
        queue = scene.redis.lrange(f"{RQ}:queue:default", 0, -1)
        assert sorted(set(queue)) == sorted(queue)


def in_turn(both: list[Watched], storm: Storm, *, is_busy: bool) -> None:
    """Step both archives at random until both follow; clients make changes meanwhile if *is_busy*."""
    done = {number for number, one in enumerate(both) if one.step()}  # each has told where it was before one merges
    for _ in range(100):
        number = storm.random.randrange(2)
        if both[number].step():
            done.add(number)
        if is_busy and storm.random.random() < 0.3:
            lead(storm.scene)
            storm.step()
        if len(done) == 2:
            return
    raise AssertionError([one.follower.state for one in both])


def test_an_archive_that_sees_another_restore_waits(scene: Scene, two: Two) -> None:
    first, second = two
    put_back(scene)
    merge, other = merge_of(scene, first.archive), merge_of(scene, second.archive)
    list(other.run())

    with pytest.raises(OtherRestores):
        list(merge.run())

    again = run(scene, first.archive)
    assert (0, 1) == (again.done.total(), len([one for one in scene.log() if one.kind == "restore"]))


def test_two_archives_in_turns_restore_everything_once(scene: Scene, two: Two) -> None:
    put_back(scene)
    done = [False, False]
    for _ in range(20):
        done = [one.step() for one in two]
        if all(done):
            break

    assert all(done)
    assert {("both", "due"), ("older", "due"), ("taken", "due")} == set(rows_put_back(scene))
    assert 3 == len(rows_put_back(scene))
    for one in two:
        scene.archive = one.archive
        assert_state_is_redis_own(scene)


def test_a_merged_entry_lists_the_reported_positions_that_its_archive_contains(scene: Scene, two: Two) -> None:
    first, second = two
    behind = first.archive.position
    schedule(scene, "more")
    second.go_on()
    ahead = second.archive.position
    put_back(scene)
    for one in two:
        Archivers(scene.wire, scene.keys).report(one.archive.id, one.archive.position, ArchiveState.LOST, {})

    merge = run(scene, second.archive)

    assert {behind, ahead} == set(MergedEntry(scene.log()[-1]).positions()) == merge.covered
    assert 0 == run(scene, first.archive).done.total()


def test_a_following_archive_confirms_the_position_of_a_peer(scene: Scene, two: Two) -> None:
    first, second = two
    behind = first.archive.position
    schedule(scene, "more")
    second.go_on()
    put_back(scene)
    run(scene, second.archive)
    second.go_on()
    assert behind is not None
    Archivers(scene.wire, scene.keys).report(first.archive.id, behind, ArchiveState.LOST, {})

    second.go_on()
    second.go_on()

    last = scene.log()[-1]
    assert ("merged", [behind]) == (last.kind, MergedEntry(last).positions())
    assert 1 == len([one for one in scene.log() if one.kind == "merged" and behind in MergedEntry(one).positions()])
    comparison = merge_of(scene, first.archive)
    assert (True, 0) == (comparison.is_known, comparison.total)
