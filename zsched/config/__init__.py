"""
Settings: defaults < TOML file < environment < flags. Each key is checked, each password is hidden.

``settings`` has the keys and reads them, ``parsing`` checks single values and user-named tables, ``urls`` parses URLs
of Redis, and reads and hides passwords.
"""

from zsched.config.parsing import QueueSettings
from zsched.config.settings import (
    FILE_VARIABLE,
    MOST_VALID_DAYS,
    RQ_PREFIX_FORM,
    RQ_PREFIX_REMEDY,
    VALID_DAYS,
    ArchiveSettings,
    DaemonSettings,
    LimitSettings,
    LogSettings,
    MetricsSettings,
    RedisSettings,
    RqSettings,
    Settings,
    SigningSettings,
    WebSettings,
    WorkerSettings,
    load_settings,
    variable_of,
)
from zsched.config.urls import has_password, redact

__all__ = [
    "FILE_VARIABLE",
    "MOST_VALID_DAYS",
    "RQ_PREFIX_FORM",
    "RQ_PREFIX_REMEDY",
    "VALID_DAYS",
    "ArchiveSettings",
    "DaemonSettings",
    "LimitSettings",
    "LogSettings",
    "MetricsSettings",
    "QueueSettings",
    "RedisSettings",
    "RqSettings",
    "Settings",
    "SigningSettings",
    "WebSettings",
    "WorkerSettings",
    "has_password",
    "load_settings",
    "redact",
    "variable_of",
]
