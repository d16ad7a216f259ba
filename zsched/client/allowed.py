"""The functions that a definition names, and whether the patterns of ``[rq] allow_callables`` allow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zsched.core.options.allowed import is_allowed
from zsched.core.runs.job import CALLBACKS
from zsched.errors import InvalidSchedule
from zsched.storage.rqjob import plain


def functions_named(func: object, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the functions that a definition names, by option, without values that the client will refuse."""
    named = {"func": func, **{name: _path(options[name]) for name in CALLBACKS if name in options}}
    return {name: path for name, path in named.items() if isinstance(path, str)}


def check_allowed(patterns: Sequence[str], func: str | None, options: Mapping[str, Any]) -> None:
    """Check every named function against *patterns*, ``[rq] allow_callables``. Raises InvalidSchedule."""
    for name, path in functions_named(func, options).items():
        if not is_allowed(path, patterns):
            problem = f"[rq] allow_callables = {list(patterns)} does not allow it"
            raise InvalidSchedule(name, path, problem, "name an allowed function, or add a pattern to that setting")


def _path(callback: object) -> object:
    """Return the path that *callback* names: RQ's own class, a dict or a text."""
    named = plain(callback)
    return named.get("func") if isinstance(named, dict) else named
