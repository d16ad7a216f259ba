"""
Schedules as a file: reading one, comparing it with Redis, putting the difference, and writing one.

A file says which recurring schedules there are, and owns them: ``managed_by`` of each is the file's ``owner``, and a
schedule of another owner is never touched. What stands in the file is checked as a whole before anything is written,
and every complaint names its line.

Reading order: ``reading`` (from text to entries), ``checking`` (what may stand in a file, how one mistake does not hide
another, what it is held against), ``applying`` (what becomes of it, and what changes, as people read it), ``toml``
(where a key stands, and values as text) and ``writing`` (the way back).
"""

from zsched.files.applying import Application, Applied, Step
from zsched.files.checking import ClientChecks
from zsched.files.reading import Complaint, FileEntry, ScheduleFile, read
from zsched.files.writing import WrittenFile, write

__all__ = [
    "Application",
    "Applied",
    "ClientChecks",
    "Complaint",
    "FileEntry",
    "ScheduleFile",
    "Step",
    "WrittenFile",
    "read",
    "write",
]
