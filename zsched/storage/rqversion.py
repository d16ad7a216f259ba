"""RQ's versions: supported ones, the installed one, and its differences."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

OLDEST: Final = (2, 8)  # also in pyproject.toml, and tested
BEFORE: Final = (4,)


def release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; ``OLDEST`` for a *text* without numbers."""
    return tuple(map(int, [part for part in text.split(".")[:2] if part.isdecimal()])) or OLDEST


HERE: Final = version("rq")
HAS_PREFIX: Final = release(HERE) >= (3,)  # of its keys, by RQ_KEY_PREFIX in the environment
HAS_RATE_LIMITS: Final = release(HERE) >= (3,)
HAS_EXECUTIONS: Final = release(HERE) >= (3,)  # a worker may have several, and is told which
IS_CRON_LOCAL: Final = release(HERE) >= (3,)  # ``rq cron`` reads cron fields in its machine's zone; before, in UTC
