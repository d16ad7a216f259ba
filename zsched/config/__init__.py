"""
Settings: defaults < TOML file < environment < flags. Each key is checked, each password is hidden.

``settings`` has the keys and reads them, ``parsing`` checks single values and user-named tables, ``urls`` parses URLs
of Redis, and reads and hides passwords.
"""

from zsched.config.parsing import QueueSettings
from zsched.config.settings import (
    FILE_VARIABLE,
    RQ_PREFIX_FORM,
    RQ_PREFIX_REMEDY,
    ArchiveSettings,
    DaemonSettings,
    LimitSettings,
    LogSettings,
    MetricsSettings,
    RedisSettings,
    RqSettings,
    Settings,
    WebSettings,
    load_settings,
    variable_of,
)
from zsched.config.urls import has_password, redact

__all__ = [
    "FILE_VARIABLE",
    "RQ_PREFIX_FORM",
    "RQ_PREFIX_REMEDY",
    "ArchiveSettings",
    "DaemonSettings",
    "LimitSettings",
    "LogSettings",
    "MetricsSettings",
    "QueueSettings",
    "RedisSettings",
    "RqSettings",
    "Settings",
    "WebSettings",
    "has_password",
    "load_settings",
    "redact",
    "variable_of",
]
