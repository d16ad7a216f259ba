"""
Which runs an archive has as open: fired, and not known to be over. Read beside its writer, in order of their time.

They stand in an index of their own (``live_open``), so nobody looks at the millions that wait. The rows' checksums
are not compared, as the index holds run ids alone: whoever acts on them must ask Redis first.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from zsched.archive import body
from zsched.archive.file import CORRUPT_AT_OPEN, connect_to_read, converted
from zsched.core.log import Position

Place = tuple[int, str, str]  # due or nominal ms, schedule id, the rest of the run id: the order of open runs


class OpenRuns(NamedTuple):
    """Some open runs, and the last entry of the log that the state had in it when they were open."""

    as_of: Position | None
    oldest: list[Place]
    behind: list[Place]


_SELECT = (
    "SELECT due, id, run FROM live INDEXED BY live_open WHERE life = ? AND place = 'open'"
    " AND (due, id, run) > (?, ?, ?) ORDER BY due, id, run LIMIT ?"
)
_FIRST: Place = (-1, "", "")


def open_runs(path: Path, oldest: int, behind: int, after: Place | None = None) -> OpenRuns:
    """
    Of the archive at *path*, as of one moment: the *oldest* open runs; and *behind* more, those that follow *after*,
    or that follow the oldest where that is further.

    Raises:
        ArchiveCorrupt, ArchiveFailed.
    """
    with closing(connect_to_read(path)) as db, converted(path, CORRUPT_AT_OPEN):
        db.execute("BEGIN")
        facts = dict(db.execute("SELECT name, value FROM fact WHERE name IN ('life', 'position')").fetchall())
        life = int(facts.get("life", 1))

        def following(place: Place, limit: int) -> list[Place]:
            return db.execute(_SELECT, (life, *place, limit)).fetchall()

        first = following(_FIRST, oldest)
        more = following(max(after or _FIRST, first[-1]), behind) if len(first) == oldest else []
        return OpenRuns(body.position_of(facts.get("position")), first, more)
