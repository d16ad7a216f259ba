"""Two daemons with archives that restore what a Redis lost."""

from pathlib import Path

import redis

from tests.builders.daemons import DaemonProcess, Start
from tests.faults.archives import await_caught_up
from tests.faults.leases import end_hold
from tests.waiting import WITHIN_S


def archiving_daemons(start_daemon: Start, url: str, paths: list[Path]) -> list[DaemonProcess]:
    """Start two daemons; return when both archives follow."""
    daemons = [start_daemon(url, ARCHIVE_PATH=str(path)) for path in paths]
    await_caught_up(url, *paths)
    return daemons


def put_back_by(watch: redis.Redis, daemons: list[DaemonProcess], within_s: float = WITHIN_S) -> dict[str, int]:
    """Wait until all daemons have recovered, and end the hold. Return the sum of what they restored."""
    done = [daemon.wait_for("recovery_done", within_s=within_s) for daemon in daemons]
    end_hold(watch, *daemons)
    return {name: sum(one[name] for one in done) for name in ("restored", "pushed_again", "skipped", "taken_out")}
