"""The versions of RQ: which zsched knows, which one is installed here, and what it does otherwise than others."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

OLDEST: Final = (2, 8)  # that setup.cfg takes, and tests run with
BEFORE: Final = (4,)


def release(text: str) -> tuple[int, ...]:
    """The first two numbers of a version; ``OLDEST`` for a *text* without any, so that it is not judged."""
    numbers = [part for part in text.split(".")[:2] if part.isdecimal()]
    return tuple(map(int, numbers)) or OLDEST


HERE: Final = version("rq")
HAS_PREFIX: Final = release(HERE) >= (3,)  # of its keys, by RQ_KEY_PREFIX in the environment
HAS_RATE_LIMITS: Final = release(HERE) >= (3,)
IS_CRON_LOCAL: Final = release(HERE) >= (3,)  # ``rq cron`` reads cron fields in its machine's zone; before, in UTC
