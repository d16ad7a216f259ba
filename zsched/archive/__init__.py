"""
The archive: a daemon's durable copy of the log, and the state that the log adds up to, in one SQLite file.

Reading order: file (its tables and why they are cheap; opening, locking, what goes wrong), body (how entries and their
records are stored), places (which file), live (what is scheduled), fold (what an entry does to that), archive (the
writer), retention (what it forgets), history (the reader; runs, openruns, ran and originals ask it for runs), recall
(what a lost Redis is rebuilt from), check (whether the file is what was written).
"""

from zsched.archive.archive import START, Archive
from zsched.archive.history import History
from zsched.archive.recall import Recall, recalling

__all__ = ["START", "Archive", "History", "Recall", "recalling"]
