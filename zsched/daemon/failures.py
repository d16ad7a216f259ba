"""Failures in a daemon beside its main loop: each is said once, and known until it ends."""

from __future__ import annotations

from typing import Final

import structlog

from zsched.errors import ArchiveError, RedisRefused

log = structlog.get_logger(__name__)

_FORESEEN: Final = (RedisRefused, ArchiveError)  # their messages say all; anything else is a bug: with its traceback
_SHOWN: Final = 200  # characters of a reason in reports: an error may repeat what it could not read


class Failures:
    """
    Threads, chores and questions about history that fail at present, each with the reason. Each is said when it begins,
    when the reason becomes another one, and when it ends. Written and read by any thread.
    """

    def __init__(self, shown: dict[str, str] | None = None) -> None:
        """*shown*: where others see what fails, by ``<kind> <name>``, with a reason of one line."""
        self._reasons: dict[tuple[str, str], str] = {}  # by kind and name
        self._shown: dict[str, str] = {} if shown is None else shown

    @property
    def shown(self) -> dict[str, str]:
        """The failures of this moment, by ``<kind> <name>``."""
        return self._shown.copy()

    def begin(self, kind: str, name: str, error: Exception) -> None:
        """Note that the *kind* (thread, chore, question) called *name* failed by *error*."""
        reason = str(error) or repr(error)
        if self._reasons.get((kind, name)) == reason:
            return
        self._reasons[kind, name] = reason
        self._shown[f"{kind} {name}"] = "".join(filter(str.isprintable, " ".join(reason.split())))[:_SHOWN]
        is_foreseen = isinstance(error, _FORESEEN)
        log.error(f"{kind}_failed", **{kind: name}, reason=reason, exc_info=None if is_foreseen else error)

    def end(self, kind: str, name: str) -> None:
        """Note that it works again."""
        if (reason := self._drop(kind, name)) is not None:
            log.info(f"{kind}_back", **{kind: name}, after=reason)

    def forget(self, kind: str) -> None:
        """Forget all failures of *kind*: nothing of that kind is done any more."""
        for each, name in self._reasons.copy():
            if each == kind:
                self._drop(kind, name)

    def _drop(self, kind: str, name: str) -> str | None:
        self._shown.pop(f"{kind} {name}", None)
        return self._reasons.pop((kind, name), None)
