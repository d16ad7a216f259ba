"""Duration of a listing among a million waiting one-shots: its first page, and a few schedules by a pattern of ids."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from bench import load
from bench.arena import Arena, Ground
from bench.contest import Contestant, Figure, contest
from bench.results import Broken, Result

_AHEAD_MS, _OVER_MS = 86_400_000, 86_400_000  # due tomorrow, all over the day
_PAGE = 50  # what `zsched ls` shows on a terminal
_INNER, _MATCHES = "99999", 5
_FIRST, _BY_ID, _NONE = "the first page", "five ids by *99999*", "a pattern that no id matches"


def measure(arena: Arena) -> Result:
    """The row ``listing``."""
    count = arena.size(1_000_000, 20_000)
    result = Result("listing", f"client.list among {count:,} waiting one-shots")
    with arena.redis() as ground:
        timed = load.spread(count, arena.clock.now_ms() + _AHEAD_MS, _OVER_MS)
        ids = [id for id, _ in timed]
        by_id = [id for id in ids if _INNER in id][:_MATCHES]
        measured = partial(_zsched, arena, ground, timed)
        contestants = [
            Contestant(_FIRST, f"{_PAGE} of {count:,}", "ms", partial(measured, 20, ids[:_PAGE], limit=_PAGE)),
            Contestant(_BY_ID, f"{count:,}", "ms", partial(measured, 5, by_id, match=f"*{_INNER}*", limit=_MATCHES)),
            Contestant(_NONE, f"{count:,}", "ms", partial(measured, 5, [], match="*.*")),
        ]
        contest(replace(arena, repeat=1), ground, result, contestants)
    first, found = result.find(_FIRST), result.find(_BY_ID)
    result.within("10 ms for the first page", first.median if first else None, 10)
    result.within("3,000 ms for five ids by a pattern", found.median if found else None, 3000)
    result.notes.append("the median of 20 or 5 calls of one client; `max`: the slowest; put once for each line")
    return result


def _zsched(
    arena: Arena, ground: Ground, timed: list[load.Timed], calls: int, expected: list[str], **wanted: Any
) -> Figure:
    client = ground.client()
    load.put(client, timed)
    client.get(timed[0][0])  # connected, and the script is there

    def durations_ms() -> Iterator[float]:
        for _ in range(calls):
            started_ms = arena.clock.monotonic_ms()
            found = [one.id for one in client.list(**wanted)]
            yield arena.clock.monotonic_ms() - started_ms
            if found != expected:
                raise Broken(f"{len(found)} schedules were listed, {found[:3]} …, not {expected[:3]} …")

    took_ms = list(durations_ms())
    return Figure(median(took_ms), {"max": max(took_ms)})
