"""What a daemon says of itself, for those who are asked: the status line, its reports, the pages of metrics."""

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.errors import ArchiveError, RedisRefused

log = structlog.get_logger(__name__)

# Of Redis, that one pass may take: for a connection to one address and to another, for a reply, and what else it does.
TIMEOUTS: Final = 5
_SHOWN: Final = 200  # characters of a reason in reports: an error may repeat what it could not read
_FORESEEN: Final = (
    RedisRefused,
    ArchiveError,
)  # the message says all; of anything else, a bug, the traceback is wanted


class Failures:
    """
    What fails in a daemon beside the main loop: threads, chores, questions about history, each with the reason. Each
    is said when it begins, when the reason becomes another one, and when it ends. Written and read by any thread.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], str] = {}  # by kind and name

    @property
    def reasons(self) -> dict[str, str]:
        """What fails now, by ``<kind> <name>``; each reason in a line that others can print."""
        return {" ".join(key): _line(reason) for key, reason in self._reasons.copy().items()}

    def begin(self, kind: str, name: str, error: Exception) -> None:
        """The *kind* (thread, chore, question) called *name* failed by *error*."""
        reason = str(error) or repr(error)
        if self._reasons.get((kind, name)) == reason:
            return
        self._reasons[kind, name] = reason
        is_foreseen = isinstance(error, _FORESEEN)
        log.error(f"{kind}_failed", **{kind: name}, reason=reason, exc_info=None if is_foreseen else error)

    def end(self, kind: str, name: str) -> None:
        """It works."""
        if (reason := self._reasons.pop((kind, name), None)) is not None:
            log.info(f"{kind}_back", **{kind: name}, after=reason)

    def forget(self, kind: str) -> None:
        """Nothing of that *kind* is done any more."""
        for key in self._reasons.copy():
            if key[0] == kind:
                self._reasons.pop(key, None)


def _line(reason: str) -> str:
    return "".join(filter(str.isprintable, " ".join(reason.split())))[:_SHOWN]


class Health:
    """
    Written by the main loop alone, but for ``failures``; read by any thread.

    ``last_pass_ms``: when a pass ended, by the monotonic clock, led or not, with Redis or without. ``leads``: whether
    its term is on. ``trouble``: why it does not do what it is for, lead or stand by; None when it does. ``failures``:
    of the threads beside it.
    """

    def __init__(self, clock: Clock) -> None:
        self.last_pass_ms = clock.monotonic_ms()
        self.leads = False
        self.trouble: str | None = "it starts: Redis has not said yet whether it may lead"
        self.failures = Failures()
