"""Trim the log, as the leader: entries older than an hour, or beyond 256 MiB, remain only in archives."""

from __future__ import annotations

from typing import Final

import structlog

from zsched.config.settings import ArchiveSettings
from zsched.core.clock import Clock
from zsched.core.entry import Position
from zsched.errors import RedisRefused
from zsched.storage.dispatch import Dispatch
from zsched.storage.lease import Term
from zsched.storage.log import Log

log = structlog.get_logger(__name__)

_EVERY_MS: Final = 10_000.0
_AT_ONCE: Final = 1000  # entries per script
_SCRIPTS: Final = 5  # per call: some 10,000 entries a second are trimmed, while a leader renews its lease twice
_MIB: Final = 1024 * 1024


class Trimmer:
    """
    Keeps the log short, a small script at a time. It ignores the archives' positions: an archive that falls behind
    reads the state from Redis.
    """

    def __init__(self, dispatch: Dispatch, log: Log, settings: ArchiveSettings, clock: Clock) -> None:
        self._dispatch, self._log, self._clock = dispatch, log, clock
        self._keep_ms, self._keep_bytes = settings.log_keep_s * 1000, settings.log_keep_mib * _MIB
        self._every_ms = min(_EVERY_MS, self._keep_ms / 2)
        self._next_ms = clock.monotonic_ms()
        self._is_refused = False
        self._first_kept: Position | None = None  # set while there is more to trim

    def trim_if_due(self, term: Term, now_ms: int) -> None:
        """Run a few scripts at most; log a refusal by Redis once. Raises Stale, ServerChanged."""
        try:
            if self._first_kept is None and self._clock.monotonic_ms() >= self._next_ms:
                self._next_ms = self._clock.monotonic_ms() + self._every_ms
                self._first_kept = self._first_to_keep(now_ms)
            for _ in range(_SCRIPTS):
                if self._first_kept is None:
                    break
                if self._dispatch.trim(term, self._first_kept.id, _AT_ONCE) < _AT_ONCE // 2:
                    self._first_kept = None
        except RedisRefused as error:  # no right to XTRIM: firing goes on
            self._say_refused(error)
            self._first_kept = None

    def _first_to_keep(self, now_ms: int) -> Position | None:
        """Return the first entry to keep, or None to keep all."""
        first, last = self._log.first(), self._log.last()
        if first is None or last is None:
            return None
        kept = first.position
        since_us = (now_ms - self._keep_ms) * 1000
        if kept.t_us < since_us:
            kept = self._log.search(lambda position: position.t_us >= since_us) or last.position
        kept = max(kept, self._first_by_size(first.position, last.position))
        return kept if kept != first.position else None

    def _first_by_size(self, first: Position, last: Position) -> Position:
        try:
            length, size = self._log.size()
        except RedisRefused as error:  # no right to MEMORY: by age alone
            self._say_refused(error)
            return first
        if size <= self._keep_bytes:
            return first
        seq = last.seq - max(int(length * self._keep_bytes / size), 1) + 1
        return self._log.search(lambda position: position.seq >= seq) or last

    def _say_refused(self, error: RedisRefused) -> None:
        if not self._is_refused:
            log.warning("log_not_trimmed", reason=str(error))
        self._is_refused = True
