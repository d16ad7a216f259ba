"""
The archive: a daemon's durable copy of the log, and the resulting state, in one SQLite file.

Reading order: schema (tables, and their costs), file (opening, locking, errors), body (storage of entries and their
records), places (the choice of the file), live (the state), fold (the effect of an entry on the state), index (facets,
outcomes and prefixes of ids, for searches), counts (of outcomes, by time), archive (the writer), retention (deletion by
age), history (the reader; search, lookups and runs read by it), temporary (the end of a log, in memory), recall (the
source of a restore), check (checksums).
"""

from zsched.archive.archive import Archive
from zsched.archive.history import History
from zsched.archive.recall import Recall, recalling
from zsched.core.entry import START

__all__ = ["START", "Archive", "History", "Recall", "recalling"]
