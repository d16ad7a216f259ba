"""An archiver keeps a corrupted file, and begins another beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.processes import WITHIN_S
from tests.integration.archive.ground import Scene
from zsched.config.settings import ArchiveSettings, Settings
from zsched.core.clock import SystemClock
from zsched.daemon import own_archive
from zsched.daemon.archiver import Archiver


@pytest.fixture
def archiver(scene: Scene) -> Iterator[Archiver]:
    """An archiver with an archive of three schedules in which the first entry was changed."""
    for id in ("a", "b", "c"):
        scene.client.schedule("app.task", id=id, after=3600)
    path = scene.follow("corrupt.db").path
    assert scene.follower.step()
    scene.archive.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert 1 == db.execute("UPDATE entry SET t = t + 1 WHERE n = 1").rowcount
    settings = Settings(namespace=scene.keys.namespace, archive=ArchiveSettings(path=str(path)))
    archiver = Archiver(settings, scene.link, SystemClock(), "daemon-1")
    yield archiver
    archiver.stop()


def kept(archiver: Archiver) -> list[Path]:
    assert archiver.path is not None
    return list(archiver.path.parent.glob("corrupt.db.corrupt-*"))


def test_corruption_is_found_when_the_archive_is_opened(archiver: Archiver) -> None:
    archiver.open()

    [file] = kept(archiver)
    assert (None, True) == (archiver.position, file.stat().st_size > 0)


def test_corruption_is_found_later_if_the_check_at_opening_was_cut_short(
    archiver: Archiver, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_archive, "_CHECK_AT_OPEN_MS", 0.0)  # one entry: the last
    archiver.open()
    assert [] == kept(archiver)

    archiver.start()

    last = scene.log()[-1].position
    with archiver.moved:
        assert archiver.moved.wait_for(lambda: kept(archiver) and archiver.position == last, WITHIN_S)
    assert archiver.is_healthy
