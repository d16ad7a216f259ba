"""
The end of doubt: when the archives show that nothing was lost at the last change of server, later puts are certain.

A changed server (``meta.doubt``) puts all that is due until then in doubt: a lost history may have pushed it. A client
may even put such a one-shot again. But if every archive that reported within an hour had its data before the change,
and follows the log since, then Redis has all that they had. The leader notes that (``meta.shown``); fire.lua has the
rule. What Redis had before the change stays in doubt.

Not guaranteed: a push that no archive had. Redis may have lost it with its last milliseconds; a client that puts the
same one-shot again, because its call failed then, gets a second run without a mark.
"""

from __future__ import annotations

from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.storage.archivers import Archivers, remembered
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.meta import number

log = structlog.get_logger(__name__)

_LOOK_MS: Final = 1_000.0  # between two looks at the reports


class DoubtEnder:
    """Ends the doubt of one connection's terms."""

    def __init__(self, wire: Wire, keys: Keys, clock: Clock) -> None:
        self._wire, self._keys, self._clock = wire, keys, clock
        self._dispatch, self._archivers = Dispatch(wire, keys), Archivers(wire, keys)
        self._term, self._is_over, self._look_ms = "", False, 0.0

    def step_if_due(self, term: Term, server_ms: int) -> None:
        """Look at the reports, once a second until they show it. Raises Stale, ServerChanged, RedisUnavailable."""
        if self._term != term.token:
            self._term, self._is_over = term.token, False
        now_ms = self._clock.monotonic_ms()
        if self._is_over or now_ms < self._look_ms:
            return
        self._look_ms = now_ms + _LOOK_MS
        doubt, is_shown = self._wire.execute("HMGET", self._keys.meta(), "doubt", "shown")
        if doubt is None or is_shown:
            self._is_over = True
            return
        doubt_ms = number(self._keys, "doubt", doubt)
        reports = list(remembered(self._archivers.reports(), server_ms))
        if reports and all(report.shows(doubt_ms) for report in reports):
            self._dispatch.shown(term, doubt_ms)
            self._is_over = True
            log.info("doubt_ended", archives=len(reports))
