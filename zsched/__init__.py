"""zsched: a Redis-native scheduler that fires into RQ queues, exactly once, never early, nothing lost."""

from zsched.client import Client
from zsched.core.backfill import Backfill
from zsched.core.model import Many, Schedule, Scheduled
from zsched.core.option_table import ScheduleOptions, ScheduleRow
from zsched.core.runs import Run, RunStatus
from zsched.current import CurrentRun, current_run
from zsched.errors import (
    ArchiveError,
    ConfigError,
    Contended,
    InvalidFile,
    InvalidSchedule,
    InvalidTask,
    NewerFormat,
    NotArchived,
    NotImportable,
    OlderFormat,
    OtherPrefix,
    PayloadGone,
    RedisRefused,
    RedisUnavailable,
    RunNotFound,
    RunNotOver,
    ScheduleExists,
    ScheduleInPast,
    ScheduleNotFound,
    TriggerError,
    ZschedError,
)
from zsched.tasks.chaining import Next
from zsched.tasks.task import Task, task

__version__ = "0.1.0"

__all__ = [
    "ArchiveError",
    "Backfill",
    "Client",
    "ConfigError",
    "Contended",
    "CurrentRun",
    "InvalidFile",
    "InvalidSchedule",
    "InvalidTask",
    "Many",
    "NewerFormat",
    "Next",
    "NotArchived",
    "NotImportable",
    "OlderFormat",
    "OtherPrefix",
    "PayloadGone",
    "RedisRefused",
    "RedisUnavailable",
    "Run",
    "RunNotFound",
    "RunNotOver",
    "RunStatus",
    "Schedule",
    "ScheduleExists",
    "ScheduleInPast",
    "ScheduleNotFound",
    "ScheduleOptions",
    "ScheduleRow",
    "Scheduled",
    "Task",
    "TriggerError",
    "ZschedError",
    "current_run",
    "task",
]
