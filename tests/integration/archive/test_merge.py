"""A Redis that lost something, and an archive that knows: what a merge puts back, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.archive.ground import Scene, State, Storm
from tests.integration.archive.test_state_equals_redis import check
from zsched.archive import Archive
from zsched.core.changes import What, changes
from zsched.core.clock import ManualClock, SystemClock
from zsched.core.entries import merged, restored
from zsched.core.log import Position
from zsched.daemon import merge as merge_module
from zsched.daemon.follower import Follower
from zsched.daemon.merge import HistoryChanged, Merge, OtherRestores
from zsched.daemon.recovery import WAIT_MS
from zsched.storage import restoring
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.census import Census
from zsched.storage.lease import Lease, Term
from zsched.storage.restoring import Restoring
from zsched.storage.server import Server

SEEDS = range(4)
HOLD_MS = 2000
SOON = datetime.now(UTC) + timedelta(days=1)


# -- what happens to a Redis ----------------------------------------------------------------------


def snapshot(scene: Scene) -> dict[bytes, bytes]:
    """A copy of all data."""
    return {key: scene.redis.dump(key) for key in scene.redis.keys("*")}  # type: ignore[misc]  # it is there


def put_back(scene: Scene, saved: dict[bytes, bytes] | None = None) -> None:
    """Redis holds *saved* again, or nothing; the scripts' clock goes on, and a leader is known."""
    offset_ms = scene.redis.hget(scene.keys.meta(), "offset_ms")
    scene.redis.flushall()
    for key, value in (saved or {}).items():
        scene.redis.restore(key, 0, value)
    if offset_ms is not None:
        scene.redis.hset(scene.keys.meta(), "offset_ms", offset_ms)


def lead(scene: Scene) -> None:
    """Somebody leads again, and nothing is held any more."""
    scene.redis.delete(scene.keys.lease())
    lease = Lease(scene.wire, scene.keys, Server.of(scene.wire), SystemClock(), "leader", 600_000)
    offset_ms = scene.redis.hget(scene.keys.meta(), "offset_ms")
    scene.redis.hdel(scene.keys.meta(), "offset_ms")
    if scene.archive.gens:  # as a daemon with an archive proposes it
        scene.redis.hsetnx(scene.keys.meta(), "gen", scene.archive.gens[-1])
    term = lease.acquire()
    assert isinstance(term, Term)
    if offset_ms is not None:
        scene.redis.hset(scene.keys.meta(), "offset_ms", offset_ms)
        scene.redis.hset(scene.keys.meta(), "doubt", scene.now_ms)
    scene.redis.hset(scene.keys.meta(), "hold", 0)
    scene.term = term


def schedule(scene: Scene, *ids: str, **options: Any) -> None:
    for id in ids:
        scene.client.schedule("app.task", id=id, **({"at": SOON} | options))


def due_now(scene: Scene, id: str, **options: Any) -> None:
    schedule(scene, id, at=datetime.now(UTC) - timedelta(seconds=1), allow_past=True, **options)


# -- a merge by hand ------------------------------------------------------------------------------


def merge_of(scene: Scene, archive: Archive | None = None) -> Merge:
    """A comparison of *archive* with Redis."""
    archive = archive or scene.archive
    merge = Merge(archive.recall(), scene.wire, scene.keys, archive.position, hold_for_ms=HOLD_MS)
    merge.compare()
    return merge


def run(scene: Scene, archive: Archive | None = None) -> Merge:
    merge = merge_of(scene, archive)
    list(merge.run())
    return merge


