"""
Speed of an archive that takes in the log, and its size on disk.

The log is written first, by nobody who archives: one-shots with random ids, as ``schedule_many`` puts them, then
the fire script until none is left, 1,000 at a time. After each of the two a Follower over an Archive, in this
process, follows the log from where it was to its end, which is timed: reading from Redis, folding, writing and
every fsync. So the rates are sustained ones, of one core that does nothing else. Where others keep the cores
busy, the processor time that it took tells more: ``per CPU s``.
"""

import os
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import load
from bench.arena import Arena, Ground
from bench.children import folder
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result
from zsched.archive import Archive
from zsched.archive.file import connect_to_read
from zsched.daemon.follower import Follower
from zsched.storage.dispatch import Dispatch, FireResult, Window
from zsched.storage.lease import Lease, Term
from zsched.storage.server import Server

_BATCH = 1000  # of the fire script: a daemon's largest
_LEASE_MS = 600_000  # all of the firing
_OVER_MS = 1000  # their due times are spread over this
_MIB = 1 << 20
_GOAL_PER_S = 60_000
_UNIT = "puts/s"


@dataclass(frozen=True, slots=True)
class _Took:
    """Seconds, by the wall and of this process's cores."""

    wall_s: float
    cpu_s: float


def measure(arena: Arena) -> Result:
    """The row ``archive``."""
    count = arena.size(1_000_000, 5000)
    result = Result("archive", f"{count:,} one-shots with random uuids, log → archive, synchronous=FULL, no AOF")
    with arena.redis() as ground:
        contest(
            arena, ground, result, [Contestant("zsched", f"{count:,}", _UNIT, partial(_zsched, arena, ground, count))]
        )
    series = result.find("zsched")
    result.at_rate("60,000 puts archived/s", series.median if series else None, _GOAL_PER_S)
    result.at_rate("60,000 fires archived/s", series.detail("fires/s") if series else None, _GOAL_PER_S)
    result.notes.append(
        "bytes: the file after close, put and fire of each; memory: growth of this process, at its peak"
    )
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    _put(arena, ground, count)
    with folder(arena) as made:
        path = made / "archive.db"
        before_kib = _memory_kib("VmRSS")
        has_peak = _begin_peak()
        puts = _follow(arena, ground, path)
        prove(path, "due", count)
        _fire(arena, ground)
        fires = _follow(arena, ground, path)
        peak_kib = _memory_kib("VmHWM") - before_kib
        prove(path, "open", count)
        size = path.stat().st_size
    others = {
        "per CPU s": count / puts.cpu_s,
        "fires/s": count / fires.wall_s,
        "fires per CPU s": count / fires.cpu_s,
        "bytes each": size / count,
    }
    if has_peak:
        others["memory MiB"] = peak_kib * 1024 / _MIB
    return Figure(count / puts.wall_s, others)


def _put(arena: Arena, ground: Ground, count: int) -> None:
    now_ms = arena.clock.now_ms() - _OVER_MS
    timed = ((str(uuid.uuid4()), now_ms + number * _OVER_MS // count) for number in range(count))
    many = ground.client().schedule_many(load.rows(timed))
    if many.created != count:
        raise Broken(f"not all of {count:,} were created: {many}")


def _follow(arena: Arena, ground: Ground, path: Path) -> _Took:
    """Bring the archive at *path* to the log's end, on its disk."""
    archive = Archive(path, "default")
    try:
        with ground.wire() as wire:
            follower = Follower(archive, wire, ground.keys, arena.clock)
            started_ms, before = arena.clock.monotonic_ms(), os.times()
            if not follower.step():
                raise Broken("the archive did not follow the log")
            wall_s, after = (arena.clock.monotonic_ms() - started_ms) / 1000, os.times()
            return _Took(wall_s, after.user + after.system - before.user - before.system)
    finally:
        archive.close()


def _fire(arena: Arena, ground: Ground) -> None:
    """Fire all that is due, as a daemon does, but for planning and archiving."""
    now_ms = arena.clock.now_ms()
    window = Window(now_ms - _LEASE_MS, now_ms + _LEASE_MS)
    with ground.wire() as wire:
        lease = Lease(wire, ground.keys, Server.of(wire), arena.clock, "bench", _LEASE_MS)
        term = lease.acquire()
        assert isinstance(term, Term), "no daemon runs here"
        dispatch = Dispatch(wire, ground.keys)
        while ground.waiting():
            fired = dispatch.fire(term, window, _BATCH)
            if not isinstance(fired, FireResult):
                raise Broken(f"fire.lua says {fired.word}")
        lease.release(term)


def prove(path: Path, place: str, count: int) -> None:
    """The archive's state has *count* rows in *place*, and no others."""
    db = connect_to_read(path)
    try:
        found = dict(db.execute("SELECT place, count(*) FROM live GROUP BY place").fetchall())
    finally:
        db.close()
    if found != {place: count}:
        raise Broken(f"the archive has {found}, and should have {count:,} {place}")


def _begin_peak() -> bool:
    """Let VmHWM, the peak of this process's memory, begin anew: proc(5), clear_refs. False where one may not."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _memory_kib(name: str) -> int:
    """A line of proc(5)'s status, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise Broken(f"/proc/self/status has no {name}")
