"""What every call of the client shares: ids made before the first attempt, and what is said of a lost one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from zsched.core.model import After, Definition, IfExists
from zsched.errors import RedisUnavailable


def new_id() -> str:
    """A fresh id, of a schedule or of an operation."""
    return uuid.uuid4().hex


def op_of(definition: Definition) -> str | None:
    """An operation id where sending the call twice could do two things, or answer differently."""
    relative = isinstance(definition.when, After)
    conditional = definition.if_exists is not IfExists.REPLACE
    return new_id() if relative or conditional or not definition.has_own_id else None


@contextmanager
def named(id: str, is_repeatable: bool = True) -> Iterator[None]:
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
