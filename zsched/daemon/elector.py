"""
Leadership: which of the daemons fires.

States of a daemon (a leader of a data set without a name gives it one before it fires: ``daemon.data_set``)::

    connecting ──► standby ──acquire──► leading ──stop──► released
        ▲             ▲                    │
        │             └──── STALE ─────────┤   another daemon has the lease, or it lapsed
        └──────── connection lost ─────────┘   SERVER: acquire again, despite its own lease

The lease key is authoritative; it is in the same Redis as the data. A leader's script first compares the key with its
token. Scripts run alone, so two terms cannot interleave, and a leader that was paused or cut off can write nothing more
(the fence). Clocks only decide *when* a daemon tries: a standby tries when the known lease would lapse, or when a
leader announces its end.

One connection carries all of a leader's scripts. The server was identified when the connection was opened
(``Server.id``). Every script compares that id, too, so a leader notices a restart or a promotion.

Not guaranteed: while a partitioned old master still accepts writes, there are two data sets, and a leader on each (set
``min-replicas-to-write``). A daemon that may not lead (replica, eviction) keeps asking.
"""

import structlog

from zsched.core.clock import Clock
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage.lease import Busy, Lease, Term

log = structlog.get_logger(__name__)

_LEAST_RETRY_MS = 10  # after BUSY: its lease lapses now, and the key must be gone when we ask


class Elector:
    """One daemon's candidacy over one connection."""

    def __init__(self, lease: Lease, clock: Clock, renew_ms: int) -> None:
        self._lease, self._clock, self._renew_ms = lease, clock, renew_ms
        self.term: Term | None = None

    def campaign(self) -> Busy | None:
        """
        Try to lead. Return None if it leads now (``term`` is set), else the ms until the next attempt, and TIME.
        """
        won = self._lease.acquire()
        if isinstance(won, Busy):
            return won._replace(retry_ms=max(won.retry_ms, 0) + _LEAST_RETRY_MS)
        self.term = won
        log.info("term_began", epoch=won.epoch, hold_ms=max(won.hold_ms - won.now_ms, 0))
        return None

    def renew_if_due(self) -> int | None:
        """
        Renew the term if it is time. Return TIME in ms if it was renewed.

        Raises:
            Stale, ServerChanged: the term is over; ``lose`` says so.
        """
        if self.ms_until_renewal():
            return None
        self.term = self._lease.renew(self._leading())
        return self.term.now_ms

    def ms_until_renewal(self) -> float:
        """Return the milliseconds that the leader may sleep."""
        term = self._leading()
        return max(term.trusted_until_ms - term.lease_ms + self._renew_ms - self._clock.monotonic_ms(), 0.0)

    def lose(self, error: Stale | ServerChanged) -> None:
        """Note that the term is over, by the fence's reply."""
        if self.term is not None:
            log.warning("term_lost", epoch=self.term.epoch, reason=str(error))
        self.term = None

    def leave(self) -> None:
        """Release the lease, so that a standby takes over at once."""
        if self.term is None:
            return
        term, self.term = self.term, None
        try:
            self._lease.release(term)
            log.info("term_ended", epoch=term.epoch)
        except (Stale, RedisRefused) as error:
            log.warning("term_lost", epoch=term.epoch, reason=str(error))

    def _leading(self) -> Term:
        if self.term is None:
            raise Stale("this daemon does not lead")
        return self.term
