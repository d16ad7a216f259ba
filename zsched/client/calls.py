"""Shared parts of the client's calls: typed functions, and the errors of lost calls."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zsched.errors import RedisUnavailable


class Typed(ABC):
    """
    A function with a checked payload and own options: a task. ``zsched.tasks`` is above the client, hence this
    protocol.
    """

    options: dict[str, Any]

    @abstractmethod
    def complete_options(self, options: Mapping[str, Any], *, at_once: bool = False) -> dict[str, Any]:
        """
        Return *options* of one call, merged with the task's own: ``schedule``, or *at_once* ``enqueue``.

        Raises:
            InvalidSchedule: the payload does not fit.
        """

    @abstractmethod
    def checked_id(self, given: Any, args: Any, kwargs: Any) -> Any:
        """Return the id *given*, or the id made from this payload, or None. Raises as ``complete_options``."""


def loaded_task(path: str) -> Typed | None:
    """Return the task at the dotted *path*, if this process has imported its module; nothing is imported for it."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, Typed) else None


def lost_call(error: RedisUnavailable, id: str, is_repeatable: bool = True) -> RedisUnavailable:
    """Return *error* with the *id* of the call that was lost, and with the effect of repeating the call."""
    applied = "it may have been applied" if error.may_have_been_applied else "nothing was applied"
    advice = "is safe" if is_repeatable or not error.may_have_been_applied else "may run it twice: search for it first"
    advised = f"id {id!r}: {applied}; repeating the call with this id {advice}"
    return error.but(f"{error.problem} ({advised})")


@contextmanager
def naming_lost_call(id: str, is_repeatable: bool = True) -> Iterator[None]:
    """Report a lost call as ``lost_call`` does."""
    try:
        yield
    except RedisUnavailable as error:
        raise lost_call(error, id, is_repeatable) from error
