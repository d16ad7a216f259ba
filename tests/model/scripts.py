"""
The scripts that run inside Redis: each is atomic, and writes its entry before it changes anything.

The authorities: Redis for its contents, the log's (id, t) for the history, meta.server and meta.doubt for pushes that
may have happened in another one. A leader script checks the lease and the server; put, cancel and restore check
neither.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal

from tests.model.archive import Known
from tests.model.dataset import ORIGIN, Dataset, Entry, Lease, Position, Record, Report, State, is_skip
from tests.model.invariants import Witness
from tests.model.rules import Rule

LEASE = 3  # ticks
LONGEST = 10  # ticks, of any lease: a hold further away was written before the clock jumped back
FOR_EVER = 10**9

Refusal = Literal["BUSY", "STALE", "SERVER", "HELD", "AGAIN"]
Token = tuple[str, int]


class Redis:
    """One server and its present dataset. ``recent`` are the datasets before each of the last writes."""

    def __init__(self, left_out: frozenset[Rule], witness: Witness) -> None:
        self.left_out, self.witness = left_out, witness
        self.data = Dataset()
        self.server = 1
        self.now = self.t = 0
        self.recent: deque[Dataset] = deque(maxlen=5)

    def keeps(self, rule: Rule) -> bool:
        """Return True if *rule* is in force."""
        return rule not in self.left_out

    def contains(self, position: Position) -> bool:
        """Return True if the log has this entry, and so everything before it."""
        if position == ORIGIN:
            return self.data.is_complete
        for entry in reversed(self.data.log):
            if entry.position.id == position.id:
                return entry.position == position or not self.keeps(Rule.IDENTITY)
        return False

    @property
    def is_held(self) -> bool:
        """Return True if fire is held now."""
        hold = self.data.hold
        return hold is not None and self.now < hold and (hold <= self.now + LONGEST or hold >= FOR_EVER)

    def leads(self, token: Token | None) -> bool:
        """Return True if *token* holds a valid lease."""
        lease = self.data.lease
        return token is not None and lease is not None and lease.token == token and self.now < lease.until

    # -- clients

    def put(self, id: int, version: int, due: int) -> None:
        """Create or replace a pending one-shot."""
        record = Record(State.PENDING, version, due)
        self._append("put", id, record)
        self.data.records[id] = record
        self.data.put_t[id] = self.witness.changes[id] = self.t

    def cancel(self, id: int) -> None:
        """Remove a pending one-shot; only answer if there is none."""
        record = self.data.records.get(id)
        if record and record.state is State.PENDING:
            self._append("cancel", id, record.now(State.GONE))
            del self.data.records[id]
            self.witness.changes[id] = self.t

    # -- the leader

    def acquire(self, name: str, token: Token | None, server: int | None) -> Token | Refusal:
        """Lead, or continue to lead. A changed server casts doubt on every run due until now, and holds."""
        data, is_changed = self.data, self.data.server != server
        is_mine = self.leads(token)
        if data.lease and self.now < data.lease.until and not is_mine:
            return "BUSY"
        if token and is_mine and not is_changed:
            return token
        self._append("term", epoch=data.epoch + 1)
        if is_changed:
            data.server, data.doubt, data.doubted_t, data.is_shown = server, self.now, self.t, False
            if data.lost_epoch == data.epoch - 1:  # an archive has found the loss before
                data.lost = self.now
            if self.keeps(Rule.HOLD):
                data.hold = self.now + LEASE
        token = (name, self.t)
        data.lease = Lease(token, self.now + LEASE)
        return token

    def renew(self, token: Token | None) -> Refusal | None:
        """Lead for one more lease."""
        if not self.leads(token) or token is None:
            return "STALE"
        self.data.lease = Lease(token, self.now + LEASE)
        return None

    def name(self, token: Token | None, server: int | None, gen: int | None, is_new: bool) -> Refusal | None:
        """Name the data set; without *gen* with a new name. In the first term of a complete log it has no doubt."""
        data = self.data
        if not self.leads(token):
            return "STALE"
        if data.server != server:
            return "SERVER"
        if data.gen is None:
            data.gen = gen or self.t
            if is_new and data.epoch == 1 and data.is_complete and data.lost is None:
                data.doubt = None
        return None

    def fire(self, token: Token | None, server: int | None) -> Refusal | None:
        """Renew the lease and push what is due, one run per call."""
        data = self.data
        if refusal := self.renew(token):
            return refusal
        if self.is_held:
            return "HELD"
        if self.keeps(Rule.SERVER) and data.server != server:
            return "SERVER"
        if self.keeps(Rule.CLAMP):
            self._clamp()
        for id, record in data.records.items():
            if record.state is State.PENDING and record.due <= self.now:
                is_doubtful = data.doubt is not None and record.due <= data.doubt
                is_lost = data.lost is not None and record.due <= data.lost
                is_later = data.put_t.get(id, 0) > data.doubted_t
                self.witness.is_shown = is_doubtful and is_later and data.is_shown and not is_lost
                if self.witness.is_shown or (is_later and not self.keeps(Rule.WHENEVER_PUT)):
                    is_doubtful = False
                self._dispatch(id, record, uncertain=is_doubtful and self.keeps(Rule.DOUBT))
                self.witness.is_shown = False
                break
        return None

    def _clamp(self) -> None:
        """Remove a hold that is too far in the future, so that it cannot count again when its time comes near."""
        data = self.data
        data.hold = data.hold if data.hold == FOR_EVER else min(data.hold or 0, self.now)
        data.lost = None if data.lost is None else min(data.lost, self.now)
        if data.doubt is not None and data.doubt > self.now:
            self._append("fire")
            data.doubt = self.now

    def show(self, token: Token | None, server: int | None) -> None:
        """Note that the archives show: nothing was lost at the last change of server."""
        data = self.data
        if self.leads(token) and data.server == server:
            data.is_shown = True

    def track(self, token: Token | None, server: int | None) -> None:
        """Log one run that a worker ended."""
        data = self.data
        if self.leads(token) and data.server == server:
            for id, record in data.records.items():
                if record.state is State.OPEN and id in self.witness.received and id not in data.queue:
                    self._append("end", id, record.now(State.GONE))
                    del data.records[id]
                    self.witness.ended.add(id)
                    break

    def trim(self, token: Token | None, retain: int) -> None:
        """Keep the last *retain* entries, whichever archives have read the others."""
        if self.leads(token):
            self.data.log = self.data.log[-retain:]

    # -- the archivers

    def report(
        self, name: str, position: Position, looked_at: frozenset[Position] | None = None, began_t: int = 0
    ) -> None:
        """Report the position of an archive."""
        self.data.reports[name] = Report(position, self.now, looked_at, began_t)

    def hold(self) -> None:
        """Fire nothing for one lease from now."""
        if self.keeps(Rule.HOLD):
            until = self.now + LEASE if self.keeps(Rule.HOLD_ENDS) else FOR_EVER
            self.data.hold = max(self.data.hold or 0, until) if self.is_held else until

    def merged(self, covers: Iterable[Position], seen: Position | None = None) -> Refusal | None:
        """Log that nothing of these positions is missing here; with *seen* like a restore."""
        if seen and self.keeps(Rule.COMPARE_AND_SET) and self.data.tail != seen:
            return "AGAIN"
        self._append("merged", covers=tuple(covers))
        self._note_loss()
        return None

    def _note_loss(self) -> None:
        data = self.data
        if self.keeps(Rule.LOSS_STAYS):
            doubt = self.now if data.doubt is None else data.doubt
            data.lost, data.lost_epoch = doubt if data.lost is None else max(data.lost, doubt), data.epoch

    def restore(self, name: str, seen: Position, id: int, known: Known, gen: int | None) -> Refusal | None:
        """
        Set *id* to the state that an archive knows, if the log still ends at *seen*. A data set without a name gets the
        name *gen*, if the archive has one.

        A run that was fired and has no recorded end goes to its queue in this very step, marked uncertain. A skip run
        may have been pushed, so it is recorded as skipped.
        """
        if self.keeps(Rule.COMPARE_AND_SET) and self.data.tail != seen:
            return "AGAIN"
        record = known.record
        was_fired = record.state is State.OPEN
        is_uncertain = self.keeps(Rule.OPEN_IS_UNCERTAIN)
        if was_fired and is_skip(id) and is_uncertain:
            record = record.now(State.GONE)
            self.witness.skipped.add(id)
        changed_t = known.changed_t if self.keeps(Rule.LATEST_CHANGE) else None
        self._append("restore", id, record, changed_t, by=name)
        self.data.gen = self.data.gen or gen
        self._note_loss()
        if record.state is State.GONE:
            self.data.records.pop(id, None)
        else:
            self.data.records[id] = record
        if record.state is State.OPEN:
            self._push(id, "restore", is_uncertain)
        self.hold()
        return None

    # -- shared

    def _dispatch(self, id: int, record: Record, uncertain: bool) -> None:
        if uncertain and is_skip(id):
            self._append("skip", id, record.now(State.GONE))
            del self.data.records[id]
            self.witness.skipped.add(id)
        else:
            self._append("fire", id, record.now(State.OPEN))
            self.data.records[id] = record.now(State.OPEN)
            self._push(id, "fire", uncertain)

    def _push(self, id: int, by: str, uncertain: bool) -> None:
        self.witness.saw_push(id, by, uncertain, self.t)
        self.data.queue.append(id)

    def _append(
        self,
        kind: str,
        id: int | None = None,
        record: Record | None = None,
        changed_t: int | None = None,
        covers: tuple[Position, ...] = (),
        epoch: int | None = None,
        by: str = "",
    ) -> None:
        data = self.data
        self.recent.append(data.copy())
        data.epoch, data.seq = epoch or data.epoch, data.seq + 1
        self.t += 1
        position = Position((data.epoch, data.seq), self.t)
        data.log.append(Entry(position, kind, id, record, changed_t or self.t, covers, data.tail.t, by))
