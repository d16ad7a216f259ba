"""Shared parts of the client's calls: typed functions, ids made before the first attempt, errors of lost calls."""

from __future__ import annotations

import sys
import uuid
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


def completed(func: Any, options: Mapping[str, Any], *, at_once: bool = False) -> Mapping[str, Any]:
    """Return *options* as completed by *func*, if it is typed. Raises InvalidSchedule: its payload does not fit."""
    return func.complete_options(options, at_once=at_once) if isinstance(func, Typed) else options


def loaded_task(path: str) -> Typed | None:
    """Return the task at the dotted *path*, if this process has imported its module; nothing is imported for it."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, Typed) else None


def new_id() -> str:
    """Return a fresh id for a schedule or an operation."""
    return uuid.uuid4().hex


def effect_again(has_own_id: bool, is_relative: bool) -> str:
    """Return the effect of the same put once more, for the message about a change that no archive has yet."""
    if not has_own_id:
        return "makes a second one: with an id it can be repeated"
    return "replaces it, and its delay begins anew" if is_relative else "waits again"


@contextmanager
def naming_lost_call(id: str, is_repeatable: bool = True) -> Iterator[None]:
    """Report a lost call with its id, and with the effect of repeating it."""
    try:
        yield
    except RedisUnavailable as error:
        applied = "it may have been applied" if error.may_have_been_applied else "nothing was applied"
        advice = (
            "is safe" if is_repeatable or not error.may_have_been_applied else "may run it twice: search for it first"
        )
        advised = f"id {id!r}: {applied}; repeating the call with this id {advice}"
        raise error.but(f"{error.problem} ({advised})") from error
