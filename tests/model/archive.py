"""
The disk of a daemon: the entries that it has read, the state that they add up to, and its position.

A bootstrap builds a new state beside the current one, page by page, and then replaces it in one step.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.dataset import Dataset, Entry, Position, Record, State

PAGES = 2  # of a scan: enough for something to happen between two


class Known(NamedTuple):
    """An archive's knowledge of a one-shot: its record, and the t of the change that caused it."""

    record: Record
    changed_t: int


NOT_THERE = Known(Record(State.GONE, 0, 0), 0)


class Change(NamedTuple):
    """An acknowledged put or cancel that an archive followed: from then on the system must not lose it."""

    t: int
    kind: str
    version: int


def fold(state: dict[int, Known], entries: Iterable[Entry]) -> None:
    """Apply *entries* to *state*."""
    for entry in entries:
        if entry.id is not None and entry.record is not None:
            state[entry.id] = Known(entry.record, entry.changed_t)


class Bootstrap:
    """A new state in the making: the log as it was at *base*, then the pages of the scan."""

    def __init__(self, data: Dataset) -> None:
        self.base = self.last_read = data.tail
        self.entries = list(data.log)
        self.state: dict[int, Known] = {}
        self.pages = 0

    def scan(self, data: Dataset) -> None:
        """Read the next page, together with the tail. Its rows count as changed at *base*."""
        for id, record in data.records.items():
            if id % PAGES == self.pages:
                self.state[id] = Known(record, self.base.t)
        self.pages += 1
        self.last_read = data.tail


class Archive:
    """
    One file. ``position`` is None while it is empty.

    ``order`` numbers every entry it ever had, lost ones included, in the order of reading: its own history. ``entries``
    are the entries of its state.
    """

    def __init__(self) -> None:
        self.began_t = 0  # of the log's last entry when its state was built
        self.gens: list[int] = []
        self.origin = 0  # of the data set that it followed last, in truth
        self.position: Position | None = None
        self.entries: list[Entry] = []
        self.order: dict[Position, int] = {}
        self.state: dict[int, Known] = {}
        self.touched: list[tuple[int, int]] = []  # place and id of every entry that it ever had
        self.learnt: dict[tuple[int, int], int] = {}  # (id, t of a change) → where an entry last told it
        self.last: dict[int, tuple[int, int]] = {}  # id → place and t of the last change that an entry told
        self.bootstrap: Bootstrap | None = None
        self.answerable: dict[int, Change] = {}

    @property
    def gen(self) -> int | None:
        """The name of the data set that it followed last."""
        return self.gens[-1] if self.gens else None

    def note(self, gen: int | None) -> None:
        """Note the name *gen* of the data set that it follows; None: it has no name yet."""
        if gen is not None and gen != self.gen:
            self.gens.append(gen)

    def append(self, entry: Entry) -> None:
        """Take the next entry of the log that it follows."""
        self._number([entry])
        self.entries.append(entry)
        self.position = entry.position
        fold(self.state, [entry])
        if entry.kind in ("put", "cancel") and entry.id is not None and entry.record is not None:
            self.answerable[entry.id] = Change(entry.position.t, entry.kind, entry.record.version)

    def switch(self, data: Dataset) -> None:
        """End the bootstrap: follow from its base to the tail on top of the scan, then use the new state."""
        built = self.bootstrap
        assert built is not None
        followed = data.since(built.base)
        fold(built.state, followed)
        self.note(data.gen)
        self.origin = data.origin
        self.began_t = self.began_t or built.base.t
        self.position, self.state = data.tail, built.state
        self.entries = built.entries + followed
        self._number(self.entries)
        self.bootstrap = None

    def _number(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.id is not None and entry.position not in self.order:
                self.touched.append((len(self.order), entry.id))
            place = self.order.setdefault(entry.position, len(self.order))
            if entry.id is not None:
                key = entry.id, entry.changed_t
                self.learnt[key] = max(self.learnt.get(key, -1), place)
                self.last[entry.id] = max(self.last.get(entry.id, (-1, 0)), (place, entry.changed_t))

    def better(self, id: int, changed_t: int, *, by_order: bool) -> Known | None:
        """
        Return its knowledge of *id* if entries of its own history have a later change than *changed_t*: by their order
        if it had both. A change found by a scan has no t of its own.
        """
        if self.position is None or id not in self.last:
            return None
        (mine, t), theirs = self.last[id], self.learnt.get((id, changed_t))
        is_later = mine > theirs if by_order and theirs is not None else t > changed_t
        return Known(self.state.get(id, NOT_THERE).record, t) if is_later else None

    def known(self, id: int) -> Known | None:
        """Return its knowledge of *id*. An id that its state lacks is gone, since a known time."""
        since = self.last.get(id)
        return self.state.get(id) or (NOT_THERE._replace(changed_t=since[1]) if since else None)
