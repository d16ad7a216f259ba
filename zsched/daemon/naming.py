"""
Naming of a data set that has no name (``meta.gen``), by its leader and before anything fires.

::

    acquire ──► it has a name ─────────────────────────────────────────► fire
       └──────► it has none ──► ask the archives, for a lease ──► some know a name ──► give it the latest ──► fire
                                            └──────────────────► nobody knows one ──► give it a new one ──► fire

A flushed Redis has no name. A candidate that led before knows it, and ``acquire`` gives it. Else an archive may know
one. If this leader made up a name, that archive would be refused as another data set's. So the leader asks the archives
for the time of a lease, or until its own archive tells a name; after a loss nothing fires for that long anyway. Of
several names it gives the name from the archive with the latest entry, since an old archive may answer first. If its
connection breaks meanwhile, it goes on in its next term: over a bad connection no term may last as long as a lease. If
the leader dies, the next one asks.

A new name means that no archive knows an earlier data set. If this is the first term of a complete log, and no archive
has an entry that the log lacks, nothing was lost. Then nothing is in doubt, and the first run is not uncertain.

Not guaranteed: a Redis counts as new if it was flushed while all of its archives were away, or took longer than a lease
to answer. Such an archive is refused when it returns, until somebody runs ``zsched recover --from`` its file.
"""

from __future__ import annotations

import uuid
from typing import Final

import structlog

from zsched.core.clock import Clock
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.questions import Knowledge, Naming, about_names

log = structlog.get_logger(__name__)

ASK_EVERY_MS: Final = 50.0
AWAITED_MS: Final = 3000.0  # how long a leader waits for its own archive, beyond the hold of a new or restarted Redis
_NOTHING: Final = Knowledge(None, None, is_new=True)


class Namer:
    """Naming of a data set, by the leader called *daemon*. One per daemon."""

    def __init__(self, keys: Keys, daemon: str, clock: Clock) -> None:
        self._keys, self._daemon, self._clock = keys, daemon, clock
        self._question = about_names()
        self._term: Term | None = None  # the last one in which it asked
        self._until_ms = 0.0
        self._is_new, self._known = True, _NOTHING  # by the answers so far
        self._own: Knowledge | None = None  # the answer of this daemon's archive

    def over(self, wire: Wire) -> Namer:
        """Use *wire* from now on."""
        self._naming, self._log = Naming(wire, self._keys, self._question), Log(wire, self._keys)
        self._archivers = Archivers(wire, self._keys)
        return self

    def step(self, term: Term) -> float | None:
        """
        Continue naming; call this every ASK_EVERY_MS. Return the ms that may be left, or None once there is a name.

        Raises:
            Stale, ServerChanged: the term is over. RedisUnavailable, RedisRefused.
        """
        if not self._continues(term):
            self._is_new, self._known, self._own = True, _NOTHING, None
            self._until_ms = term.trusted_until_ms  # the end of the acquired lease: not later than the end of its hold
        self._term = term
        for answer in self._naming.answers():
            self._hear(answer)
        left_ms = self._until_ms - self._clock.monotonic_ms()
        own = self._own
        if left_ms <= 0 and own is None and not self._archivers.is_in_trouble(self._daemon):
            left_ms += AWAITED_MS  # its archivist could not look before Redis was there
        if left_ms > 0 and (own is None or own.gen is None):
            self._naming.ask()
            return left_ms
        known = self._known.gen
        is_new = self._is_new and own is not None and known is None
        self._give(term, known or uuid.uuid4().hex, is_new=is_new)
        return None

    def _continues(self, term: Term) -> bool:
        """Return True if *term* is of the data set that was asked about. In an emptied Redis epochs begin again."""
        last = self._term
        return last is not None and (
            term.token == last.token or (term.server_id == last.server_id and term.epoch > last.epoch)
        )

    def _hear(self, knowledge: Knowledge) -> None:
        if knowledge.daemon == self._daemon:
            self._own = knowledge
        self._is_new = self._is_new and self._has_nothing_else(knowledge)
        if knowledge.gen is not None and (self._known.gen is None or _last_us(knowledge) > _last_us(self._known)):
            self._known = knowledge

    def _has_nothing_else(self, knowledge: Knowledge) -> bool:
        """Return True if an archive has nothing of any history but the log's."""
        return knowledge.is_new and (knowledge.position is None or self._log.contains(knowledge.position))

    def _give(self, term: Term, gen: str, *, is_new: bool) -> None:
        names = self._naming.give(term, gen, is_new=is_new)
        log.info("data_set_named", name=names, is_new=is_new)


def _last_us(knowledge: Knowledge) -> int:
    return knowledge.position.t_us if knowledge.position is not None else -1
