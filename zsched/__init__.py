"""zsched: a Redis-native scheduler that fires into RQ queues, exactly once, never early, nothing lost."""

from zsched.client import Client
from zsched.core.model import Many, Schedule, Scheduled
from zsched.errors import (
    ConfigError,
    InvalidSchedule,
    NotArchived,
    NotImportable,
    NotYetBuilt,
    RedisRefused,
    RedisUnavailable,
    ScheduleExists,
    ScheduleInPast,
    ScheduleNotFound,
    TriggerError,
    ZschedError,
)

__version__ = "0.1.0"

__all__ = [
    "Client",
    "ConfigError",
    "InvalidSchedule",
    "Many",
    "NotArchived",
    "NotImportable",
    "NotYetBuilt",
    "RedisRefused",
    "RedisUnavailable",
    "Schedule",
    "ScheduleExists",
    "ScheduleInPast",
    "ScheduleNotFound",
    "Scheduled",
    "TriggerError",
    "ZschedError",
]
