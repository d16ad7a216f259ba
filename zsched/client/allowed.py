"""Functions that may be scheduled from here: the patterns of ``[rq] allow_callables``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import plain

_CALLBACKS: Final = ("on_success", "on_failure")


def check_allowed(patterns: Sequence[str], func: str | None, options: Mapping[str, Any]) -> None:
    """Check every named function against *patterns*, ``[rq] allow_callables``. Raises InvalidSchedule."""
    named = {"func": func, **{name: _path(options[name]) for name in _CALLBACKS if name in options}}
    for name, path in named.items():
        if path is not None and not any(is_allowed(path, pattern) for pattern in patterns):
            problem = f"[rq] allow_callables = {list(patterns)} does not allow it"
            raise InvalidSchedule(name, path, problem, "name an allowed function, or add a pattern to that setting")


def is_allowed(path: str, pattern: str) -> bool:
    """
    Return True if *pattern* matches *path*, part by part. So ``app.tasks.*`` does not match ``app.tasks.os.system``,
    which a worker would find. ``*`` alone matches everything.
    """
    if pattern == "*" or path == pattern:
        return True
    parts, patterns = path.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _path(callback: object) -> str | None:
    """
    Return the path that *callback* names (RQ's own class, a dict or a text), or None if the client will refuse it.
    """
    named = plain(callback)
    path = named.get("func") if isinstance(named, dict) else named
    return path if isinstance(path, str) else None