@dataclass
class Watched:
    """A follower with a clock of its own: ``step`` until it follows again."""

    scene: Scene
    archive: Archive
    clock: ManualClock = field(default_factory=ManualClock)
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        scene = self.scene
        self.follower = Follower(self.archive, scene.wire, scene.keys, self.clock)

    def step(self) -> bool:
        """One step, when the wait is over, and its report."""
        scene = self.scene
        self.clock.advance(WAIT_MS)
        follows = self.follower.step()
        self.follower.note_gen()
        about, state = {"daemon": self.archive.id}, self.follower.state
        Archivers(scene.wire, scene.keys).report(self.archive.id, self.archive.position, state, about)
        return follows

    def go_on(self, steps: int = 10) -> None:
        for _ in range(steps):
            if self.step():
                return
        raise AssertionError(f"{self.follower.state} after {steps} steps")


def watch(scene: Scene, archive: Archive | None = None) -> Watched:
    return Watched(scene, archive or scene.archive)


def skips(scene: Scene) -> set[tuple[str, str]]:
    """Open runs that must not be pushed when nobody knows whether they were."""
    return {
        row.key
        for row, record in scene.archive.state()
        if row.place == "open" and b"s" in record.fields.get("zs", b"") + record.schedule.get("flags", b"")
    }


def lane_states(scene: Scene) -> dict[str, str]:
    return {id: place for (id, _), (place, *_) in scene.in_redis().items()}


def rows_put_back(scene: Scene) -> list[tuple[str, str]]:
    """(id, place) of all restores in the log."""
    return [(row.id, row.place) for one in scene.log() if one.kind == "restore" for _, row in restored(one)]


def said(scene: Scene, id: str) -> list[What]:
    return [change.what for one in scene.log() for change in changes(one) if change.id == id]


