"""
Time until a Redis that lost everything holds it again, from an archive.

One-shots with random ids, and one recurring schedule for nine of them, are put and archived by nobody who is timed.
Then FLUSHALL, and the archive merges what it knows, as a daemon's archiver does after it waited for others. What
Redis holds then must be what it held, each schedule with its time.
"""

import gc
import uuid
from functools import partial
from pathlib import Path

from bench import load, raw
from bench.arena import Arena, Ground
from bench.children import folder
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result
from zsched.archive import Archive
from zsched.core.options.choices import Priority
from zsched.daemon.follower import Follower
from zsched.daemon.merge import Merge

_RAW = "raw HSET and ZADD"
_HOLD_MS = 2000
_SPREAD_MS = 86_400_000
_RULE_EVERY = 10  # of so many schedules one recurs


def measure(arena: Arena) -> Result:
    """The row ``rebuild``."""
    count = arena.size(1_000_000, 5000)
    title = f"{count:,} schedules, a tenth of them recurring: FLUSHALL → Redis holds them again"
    result = Result("rebuild", title, baseline=_RAW)
    with arena.redis() as ground:
        contestants = [
            Contestant("zsched", f"{count:,}", "s", partial(_zsched, arena, ground, count)),
            Contestant(_RAW, f"{count:,}", "s", partial(_raw, arena, ground, count)),
        ]
        contest(arena, ground, result, contestants)
    result.at_most("2.5 × raw", result.ratio("zsched"), 2.5)
    result.notes.append("followed s: until the archive follows the new history too, from the same start")
    return result


def _zsched(arena: Arena, ground: Ground, count: int) -> Figure:
    _put(arena, ground, count)
    with folder(arena) as made:
        archive = Archive(Path(made) / "archive.db", "default")
        try:
            with ground.wire() as wire:
                follower = Follower(archive, wire, ground.keys, arena.clock)
                if not follower.step():
                    raise Broken("the archive did not follow the log")
                before = _held(ground)
                ground.redis.flushall()
                gc.freeze()  # as a daemon at its start
                started_ms = arena.clock.monotonic_ms()
                merge = Merge(archive.recall(), wire, ground.keys, archive.position, hold_for_ms=_HOLD_MS)
                merge.compare()
                for _ in merge.run():
                    pass
                rebuilt_ms = arena.clock.monotonic_ms()
                if _held(ground) != before:
                    raise Broken("Redis does not hold what it held before")
                compared_ms = arena.clock.monotonic_ms() - rebuilt_ms
                arena.wait_for("the archive follows the new history", follower.step, within_s=600)
                followed_ms = arena.clock.monotonic_ms() - compared_ms
        finally:
            archive.close()
    wall_s = (rebuilt_ms - started_ms) / 1000
    return Figure(wall_s, {"per s": count / wall_s, "followed s": (followed_ms - started_ms) / 1000})


def _raw(arena: Arena, ground: Ground, count: int) -> Figure:
    _put(arena, ground, count)
    ground.redis.delete(ground.keys.log())
    before = _held(ground)
    wall_s = raw.rebuild_s(ground, arena.clock)
    if _held(ground) != before:
        raise Broken("the raw commands did not write what was there before")
    return Figure(wall_s, {"per s": count / wall_s})


def _put(arena: Arena, ground: Ground, count: int) -> None:
    now_ms, client = arena.clock.now_ms() + _SPREAD_MS, ground.client()
    ones = ((str(uuid.uuid4()), now_ms + number) for number in range(count - count // _RULE_EVERY))
    many = client.schedule_many(load.rows(ones))
    more = client.schedule_many(
        {"func": load.FUNC, "id": f"rule-{number}", "cron": "0 9 * * *"} for number in range(count // _RULE_EVERY)
    )
    if many.created + more.created != count:
        raise Broken(f"not all of {count:,} were created: {many}, {more}")


def _held(ground: Ground) -> dict[bytes, float]:
    """Schedule id → due time, of all lanes."""
    lanes = (ground.redis.zrange(ground.keys.due(lane), 0, -1, withscores=True) for lane in Priority)
    return {id: due for lane in lanes for id, due in lane}
