"""A Redis that goes back to an older copy of its data, and two daemons with archives that restore the lost data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.archives import await_caught_up
from tests.faults.processes import SHORT, DaemonProcess, Start, eventually
from zsched.embedded import EmbeddedRedis


@contextmanager
def redis_with_rdb() -> Iterator[EmbeddedRedis]:
    """A server that saves only on command, and loads that file at its start."""
    with EmbeddedRedis() as server:
        yield server


def put_back(server: EmbeddedRedis, saved: Path) -> None:
    """Start the killed *server* with the file that SAVE wrote a while ago."""
    server.kill()
    shutil.copy(saved, server.folder / "dump.rdb")
    server.start()


def two_daemons(start_daemon: Start, url: str, paths: list[Path]) -> list[DaemonProcess]:
    """Start two daemons; return when both archives follow and the first hold is over."""
    daemons = [start_daemon(url, ARCHIVE_PATH=str(path), **SHORT) for path in paths]
    await_caught_up(url, *paths)
    eventually(lambda: sum(len(daemon.of("hold_ended")) for daemon in daemons))
    return daemons


def put_back_by(daemons: list[DaemonProcess]) -> dict[str, int]:
    """Wait until all daemons have recovered. Return the sum of what they restored."""
    done = [daemon.wait_for("recovery_done") for daemon in daemons]
    return {name: sum(one[name] for one in done) for name in ("restored", "pushed_again", "skipped", "taken_out")}
