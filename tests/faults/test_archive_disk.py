"""
The archive's disk is full, or its folder is deleted: the daemon fires, reports it once, promises nothing, and repairs
it.
"""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import Start
from tests.builders.leaders import know
from tests.faults.archives import (
    KEYS,
    assert_state_is_redis_own,
    await_caught_up,
    fact,
    has_caught_up,
    history,
    log_in,
    repeated,
    report_of,
    stop,
)
from tests.faults.disks import Disk, LimitedFiles, small_disk
from tests.ledger import doubles, fired, queued
from tests.waiting import eventually
from zsched import Client
from zsched.archive import START
from zsched.archive.body import position_of
from zsched.core.entry import Position
from zsched.errors import NotArchived
from zsched.storage.archivers import ArchiveState

pytestmark = pytest.mark.once

MUCH = [{"func": "app.task", "id": f"much{n}", "after": 3600, "args": ("x" * 100_000,)} for n in range(40)]
NOTHING = Position(-1, 0, 0)


@pytest.fixture(params=["limit on files", "small disk"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    if request.param == "limit on files":
        yield LimitedFiles(tmp_path)
        return
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            pytest.skip("needs the right to mount a tmpfs")
        yield disk


def await_tries(url: str, path: Path, number: int) -> None:
    """Wait until the archiver has tried *number* more times and reported the failure; it logs the first one before."""
    eventually(lambda: (report := report_of(url, path)) is not None and report.state is ArchiveState.FAILED)
    told: set[int] = set()

    def look() -> bool:
        report = report_of(url, path)
        assert report is not None
        assert report.state is ArchiveState.FAILED
        told.add(report.told_ms)
        return len(told) > number

    eventually(look)


def position_on(disk: Disk, path: Path, copy: Path) -> Position:
    """Return the position in the file at *path*, read from a copy: on a full disk no process can open it."""
    shutil.copytree(disk.folder, copy, ignore=shutil.ignore_patterns("filler", "copy"))
    return position_of(fact(copy / path.name, "position")) or NOTHING


def test_a_full_disk_stops_no_run_and_the_archive_is_complete_afterwards(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, disk: Disk, tmp_path: Path
) -> None:
    know(redis_client)
    path, client = disk.folder / "archive.db", Client.from_url(redis_url)
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    daemon.wait_for("archive_bootstrapped")
    await_caught_up(redis_url, path)
    client.schedule("app.task", id="before", after=3600, durable=True)

    disk.fill(daemon.archivist_pid)
    assert len(MUCH) == client.schedule_many(MUCH).created
    failed = daemon.wait_for("archive_failed")
    for n in range(5):
        client.schedule("app.task", id=f"on-time{n}", after=0)
    eventually(lambda: len(queued(redis_client)) == 5)
    await_tries(redis_url, path, 3)
    with pytest.raises(NotArchived) as refused:
        client.schedule("app.task", id="not-durable", after=3600, durable=True)
    daemon.send_to_all(signal.SIGSTOP)  # the file and the report as of one moment
    report, on_disk = report_of(redis_url, path), position_on(disk, path, tmp_path / "copy")
    daemon.send_to_all(signal.SIGCONT)

    disk.free(daemon.archivist_pid)
    back = daemon.wait_for("archive_back")
    await_caught_up(redis_url, path)
    client.schedule("app.task", id="durable-again", after=3600, durable=True)
    await_caught_up(redis_url, path)
    stop(daemon)

    assert 5 == len(fired(redis_client))  # while the disk was full
    assert str(path) == failed["archive"]
    assert 1 == len(daemon.of("archive_failed")) == len(daemon.of("archive_back"))
    assert report is not None
    assert report.state is ArchiveState.FAILED
    assert report.about["trouble"]
    assert (report.position or NOTHING).order <= on_disk.order
    assert not refused.value.is_in_redis
    assert failed["reason"] == back["after"]
    assert START == fact(path, "complete_since")
    assert log_in(redis_url) == history(path)
    assert 1 + len(MUCH) + 5 + 1 == len(assert_state_is_redis_own(redis_url, path))


def test_an_archive_with_a_log_trimmed_during_a_full_disk_says_since_when_it_is_complete(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    know(redis_client)
    disk, client = LimitedFiles(tmp_path), Client.from_url(redis_url)
    path = disk.folder / "archive.db"
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    daemon.wait_for("archive_bootstrapped")
    client.schedule("app.task", id="before", after=3600)
    await_caught_up(redis_url, path)
    old_log = log_in(redis_url)

    disk.fill(daemon.archivist_pid)
    for n in range(20):
        client.schedule("app.task", id=f"meanwhile{n}", after=3600)
    daemon.wait_for("archive_failed")
    redis_client.xtrim(KEYS.log(), maxlen=5, approximate=False)
    disk.free(daemon.archivist_pid)

    left = daemon.wait_for("archive_left_behind")
    told = daemon.wait_for("archive_bootstrapped", 2)
    daemon.wait_for("archive_back")
    [report] = await_caught_up(redis_url, path)
    stop(daemon)
    log = log_in(redis_url)
    assert old_log[-1].position.id == left["had"]
    assert str(log[0].position.t_us) == told["complete_since"] == report.about["complete_since"]
    assert [*old_log, *log] == history(path)
    assert 21 == len(assert_state_is_redis_own(redis_url, path))


@pytest.mark.parametrize("harm", ["full", "read-only", "full and corrupt"])
def test_a_disk_without_space_at_start_does_not_stop_firing(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, tmp_path: Path, harm: str
) -> None:
    know(redis_client)
    with small_disk(tmp_path / "disk", "64k") as disk:
        if disk is None:
            pytest.skip("needs the right to mount a tmpfs")
        path, client, is_corrupt = disk.folder / "archive.db", Client.from_url(redis_url), harm == "full and corrupt"
        if is_corrupt:
            path.write_text("dear diary")
            path.chmod(0o600)
        if harm == "read-only":
            disk.make_read_only()
        else:
            disk.fill(0)
        daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))

        daemon.wait_for("archive_failed")
        client.schedule("app.task", id="one", after=0)
        eventually(lambda: queued(redis_client))
        disk.free(0)

        daemon.wait_for("archive_back")
        await_caught_up(redis_url, path)
        stop(daemon)
        assert (1, is_corrupt) == (len(daemon.of("archive_failed")), len(daemon.of("archive_corrupt")))
        assert log_in(redis_url) == history(path)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_an_archive_deleted_under_the_daemon_is_created_anew(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, tmp_path: Path, what: str
) -> None:
    know(redis_client)
    path, client = tmp_path / "state" / "archive.db", Client.from_url(redis_url)
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    daemon.wait_for("archive_bootstrapped")
    await_caught_up(redis_url, path)
    client.schedule("app.task", id="before", after=3600, durable=True)

    if what == "folder":
        shutil.rmtree(path.parent.rename(tmp_path / "deleted"))  # gone at once, before the daemon makes it anew
    else:
        path.unlink()
    acknowledged = []
    for n in range(20):
        try:
            client.schedule("app.task", id=f"s{n}", after=0, durable=True)
            acknowledged.append((n, path.exists() and f"s{n}" in ids_in(path)))
        except NotArchived:
            continue
    daemon.wait_for("archive_bootstrapped", 2)

    eventually(lambda: has_caught_up(redis_url, path))
    stop(daemon)
    assert [] == [n for n, is_on_disk in acknowledged if not is_on_disk]
    assert 1 == len(daemon.of("archive_failed")) == len(daemon.of("archive_back"))
    assert log_in(redis_url) == history(path)
    assert [] == repeated(history(path)) + doubles(queued(redis_client))
    assert_state_is_redis_own(redis_url, path)


def ids_in(path: Path) -> str:
    """Return the whole history at *path* as text, to search for an id."""
    return " ".join(str(entry.body) for entry in history(path))