# -- all is back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("page", [2, 200])
def test_an_emptied_redis_holds_again_what_the_archive_knows(
    scene: Scene, seed: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", page)
    storm = Storm(scene, seed)
    for _ in range(150):
        storm.step()
    assert scene.follower.step()
    known, skipped = scene.in_archive(), skips(scene)
    put_back(scene)

    merge = run(scene)

    expected = {
        key: (*row[:4], "uncertain", *row[5:]) if row[0] == "open" else row
        for key, row in known.items()
        if key not in skipped
    }
    assert expected == scene.in_redis()
    assert (None, False) == (merge.common, merge.is_known)
    assert merge.done.total() == len(known) == len(rows_put_back(scene))
    assert {f"{id}-{run}" for (id, run), row in expected.items() if row[0] == "open"} == scene.queued()
    watched = watch(scene)
    watched.go_on()
    check(scene)
    assert len(known) == len(rows_put_back(scene))
    lead(scene)
    for _ in range(30):
        storm.step()
    watched.go_on()
    check(scene)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trimmed_to", [None, 5])
def test_an_older_copy_holds_again_what_the_archive_knows(scene: Scene, seed: int, trimmed_to: int | None) -> None:
    storm = Storm(scene, seed)
    for _ in range(80):
        storm.step()
    assert scene.follower.step()
    if trimmed_to:
        scene.redis.xtrim(scene.keys.log(), maxlen=trimmed_to, approximate=False)
    old, before = snapshot(scene), scene.in_redis()
    for _ in range(80):
        storm.step()
    assert scene.follower.step()
    known, skipped = scene.in_archive(), skips(scene)
    put_back(scene, old)
    common = scene.log()[-1].position

    merge = run(scene)

    assert (common, True) == (merge.common, merge.is_known)
    assert_is_known(scene, known, before, skipped)
    watched = watch(scene)
    watched.go_on()
    check(scene)
    lead(scene)
    for _ in range(30):
        storm.step()
    watched.go_on()
    check(scene)


def assert_is_known(scene: Scene, known: State, before: State, skipped: set[tuple[str, str]]) -> None:
    """Redis, which was rolled back to *before*, holds what is *known*, and else nothing."""
    now = scene.in_redis()
    assert now.keys() <= known.keys()
    for key, row in known.items():
        there = now.get(key)
        if there is None:  # or cancelled in RQ, while it waited
            status = scene.redis.hget(scene.keys.job("-".join(key)), "status")
            assert key in skipped or status == b"canceled", key
        elif row[0] != "open":
            assert row == there or before.get(key) == there, key  # an untouched one, broken by a foreign hand
        elif there[0] == "open":
            assert (row[5:], True) == (there[5:], there[4] in (row[4], "uncertain")), key
        else:
            assert there[0] in ("due", "paused", "quarantine"), key  # it waits: fire will mark it


def test_what_is_back_is_told_in_the_log_and_who_merged_says_so(scene: Scene) -> None:
    schedule(scene, "a", "gone", "b")
    schedule(scene, "r", at=None, every=60)
    due_now(scene, "open")
    due_now(scene, "skipped", on_uncertain="skip")
    old = snapshot(scene)
    scene.client.pause("b", "until the sale is over")
    scene.client.cancel("gone")
    assert 2 == scene.tick().runs
    scene.client.run_now("r")
    schedule(scene, "lost")
    assert scene.follower.step()
    put_back(scene, old)
    position = scene.archive.position

    merge = run(scene)

    put_again = [("b", "paused"), ("gone", "gone"), ("r", "due"), ("r", "open"), ("lost", "due")]
    assert sorted(put_again) == sorted(rows_put_back(scene))
    assert What.PUSHED_AGAIN in said(scene, "r")
    assert [What.PUT, What.WITHDRAWN] == said(scene, "gone")
    assert ["due", "due"] == [lane_states(scene)[id] for id in ("open", "skipped")]
    last = scene.log()[-1]
    assert ("merged", merge.merged, [position]) == (last.kind, last.position, merged(last))
    assert scene.now_ms < int(scene.redis.hget(scene.keys.meta(), "hold")) <= scene.now_ms + HOLD_MS  # type: ignore[arg-type]


def test_nothing_is_lacking_a_second_time(scene: Scene) -> None:
    schedule(scene, "a", "b")
    schedule(scene, "r", at=None, every=60)
    due_now(scene, "open")
    scene.tick()
    assert scene.follower.step()
    put_back(scene)
    run(scene)
    first = len(rows_put_back(scene))

    again = run(scene)

    assert (4, 4, 0) == (first, len(rows_put_back(scene)), again.done.total())


def test_schedules_that_are_back_can_be_used(scene: Scene) -> None:
    schedule(scene, "a", args=("one",), tags=["x"])
    policies = {"on_lost": "fail", "pause_after_failures": 3}
    schedule(scene, "r", at=None, cron="0 8 * * *", tz="Asia/Tokyo", args=("two",), **policies)
    scene.client.pause("a", "why")
    before = {id: scene.client.get(id) for id in ("a", "r")}
    assert scene.follower.step()
    put_back(scene)

    run(scene)

    for id, old in before.items():
        now = scene.client.get(id)
        assert (old.state, old.next_ms, old.note, old.since_ms) == (now.state, now.next_ms, now.note, now.since_ms)
        assert old.to_dict() == now.to_dict() | {
            name: old.to_dict()[name] for name in ("version", "updated_at", "created_at") if name in old.to_dict()
        }
    scene.client.update("r", args=("three",))
    scene.client.resume("a")
    scene.client.cancel("a")
    scene.client.cancel("r")
    assert {} == scene.in_redis()


def test_arguments_are_back_that_are_not_kept_in_the_history(scene: Scene) -> None:
    archive = scene.follow("no-args.db", keep_args=False)
    schedule(scene, "a", args=("secret",))
    schedule(scene, "r", at=None, every=60, args=("secret",))
    due_now(scene, "open", args=("secret",))
    scene.tick()
    assert scene.follower.step()
    before = scene.in_redis()
    for _ in range(2):  # also by what the archive read of the first time
        put_back(scene)
        run(scene, archive)
        watch(scene, archive).go_on()

        expected = {key: (*row[:4], "uncertain", *row[5:]) if row[0] == "open" else row for key, row in before.items()}
        assert expected == scene.in_redis() == scene.in_archive()


def test_a_score_that_a_foreign_hand_wrote_does_not_stop_a_merge(scene: Scene) -> None:
    schedule(scene, "a")
    scene.redis.zadd(scene.keys.due_low(), {"half": "1.5", "infinite": "inf"})
    scene.redis.hset(scene.keys.paused(), "odd", "never so so")
    scene.redis.xtrim(scene.keys.log(), maxlen=0)
    schedule(scene, "b")
    assert scene.follower.step()
    put_back(scene)

    run(scene)

    found = lane_states(scene)
    assert {"a": "due", "b": "due", "half": "quarantine", "infinite": "quarantine", "odd": "paused"} == found


# -- what the new history says --------------------------------------------------------------------


def test_what_somebody_did_since_then_stands(scene: Scene) -> None:
    schedule(scene, "paused", "cancelled", "put", "fired", "alone")
    old = snapshot(scene)
    for id in ("paused", "cancelled", "put", "fired", "alone"):
        scene.client.update(id, args=("lost",))
    assert scene.follower.step()
    put_back(scene, old)
    scene.client.pause("paused", "since then")
    scene.client.cancel("cancelled")
    schedule(scene, "put", args=("since then",))
    scene.client.run_now("fired")

    run(scene)

    assert [("alone", "due")] == rows_put_back(scene)
    assert {"paused": "paused", "put": "due", "fired": "open", "alone": "due"} == lane_states(scene)
    watch(scene).go_on()
    check(scene)


@pytest.mark.parametrize("rows", [1, 200])
def test_a_client_that_puts_between_two_looks_is_not_overwritten(
    scene: Scene, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "ROWS", rows)
    schedule(scene, "a", "b", "c")
    assert scene.follower.step()
    put_back(scene)
    once(monkeypatch, Restoring, "restore", lambda: schedule(scene, "b", args=("since then",)))

    merge = run(scene)

    assert [("a", "due"), ("c", "due")] == rows_put_back(scene)
    assert merge.done.total() == 2
    watch(scene).go_on()
    check(scene)
    assert [What.PUT] == said(scene, "b")


def test_a_client_that_puts_between_the_last_page_and_its_end_is_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    put_back(scene)
    once(monkeypatch, Restoring, "merged", lambda: schedule(scene, "b"))

    merge = run(scene)

    assert ["restore", "put", "merged"] == [one.kind for one in scene.log()]
    assert scene.log()[-1].position == merge.merged


@pytest.mark.parametrize("what", ["pause", "cancel", "update", "run_now"])
def test_what_waits_again_under_another_time_while_its_run_is_put_back_is_seen(
    scene: Scene, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_now(scene, "a")
    old = snapshot(scene)
    scene.tick()
    schedule(scene, "a")
    assert scene.follower.step()
    put_back(scene, old)
    once(monkeypatch, Restoring, "restore", lambda: getattr(scene.client, what)("a", **_arguments(what)))

    run(scene)

    places = sorted(place for place, *_ in scene.in_redis().values())
    assert {"pause": ["paused"], "cancel": [], "update": ["due"], "run_now": ["open"]}[what] == places
    assert "refused" not in {place for _, place in rows_put_back(scene)}
    watch(scene).go_on()
    check(scene)


def _arguments(what: str) -> dict[str, Any]:
    return {"args": ("since then",)} if what == "update" else {}


def once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, happen: Callable[[], object]) -> None:
    """Just before the first call of *name*, something happens."""
    really, called = getattr(owner, name), []

    def instead(self: Any, *arguments: Any, **more: Any) -> Any:
        if not called:
            called.append(name)
            happen()
        return really(self, *arguments, **more)

    monkeypatch.setattr(owner, name, instead)


@pytest.mark.parametrize("seed", range(6))
def test_a_storm_between_the_pages_of_a_merge_is_seen(scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", 1)
    storm = Storm(scene, seed)
    for _ in range(60):
        storm.step()
    old = snapshot(scene)
    for _ in range(60):
        storm.step()
    assert scene.follower.step()
    put_back(scene, old if seed % 2 else None)
    lead(scene)
    really = Restoring.restore

    def restore(self: Restoring, *arguments: Any) -> Position | None:
        for _ in range(storm.random.choice([0, 0, 1, 3])):
            storm.step()
        scene.redis.hset(scene.keys.meta(), "hold", 0)
        done = really(self, *arguments)
        scene.redis.hset(scene.keys.meta(), "hold", 0)
        return done

    monkeypatch.setattr(Restoring, "restore", restore)

    merge = run(scene)

    assert merge.merged == scene.log()[-1].position
    assert "refused" not in {place for _, place in rows_put_back(scene)}
    watched = watch(scene)
    watched.go_on()
    check(scene)
    pushed = [run.decode() for run in scene.redis.lrange("rq:queue:default", 0, -1)]
    assert sorted(set(pushed)) == sorted(pushed)


# -- lost again -----------------------------------------------------------------------------------


def test_a_redis_that_is_emptied_in_the_middle_of_a_merge_is_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "_PAGE", 1)
    schedule(scene, "a", "b", "c")
    assert scene.follower.step()
    put_back(scene)
    merge = merge_of(scene)
    pages = merge.run()
    next(pages)
    put_back(scene)

    with pytest.raises(HistoryChanged):
        list(pages)

    run(scene)
    assert {"a", "b", "c"} == lane_states(scene).keys()


@pytest.mark.parametrize("lost_in", ["merge", "bootstrap", "bootstrap's end"])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_nothing_known_is_forgotten_when_redis_is_emptied_again(
    scene: Scene, lost_in: str, is_trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(scene, "a", "b")
    due_now(scene, "open")
    scene.tick()
    assert scene.follower.step()
    put_back(scene)
    watched = watch(scene)
    with monkeypatch.context() as patch:
        if lost_in == "merge":
            once(patch, Restoring, "merged", lambda: put_back(scene))
        elif lost_in == "bootstrap":
            once(patch, Archive, "begin_bootstrap", lambda: put_back(scene))
        else:
            once(patch, Archive, "end_bootstrap", lambda: put_back(scene))
        if is_trimmed:
            once(patch, Archive, "begin_bootstrap", lambda: trim(scene))

        watched.go_on()

    watched.go_on()
    assert {"a": "due", "b": "due", "open": "open"} == lane_states(scene)
    check(scene)


def trim(scene: Scene) -> None:
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)


def test_a_merge_that_is_lost_again_goes_back_to_what_both_have(scene: Scene) -> None:
    schedule(scene, "a")
    old = snapshot(scene)
    schedule(scene, "b")
    scene.client.cancel("a")
    assert scene.follower.step()
    put_back(scene, old)
    schedule(scene, "c")
    newer = snapshot(scene)
    watch(scene).go_on()
    scene.client.pause("b")
    schedule(scene, "d")
    assert scene.follower.step()

    for saved in (newer, old, None):
        put_back(scene, saved)
        watch(scene).go_on()

        assert {"b": "paused", "c": "due", "d": "due"} == lane_states(scene)
        check(scene)


# -- two archives ---------------------------------------------------------------------------------


@pytest.fixture
def two(scene: Scene) -> tuple[Watched, Watched]:
    """Two archives that both know the same, then each something alone: the second one more."""
    first = watch(scene)
    second = watch(scene, scene.follow("two.db"))
    schedule(scene, "both", "older", "taken")
    first.go_on()
    second.go_on()
    return first, second


def test_two_archives_that_know_different_things_merge_in_either_order_with_the_same_result(
    scene: Scene, two: tuple[Watched, Watched]
) -> None:
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
    results = []
    for order in ((first, second), (second, first)):
        put_back(scene, old)
        for one in order:
            run(scene, one.archive)
        results.append(scene.in_redis())

    assert results[0] == results[1]
    places = {"both": "due", "older": "due", "of-both": "paused", "of-second": "due", "open": "open"}
    assert places == lane_states(scene)
    for one in two:
        one.go_on()
        scene.archive = one.archive
        check(scene)


def test_an_emptied_redis_is_filled_by_two_archives_in_either_order(scene: Scene, two: tuple[Watched, Watched]) -> None:
    first, second = two
    scene.client.update("older", args=("known to the second",))
    scene.client.pause("taken")
    schedule(scene, "of-second")
    second.go_on()
    results = []
    for order in ((first, second), (second, first)):
        put_back(scene)
        for one in order:
            run(scene, one.archive)
        results.append(scene.in_redis())

    assert results[0] == results[1] == state_of(scene, second)


def state_of(scene: Scene, watched: Watched) -> State:
    scene.archive = watched.archive
    return scene.in_archive()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_busy", [False, True])
def test_however_often_redis_goes_back_two_archives_bring_back_what_they_know(
    scene: Scene, seed: int, is_busy: bool
) -> None:
    storm = Storm(scene, seed)
    both = [watch(scene), watch(scene, scene.follow("two.db"))]
    saved: list[dict[bytes, bytes] | None] = [None]
    for _ in range(4):
        storm.random.shuffle(both)
        for one in both:  # the second one knows more
            for _ in range(storm.random.choice([1, 10, 30])):
                storm.step()
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
            check(scene)
        queue = scene.redis.lrange("rq:queue:default", 0, -1)
        assert sorted(set(queue)) == sorted(queue)


def in_turn(both: list[Watched], storm: Storm, *, is_busy: bool) -> None:
    """Both go on, a step each at random, until both follow; clients do something meanwhile if it *is_busy*."""
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


def test_who_sees_another_restore_waits(scene: Scene, two: tuple[Watched, Watched]) -> None:
    first, second = two
    put_back(scene)
    merge, other = merge_of(scene, first.archive), merge_of(scene, second.archive)
    list(other.run())

    with pytest.raises(OtherRestores):
        list(merge.run())

    again = run(scene, first.archive)
    assert (0, 1) == (again.done.total(), len([one for one in scene.log() if one.kind == "restore"]))


def test_both_step_by_step_put_back_everything_once(scene: Scene, two: tuple[Watched, Watched]) -> None:
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
        check(scene)


def test_who_merged_names_the_reported_ends_that_its_history_has(scene: Scene, two: tuple[Watched, Watched]) -> None:
    first, second = two
    behind = first.archive.position
    schedule(scene, "more")
    second.go_on()
    ahead = second.archive.position
    put_back(scene)
    for one in two:
        Archivers(scene.wire, scene.keys).report(one.archive.id, one.archive.position, ArchiveState.LOST, {})

    merge = run(scene, second.archive)

    assert {behind, ahead} == set(merged(scene.log()[-1])) == merge.covered
    assert 0 == run(scene, first.archive).done.total()


def test_an_archive_that_follows_covers_a_peer_whose_end_it_had(scene: Scene, two: tuple[Watched, Watched]) -> None:
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
    assert ("merged", [behind]) == (last.kind, merged(last))
    assert 1 == len([one for one in scene.log() if one.kind == "merged" and behind in merged(one)])
    comparison = merge_of(scene, first.archive)
    assert (True, 0) == (comparison.is_known, comparison.total)


# -- verdicts -------------------------------------------------------------------------------------


def test_an_archive_that_was_left_behind_restores_nothing_and_begins_again(scene: Scene) -> None:
    schedule(scene, "a", "b")
    assert scene.follower.step()
    scene.client.cancel("a")
    schedule(scene, "c", "d")
    trim(scene)
    watched = watch(scene)

    watched.go_on(1)

    assert [] == rows_put_back(scene)
    assert {"b": "due", "c": "due", "d": "due"} == lane_states(scene)
    check(scene)


def test_what_an_archive_had_before_it_was_left_behind_does_not_count(scene: Scene) -> None:
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


def test_another_data_set_is_not_touched_however_often_it_is_looked_at(scene: Scene) -> None:
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
    age(scene)
    before, gens = scene.log(), scene.archive.gens

    for _ in range(4):
        assert not watched.step()
        watched.follower.note_gen()  # as the archiver does

    assert ArchiveState.REFUSED is watched.follower.state
    assert (before, gens) == (scene.log(), scene.archive.gens)
    assert {"mine"} == {row.id for row, _ in scene.archive.state()}


def age(scene: Scene) -> None:
    """The log looks as if it had begun an hour before."""
    entries = scene.redis.xrange(scene.keys.log())
    scene.redis.delete(scene.keys.log())
    for id, fields in entries:
        texts = [text for pair in fields.items() for text in pair]
        texts[3] = b"%d" % (int(texts[3]) - 3_600_000_000)
        scene.redis.execute_command("XADD", scene.keys.log(), id, *texts)


def test_by_hand_nothing_is_put_back_before_somebody_does_it(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    put_back(scene)
    watched = watch(scene)
    watched.follower = Follower(scene.archive, scene.wire, scene.keys, watched.clock, is_manual=True)

    for _ in range(4):
        assert not watched.step()
    assert (ArchiveState.LOST, True) == (watched.follower.state, watched.follower.awaits_people)
    assert (2000, []) == (watched.follower.hold_for_ms, scene.log())

    run(scene)
    watched.go_on()
    assert not watched.follower.awaits_people
    check(scene)


def test_by_hand_a_loss_of_nothing_is_merged_at_once(scene: Scene) -> None:
    schedule(scene, "a")
    old = snapshot(scene)
    schedule(scene, "b")
    scene.client.cancel("b")
    assert scene.follower.step()
    put_back(scene, old)
    watched = watch(scene)
    watched.follower = Follower(scene.archive, scene.wire, scene.keys, watched.clock, is_manual=True)

    watched.go_on()

    assert ("merged", []) == (scene.log()[-1].kind, rows_put_back(scene))


def test_rows_can_be_looked_at_and_nothing_is_written(scene: Scene) -> None:
    schedule(scene, "a", "b")
    assert scene.follower.step()
    put_back(scene)
    before = snapshot(scene)

    [portion] = merge_of(scene).rows()

    assert ({"a", "b"}, before) == ({row.id for row in portion}, snapshot(scene))


def test_an_unknown_entry_of_the_new_history_does_not_stop_a_merge(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    put_back(scene)
    schedule(scene, "b")
    scene.redis.xadd(scene.keys.log(), {"kind": "conjure", "t": "1800000000000000"}, id="0-2")
    scene.redis.hset(scene.keys.meta(), "seq", 2)

    run(scene)

    assert {"a", "b"} == lane_states(scene).keys()


def test_while_it_waits_for_others_nothing_is_put_back(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    put_back(scene)
    watched = watch(scene)

    for _ in range(3):
        watched.clock.advance(WAIT_MS / 4)
        assert not watched.follower.step()

    assert (ArchiveState.LOST, []) == (watched.follower.state, scene.log())
    assert 0 < watched.follower.pause_ms <= WAIT_MS
    watched.clock.advance(WAIT_MS)
    watched.go_on()
    assert {"a"} == lane_states(scene).keys()


def test_a_log_that_moves_while_a_page_is_read_is_taken_in(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a", "b")
    old = snapshot(scene)
    scene.client.update("a", args=("lost",))
    scene.client.update("b", args=("lost",))
    assert scene.follower.step()
    put_back(scene, old)
    once(monkeypatch, Census, "schedules", lambda: scene.client.cancel("a"))

    run(scene)

    assert [("b", "due")] == rows_put_back(scene)
    assert {"b": "due"} == lane_states(scene)
