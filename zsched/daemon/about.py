"""
A daemon's own facts, told with every report of its archive, leader or standby: who, where, since when, of which
versions. `zsched status` shows it, `zsched doctor` compares it; ``storage.overview`` reads it back.
"""

from __future__ import annotations

import importlib
import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from zsched.core.clock import Clock
from zsched.zone_rules import installed


def facts(daemon: str, clock: Clock) -> dict[str, Any]:
    """
    The facts of the daemon called *daemon*, which starts now. What cannot be known is None. ``started``: ms, by the
    clock of its machine.
    """
    return {
        "daemon": daemon,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": clock.now_ms(),
        **versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of a daemon's parts; None where one cannot be known."""
    return {
        "version": importlib.import_module("zsched").__version__,  # by name: no layer imports the root
        "python": platform.python_version(),
        "redis_py": _version("redis"),
        "rq": _version("rq"),
        "tzdata": installed().version,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # its files were copied here without what pip writes beside them
        return None
