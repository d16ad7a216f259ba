"""
The state of an archive: a row per schedule with a place, and per open run.

A schedule has one row that is not open. For a one-shot, ``run`` is the part of its run id after the schedule's
id; for a recurring schedule it is ''. When a one-shot fires, its row becomes the open run's; a recurring
schedule's run gets its own row. A row is a record without its fields (function, arguments, rule): history entry ``n``
has them in ``row``.
"""

import sqlite3
from functools import lru_cache
from typing import Final
from zlib import crc32

from zsched.archive.body import demand_sum
from zsched.core.record import Place, Record, RecordFields

COLUMNS = "id, run, place, due, nominal, last, state, note, t, n, row, sum"

LiveRow = tuple[str, str, str, int | None, int | None, str | None, str, str | None, int, int, int, int]
_PLACES: Final = {place.value: place for place in Place}
_DUE: Final = Place.DUE.value


def stored(record: Record) -> LiveRow:
    """Return the columns of *record*, with their checksum."""
    values = (
        record.id, record.run, str(record.place), record.due_ms, record.nominal_ms, record.last, record.state,
        record.note, record.t_us, record.n, record.row,
    )  # fmt: skip
    return (*values, state_checksum(*values))


def record_in(row: LiveRow, fields: RecordFields = (None, (), ())) -> Record:
    """Return the record in a row, with its *fields*. Raises ArchiveCorrupt."""
    id, run, place, due_ms, nominal_ms, last, state, note, t_us, n, number, sum = row
    demand_sum(state_checksum, row[:-1], sum, "the state of schedule %r is", id)
    shape, job, own = fields
    lane = "" if shape is None else shape.lane
    return Record(
        id, run, _PLACES[place], lane, due_ms, job, own, nominal_ms, last, note, t_us, state, shape, n, number
    )  # fmt: skip


def state_checksum(
    id: str, run: str, place: str, due: int | None, nominal: int | None, last: str | None,
    state: str, note: str | None, t: int, n: int, row: int,
) -> int:  # fmt: skip
    """Return the CRC-32 of all columns but ``life``, which a bootstrap changes for all rows at once."""
    return crc32(
        b"%s %s %a %d" % (id.encode(), run.encode(), due, row), shared_sum(place, nominal, last, state, note, t, n)
    )


@lru_cache(maxsize=4096)  # hundreds of runs that fire together share it: a third of the time (measured)
def shared_sum(
    place: str, nominal: int | None, last: str | None, state: str, note: str | None, t: int, n: int
) -> int:  # fmt: skip
    """Return the part that the checksums of one entry's rows have in common."""
    return crc32(repr((place, nominal, last, state, note, t, n)).encode())


def waiting(id: str, run: str, due: int, t: int, n: int, row: int, shared: int) -> LiveRow:
    """Return the stored columns of a waiting one-shot; *shared* is its ``shared_sum``."""
    sum = crc32(b"%s %s %a %d" % (id.encode(), run.encode(), due, row), shared)
    return id, run, _DUE, due, None, None, "", None, t, n, row, sum


def delete_states(db: sqlite3.Connection, which: str, life: int) -> None:
    """Delete the states with numbers such as ``life > ?``, with their deadlines."""
    for table in ("live", "deadline"):
        db.execute(f"DELETE FROM {table} WHERE {which}", (life,))
