"""
A daemon's own facts: name, host, start time, versions. Every archive report contains them, from leader and standby.
`zsched status` shows them, `zsched doctor` compares them, and ``storage.overview`` reads them back.
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


def facts(daemon: str | None, clock: Clock, worker: str | None = None) -> dict[str, Any]:
    """
    Return the facts of the daemon called *daemon*, which starts now; None: of an archivist without one. *worker*: RQ's
    name of the worker that it is inside of, if any. An unknown fact is None. ``started``: ms, by the clock of its
    machine.
    """
    process = {"host": socket.gethostname(), "pid": os.getpid(), "started": clock.now_ms()}
    return {"daemon": daemon, "worker": worker, **process, **versions()}


def versions() -> dict[str, str | None]:
    """Return the versions of a daemon's parts; None if a version is unknown."""
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
    except PackageNotFoundError:  # the files were copied here without pip's metadata
        return None
