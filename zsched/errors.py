"""
Every error that zsched raises on purpose, one class per thing a caller can act on.

A message names the object, the value and the remedy. Redis's own exceptions never leave the
storage layer: they are converted there, with the original as ``__cause__``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

_SHOWN = 80  # characters of a bad value that a message repeats; longer ones are cut


class NotGiven(Enum):
    """The value in an error of an argument that was not given: None may be a value."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


class ZschedError(Exception):
    """zsched could not do what was asked."""


class InvalidSchedule(ZschedError, ValueError):
    """
    An argument is not acceptable.

    ``field`` is the option's name, ``value`` what was given (or NOT_GIVEN), ``remedy`` what to give instead; "" where
    ``problem`` says that already. Nothing was written.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy
        super().__init__(_message(field, value, problem, remedy))

    def __reduce__(self) -> tuple[type[InvalidSchedule], tuple[object, ...]]:
        return type(self), (self.field, self.value, self.problem, self.remedy)


class InvalidTask(InvalidSchedule):
    """
    A task cannot be what its decorator or its function's signature says, or cannot be imported here.

    ``field`` is its function path; ``name`` is the option or parameter that is bad, "" where it is the whole, and
    ``value`` that one's. Raised when it is defined or looked for, before anything is scheduled.
    """

    def __init__(self, task: str, name: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(task, value, problem, remedy)
        self.name = name
        self.args = (f"task {task}: {_message(name, value, problem, remedy)}",)

    def __reduce__(self) -> tuple[type[InvalidSchedule], tuple[object, ...]]:
        return type(self), (self.field, self.name, self.value, self.problem, self.remedy)


class ScheduleInPast(InvalidSchedule):
    """The time asked for has passed, by the Redis server's clock, and ``allow_past`` was not given."""


class TriggerError(ZschedError):
    """A trigger cannot produce a time: its evaluation reached its bound."""


class ScheduleExists(ZschedError):
    """A schedule of this id exists and ``if_exists="error"`` was given."""


class ScheduleNotFound(ZschedError, LookupError):
    """No schedule has this id."""


class RunNotFound(ZschedError, LookupError):
    """No run has this id."""


class RunNotOver(ZschedError):
    """A run is queued or running, or no run yet, so that what was asked for cannot be done to it now."""


class PayloadGone(ZschedError):
    """The arguments of a run are not known any more."""


class NotImportable(InvalidSchedule):
    """A function cannot be imported by name in a worker."""


class RedisUnavailable(ZschedError):
    """
    Redis could not be reached, or the reply was lost.

    ``may_have_been_applied`` tells whether the command may have run all the same; the message says
    what calling again would do.
    """

    def __init__(self, message: str, *, may_have_been_applied: bool = False) -> None:
        self.may_have_been_applied = may_have_been_applied
        super().__init__(message)


class SlotMoves(RedisUnavailable):
    """The keys are on their way to another node of the Redis Cluster. It passes by itself; a call waited in vain."""


class Contended(ZschedError):
    """
    Others changed the schedule, or the run's notes, at every attempt of the call.

    Call again. Neither Redis nor a version that the caller named is the cause.
    """


class RedisRefused(ZschedError):
    """Redis is there and refuses: out of memory, read-only, no permission, wrong type, cluster mode."""


class Garbled(RedisRefused):
    """A key of zsched's own holds what zsched never wrote. Nothing was written. ``problem`` names it."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}; {remedy}")


class OtherFormat(RedisRefused):
    """Another zsched keeps this namespace in a form that this one does not know. Nothing was written."""


class NewerFormat(OtherFormat):
    """A newer zsched leads this namespace, and keeps it in a form that this one does not know. Nothing was written."""


class OlderFormat(OtherFormat):
    """An older zsched kept this namespace in a form that this one does not read any more. Nothing was written."""


class OtherPrefix(RedisRefused):
    """The runs of this namespace are RQ's jobs under another prefix of its keys. Nothing was written."""


class ConfigError(ZschedError):
    """A configuration file, variable or flag is wrong; the message names place, key and remedy."""


class InvalidFile(ConfigError):
    """
    A file of schedules is wrong; nothing of it was applied. ``complaints`` are texts, one per mistake, each with file
    and line.
    """

    def __init__(self, name: str, complaints: tuple[str, ...]) -> None:
        self.name, self.complaints = name, complaints
        super().__init__("\n".join(complaints))

    def __reduce__(self) -> tuple[type[InvalidFile], tuple[str, tuple[str, ...]]]:
        return type(self), (self.name, self.complaints)


class Stale(ZschedError):
    """The lease is no longer this daemon's: its term is over and it must do nothing more in it."""


class ServerChanged(ZschedError):
    """The Redis behind the connection is not the one that the lease was taken on: acquire again."""


class NotArchived(ZschedError):
    """
    ``durable=True`` was not kept: no archive has the change on its disk.

    ``is_in_redis`` tells whether it stands in Redis all the same, so will fire unless Redis is lost.
    """

    def __init__(self, message: str, *, is_in_redis: bool) -> None:
        self.is_in_redis = is_in_redis
        super().__init__(message)


class ArchiveError(ZschedError):
    """An archive cannot be used; the message names its file and the remedy."""


class ArchiveInUse(ArchiveError):
    """Another daemon writes this archive; the message has the number of its main process."""


class ArchiveForeign(ArchiveError):
    """
    The file is something else: another namespace's archive, a newer version's, or no archive at all. It stays so until
    somebody upgrades zsched there, or names another file.
    """


class ArchiveOfAnother(ArchiveForeign):
    """The archive belongs to another data set than the one in this Redis. People must say which is right."""


class ArchiveCorrupt(ArchiveError):
    """The file's content is not what was written."""


class ArchiveFailed(ArchiveError):
    """The disk does not do what it should: it is full, read-only, or gives I/O errors."""


def _message(name: str, value: object, problem: str, remedy: str) -> str:
    """``name=value: problem; remedy``, without what there is not."""
    given = "" if value is NOT_GIVEN else f"={show(value)}"
    return f"{name}{given}{': ' if name else ''}{problem}{'; ' if remedy else ''}{remedy}"


def show(value: object) -> str:
    """*value* as a message repeats it: its repr, or a time or duration as people write it, cut to fit a line."""
    try:
        if isinstance(value, datetime):
            text = value.isoformat()
        elif isinstance(value, timedelta):
            text = f"{value.total_seconds():g} s"
        else:
            text = repr(value)
    except Exception:  # a hostile or huge value must not hide the real error
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
