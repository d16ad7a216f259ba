"""
Results as a table for people and as JSON for programs.

A row is written when it ends. An interrupted benchmark has told all rows that it finished, and its JSON is whole.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from textwrap import indent
from typing import Any, Final

from bench.peers.bullmq import BullMQ
from bench.results import Absent, Goal, Result, Series
from zsched.embedded import find_server

Write = Callable[[str], object]  # of a whole line or several
Add = Callable[[Result], None]

_COLUMNS: Final = ("", "with", "median", "", "lowest … highest", "ratio", "")


def environment(*, is_quick: bool, repeat: int) -> dict[str, Any]:
    """Describe what the figures depend on. Absolute ones don't travel between machines, ratios nearly do."""
    server = find_server()
    try:
        bullmq: str | None = BullMQ.find().version
    except Absent:
        bullmq = None
    return {
        "redis": str(server),
        "redis_server": str(server.path),
        "persistence": "no RDB; no AOF unless a row says so",
        "python": platform.python_version(),
        "redis_py": version("redis"),
        "rq": version("rq"),
        "bullmq": bullmq,
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "repetitions": repeat,
        "is_quick": is_quick,
    }


@contextmanager
def json_report(about: dict[str, Any], write: Write) -> Iterator[Add]:
    """One JSON object: what the figures depend on, and the rows that are added, with all repetitions."""
    separator = ""

    def add(result: Result) -> None:
        nonlocal separator
        write(separator + indent(json.dumps(_row(result), indent=2), "    "))
        separator = ","

    write(f'{{\n  "environment": {json.dumps(about)},\n  "rows": [')
    try:
        yield add
    finally:
        write("  ]\n}")


@contextmanager
def table_report(about: dict[str, Any], write: Write) -> Iterator[Add]:
    """Text: what the figures depend on, and the rows that are added."""
    write(
        f"{about['redis']} ({about['persistence']}), loopback TCP · Python {about['python']} · "
        f"redis-py {about['redis_py']} · RQ {about['rq']} · BullMQ {about['bullmq'] or 'left out'}\n"
        f"{about['cores']} cores, load {about['load']} at the start · medians of {about['repetitions']} interleaved "
        f"repetitions{' · quick sizes: too small to judge by' if about['is_quick'] else ''}"
    )

    def add(result: Result) -> None:
        write("\n".join(_section(result)))

    yield add


def figure(value: float) -> str:
    """A number with as many digits as it is worth: three, or all before the point."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _section(result: Result) -> list[str]:
    """The lines of one row."""
    rows = [_cells(result, series) for series in result.series]
    return [
        f"\n{result.row}: {result.title}",
        *(_aligned([_COLUMNS, *rows]) if rows else []),
        *(f"  goal {_goal(goal, result.speed)}" for goal in result.goals),
        *([f"  speed: {figure(result.speed)} × that of the machine of the goals"] if result.goals else []),
        *(f"  note: {note}" for note in result.notes),
        *(f"  BROKEN: {problem}" for problem in result.broken),
    ]


def _cells(result: Result, series: Series) -> tuple[str, ...]:
    assert series.median is not None  # series without values are left out of a result
    ratio = None if series.who == result.baseline else result.ratio(series.who)
    extent = f"{figure(min(series.values))} … {figure(max(series.values))}" if len(series.values) > 1 else ""
    details = ", ".join(f"{name} {figure(series.detail(name) or 0.0)}" for name in series.details)
    told = "" if ratio is None else f"{figure(ratio)} × {result.baseline}"
    return series.who, series.size, figure(series.median), series.unit, extent, told, details


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns; the third, of figures, is aligned at its right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if n == 2 else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _goal(goal: Goal, speed: float) -> str:
    here = f" ({figure(goal.limit_at(speed))} on this machine)" if goal.power else ""
    return f"{goal.text}{here}: {figure(goal.value)}, {'met' if goal.is_met_at(speed) else 'MISSED'}"


def _row(result: Result) -> dict[str, Any]:
    return {
        "row": result.row,
        "title": result.title,
        "baseline": result.baseline,
        "series": [
            {
                "who": series.who,
                "size": series.size,
                "unit": series.unit,
                "median": series.median,
                "values": series.values,
                "ratio": result.ratio(series.who),
                "details": series.details,
            }
            for series in result.series
        ],
        "machine_speed": result.speed,
        "goals": [
            {
                "text": goal.text,
                "value": goal.value,
                "limit": goal.limit_at(result.speed),
                "is_met": goal.is_met_at(result.speed),
            }
            for goal in result.goals
        ],
        "notes": result.notes,
        "broken": result.broken,
    }
