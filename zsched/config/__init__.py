"""
Settings: defaults < TOML file < environment < flags; each key checked, each password hidden.

``settings`` has the keys and reads them, ``tables`` those under names of the user's, ``parsing`` checks single values,
``redaction`` hides passwords.
"""

from zsched.config.redaction import has_password, redact
from zsched.config.settings import (
    FILE_VARIABLE,
    PASSWORD_VARIABLE,
    ArchiveSettings,
    DaemonSettings,
    DashboardSettings,
    LimitSettings,
    LogSettings,
    MetricsSettings,
    RedisSettings,
    RqSettings,
    Settings,
    load_settings,
    variable_of,
)
from zsched.config.tables import QueueSettings

__all__ = [
    "FILE_VARIABLE",
    "PASSWORD_VARIABLE",
    "ArchiveSettings",
    "DaemonSettings",
    "DashboardSettings",
    "LimitSettings",
    "LogSettings",
    "MetricsSettings",
    "QueueSettings",
    "RedisSettings",
    "RqSettings",
    "Settings",
    "has_password",
    "load_settings",
    "redact",
    "variable_of",
]
