"""Shared parts of the client's calls: typed functions, ids made before the first attempt, the error of a lost call."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zsched.core.model import After, Definition, IfExists
from zsched.errors import RedisUnavailable


class Typed(ABC):
    """A function that knows what it takes and where it goes: a task, of ``zsched.tasks``, which is above the client."""

    options: dict[str, Any]

    @abstractmethod
    def complete_options(self, options: Mapping[str, Any], *, at_once: bool = False) -> dict[str, Any]:
        """
        *options* of one call, of ``schedule`` or *at_once* of ``enqueue``, with its own beside them.

        Raises:
            InvalidSchedule: the payload does not fit.
        """

    @abstractmethod
    def checked_id(self, given: Any, args: Any, kwargs: Any) -> Any:
        """The id *given*, or the one that this payload has; None when it has none. Raises as ``complete_options``."""


def completed(func: Any, options: Mapping[str, Any], *, at_once: bool = False) -> Mapping[str, Any]:
    """*options* as *func* completes them, if it is typed. Raises InvalidSchedule: its payload does not fit."""
    return func.complete_options(options, at_once=at_once) if isinstance(func, Typed) else options


def new_id() -> str:
    """A fresh id, of a schedule or of an operation."""
    return uuid.uuid4().hex


def op_of(definition: Definition) -> str | None:
    """An operation id where sending the call twice could do two things, or answer differently."""
    relative = isinstance(definition.when, After)
    conditional = definition.if_exists is not IfExists.REPLACE
    return new_id() if relative or conditional or not definition.has_own_id else None


@contextmanager
def naming_lost_call(id: str, is_repeatable: bool = True) -> Iterator[None]:
    """A lost call is reported with its id, and with what repeating it would do."""
    try:
        yield
    except RedisUnavailable as error:
        applied = "it may have been applied" if error.may_have_been_applied else "nothing was applied"
        advice = (
            "is safe" if is_repeatable or not error.may_have_been_applied else "may run it twice: look for it first"
        )
        message = f"{error} (id {id!r}: {applied}; repeating the call with this id {advice})"
        raise RedisUnavailable(message, may_have_been_applied=error.may_have_been_applied) from error
