"""The choice of a daemon's archive file in a folder with several; archives of a newer format."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.entries import put
from tests.builders.scenes import Scene, schedule
from tests.states import state_of
from zsched.archive import Archive, places, recalling
from zsched.config.settings import ArchiveSettings, RedisSettings, Settings
from zsched.config.urls import address_of
from zsched.core import entry
from zsched.core.clock import ManualClock, SystemClock
from zsched.core.entry import FORMAT, OLDEST_FORMAT, Position
from zsched.daemon import own_archive
from zsched.daemon.loop import Bell
from zsched.daemon.own_archive import OwnArchive
from zsched.errors import ArchiveFailed, ArchiveForeign, ArchiveInUse, ArchiveOfAnother
from zsched.storage.archivers import ArchiveState
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log

NEWER = FORMAT + 1
RESTORED = ["reason", "lost", "archive", "newer", "rows", "0"]


@pytest.fixture
def folder(tmp_path: Path, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an archive that followed another data set, 1.db, and a new one beside it, 2.db."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    redis_client.hset(Keys("default").meta(), "gen", "g1")
    folder = tmp_path / "default-here"
    for name, gen in (("1.db", "another"), ("2.db", None)):
        with closing(Archive(folder / name, "default")) as archive:
            if gen is not None:
                archive.append([put(1, "a")])
            archive.set_facts(gen=gen, address=address_of(redis_url))
            archive.commit()
    return folder


@pytest.fixture
def own(redis_url: str) -> Iterator[OwnArchive]:
    own = OwnArchive(Settings(redis=RedisSettings(url=redis_url)), ManualClock())
    yield own
    own.close()


def own_at(path: Path, redis_url: str) -> closing[OwnArchive]:
    """Return the archive that the settings name."""
    settings = Settings(redis=RedisSettings(url=redis_url), archive=ArchiveSettings(path=str(path)))
    return closing(OwnArchive(settings, ManualClock()))


@pytest.fixture
def wire(link: Link) -> Iterator[Wire]:
    with closing(link.open()) as wire:
        yield wire


def test_a_new_archive_beside_a_foreign_one_is_kept(own: OwnArchive, wire: Wire, folder: Path) -> None:
    own.open(wire)

    assert folder / "2.db" == own.path
    own.close()
    (folder / "1.db").unlink()
    own.open(wire)
    assert folder / "2.db" == own.path


def test_archives_of_other_data_sets_are_refused(own: OwnArchive, wire: Wire, folder: Path, redis_url: str) -> None:
    (folder / "2.db").unlink()

    with pytest.raises(ArchiveOfAnother, match=rf" or move {folder} away$"):
        own.open(wire)

    path = folder / "1.db"
    with own_at(path, redis_url) as own:
        with pytest.raises(ArchiveOfAnother, match=rf"recover --from {path} .* or move {path} away$"):
            own.open(wire)

        assert not own.is_ours


def test_the_remedy_for_an_archive_of_another_data_set_has_its_path_as_one_word() -> None:
    told = str(places.refused("no", Path("/a b/c;d.db"), Path("/a b")))

    assert "zsched archive recover --from '/a b/c;d.db' puts" in told
    assert told.endswith(" or move '/a b' away")


def test_a_folder_that_others_may_write_is_warned_of(folder: Path, redis_url: str) -> None:
    folder.chmod(0o777)

    with own_at(folder / "2.db", redis_url) as own, capture_logs() as told:
        own.prepare()

    (warned,) = (line["reason"] for line in told if line["event"] == "archive_exposed")
    assert warned.endswith(f"; chmod go-w {folder}")


def test_a_configured_archive_is_opened_without_redis(folder: Path, redis_url: str) -> None:
    with own_at(folder / "2.db", redis_url) as own, own_at(folder / "2.db", redis_url) as second:
        own.prepare()

        with pytest.raises(ArchiveInUse):
            second.prepare()


def test_an_archive_takes_the_place_of_a_corrupted_one(
    own: OwnArchive, wire: Wire, folder: Path, redis_url: str
) -> None:
    own.open(wire)
    own.close()
    path = folder / "2.db"
    path.write_bytes(path.read_bytes()[:100] + bytes(5000))

    with own_at(path, redis_url) as again:
        again.open(wire)

    assert [] != list(folder.glob("2.db.corrupt-*"))


def test_a_foreign_archive_is_skipped_after_its_disk_failure_ended(
    own: OwnArchive, wire: Wire, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *given: Any, **named: Any) -> Archive:
        raise ArchiveFailed(f"archive {path}: disk I/O error")

    with monkeypatch.context() as failing:
        failing.setattr(own_archive, "Archive", fail)
        with pytest.raises(ArchiveFailed):
            own.open(wire)

    own.open(wire)

    assert folder / "2.db" == own.path


def test_a_follower_polls_often_until_it_knows_the_data_sets_name(
    tmp_path: Path, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    command = Log.wait_command

    def hear(self: Log, after: str, for_ms: int) -> tuple[Any, ...]:
        waits.append(for_ms)
        return command(self, after, for_ms)

    monkeypatch.setattr(Log, "wait_command", hear)
    with closing(Scene(redis_client, redis_url, tmp_path)) as scene, closing(Bell()) as bell:
        name = redis_client.hget(scene.keys.meta(), "gen")
        redis_client.hdel(scene.keys.meta(), "gen")
        assert scene.follower.step()
        assert scene.follower.wait(bell)
        redis_client.hset(scene.keys.meta(), "gen", name)  # as name.lua: no entry tells

        scene.follower.note_gen()

        assert scene.follower.wait(bell)
        assert name.decode() in scene.archive.gens
    assert [50, 1000] == waits


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
    assert {"a", "b"} == {row.id for row in state_of(scene.archive)}
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
    assert [] == list(state_of(scene.archive))


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
