"""Redis loses data: it is emptied or replaced by an older copy, a daemon leads again, and archives merge with it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.breadth import some
from tests.builders.leaders import begin_term
from tests.builders.scenes import Scene, schedule
from tests.states import State, state_of
from zsched.archive import Archive
from zsched.core.clock import ManualClock
from zsched.core.log.kinds import changes
from zsched.core.occurrences.outcomes import What
from zsched.daemon.follower import Follower
from zsched.daemon.merge import Merge
from zsched.daemon.recovery import WAIT_MS
from zsched.storage.archivers import Archivers

SEEDS = some(range(4), 0, 1)
HOLD_MS = 2000


def snapshot(scene: Scene) -> dict[bytes, bytes]:
    """Return a copy of all data."""
    return {key: scene.redis.dump(key) for key in scene.redis.keys("*")}  # type: ignore[misc]  # it is there


def put_back(scene: Scene, saved: dict[bytes, bytes] | None = None) -> None:
    """Restore *saved* into Redis, or empty it; the scripts' clock continues."""
    offset_ms = scene.redis.hget(scene.keys.meta(), "offset_ms")
    scene.redis.flushall()
    for key, value in (saved or {}).items():
        scene.redis.restore(key, 0, value)
    if offset_ms is not None:
        scene.redis.hset(scene.keys.meta(), "offset_ms", offset_ms)


def lose(scene: Scene, saved: dict[bytes, bytes] | None = None) -> None:
    """Let the archive follow to the end, then restore *saved* into Redis, or empty it."""
    assert scene.follower.step()
    put_back(scene, saved)


def lead(scene: Scene) -> None:
    """Acquire a new lease without a hold."""
    scene.redis.delete(scene.keys.lease())
    offset_ms = scene.redis.hget(scene.keys.meta(), "offset_ms")
    scene.redis.hdel(scene.keys.meta(), "offset_ms")
    if scene.archive.gens:  # as a daemon with an archive proposes it
        scene.redis.hsetnx(scene.keys.meta(), "gen", scene.archive.gens[-1])
    scene.term = begin_term(scene.wire, scene.keys, uuid.uuid4().hex)
    if offset_ms is not None:
        scene.redis.hset(scene.keys.meta(), "offset_ms", offset_ms)
        scene.redis.hset(scene.keys.meta(), "doubt", scene.now_ms)
    scene.redis.hset(scene.keys.meta(), "hold", 0)


def due_now(scene: Scene, id: str, **options: Any) -> None:
    schedule(scene, id, at=datetime.now(UTC) - timedelta(seconds=1), allow_past=True, **options)


def merge_of(scene: Scene, archive: Archive | None = None) -> Merge:
    """Return a finished comparison of *archive* with Redis."""
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
    """
    A follower with a separate clock: call ``step`` until it follows again. ``holds``: the length of the hold of fire
    between two parts of a step.
    """

    scene: Scene
    archive: Archive
    clock: ManualClock = field(default_factory=ManualClock)
    follower: Follower = field(init=False)
    holds: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        scene = self.scene
        self.follower = Follower(
            self.archive,
            scene.wire,
            scene.keys,
            self.clock,
            between=lambda: self.holds.append(self.follower.hold_for_ms),
        )

    def step(self) -> bool:
        """Do one step after the wait, and report."""
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


Two = tuple[Watched, Watched]


def watch(scene: Scene, archive: Archive | None = None) -> Watched:
    return Watched(scene, archive or scene.archive)


def skips(scene: Scene) -> set[tuple[str, str]]:
    """Return the open runs that must not be pushed again if their push is uncertain."""
    return {
        row.key
        for row in state_of(scene.archive)
        if row.place == "open" and b"s" in row.job_fields().get(b"zs", b"") + row.own_fields().get(b"flags", b"")
    }


def lane_states(scene: Scene) -> dict[str, str]:
    return {id: place for (id, _), (place, *_) in scene.in_redis().items()}


def said(scene: Scene, id: str) -> list[What]:
    return [change.what for one in scene.log() for change in changes(one) if change.id == id]


def once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, happen: Callable[[], object]) -> None:
    """Call *happen* just before the first call of *name*."""
    really, called = getattr(owner, name), []

    def instead(self: Any, *arguments: Any, **more: Any) -> Any:
        if not called:
            called.append(name)
            happen()
        return really(self, *arguments, **more)

    monkeypatch.setattr(owner, name, instead)


def trim(scene: Scene) -> None:
    scene.redis.xtrim(scene.keys.log(), maxlen=1, approximate=False)


def assert_is_known(scene: Scene, known: State, before: State, skipped: set[tuple[str, str]]) -> None:
    """Check that Redis, which was rolled back to *before*, holds the state *known* and nothing else."""
    now = scene.in_redis()
    assert now.keys() <= known.keys()
    for key, row in known.items():
        there = now.get(key)
        if there is None:  # or cancelled in RQ, while it waited
            status = scene.redis.hget(scene.keys.rq.job("-".join(key)), "status")
            assert key in skipped or status == b"canceled", key
        elif row[0] != "open":
            assert row == there or before.get(key) == there, key  # an untouched one, broken by another writer
        elif there[0] == "open":
            assert (row[5:], True) == (there[5:], there[4] in (row[4], "uncertain")), key
        else:
            assert there[0] in ("due", "paused", "quarantine"), key  # it waits: fire will mark it
