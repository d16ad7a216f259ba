"""Rows of lost data, and the calls of a merge."""

from __future__ import annotations

from typing import Any

from tests.lua.ground import FIELDS, LEASE_MS, OWN, TEMPLATE, Entry, Ground
from zsched.core.log import Entry as Read
from zsched.core.log import Position
from zsched.core.log.recovery import restored
from zsched.core.record import Place, Record

T_US = 1_800_000_000_123_456  # of the lost change
DUE_MS = 1_900_000_000_000
WHOSE = {"archive": "archive-1", "names": "", "is_forced": 0}
JOB = FIELDS | {"data": "call"}
RULE = OWN | {"trigger": "rule-1", "anchor": "5", "digest": "d", "lane": "low"}


def one_shot(place: str = "due", id: str = "a", lane: str = "low", note: str | None = None, **fields: str) -> Record:
    return Record(id, str(DUE_MS), Place(place), lane, DUE_MS, texts_of(JOB | fields), note=note, t_us=T_US)


def rule(place: str = "due", id: str = "r", note: str | None = None, **own: str) -> Record:
    due_ms = None if place == "ended" else DUE_MS
    fields = texts_of(TEMPLATE), texts_of(RULE | own)
    return Record(id, "", Place(place), "low", due_ms, *fields, DUE_MS, "r-5", note, T_US)


def run(place: str = "open", id: str = "a", flags: str = "1", queue: str = "default", ms: int = DUE_MS) -> Record:
    """Return the row of a run that had not ended."""
    job = texts_of(JOB | {"zs": flags, "origin": queue})
    return Record(id, str(ms), Place(place), "", ms, job, t_us=T_US)


def over(run: str) -> Record:
    """Return the row of a run that is over."""
    id, _, ms = run.rpartition("-")
    return Record(id, ms, Place.OVER, "", int(ms), (), t_us=T_US)


def gone(id: str, run: str = "") -> Record:
    return Record(id, run, Place.GONE, "low", DUE_MS, (), t_us=T_US)


def restore(ground: Ground, *rows: Record, **over: Any) -> list[Any]:
    arguments = seen(ground) | {"hold_for_ms": LEASE_MS, "reason": "lost", "if_absent": 0, **WHOSE} | over
    script = "finish" if rows and rows[0].is_over else "restore"
    return ground.call(script, [text for row in rows for text in row.texts()], row_count=len(rows), **arguments)


def merged(ground: Ground, *positions: Position, **over: Any) -> list[Any]:
    rows = [text for position in positions for text in (position.id, position.t_us)]
    return ground.call("merged", rows, **(seen(ground) | WHOSE | over))


def seen(ground: Ground) -> dict[str, Any]:
    """Return the position of the log's end, as arguments."""
    last = ground.entries()[-1:]
    return {"seen_entry": last[0].id, "seen_t": last[0].t} if last else {"seen_entry": "-", "seen_t": 0}


def hold(ground: Ground) -> int:
    return int(ground.redis.hget(ground.keys.meta(), "hold") or 0)


def texts_of(fields: dict[str, str]) -> list[bytes]:
    return [text.encode() for pair in fields.items() for text in pair]


def logged(entry: Entry) -> list[Record]:
    """Return the rows of a restore, as another archive reads them."""
    texts = [text.encode() for text in ("kind", entry.kind, "t", entry.t, *entry.texts)]
    return restored(Read.of(entry.id.encode(), texts))
