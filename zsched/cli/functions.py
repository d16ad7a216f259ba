"""
Functions that a command names by their paths: which it may name, where they are imported from, and what is told of
those that are not here.

To import a module is to run it, so ``check_allowed`` comes before that.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from zsched.cli.invocation import say
from zsched.config import Settings
from zsched.errors import InvalidSchedule

_SHOWN: Final = 10  # function paths in a remark


def check_allowed(settings: Settings, func: str | None, options: Mapping[str, Any]) -> None:
    """Hold every function that is named against ``[rq] allow_callables``. Raises InvalidSchedule."""
    patterns = settings.rq.allow_callables
    named = {"func": func, **{name: _path(options.get(name)) for name in ("on_success", "on_failure")}}
    for name, path in named.items():
        if path is not None and not any(_is_allowed(path, pattern) for pattern in patterns):
            problem = f"[rq] allow_callables = {list(patterns)} does not allow it"
            raise InvalidSchedule(name, path, problem, "name an allowed function, or add a pattern to that setting")


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """
    While modules are imported: they are looked for in this folder first, as ``rq worker`` does, and what they print
    does not go where results go.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    with contextlib.redirect_stdout(sys.stderr):
        yield


def tell_unchecked(absent: Mapping[str, str], consequence: str = "") -> None:
    """Say on stderr which function paths could not be looked at, if any: *absent* names the module of each."""
    if not absent:
        return
    shown = [f"{path} (no module {module!r})" for path, module in list(absent.items())[:_SHOWN]]
    more = [f"and {len(absent) - _SHOWN:,} more"] if len(absent) > _SHOWN else []
    lead = "not checked, and options of tasks not used, as they cannot be imported from here"
    say(f"{lead}: {', '.join(shown + more)}" + (f"; {consequence}" if consequence else ""))


def _is_allowed(path: str, pattern: str) -> bool:
    """
    True when *pattern* covers *path*: part by part, so that ``app.tasks.*`` does not reach
    ``app.tasks.os.system``, which a worker would find. ``*`` alone covers everything.
    """
    parts, patterns = path.split("."), pattern.split(".")
    return pattern == "*" or (len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns)))


def _path(callback: object) -> str | None:
    """The path that a callback's option names, a file's may be a table; what is none the client will refuse."""
    path = callback.get("func") if isinstance(callback, dict) else callback
    return path if isinstance(path, str) else None
