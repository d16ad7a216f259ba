"""A Redis that goes back to an older copy of its data, and two daemons with archives that restore the lost data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.builders.leaders import know
from tests.faults.archives import await_caught_up
from tests.faults.leases import end_hold
from tests.faults.ledger import connect
from tests.waiting import WITHIN_S
from zsched.embedded import EmbeddedRedis


@contextmanager
def redis_with_rdb() -> Iterator[EmbeddedRedis]:
    """A server without a hold, that saves only on command and loads that file at its start."""
    with EmbeddedRedis() as server, connect(server.url) as client:
        know(client)
        yield server


def put_back(server: EmbeddedRedis, saved: Path) -> None:
    """Start the killed *server* with the file that SAVE wrote a while ago."""
    server.kill()
    shutil.copy(saved, server.folder / "dump.rdb")
    server.start()


def two_daemons(start_daemon: Start, url: str, paths: list[Path]) -> list[DaemonProcess]:
    """Start two daemons; return when both archives follow."""
    daemons = [start_daemon(url, ARCHIVE_PATH=str(path)) for path in paths]
    await_caught_up(url, *paths)
    return daemons


def put_back_by(watch: redis.Redis, daemons: list[DaemonProcess], within_s: float = WITHIN_S) -> dict[str, int]:
    """Wait until all daemons have recovered, and end the hold. Return the sum of what they restored."""
    done = [daemon.wait_for("recovery_done", within_s=within_s) for daemon in daemons]
    end_hold(watch, *daemons)
    return {name: sum(one[name] for one in done) for name in ("restored", "pushed_again", "skipped", "taken_out")}
