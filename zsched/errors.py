"""
Every error that zsched raises on purpose, one class per thing a caller can act on.

A message names the object, the value and the remedy. Redis's own exceptions never leave the
storage layer: they are converted there, with the original as ``__cause__``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, Self

_SHOWN = 80  # characters of a bad value that a message repeats; longer ones are cut


class NotGiven(Enum):
    """The value in an error of an argument that was not given: None may be a value."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


class ZschedError(Exception):
    """zsched could not do what was asked."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


class InvalidSchedule(ZschedError, ValueError):
    """
    An argument is not acceptable. Nothing was written.

    ``field`` is the option's name, ``value`` the given value (or NOT_GIVEN), ``remedy`` an acceptable one, or "" if
    ``problem`` says it.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy
        super().__init__(_message(field, value, problem, remedy))

    def named(self, name: str) -> str:
        """Return the message with *name* instead of ``field``: a page has labels."""
        return _message(name, self.value, self.problem, self.remedy)


class UnknownZone(InvalidSchedule):
    """No time zone of this machine has this name, ``value``. Another machine's data may have it."""


class UnknownCalendar(InvalidSchedule):
    """No calendar of this namespace has this name, ``value``."""


class InvalidTask(InvalidSchedule):
    """
    A task's decorator contradicts itself or its function's signature, or the task cannot be imported here.

    ``field`` is the function path, ``name`` the invalid option or parameter ("" for the task as a whole), ``value``
    its value. Raised when the task is defined or looked up, before anything is scheduled.
    """

    def __init__(self, task: str, name: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(task, value, problem, remedy)
        self.name = name
        self.args = (f"task {task}: {_message(name, value, problem, remedy)}",)


class ScheduleInPast(InvalidSchedule):
    """The requested time has passed, by the Redis server's clock, and ``allow_past`` was not given."""


class TriggerError(ZschedError):
    """A trigger cannot produce a time: its evaluation reached its bound."""


class ScheduleExists(ZschedError):
    """A schedule of this id exists and ``if_exists="error"`` was given."""


class VersionConflict(ZschedError):
    """
    The version that the call names is stale: another writer changed the schedule. Nothing was written.

    ``given`` is the call's ``if_version``, ``present`` the schedule's version; None: no such schedule waits now.
    """

    def __init__(self, id: str, given: str, present: str | None) -> None:
        self.id, self.given, self.present = id, given, present
        now = "it is not waiting any more" if present is None else f"it has version {show(present)} now"
        super().__init__(
            f"schedule {id!r}, if_version={show(given)} is stale: {now}; read it again (zsched show, client.get), "
            "and decide again"
        )


class NotFound(ZschedError, LookupError):
    """Nothing has this id. ``problem`` says so; ``see``: the commands that tell more, or ""."""

    def __init__(self, problem: str, see: str = "") -> None:
        self.problem, self.see = problem, see
        super().__init__(f"{problem}; see {see}" if see else problem)


class ScheduleNotFound(NotFound):
    """No schedule has this id."""


class RunNotFound(NotFound):
    """No run has this id."""


class RunNotOver(ZschedError):
    """The operation needs a run that is over: this one is queued or running, or has not been fired yet."""


class PayloadGone(ZschedError):
    """The arguments of a run are no longer known."""


class NotImportable(InvalidSchedule):
    """A function cannot be imported by name in a worker."""


class RedisUnavailable(ZschedError):
    """
    Redis could not be reached, or the reply was lost.

    ``may_have_been_applied``: True if the command may have been executed. The message says what a second call would do.
    It ends with ``remedy``, for the part that failed: a server, a moving slot, Sentinels; "" if ``problem`` says it.
    """

    def __init__(self, problem: str, remedy: str = "", *, may_have_been_applied: bool = False) -> None:
        self.problem, self.remedy, self.may_have_been_applied = problem, remedy, may_have_been_applied
        super().__init__(f"{problem}; {remedy}" if remedy else problem)

    def but(self, problem: str | None = None, *, may_have_been_applied: bool | None = None) -> Self:
        """Return the same error with other values, and the same remedy."""
        applied = self.may_have_been_applied if may_have_been_applied is None else may_have_been_applied
        return type(self)(self.problem if problem is None else problem, self.remedy, may_have_been_applied=applied)


class SlotMoves(RedisUnavailable):
    """The keys are being moved to another node of the Redis Cluster, for longer than a call waits. Call again later."""


class Contended(ZschedError):
    """
    Others changed the schedule, or the run's notes, at every attempt of the call.

    Call again. Neither Redis nor a version that the caller named is the cause.
    """


class RedisRefused(ZschedError):
    """Redis answers with an error: out of memory, read-only, no permission, wrong type, cluster mode."""


class Garbled(RedisRefused):
    """
    Another writer changed a value or the type of one of zsched's own keys. Nothing was written. ``problem`` names it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}; {remedy}")


class OtherFormat(RedisRefused):
    """Another version of zsched stores this namespace in a format unknown to this one. Nothing was written."""


class NewerFormat(OtherFormat):
    """A newer zsched stores this namespace in a format that this one does not know. Nothing was written."""


class OlderFormat(OtherFormat):
    """An older zsched stored this namespace in a format that this one no longer reads. Nothing was written."""


class OtherPrefix(RedisRefused):
    """The runs of this namespace are RQ's jobs under another prefix of its keys. Nothing was written."""


class ConfigError(ZschedError):
    """A configuration file, variable or flag is wrong; the message names place, key and remedy."""


class InvalidFile(ConfigError):
    """
    A file of schedules has mistakes; nothing of it was applied.

    ``complaints``: one text per mistake, with file and line.
    """

    def __init__(self, name: str, complaints: tuple[str, ...]) -> None:
        self.name, self.complaints = name, complaints
        super().__init__("\n".join(complaints))


class Stale(ZschedError):
    """The lease is no longer this daemon's. Its term is over, and it must do nothing more as leader."""


class ServerChanged(ZschedError):
    """The connection reached another Redis server than the one with the lease: acquire the lease again."""


class NotArchived(ZschedError):
    """
    ``durable=True`` was not fulfilled: no archive has the change on its disk.

    ``is_in_redis``: True if Redis has the change, so that it takes effect unless Redis is lost. ``scheduled``: the
    result of a single put then.
    """

    def __init__(self, message: str, *, is_in_redis: bool) -> None:
        self.is_in_redis = is_in_redis
        self.scheduled: Any = None
        super().__init__(message)


class ArchiveError(ZschedError):
    """An archive cannot be used; the message names its file and the remedy."""


class ArchiveInUse(ArchiveError):
    """Another daemon writes this archive; the message has the number of its main process."""


class ArchiveForeign(ArchiveError):
    """
    The file is not an archive that this daemon can use: another namespace's, a newer version's, or no archive at all.
    Retrying does not help: upgrade zsched there, or name another file.
    """


class ArchiveOfAnother(ArchiveForeign):
    """The archive belongs to another data set than the one in this Redis. An operator must decide which is right."""


class ArchiveCorrupt(ArchiveError):
    """The file is corrupted."""


class ArchiveFailed(ArchiveError):
    """The disk fails: it is full or read-only, or reports I/O errors."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Import packages of *extra* in the block. Raises ConfigError: *what* needs one that is not installed."""
    try:
        yield
    except ImportError as error:
        if (package := str(error.name).partition(".")[0]) == "zsched":
            raise
        raise ConfigError(f"{what} needs {package}, which is not installed: pip install 'zsched[{extra}]'") from error


def _restored(kind: type[ZschedError], args: tuple[object, ...]) -> ZschedError:
    """Return an error of its pickle, without ``__init__``, which makes the message of other arguments."""
    return kind.__new__(kind, *args)


def _message(name: str, value: object, problem: str, remedy: str) -> str:
    """Return ``name=value: problem; remedy``, without missing parts."""
    given = "" if value is NOT_GIVEN else f"={show(value)}"
    return f"{name}{given}{': ' if name else ''}{problem}{'; ' if remedy else ''}{remedy}"


def show(value: object) -> str:
    """Return *value* for a message: its repr, or a readable time or duration, cut to fit a line."""
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
