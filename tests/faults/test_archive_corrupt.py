"""Corrupt archives are kept and replaced while runs fire; entries of a newer version are kept and reported."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.clocks import now_us
from tests.faults.archives import KEYS, assert_state_is_redis_own, await_caught_up, history, log_in, stop
from tests.ledger import doubles, queued
from tests.waiting import eventually
from zsched import Client
from zsched.config.urls import address_of
from zsched.daemon.running import UNUSABLE


def flip(path: Path, at: int, number: int = 64) -> None:
    """Change *number* bytes from *at* on to other values."""
    with path.open("r+b") as file:
        file.seek(at)
        bytes_there = file.read(number)
        file.seek(at)
        file.write(bytes(byte ^ 0x5A for byte in bytes_there))


def flip_a_payload(path: Path) -> None:
    """Change an entry, which is in no index and no page header."""
    with closing(sqlite3.connect(path)) as db:
        [body] = db.execute("SELECT body FROM entry WHERE kind = 'put' ORDER BY n DESC LIMIT 1").fetchone()
    flip(path, path.read_bytes().rindex(body[-40:]), 3)


def flip_pages_in_the_middle(path: Path) -> None:
    flip(path, path.stat().st_size // 2 // 8192 * 8192, 8192)


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def garble_header(path: Path) -> None:
    flip(path, 0, 100)


def become_text(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)


HARMS: dict[str, Callable[[Path], None]] = {
    "a flipped payload": flip_a_payload,
    "flipped pages in the middle": flip_pages_in_the_middle,
    "half of it": truncate,
    "a garbled header": garble_header,
    "no database": become_text,
}


def an_archive(start_daemon: Start, url: str, path: Path) -> None:
    """Make a closed archive of 300 schedules at *path*."""
    daemon = start_daemon(url, ARCHIVE_PATH=str(path))
    daemon.wait_for("term_began")
    rows = ({"func": "app.task", "id": f"s{n}", "after": 3600} for n in range(300))
    assert 300 == Client.from_url(url).schedule_many(rows).created
    await_caught_up(url, path)
    stop(daemon)


@pytest.mark.once
@pytest.mark.parametrize("harm", HARMS)
def test_a_corrupt_archive_is_kept_and_replaced_while_runs_fire(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, harm: str, path: Path
) -> None:
    client = Client.from_url(redis_url)
    an_archive(start_daemon, redis_url, path)
    HARMS[harm](path)
    bad = path.read_bytes()

    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    told = daemon.wait_for("archive_corrupt")
    client.schedule("app.task", id="on-time", after=0)
    eventually(lambda: queued(redis_client))
    daemon.wait_for("archive_bootstrapped")
    [report] = await_caught_up(redis_url, path)
    stop(daemon)
    kept = Path(told["kept"])
    assert str(path) == told["archive"]
    assert kept.name.startswith("archive.db.corrupt-")
    assert len(bad) == kept.stat().st_size
    assert 1 == len(daemon.of("archive_corrupt"))
    assert report.trouble is None
    assert ["on-time"] == [run.rpartition("-")[0] for run in queued(redis_client)]
    assert log_in(redis_url) == history(path)
    assert 301 == len(assert_state_is_redis_own(redis_url, path))


@pytest.mark.once
def test_an_empty_file_becomes_a_new_archive(start_daemon: Start, redis_url: str, path: Path) -> None:
    path.touch(0o600)

    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    daemon.wait_for("archive_bootstrapped")
    await_caught_up(redis_url, path)
    stop(daemon)
    assert [] == daemon.of("archive_corrupt") + daemon.of("archive_failed")
    assert log_in(redis_url) == history(path)


@pytest.mark.once
def test_two_corrupt_files_in_a_row_are_both_kept(start_daemon: Start, redis_url: str, path: Path) -> None:
    kept = []
    for text in ("one", "two"):
        path.write_text(text * 1000)
        path.chmod(0o600)
        daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
        kept.append(daemon.wait_for("archive_corrupt")["kept"])
        daemon.wait_for("archive_bootstrapped")
        stop(daemon)
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):  # a busy daemon may end without closing it
            file.unlink(missing_ok=True)

    assert [] == doubles(kept)
    assert ["one" * 1000, "two" * 1000] == [Path(file).read_text() for file in kept]


@pytest.mark.once
def test_the_archive_of_another_namespace_is_refused(start_daemon: Start, redis_url: str, path: Path) -> None:
    an_archive(start_daemon, redis_url, path)
    before = path.read_bytes()

    other = start_daemon(redis_url, NAMESPACE="shop", ARCHIVE_PATH=str(path))

    assert UNUSABLE == other.wait()
    [failed] = other.of("daemon_failed")
    assert f"archive {path} is of namespace 'default', not of 'shop'; give another [archive] path" == failed["reason"]
    assert before == path.read_bytes()
    assert [] == [event for event in other.events if event["event"] == "no_json"]


@pytest.mark.once
def test_a_second_daemon_with_the_same_path_is_refused_with_the_pid_of_the_archivist(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    first = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    first.wait_for("archive_bootstrapped")

    second = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    assert 1 == second.wait()
    [failed] = second.of("daemon_failed")
    remedy = "give each daemon an [archive] path of its own"
    assert f"archive {path} is in use by process {first.archivist_pid}; {remedy}" == failed["reason"]
    Client.from_url(redis_url).schedule("app.task", id="one", after=0)
    eventually(lambda: queued(redis_client))
    await_caught_up(redis_url, path)
    stop(first)


@pytest.mark.once
def test_daemons_without_a_path_use_separate_files_and_find_them_again(
    start_daemon: Start, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "zsched" / "-".join(["default", *re.findall(r"[\w.]+", address_of(redis_url))])
    paths = [folder / f"{n}.db" for n in (1, 2)]

    def start() -> DaemonProcess:
        return start_daemon(redis_url, ARCHIVE_PATH="")

    first = start()
    first.wait_for("archive_bootstrapped")
    second = start()
    second.wait_for("archive_bootstrapped")
    await_caught_up(redis_url, *paths)
    stop(second)
    third = start()
    opened = [daemon.wait_for("archive_opened")["archive"] for daemon in (first, second, third)]

    await_caught_up(redis_url, *paths)
    stop(third, first)
    assert [str(paths[0]), str(paths[1]), str(paths[1])] == opened
    assert [log_in(redis_url)] * 2 == [history(path) for path in paths]


def write_entry_of_the_future(watch: redis.Redis) -> str:
    """Write the next entry of the log, of an unknown kind; return its id."""

    def write(pipe: redis.client.Pipeline) -> None:
        epoch, seq = (int(text) for text in pipe.hmget(KEYS.meta(), "epoch", "seq"))
        pipe.multi()
        fields = {"kind": "teleport", "t": now_us(watch), "to": b"\xff\x00 anywhere"}
        pipe.xadd(KEYS.log(), fields, id=f"{epoch}-{seq + 1}")
        pipe.hset(KEYS.meta(), "seq", seq + 1)

    id: bytes = watch.transaction(write, KEYS.meta())[0]
    return id.decode()


def test_an_entry_of_an_unknown_kind_is_kept_and_logged_once_and_following_continues(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    client = Client.from_url(redis_url)
    daemon = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    daemon.wait_for("term_began")

    id = write_entry_of_the_future(redis_client)

    told = daemon.wait_for("log_entry_unknown")
    client.schedule("app.task", id="after", after=0)
    eventually(lambda: queued(redis_client))
    await_caught_up(redis_url, path)
    stop(daemon)
    again = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    again.wait_for("term_began")
    [report] = await_caught_up(redis_url, path)
    stop(again)
    assert f"log entry {id} is of the unknown kind 'teleport'" == told["reason"]
    assert str(path) == told["archive"]
    assert 1 == len(daemon.of("log_entry_unknown"))
    assert [] == again.of("log_entry_unknown")
    assert 1 == report.about["unknown_entries"]
    [kept] = [entry for entry in history(path) if entry.kind == "teleport"]
    assert (id, [b"to", b"\xff\x00 anywhere"]) == (kept.position.id, kept.body)
    assert log_in(redis_url) == history(path)
    assert_state_is_redis_own(redis_url, path)
