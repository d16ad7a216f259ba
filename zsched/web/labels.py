"""
Names of options and filters on pages, and errors with these names.

An error names an option as programs do: ``tz``. The command line shows it unchanged, and the API as ``option``. A page
has labels instead, such as *Time zone*; its reader has no command line, so it leaves out where commands would help.
"""

from __future__ import annotations

from typing import Final

from zsched.errors import InvalidSchedule, RunNotFound, ScheduleNotFound, VersionConflict
from zsched.web.problems import Problem

# By name, if the label is not the name with spaces and a capital.
_LABELS: Final = {
    "tz": "Time zone",
    "rrule": "RRULE",
    "result_ttl": "Result TTL",
    "failure_ttl": "Failure TTL",
    "args": "Positional arguments",
    "kwargs": "Named arguments",
    "start": "From",
    "end": "To",
    "from": "From",
    "func": "Function",
    "match": "Schedule",
    "status": "State",
}


def label_of(name: str) -> str:
    """Return the label of an option, a filter or a field of a form."""
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


def page_problem(error: Exception) -> Problem:
    """Return *error* as a page tells it: with labels, and without commands."""
    detail: str | None = None
    match error:
        case InvalidSchedule():
            detail = error.named(label_of(error.field))
        case VersionConflict():
            detail = f"schedule {error.id!r} was changed meanwhile; look at it again, and decide anew"
        case ScheduleNotFound() | RunNotFound():
            detail = error.problem
    return Problem.from_error(error, detail=detail)
