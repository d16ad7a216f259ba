"""
Shared parts of the client's calls: typed functions, the errors of lost calls, and the caller's name for the log.

That name is the self-reported author of a change. It is a label for people and proves nothing. The log has it once per
entry.
"""

import os
import pwd
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from zsched.core.options.arguments import check_by
from zsched.errors import RedisUnavailable

BY_VARIABLE: Final = "ZSCHED_BY"
_LONGEST_PART: Final = 90  # characters of a user or host; real ones have 32 and 64


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


def caller(given: str | None = None, env: Mapping[str, str] = os.environ) -> str:
    """
    Return the name *given*, else ``ZSCHED_BY`` of the environment, else ``user@host`` of this process. Under sudo that
    is the user who called it: ``ann@host (sudo)``.

    Raises:
        InvalidSchedule: *given* or ``ZSCHED_BY`` is not a short line of text.
    """
    if given is None:
        given = env.get(BY_VARIABLE)
    if given is not None:
        return check_by(given)
    sudoer = env.get("SUDO_USER")
    return f"{_part(sudoer or _user())}@{_part(socket.gethostname())}{' (sudo)' if sudoer else ''}"


def _user() -> str:
    with suppress(KeyError):  # a container's made-up user
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


def _part(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:_LONGEST_PART]
