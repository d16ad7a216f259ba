"""
zsched: a Redis-native scheduler that fires into RQ queues, exactly once, never early, nothing lost.

Each public name is imported at its first use (PEP 562). So a service pays for what it uses: a client costs neither
typeguard, which tasks need, nor RQ, which a worker's job needs. Type checkers and editors read the plain imports below.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from zsched.errors import (
    ArchiveError as ArchiveError,
    ConfigError as ConfigError,
    Contended as Contended,
    InvalidFile as InvalidFile,
    InvalidSchedule as InvalidSchedule,
    InvalidTask as InvalidTask,
    NewerFormat as NewerFormat,
    NotArchived as NotArchived,
    NotImportable as NotImportable,
    OlderFormat as OlderFormat,
    OtherPrefix as OtherPrefix,
    PayloadGone as PayloadGone,
    RedisRefused as RedisRefused,
    RedisUnavailable as RedisUnavailable,
    RunNotFound as RunNotFound,
    RunNotOver as RunNotOver,
    ScheduleExists as ScheduleExists,
    ScheduleInPast as ScheduleInPast,
    ScheduleNotFound as ScheduleNotFound,
    TriggerError as TriggerError,
    VersionConflict as VersionConflict,
    ZschedError as ZschedError,
)

if TYPE_CHECKING:
    from zsched.aio import AsyncClient as AsyncClient
    from zsched.client import Client as Client
    from zsched.core.model import Many as Many, RowsRefused as RowsRefused, Schedule as Schedule, Scheduled as Scheduled
    from zsched.core.occurrences.backfill import Backfill as Backfill
    from zsched.core.options.table import ScheduleOptions as ScheduleOptions, ScheduleRow as ScheduleRow
    from zsched.core.runs.run import Run as Run, RunStatus as RunStatus
    from zsched.current import CurrentRun as CurrentRun, current_run as current_run
    from zsched.tasks.chaining import Next as Next
    from zsched.tasks.task import Task as Task, task as task

__version__ = "0.1.0"

# The same imports for the running program: name -> module. A test compares the two.
_HOMES: Final = {
    name: module
    for module, names in {
        "zsched.aio": "AsyncClient",
        "zsched.client": "Client",
        "zsched.core.model": "Many RowsRefused Schedule Scheduled",
        "zsched.core.occurrences.backfill": "Backfill",
        "zsched.core.options.table": "ScheduleOptions ScheduleRow",
        "zsched.core.runs.run": "Run RunStatus",
        "zsched.current": "CurrentRun current_run",
        "zsched.tasks.chaining": "Next",
        "zsched.tasks.task": "Task task",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:  # a type checker would take every name for one of ours
    __all__ = sorted({*_HOMES, *(name for name, value in globals().items() if isinstance(value, type))})

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        """List the public names, also those that are not imported yet."""
        return sorted({*globals(), *__all__})
