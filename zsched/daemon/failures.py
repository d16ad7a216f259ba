"""Failures in a daemon's background threads. Each is logged once, and kept until it ends."""

from __future__ import annotations

import structlog

from zsched.core.wording import in_a_line
from zsched.errors import ZschedError

log = structlog.get_logger(__name__)


class Failures:
    """
    The present failures of threads, chores and questions about history, each with its reason. A failure is logged when
    it begins, when its reason changes, and when it ends. Thread-safe.
    """

    def __init__(self, shown: dict[str, str] | None = None) -> None:
        """Start without failures. *shown* is a dict to update for readers: ``<kind> <name>`` → a reason of one line."""
        self._shown: dict[str, str] = {} if shown is None else shown

    @property
    def shown(self) -> dict[str, str]:
        """Return a copy of the present failures: ``<kind> <name>`` → reason."""
        return self._shown.copy()

    def begin(self, kind: str, name: str, error: Exception) -> None:
        """Note that the *kind* (thread, chore, question) called *name* failed with *error*."""
        reason = in_a_line(str(error) or repr(error))
        if self._shown.get(f"{kind} {name}") != reason:
            self._shown[f"{kind} {name}"] = reason
            is_foreseen = isinstance(error, ZschedError)  # its text says all; any other error is a bug
            log.error(f"{kind}_failed", **{kind: name}, reason=reason, exc_info=None if is_foreseen else error)

    def end(self, kind: str, name: str) -> None:
        """Note that the *kind* called *name* works again."""
        if (reason := self._shown.pop(f"{kind} {name}", None)) is not None:
            log.info(f"{kind}_back", **{kind: name}, after=reason)

    def forget(self, kind: str) -> None:
        """Forget all failures of *kind*, because this daemon no longer does this kind of work."""
        for each in self.shown:
            if each.startswith(f"{kind} "):
                self._shown.pop(each, None)
