"""
The caller's name for the log: the self-reported author of a change.

It is a label for people and proves nothing. The log has it once per entry.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from typing import Final

from zsched.core.options.arguments import check_by

BY_VARIABLE: Final = "ZSCHED_BY"
_LONGEST_PART: Final = 90  # characters of a user or host; real ones have 32 and 64


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
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's made-up user
        return str(os.getuid())


def _part(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:_LONGEST_PART]
