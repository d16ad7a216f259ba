"""A log in which a newer zsched led: an archive of this version stops there, and continues after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.archive.ground import Scene, schedule
from zsched.archive import recalling
from zsched.core import entry
from zsched.core.clock import SystemClock
from zsched.core.entry import OLDEST_FORMAT
from zsched.core.log import FORMAT, Position
from zsched.errors import ArchiveForeign
from zsched.storage.archivers import ArchiveState

NEWER = FORMAT + 1
RESTORED = ["reason", "lost", "archive", "newer", "rows", "0"]


def append(scene: Scene, kind: str, *texts: str, epoch: int | None = None) -> Position:
    """Append an entry like a newer zsched, and write its format into meta."""
    last = scene.log()[-1].position
    own = [*texts, "format", str(NEWER)]
    id = f"{last.epoch if epoch is None else epoch}-{last.seq + 1}"
    scene.redis.execute_command("XADD", scene.keys.log(), id, "kind", kind, "t", last.t_us + 1, *own)
    scene.redis.hset(scene.keys.meta(), mapping={"seq": last.seq + 1, "format": NEWER})
    return scene.log()[-1].position


def append_unread(scene: Scene) -> Position:
    """Append a put with another meaning, which this version would take for its own."""
    return append(scene, "put", "lane", "low", "fields", "0", "rows", "1", "x", "1", "data", "y")


@contextmanager
def upgraded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the format of this version by the newer one, so that the archive follows like after an upgrade."""
    with monkeypatch.context() as patch:
        patch.setattr(entry, "FORMAT", NEWER)
        patch.setattr("zsched.archive.check.FORMAT", NEWER)
        scene.reopen()
        yield


@pytest.mark.parametrize("kind", ["term", "restore"])
def test_an_archive_stops_before_the_first_entry_of_a_newer_format(scene: Scene, kind: str) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    schedule(scene, "b")
    last = scene.log()[-1].position
    append(scene, kind, *(RESTORED if kind == "restore" else ("daemon", "newer", "server", "s")))
    append_unread(scene)

    steps = [scene.follower.step() for _ in range(3)]

    assert ([False] * 3, last) == (steps, scene.archive.position)
    assert (ArchiveState.OUTDATED, 0) == (scene.follower.state, scene.follower.hold_for_ms)
    assert {"a", "b"} == {row.id for row, _ in scene.archive.state()}
    assert "upgrade zsched here" in str(scene.follower.refusal)


def test_an_upgraded_archive_continues_where_the_old_one_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule(scene, "a")
    append(scene, "term", "daemon", "newer", "server", "s")
    last = append_unread(scene)
    scene.redis.hset(scene.keys.meta(), "format", FORMAT)  # so that the scripts, which are ours, do not refuse
    assert not scene.follower.step()

    with upgraded(scene, monkeypatch):
        assert scene.follower.step()

        assert (ArchiveState.FOLLOWING, last) == (scene.follower.state, scene.archive.position)


def test_an_archive_of_a_newer_format_is_refused_by_an_older_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    append(scene, "term", "daemon", "newer", "server", "s")
    scene.redis.hset(scene.keys.meta(), "format", FORMAT)
    with upgraded(scene, monkeypatch):
        assert scene.follower.step()

    message = f"has entries of format {NEWER}, and this one knows {FORMAT}; upgrade zsched here"
    with pytest.raises(ArchiveForeign, match=message):
        scene.reopen()
    with (
        pytest.raises(ArchiveForeign, match=message),
        recalling(Path(scene.folder, "archive.db"), scene.keys.namespace, SystemClock()),
    ):
        pass


@pytest.mark.parametrize(("is_noted", "kept"), [(True, 3), (True, 2), (True, 1), (False, 3), (False, 2)])
def test_a_new_archive_does_not_bootstrap_where_a_newer_zsched_led(scene: Scene, is_noted: bool, kept: int) -> None:
    schedule(scene, "a")
    append(scene, "term", "daemon", "newer", "server", "s")
    append_unread(scene)
    if kept < 3:  # with 1, the newer term was trimmed, too
        scene.redis.xtrim(scene.keys.log(), maxlen=kept, approximate=False)
    if not is_noted:  # by another writer: zsched never takes it out
        scene.redis.hdel(scene.keys.meta(), "format")

    assert [False] * 3 == [scene.follower.step() for _ in range(3)]

    assert (ArchiveState.OUTDATED, None) == (scene.follower.state, scene.archive.position)
    assert [] == list(scene.archive.state())


def test_an_archive_refuses_a_namespace_of_an_older_format(scene: Scene) -> None:
    schedule(scene, "a")
    scene.redis.hset(scene.keys.meta(), "format", OLDEST_FORMAT - 1)

    assert [False] * 3 == [scene.follower.step() for _ in range(3)]

    assert (ArchiveState.OUTDATED, None) == (scene.follower.state, scene.archive.position)
    assert "remove the keys" in str(scene.follower.refusal)


def test_an_archive_neither_holds_nor_restores_where_a_newer_zsched_leads(scene: Scene) -> None:
    schedule(scene, "a")
    assert scene.follower.step()
    had = scene.archive.position
    scene.redis.flushall()
    scene.redis.hset(scene.keys.meta(), "format", NEWER)
    scene.redis.execute_command(
        "XADD", scene.keys.log(), "1-1", "kind", "term", "t", "1", "daemon", "newer", "server", "s", "format", NEWER
    )

    assert [False] * 3 == [scene.follower.step() for _ in range(3)]

    assert (ArchiveState.OUTDATED, 0, had) == (scene.follower.state, scene.follower.hold_for_ms, scene.archive.position)
    assert 1 == len(scene.log())
