"""
The data set of a leader, as archives report it: its name, and the end of doubt about it.

**The name** (``meta.gen``) of a data set that has none is given by its leader, before anything fires.

::

    acquire ──► it has a name ─────────────────────────────────────────────────────────────────────────► fire
       └──────► it has none ─┬─► an archive restores, and gives its name ──────────────────────────────► fire
                             └─► a lease passes ─┬─► archives report names ──► give that of the furthest ► fire
                                                 ├─► it led a data set before ──► give that name ──────► fire
                                                 └─► otherwise ──► give it a new one ──────────────────► fire

A flushed Redis has no name, and an archive may know it. If the leader made up a name, that archive would be refused as
another data set's. So the leader waits for the reports of the archives that are there, for a lease; after a loss
nothing fires for that long anyway. Of several names that of the archive with the latest entry counts, since an old
archive may be there. If its connection breaks meanwhile, it continues in its next term: over a bad connection no term
may last as long as a lease.

A new name means that no archive reports an earlier data set. If this is the first term of a complete log, and no
archive reports an entry that the log lacks, nothing was lost. Then nothing is in doubt, and the first run is not
uncertain.

Not guaranteed: a Redis counts as new if it was flushed while all of its archives were away, or took longer than a lease
to report. Such an archive is refused when it returns, until somebody runs ``zsched archive recover --from`` its file.

**The end of doubt:** when the archives show that nothing was lost at the last change of server, later puts are certain.
A changed server (``meta.doubt``) puts all that is due until then in doubt: a lost history may have pushed it. A client
may even put such a one-shot again. But if every archive that reported within an hour had its data before the change,
and follows the log since, then Redis has all that they had. The leader notes that (``meta.shown``); fire.lua has the
rule. What Redis had before the change stays in doubt.

Not guaranteed: a push that no archive had. Redis may have lost it with its last milliseconds; a client that puts the
same one-shot again, because its call failed then, gets a second run without a mark.
"""

import uuid
from collections.abc import Sequence
from typing import Final, Self

import structlog

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.storage.archivers import Archivers, ArchiveState, Report, remembered
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log
from zsched.storage.meta import number, server_now_ms
from zsched.storage.scripts import Scripts

log = structlog.get_logger(__name__)

LOOK_EVERY_MS: Final = 50.0
AWAITED_MS: Final = 3000.0  # how long a leader waits for its own archive, beyond the hold of a new or restarted Redis


class Namer:
    """Naming of a data set, by the leader called *daemon*. One per daemon."""

    def __init__(self, keys: Keys, daemon: str, clock: Clock) -> None:
        self._keys, self._daemon, self._clock = keys, daemon, clock
        self._term: Term | None = None  # the last one in which it waited
        self._until_ms = 0.0
        self._last_names: str | None = None  # of the data set that it led last

    def over(self, wire: Wire) -> None:
        """Use *wire* from now on."""
        self._wire, self._scripts = wire, Scripts(wire, self._keys)
        self._archivers, self._log = Archivers(wire, self._keys), Log(wire, self._keys)

    def remember(self, names: str | None) -> None:
        """Note the names of the data set that it leads: after a flush its archivist may be stopped, or dead."""
        self._last_names = names or self._last_names

    def step(self, term: Term) -> float | None:
        """
        Continue naming; call this every LOOK_EVERY_MS. Return the ms that may be left, or None once there is a name.

        Raises:
            Stale, ServerChanged: the term is over. RedisUnavailable, RedisRefused.
        """
        if not self._continues(term):
            self._until_ms = term.trusted_until_ms  # the end of the acquired lease: not later than the end of its hold
        self._term = term
        names, is_new = self._wire.execute("HGET", self._keys.meta(), "gen"), False
        if names is None:
            if (left_ms := self._until_ms - self._clock.monotonic_ms()) > 0:
                return left_ms
            now_ms = server_now_ms(self._wire, self._keys)
            reports = [one for one in self._archivers.reports() if one.is_present(now_ms)]
            has_own = any(one.daemon == self._daemon for one in reports)
            if not has_own and left_ms + AWAITED_MS > 0:  # its archivist could not look before Redis was there
                return left_ms + AWAITED_MS
            named = (one for one in reports if one.names is not None)
            furthest = max(named, key=lambda one: one.position.t_us if one.position else -1, default=None)
            known = self._last_names if furthest is None else furthest.names
            is_new = has_own and known is None and self._have_nothing_else(reports)
            # A name that Redis has stays.
            names = self._scripts.call("name", gen=known or uuid.uuid4().hex, is_new=int(is_new), **term.fence)[0]
        self.remember(text(names))
        log.info("data_set_named", name=text(names), is_new=is_new)
        return None

    def _continues(self, term: Term) -> bool:
        """Return True if *term* is of the data set that it waited for. In an emptied Redis epochs begin again."""
        last = self._term
        return last is not None and (
            term.token == last.token or (term.server_id == last.server_id and term.epoch > last.epoch)
        )

    def _have_nothing_else(self, reports: Sequence[Report]) -> bool:
        """Return True if these archives have nothing of any history but the log's."""
        return all(
            one.state in (ArchiveState.FOLLOWING, ArchiveState.BOOTSTRAPPING)
            and (one.position is None or self._log.contains(one.position))
            for one in reports
        )


class DoubtEnder:
    """A leader's chore: it ends the doubt. ``name`` and ``every_ms`` are for the ``ChoreThread``."""

    name = "doubt"
    every_ms = 1000.0

    def __init__(self, keys: Keys) -> None:
        self._keys, self._done_in = keys, ""  # the token of the term in which nothing is left to do

    def over(self, wire: Wire) -> Self:
        """Use *wire* from now on."""
        self._wire, self._scripts, self._archivers = wire, Scripts(wire, self._keys), Archivers(wire, self._keys)
        return self

    def step(self, term: Term) -> bool:
        """
        Look at the reports until they show it; return False.

        Raises:
            Stale, ServerChanged, RedisUnavailable, RedisRefused.
        """
        if self._done_in == term.token:
            return False
        doubt, is_shown = self._wire.execute("HMGET", self._keys.meta(), "doubt", "shown")
        if doubt is not None and not is_shown:
            doubt_ms, now_ms = number(self._keys, "doubt", doubt), server_now_ms(self._wire, self._keys)
            reports = remembered(self._archivers.reports(), now_ms)
            if not reports or not all(report.shows(doubt_ms) for report in reports):
                return False
            self._scripts.call("shown", doubt=doubt_ms, **term.fence)
            log.info("doubt_ended", archives=len(reports))
        self._done_in = term.token
        return False
