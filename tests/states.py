"""The state of Redis and of an archive, in the same words."""

from typing import Any

from zsched.archive import Archive
from zsched.core.record import Record
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.records import Scanner

# What changes in Redis as a run or schedule goes its way, and is told by other columns of the state than its record.
_MOVING = {"status", "created_at", "enqueued_at", "zs_uncertain", "zs_version"}
_MOVING_OWN = {"nominal", "last", "ended_at", "version"}  # a restore gives a version of its own

State = dict[
    tuple[str, str], tuple[Any, ...]
]  # id, run → place, due, nominal, last, note, fields, lane, own fields, state


def held_by(wire: Wire, keys: Keys) -> State:
    """Return the state of Redis as a bootstrap reads it, in the words of ``archived_by``."""
    held: State = {}
    scanner = Scanner(wire, keys)
    for _, rows in scanner.schedules(dict.fromkeys(scanner.ids())):
        held |= {(row.id, row.run): told(row) for row in rows}
    for _, rows in scanner.runs(dict.fromkeys(scanner.run_ids()), None):
        held |= {(row.id, row.run): told(row) for row in rows}
    return held


def archived_by(archive: Archive) -> State:
    """Return the state in *archive*."""
    return {(row.id, row.run): told(row) for row in state_of(archive)}


def state_of(archive: Archive) -> list[Record]:
    """Return every schedule with a place and every open run in *archive*, by id, with all fields."""
    rows = [row for one in archive.recall().known_all() for row in (one.schedule, *one.runs) if row is not None]
    return sorted((row.whole() for row in rows), key=lambda row: row.key)


def told(record: Record) -> tuple[Any, ...]:
    """Return the parts of *record* that stay unchanged; for a pushed run only RQ's part."""
    job = {name: value for name, value in record.job_fields().items() if name.decode() not in _MOVING}
    place = record.place, record.due_ms, record.nominal_ms, record.last, record.note
    if record.place == "open":
        return *place, {name: value for name, value in job.items() if name != b"zs"}, "", {}, ""
    own = {name: value for name, value in record.own_fields().items() if name.decode() not in _MOVING_OWN}
    return *place, job, record.lane, own, record.state
