"""
Names of options and filters on pages, and errors with these names.

An error names an option as programs do: ``tz``. The command line shows it as it is, and the API as ``option``. A page
has labels instead, such as *Time zone*; its reader has no command line, so it leaves out where commands would help.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zsched.errors import InvalidSchedule, RunNotFound, ScheduleNotFound, VersionConflict, ZschedError
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


@dataclass(frozen=True, slots=True)
class Trouble:
    """
    An error for a page: its text, and its HTTP status. If it is about a field: the field's ``name``, and a ``brief``
    text for the top of the page, as the whole one stands at the field.
    """

    text: str
    status: int
    name: str = ""
    brief: str = ""

    @classmethod
    def of(cls, error: ZschedError | Problem) -> Trouble:
        """Return *error* in the words of a page."""
        if isinstance(error, Problem):
            return cls(str(error), error.status)
        text, status = page_text(error), Problem.of(error).status
        if not isinstance(error, InvalidSchedule):
            return cls(text, status)
        return cls(text, status, error.field, f"{label_of(error.field)}: {error.problem}")

    def __str__(self) -> str:
        return self.text


def page_text(error: ZschedError) -> str:
    """Return the message of *error* with labels, and without commands."""
    if isinstance(error, InvalidSchedule):
        return error.named(label_of(error.field))
    if isinstance(error, VersionConflict):
        return f"schedule {error.id!r} was changed meanwhile; look at it again, and decide anew"
    return error.problem if isinstance(error, ScheduleNotFound | RunNotFound) else str(error)
