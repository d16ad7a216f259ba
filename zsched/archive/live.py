"""
The state of an archive: a row per schedule with a place, and per open run.

A schedule has one row that is not open. For a one-shot, ``run`` is the part of its run id after the schedule's
id; for a recurring schedule it is ''. When a one-shot fires, its row becomes the open run's; a recurring
schedule's run gets its own row. History entry ``n`` has the record (function, arguments, rule) in ``row``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from zsched.errors import ArchiveCorrupt

COLUMNS = "id, run, place, due, nominal, last, state, note, t, n, row, sum"
DUE, PAUSED, QUARANTINE, ENDED, OPEN = "due", "paused", "quarantine", "ended", "open"

LiveRow = tuple[str, str, str, int | None, int | None, str | None, str, str | None, int, int, int, int]


@dataclass(slots=True)
class Live:
    """
    One row. ``due`` and ``nominal`` are in ms; ``t``, the time of its last change, in µs. ``last``: run id of a
    recurring schedule's last run. ``state``: its counts. ``note``: "<since ms> <reason>" if paused or quarantined;
    ``uncertain`` for a run.
    """

    id: str
    run: str
    place: str
    due: int | None
    nominal: int | None
    last: str | None
    state: str
    note: str | None
    t: int
    n: int
    row: int

    @property
    def key(self) -> tuple[str, str]:
        """The key of the row."""
        return self.id, self.run

    def stored(self) -> LiveRow:
        """Return its columns, with their checksum."""
        values = (
            self.id, self.run, self.place, self.due, self.nominal, self.last, self.state, self.note, self.t,
            self.n, self.row,
        )  # fmt: skip
        return (*values, state_checksum(*values))

    @classmethod
    def of(cls, row: LiveRow) -> Live:
        """Return the row from its stored columns. Raises ArchiveCorrupt."""
        try:
            is_as_written = state_checksum(*row[:-1]) == row[-1]
        except (TypeError, AttributeError):  # a value has another type
            is_as_written = False
        if not is_as_written:
            raise ArchiveCorrupt(f"the state of schedule {row[0]!r} is corrupted: its checksum differs")
        return cls(*row[:-1])


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
    return crc32(repr((str(place), nominal, last, state, note, t, n)).encode())


def waiting(id: str, run: str, due: int, t: int, n: int, row: int, shared: int) -> LiveRow:
    """Return the stored columns of a waiting one-shot; *shared* is its ``shared_sum``."""
    sum = crc32(b"%s %s %a %d" % (id.encode(), run.encode(), due, row), shared)
    return id, run, DUE, due, None, None, "", None, t, n, row, sum
