"""The contents of archives and of Redis in the same words, and the reports of archives."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.builders.daemons import DaemonProcess
from tests.states import State, archived_by, held_by
from tests.waiting import WITHIN_S, eventually
from zsched.archive import Archive
from zsched.archive.body import COLUMNS, entry_of
from zsched.archive.file import connect_to_read
from zsched.core.entry import Entry, Position
from zsched.storage.archivers import Archivers, ArchiveState, Report
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")


# -- in the file ------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file at *path* beside its writer."""
    with closing(connect_to_read(path)) as db:
        yield db


def history(path: Path) -> list[Entry]:
    """Return the log entries in the archive at *path*, in the order in which the archive read them."""
    with reading(path) as db:
        rows = db.execute(f"SELECT {COLUMNS} FROM entry WHERE seq IS NOT NULL ORDER BY n")
        return [entry_of(row) for row in rows]


def repeated(entries: list[Entry]) -> list[Position]:
    """Return the positions that occur more than once in *entries*."""
    return [position for position, number in Counter(entry.position for entry in entries).items() if number > 1]


def state_of(path: Path) -> State:
    """Return the state in the archive at *path*, which has no writer now."""
    with closing(Archive(path, "default")) as archive:
        return archived_by(archive)


def fact(path: Path, name: str) -> str | None:
    """Return a committed fact of the archive at *path*; None if there is no such fact, or no file yet."""
    try:
        with reading(path) as db:
            found = db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
    except sqlite3.OperationalError:  # not there yet
        return None
    return str(found[0]) if found else None


# -- in Redis ---------------------------------------------------------------------------------------


@contextmanager
def wire_to(url: str) -> Iterator[Wire]:
    """Open a connection for readers of the storage layer."""
    link = Link.from_url(url, WITHIN_S)
    with closing(link.open()) as wire:
        yield wire
    link.pool.disconnect()


def held_in(url: str) -> State:
    """Return the state of Redis as a bootstrap reads it, in the words of ``state_of``."""
    with wire_to(url) as wire:
        return held_by(wire, KEYS)


def log_in(url: str) -> list[Entry]:
    """Return the whole log in Redis."""
    with wire_to(url) as wire:
        return list(Log(wire, KEYS).entries(page=1000))


def report_of(url: str, path: Path) -> Report | None:
    """Return the last report of the archive at *path*."""
    with wire_to(url) as wire:
        reports = Archivers(wire, KEYS).reports()
    return next((report for report in reports if report.about.get("path") == str(path)), None)


def has_caught_up(url: str, path: Path) -> Report | None:
    """Return the last report of the archive at *path* if it follows and has reached the end of the log."""
    with wire_to(url) as wire:
        last = Log(wire, KEYS).last()
    report = report_of(url, path)
    is_there = report and last and report.position == last.position and report.state is ArchiveState.FOLLOWING
    return report if is_there else None


# -- daemons ----------------------------------------------------------------------------------------


def is_leader(daemon: DaemonProcess, watch: redis.Redis) -> bool:
    """Return True if *daemon* holds the lease."""
    lease, started = watch.get(KEYS.lease()) or b"", daemon.of("daemon_started")
    return bool(started) and lease.startswith(started[0]["daemon"].encode())


def stop_standby_first(daemons: list[DaemonProcess], watch: redis.Redis) -> None:
    """
    Stop the standbys before the leader. Otherwise a standby would take over, and only the log and one archive would
    show that.
    """
    for daemon in daemons:
        daemon.wait_for("daemon_started")  # by which the leader is known
    stop(*sorted(daemons, key=lambda daemon: is_leader(daemon, watch)))


def stop(*daemons: DaemonProcess) -> None:
    """Stop daemons one after the other."""
    for daemon in daemons:
        daemon.stop()


# -- comparing --------------------------------------------------------------------------------------


def differences(expected: State, actual: State, at_most: int = 10) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Return the differences between two states: at most *at_most* keys, with both values."""
    keys = [key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)]
    return {key: (expected.get(key), actual.get(key)) for key in sorted(keys)[:at_most]}


def assert_state_is_redis_own(url: str, path: Path) -> State:
    """Check that the archive at *path*, which has no writer now, has the state of Redis. Return that state."""
    held, archived = held_in(url), state_of(path)
    different = differences(held, archived)
    assert {} == different, f"Redis has {len(held)} rows, the archive {len(archived)}; they differ in {different}"
    return archived


def await_caught_up(url: str, *paths: Path, within_s: float = WITHIN_S) -> list[Report]:
    """Wait until all archives follow and have reached the end of the log. Return their reports."""
    return [eventually(lambda path=path: has_caught_up(url, path), within_s) for path in paths]  # type: ignore[misc]
