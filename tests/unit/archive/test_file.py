"""The file of an archive: its place, its permissions, and the errors about other files."""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import put
from tests.states import state_of
from tests.unit.archive.contents import archived
from zsched.archive import Archive
from zsched.archive import file as module
from zsched.archive.file import (
    APPLICATION_ID,
    VERSION,
    connect_to_read,
    fleeting_disk,
    open_to_others,
    set_aside,
)
from zsched.errors import ArchiveError, ArchiveFailed, ArchiveForeign, ArchiveInUse

HOLDER = """
import sys
from pathlib import Path
from zsched.archive import Archive
Archive(Path(sys.argv[1]), "default")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has tmp_path/archive.db open."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "archive.db")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert "open\n" == process.stdout.readline()
        yield process
        assert process.stdin is not None
        process.stdin.close()


def statement(path: Path, text: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(text)
    return path


def test_only_its_owner_can_read_an_archive(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "zsched"
    with closing(Archive(folder / "archive.db", "default")) as archive:
        archive.append([put(1, "a")])
        archive.commit()

        modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}

    assert dict.fromkeys(["archive.db", "archive.db-wal", "archive.db-shm", "archive.db.lock"], 0o600) == modes
    assert 0o700 == folder.stat().st_mode & 0o777


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    Archive(tmp_path / "real.db", "default").close()
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    with pytest.raises(ArchiveError, match=r"link\.db: it is a symbolic link; give \[archive\] path where"):
        Archive(tmp_path / "link.db", "default")


@pytest.mark.parametrize("part", ["", "-wal", ".lock"])
def test_a_file_with_two_names_is_refused_under_both(tmp_path: Path, part: str) -> None:
    path, other = archived(tmp_path / "archive.db", [put(1, "a")]), tmp_path / "other.db"
    here, there = (each.with_name(each.name + part) for each in (path, other))
    here.touch(mode=0o600)
    there.hardlink_to(here)

    for each in (path, other):
        with pytest.raises(ArchiveError, match=rf"{each.name}{part}: it has another name \(a hard link\)"):
            Archive(each, "default")

    there.unlink()
    Archive(path, "default").close()


@pytest.mark.parametrize("part", ["", "-wal", ".lock"])
def test_a_path_that_is_not_a_regular_file_is_refused(tmp_path: Path, part: str) -> None:
    os.mkfifo(tmp_path / f"archive.db{part}", 0o600)

    with pytest.raises(ArchiveError, match=rf"archive\.db{part}: it is not a file"):
        Archive(tmp_path / "archive.db", "default")


@pytest.mark.parametrize(("links", "said"), [("symlink_to", "a symbolic link"), ("hardlink_to", "another name")])
def test_a_lock_that_is_a_link_is_refused_and_its_target_unchanged(tmp_path: Path, links: str, said: str) -> None:
    precious, lock = tmp_path / "precious", tmp_path / "archive.db.lock"
    precious.touch(0o600)
    precious.write_text("mine")
    getattr(lock, links)(precious)

    with pytest.raises(ArchiveError, match=rf"archive\.db\.lock: it .* {said}"):
        Archive(tmp_path / "archive.db", "default")
    assert ("mine", False) == (precious.read_text(), (tmp_path / "archive.db").exists())


def test_a_lock_of_another_user_is_refused_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, owner = tmp_path / "archive.db.lock", os.geteuid()
    lock.touch(0o600)
    lock.write_text("123")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(ArchiveError, match=rf"\.lock: its owner is the user with number {owner}"):
        Archive(tmp_path / "archive.db", "default")
    assert "123" == lock.read_text()


@pytest.mark.parametrize(
    ("mode", "is_own_group", "is_open"),
    [
        (0o700, True, False),
        (0o755, False, False),
        (0o777, True, True),
        (0o1777, True, False),
        (0o775, True, False),
        (0o775, False, True),
    ],
)
def test_a_folder_that_others_may_write_is_reported_with_the_chmod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_own_group: bool, is_open: bool
) -> None:
    folder, group = tmp_path / "an archive", os.getegid()
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(os, "getegid", lambda: group if is_own_group else group + 1)

    found = open_to_others(folder / "a.db")

    said = f"others may write into its folder ({mode:04o}), and put files in its place; chmod go-w '{folder}'"
    assert (said if is_open else "") == found


@pytest.mark.parametrize("part", ["", "-wal", "-shm", ".lock"])
@pytest.mark.parametrize("mode", [0o660, 0o604, 0o666])
def test_a_file_that_others_may_use_is_refused_with_the_chmod(tmp_path: Path, part: str, mode: int) -> None:
    path = archived(tmp_path / "archive.db", [put(1, "a")])
    here = path.with_name(path.name + part)
    here.touch()
    here.chmod(mode)

    with pytest.raises(ArchiveError, match=rf"others may use it \({mode:04o}\), .*; chmod 600 {here}$"):
        Archive(path, "default")

    here.chmod(0o600)
    Archive(path, "default").close()


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, owner = archived(tmp_path / "archive.db", [put(1, "a")]), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(ArchiveError, match=rf"its owner is the user with number {owner}; run as that user, or chown"):
        Archive(path, "default")


def test_two_paths_of_one_folder_are_one_archive_with_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with closing(Archive(tmp_path / "real" / "archive.db", "default")), pytest.raises(ArchiveInUse):
        Archive(tmp_path / "link" / "archive.db", "default")
    with closing(Archive(tmp_path / "link" / "archive.db", "default")), pytest.raises(ArchiveInUse):
        Archive(tmp_path / "real" / ".." / "real" / "archive.db", "default")


def test_an_archive_in_use_is_refused_with_pid_and_remedy(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(ArchiveInUse, match=rf"in use by process {holder.pid}; give each daemon an \[archive\] path"):
        Archive(tmp_path / "archive.db", "default")


def test_the_archive_of_a_process_that_died_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()

    Archive(tmp_path / "archive.db", "default").close()


def test_a_closed_archive_is_free_and_may_be_closed_again(tmp_path: Path) -> None:
    first = Archive(tmp_path / "archive.db", "default")
    first.close()

    with closing(Archive(tmp_path / "archive.db", "default")):
        first.close()
        with pytest.raises(ArchiveInUse):
            Archive(tmp_path / "archive.db", "default")


def test_an_archive_of_another_namespace_or_a_newer_version_is_refused_and_stays_free(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [put(1, "a")])

    with pytest.raises(
        ArchiveForeign, match=r"is of namespace 'default', not of 'shop'; give another \[archive\] path"
    ):
        Archive(path, "shop")
    Archive(path, "default").close()

    statement(path, f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ArchiveForeign, match=f"of version {VERSION + 1}, this zsched reads up to {VERSION}; upgrade"):
        Archive(path, "default")


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = statement(tmp_path / "other.db", "CREATE TABLE t(x)")
    path.chmod(0o600)
    before = path.read_bytes()

    with pytest.raises(ArchiveForeign, match=r"a database of something else; give another \[archive\] path"):
        Archive(path, "default")
    assert before == path.read_bytes()


def test_an_older_versions_archive_is_refused_and_begins_anew_after_the_remedy(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [put(1, "a")])
    statement(path, f"PRAGMA user_version = {VERSION - 1}")
    before = path.read_bytes()

    with pytest.raises(ArchiveForeign) as caught:
        Archive(path, "default")
    assert f"is of the older version {VERSION - 1}, this zsched reads {VERSION}; move it away: " in str(caught.value)
    assert before == path.read_bytes()

    [command] = re.findall(r"mv [^;]+", str(caught.value))
    subprocess.run(command.split(), check=True)
    archived(path, [put(1, "b")])


def test_a_path_below_a_file_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ArchiveError, match=r"give \[archive\] path where this user may write"):
        Archive(tmp_path / "file" / "archive.db", "default")


def test_a_reader_sees_committed_entries_and_cannot_write(tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "archive.db", "default")) as archive:
        archive.append([put(1, "a")])
        archive.commit()
        archive.append([put(2, "b")])

        with closing(connect_to_read(archive.path)) as db:
            assert [(1,)] == db.execute("SELECT seq FROM entry").fetchall()
            assert (APPLICATION_ID,) == db.execute("PRAGMA application_id").fetchone()
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                db.execute("DELETE FROM entry")


def test_a_full_disk_is_a_failure_and_committed_entries_stay(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [put(1, "a")])
    archive = Archive(path, "default")
    archive._db.execute("PRAGMA max_page_count = 1")  # as many as it has: SQLITE_FULL

    with pytest.raises(ArchiveFailed, match="full"):
        archive.append([put(seq, f"id-{seq}", data=os.urandom(10_000)) for seq in range(2, 50)])
    archive.close()

    with closing(Archive(path, "default")) as again:
        assert 1 == len(list(state_of(again)))


def test_every_file_of_a_corrupt_archive_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    for part in ("", "-wal", "-shm"):
        path.with_name(path.name + part).write_text(part)

    kept = set_aside(path, "corrupt", "20261121T080000")

    assert tmp_path / "archive.db.corrupt-20261121T080000" == kept
    kept_files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert {f"{kept.name}{part}": part for part in ("", "-wal", "-shm")} == kept_files


def test_an_archive_that_was_set_aside_can_still_be_opened(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [put(1, "a")])

    kept = set_aside(path, "corrupt", "20261121T080000")

    with closing(Archive(kept, "default")) as old, closing(Archive(path, "default")) as new:
        assert (1, 0) == (len(list(state_of(old))), len(list(state_of(new))))


@pytest.mark.skipif(not Path("/dev/shm").is_mount(), reason="no file system in memory here")
def test_a_file_system_in_memory_is_ephemeral(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert "tmpfs" == fleeting_disk(Path(folder))

        fleeting_disk.cache_clear()
        monkeypatch.setattr(module, "_FLEETING", ("overlay",))
        assert "" == fleeting_disk(Path(folder))
