"""Patterns: the functions that settings (``allow_callables``) or a key allow, and the limits of an account."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple


class LimitedBy(NamedTuple):
    """The parts of a schedule that limits are about. ``functions``: all that it names, by option."""

    functions: Mapping[str, str]
    queue: str
    tags: Sequence[str]


class Limits(NamedTuple):
    """
    Patterns of the functions, queues and tags of the schedules that a caller may read and change; empty: all. Every
    function that a schedule names must be allowed, part by part (``is_allowed``). Queues and tags are globs. With
    ``tags``, a schedule needs one that matches.
    """

    funcs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def refusal(self, by: LimitedBy) -> tuple[str, Any, tuple[str, ...]] | None:
        """Return the option, the value and the patterns that refuse a schedule; None: it is within the limits."""
        for option, path in by.functions.items():
            if self.funcs and not is_allowed(path, self.funcs):
                return option, path, self.funcs
        if not self.has_queue(by.queue):
            return "queue", by.queue, self.queues
        return ("tags", list(by.tags), self.tags) if self.tags and not _any_matches(by.tags, self.tags) else None

    def has_queue(self, queue: str) -> bool:
        """Return True if a schedule of *queue* can be within the limits."""
        return not self.queues or _any_matches([queue], self.queues)


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


def _any_matches(values: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
