"""RQ's versions: supported ones, the installed one, and its differences."""

from importlib.metadata import version
from typing import Final

OLDEST: Final = (2, 8)  # also in pyproject.toml, and tested
BEFORE: Final = (4,)


def release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; ``OLDEST`` for a *text* without numbers."""
    return tuple(map(int, [part for part in text.split(".")[:2] if part.isdecimal()])) or OLDEST


HERE: Final = version("rq")
# RQ 3 has a prefix of its keys (RQ_KEY_PREFIX in the environment), rate limits, and executions: a worker may have
# several, and is told which. Its ``rq cron`` reads cron fields in its machine's zone; before, that was UTC.
HAS_PREFIX = HAS_RATE_LIMITS = HAS_EXECUTIONS = IS_CRON_LOCAL = release(HERE) >= (3,)
