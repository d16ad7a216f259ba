"""Functions that may be scheduled from here: the patterns of ``[rq] allow_callables``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zsched.core.allowed import is_allowed
from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import plain

_CALLBACKS: Final = ("on_success", "on_failure")


def check_allowed(patterns: Sequence[str], func: str | None, options: Mapping[str, Any]) -> None:
    """Check every named function against *patterns*, ``[rq] allow_callables``. Raises InvalidSchedule."""
    named = {"func": func, **{name: _path(options[name]) for name in _CALLBACKS if name in options}}
    for name, path in named.items():
        if path is not None and not is_allowed(path, patterns):
            problem = f"[rq] allow_callables = {list(patterns)} does not allow it"
            raise InvalidSchedule(name, path, problem, "name an allowed function, or add a pattern to that setting")


def _path(callback: object) -> str | None:
    """
    Return the path that *callback* names (RQ's own class, a dict or a text), or None if the client will refuse it.
    """
    named = plain(callback)
    path = named.get("func") if isinstance(named, dict) else named
    return path if isinstance(path, str) else None
