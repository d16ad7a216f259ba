"""The records of schedules in Redis, read by get.lua, as many as there are at one moment of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from zsched.core.clock import LAST_MS
from zsched.core.entry import Position, any_milliseconds, text
from zsched.core.options.choices import Priority
from zsched.core.pages import pages_of
from zsched.core.record import STATE, Place, Record
from zsched.storage.keys import Keys
from zsched.storage.meta import due_from_score
from zsched.storage.scripts import Scripts

PAGE = 200  # schedules read by one script


class RecordPage(NamedTuple):
    """Records of schedules at *now_ms* of the server, when the log ended with *at* (None: it is empty)."""

    now_ms: int
    at: Position | None
    records: list[Record]


def read_records(scripts: Scripts, keys: Keys, ids: Iterable[str], at_first: int | None = None) -> Iterator[RecordPage]:
    """Yield the existing schedules of *ids*, in their order, in pages. *at_first*: the most in the first page."""
    for page in pages_of(ids, PAGE, at_first):
        now_ms, last, last_t, *rows = scripts.call("get", rows=page)
        found = [_record(id, row, keys.run_suffix) for id, row in zip(page, rows, strict=True) if row]
        yield RecordPage(int(now_ms), Position.of(last, last_t), found)


def _record(id: str, row: list[Any], run_suffix: str) -> Record:
    """Return the record in a row of the reply. Another program may have written any value."""
    place, lane, due, since_ms, note, is_recurring, own, job = row
    fields = dict(zip(own[::2], own[1::2], strict=True))
    nominal, last, state = fields.pop(b"nominal", b""), text(fields.pop(b"last", b"")), text(fields.pop(b"state", b""))
    return Record(
        id=id,
        run="" if is_recurring else f"{text(due)}{run_suffix}",
        place=Place(text(place)),
        lane=Priority.named(text(lane or fields.get(b"lane", b""))).value,  # an ended schedule has no lane
        due_ms=None if due in (b"", b"-") else due_from_score(due),
        job=job,
        own=[each for field in fields.items() for each in field],
        nominal_ms=None if (at_ms := any_milliseconds(nominal)) is None or at_ms > LAST_MS else at_ms,
        last=last if last.split() == [last] else None,
        state=state if STATE.fullmatch(state) else "",
        note=f"{text(since_ms)} {text(note)}" if since_ms else None,
    )
