"""
What changed between two times: what people and programs did, and which rows of the timeline went differently from the
time of the same length before.

Two questions: the effects from the index of what somebody asked for, and counts of two spans.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, Final, NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from zsched.core.clock import from_ms
from zsched.core.occurrences.counts import FAILED, LATE, MINUTE_MS, RowsBy
from zsched.core.occurrences.outcomes import LEFT_OUT, PUSHES
from zsched.errors import InvalidSchedule
from zsched.web.console.drawing import ShownTime
from zsched.web.console.timeline import shown_time
from zsched.web.console.view import View, Viewed

router = APIRouter(include_in_schema=False)

_HOUR_MS: Final = 3_600_000
_LENGTHS: Final = {"1h": _HOUR_MS, "24h": 24 * _HOUR_MS, "7d": 168 * _HOUR_MS}
_READ: Final = 1000  # rows, those with most failures
_LISTED: Final = 40
_NOISE: Final = 10  # one or a tenth more or less is no difference of what ran, or was late
_KINDS: Final = {
    "failed": [FAILED], "did not run": [what.value for what in LEFT_OUT], "late": [LATE],
    "ran": [what.value for what in PUSHES],
}  # fmt: skip
_BAD: Final = ("failed", "did not run")


class Compared(NamedTuple):
    """A row, with its numbers by kind: of the time before, and of this one."""

    name: str
    is_once: bool
    numbers: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, name: str, is_once: bool, counts: list[Counter[str]]) -> Compared:
        """Return the row with the *counts* of two spans."""
        before, now = ({kind: sum(one[word] for word in words) for kind, words in _KINDS.items()} for one in counts)
        return cls(name, is_once, {kind: (before[kind], now[kind]) for kind in _KINDS})

    @property
    def difference(self) -> list[int]:
        """By kind how much it differs, the gravest first."""
        return [
            abs(now - before) * (kind in _BAD or abs(now - before) > max(1, before // _NOISE, now // _NOISE))
            for kind, (before, now) in self.numbers.items()
        ]


@router.get("/changes")
async def changes(view: Viewed, last: str = "24h") -> Response:
    """Show what changed in the last day, or between two times, beside the time of the same length before."""
    view.call.demand_all("the log")
    if last not in _LENGTHS:
        raise InvalidSchedule("last", last, "not one of its values", f"give one of {', '.join(_LENGTHS)}")
    end_ms = -(-view.now_ms // MINUTE_MS) * MINUTE_MS
    shown = shown_time(view, end_ms - _LENGTHS[last], end_ms, MINUTE_MS)
    is_last = not view.request.query_params.get("from")
    return view.later("changes", lambda: _found(view, shown), shown=shown, last=is_last and last, lengths=_LENGTHS)


async def _found(view: View, shown: ShownTime) -> dict[str, Any]:
    """Read what the page shows: the effects, and the counts of both times."""
    client, span = view.call.client, timedelta(milliseconds=shown.span_ms)
    times = from_ms(shown.start_ms), from_ms(shown.end_ms)
    (effects, reached_us, source), counted = await asyncio.gather(
        client._effects(*times), client.timeline(times[0] - span, times[1], span, RowsBy.SCHEDULE, _READ)
    )
    rows = [Compared.of(row.name, row.is_once, row.counts) for row in counted.rows]
    differing = sorted((row for row in rows if any(row.difference)), key=lambda row: row.difference, reverse=True)
    return {
        "before": shown.moved(-1),
        "now": shown.moved(0),
        "effects": effects,
        "reached_ms": None if reached_us is None else reached_us // 1000,
        "source": source,
        "counted": counted,
        "kinds": list(_KINDS),
        "all": Compared.of("", False, counted.counts),
        "rows": differing[:_LISTED],
        "more": max(len(differing) - _LISTED, 0),
    }
