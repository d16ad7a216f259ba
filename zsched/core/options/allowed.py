"""Functions that patterns allow: those of settings (``allow_callables``), of a key, and of an account's limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class LimitedBy(NamedTuple):
    """The parts of a schedule that limits are about. ``functions``: all that it names, by option."""

    functions: Mapping[str, str]
    queue: str
    tags: Sequence[str]


def is_allowed(path: str, patterns: Iterable[str]) -> bool:
    """
    Return True if one of *patterns* matches the dotted *path*, part by part. So ``app.tasks.*`` does not match
    ``app.tasks.os.system``, which a worker would find. ``*`` alone matches everything.
    """
    return any(_matches(path, pattern) for pattern in patterns)


def _matches(path: str, pattern: str) -> bool:
    if pattern == "*" or path == pattern:
        return True
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
