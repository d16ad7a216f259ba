"""
The histories in the logs. Archives also keep entries that Redis lost, so all known entries are in their histories
together.

A *chain* is one history of Redis from its beginning to the point where it was cut off, or to its end. An archive lists
chains one after the other: an entry that does not continue the one before begins where a rolled-back Redis was restored
to. Entries are identified by id and time, which no two histories share.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zsched.core.entry import Entry, Position, UnknownEntry
from zsched.core.log.kinds import changes
from zsched.core.log.puts import ScanEntry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import PUSHES, What

_PUSHED = PUSHES - {What.HELD, What.RAN_AGAIN}  # RQ had the runs of these two
UNCERTAIN = "uncertain"
SCAN = ScanEntry.kind


class Push(NamedTuple):
    """A run that a script put into its RQ queue."""

    run_id: str
    id: str
    entry: Position
    nominal_ms: int | None
    is_uncertain: bool
    is_asked_for: bool  # by somebody, or by a recovery: not at its due time

    @property
    def t_us(self) -> int:
        """The time of the push by the server's clock."""
        return self.entry.t_us


class Histories:
    """All *histories*, of the archives and of Redis: ``pushes`` by run, ``changes`` by schedule."""

    def __init__(self, histories: Iterable[list[Entry]]) -> None:
        self.chains = completed([chain for history in histories for chain in chains_of(history)])
        self.entries: dict[Position, Entry] = {}
        for chain in self.chains:
            self.entries |= {entry.position: entry for entry in chain}
        self._changes: dict[Position, list[Change]] = {}
        self.unreadable: list[str] = []
        self.pushes: dict[str, list[Push]] = defaultdict(list)
        self.pushes_by_id: dict[str, list[Push]] = defaultdict(list)
        self.changes: dict[str, list[Change]] = defaultdict(list)
        for position in sorted(self.entries, key=lambda position: position.t_us):
            for change in self.of(position):
                self.changes[change.id].append(change)
            for push in self.pushes_of(position):
                self.pushes[push.run_id].append(push)
                self.pushes_by_id[push.id].append(push)

    def of(self, position: Position) -> list[Change]:
        """Return the changes of the entry at *position*; none for an unreadable entry, which is noted."""
        if position not in self._changes:
            try:
                self._changes[position] = list(changes(self.entries[position]))
            except UnknownEntry as error:
                self.unreadable.append(str(error))
                self._changes[position] = []
        return self._changes[position]

    def pushes_of(self, position: Position) -> Iterator[Push]:
        """Yield the runs that the entry at *position* pushed."""
        for change in self.of(position):
            if change.what in _PUSHED and change.run_id is not None:
                mark, asked = change.why == UNCERTAIN, change.what is not What.FIRED
                yield Push(change.run_id, change.id, position, change.nominal_ms, mark, asked)

    def doubles(self) -> Iterator[tuple[Push, Push]]:
        """Yield the runs that one history pushed twice, marked or not."""
        seen: set[tuple[Position, Position]] = set()
        for chain in self.chains:
            first: dict[str, Push] = {}
            for entry in chain:
                for push in self.pushes_of(entry.position):
                    before = first.setdefault(push.run_id, push)
                    if before is not push and (before.entry, push.entry) not in seen:
                        seen.add((before.entry, push.entry))
                        yield before, push


def completed(chains: list[list[Entry]]) -> list[list[Entry]]:
    """
    Return *chains*, those that begin in the middle with what another one has before: an archive that was left behind
    begins again at the log's oldest entry, and reads the schedules of that moment from Redis.
    """
    places = {(entry.position, n) for n, chain in enumerate(chains) for entry in chain}
    found = []
    for chain in chains:
        first = chain[0]
        knowing = [other for n, other in enumerate(chains) if other is not chain and (first.position, n) in places]
        before = max((other[: other.index(first)] for other in knowing), key=len, default=[])
        found.append([*before, *chain] if first.kind != SCAN and first.position.seq > 1 else chain)
    return found


def chains_of(history: list[Entry]) -> list[list[Entry]]:
    """
    Return the histories that an archive read one after the other, each from its beginning; the last one is current. A
    history may begin with scans, where an archive that missed a part of the log read Redis and continued from there.
    """
    chains: list[list[Entry]] = []
    chain: list[Entry] = []
    for entry in history:
        seq = entry.position.seq
        is_after_scan = bool(chain) and chain[-1].kind == SCAN
        if entry.kind == SCAN and chain and not is_after_scan:
            chains.append(chain)
            chain = []
        elif chain and not is_after_scan and seq != chain[-1].position.seq + 1:
            chains.append(chain)
            kept = next((n for n in range(len(chain), 0, -1) if chain[n - 1].position.seq == seq - 1), 0)
            chain = chain[:kept]
        chain.append(entry)
    return [*chains, chain] if chain else chains
