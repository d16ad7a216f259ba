"""Counts of entries that are in the history, counted again: to take those of deleted entries away, or to compare."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Final

from zsched.archive import body
from zsched.archive.counts import CountWriter
from zsched.archive.history import ENTRY
from zsched.archive.index import facets_at
from zsched.archive.search import FacetsOfChanges
from zsched.core.entry import UnknownEntry, reading
from zsched.core.log.kinds import kinds_telling, parse
from zsched.core.occurrences.outcomes import OUTCOMES, What

_COUNTED: Final = body.of_kinds(kinds_telling(*OUTCOMES, What.RUN_ENDED))


def recount(db: sqlite3.Connection, run_suffix: str, after_n: int) -> CountWriter:
    """Return the unwritten counts of the entries of *db* behind number *after_n*."""
    writer = CountWriter(db)
    for row in db.execute(f"{ENTRY} WHERE n > ? AND {_COUNTED} ORDER BY n", (after_n,)):
        with suppress(UnknownEntry):
            parsed = parse(body.entry_of(row), run_suffix)
            with reading(parsed.entry):
                told = list(parsed.searched())
            facets = FacetsOfChanges(facets_at(db, row[0]), parsed)
            for number, change in enumerate(told):
                writer.add(change, facets.of(change, number))
    return writer
