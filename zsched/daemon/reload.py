"""
SIGHUP: read the settings again, and apply those that can change in a running daemon.

The log's level and format, and the limits of queues, apply from the next pass on. Connections, archives and terms
depend on all other settings: if one differs, its key is logged, with the need of a restart. Invalid settings change
nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import structlog

from zsched.config.settings import Settings
from zsched.errors import ConfigError
from zsched.events import configure

log = structlog.get_logger(__name__)

_AT_ONCE = ("log", "queues")  # sections
_OTHERS = ("urgencies", "limits", "web")  # also the sections that no daemon reads


def reload(before: Settings, read: Callable[[], Settings]) -> Settings:
    """Return the new settings: *before*, with the sections of *read* that may change."""
    try:
        given = read()
    except ConfigError as error:
        log.error("reload_failed", reason=str(error), remedy="correct the settings and reload; nothing has changed")
        return before
    now = dataclasses.replace(before, **{section: getattr(given, section) for section in _AT_ONCE + _OTHERS})
    configure(now.log.level, now.log.format)
    log.info("settings_reloaded", changed=list(_differing(before, now)))
    waiting = list(_differing(now, given))
    if waiting:
        log.warning("restart_needed", keys=waiting, reason="these hold from the daemon's next start on")
    return now


def _differing(one: Settings, other: Settings) -> Iterator[str]:
    """Yield keys with different values, such as ``archive.retention_days``; user-named tables only as a whole."""
    for section in dataclasses.fields(Settings):
        before, after = getattr(one, section.name), getattr(other, section.name)
        if before != after and dataclasses.is_dataclass(before):
            keys = (key.name for key in dataclasses.fields(before))
            yield from (f"{section.name}.{key}" for key in keys if getattr(before, key) != getattr(after, key))
        elif before != after:
            yield section.name
