"""
The contents of one Redis: the log, the one-shots, the RQ queue, and the facts of meta.

A dataset can be copied. The model loses data that way: Redis continues with an older copy. Time is counted in ticks;
``t`` is one more at every write, over all histories, so no two entries ever share it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """The state of a one-shot."""

    PENDING = "it waits for its due time"
    OPEN = "it was pushed to its queue and has not ended"
    GONE = "it ended, was cancelled or was skipped"


class Record(NamedTuple):
    """All facts about a one-shot; *version* names the put of its content. Redis keeps no record that is GONE."""

    state: State
    version: int
    due: int

    def now(self, state: State) -> Record:
        """The same one-shot in another state."""
        return self._replace(state=state)


class Position(NamedTuple):
    """The place and identity of an entry: id = (epoch, seq), and t."""

    id: tuple[int, int]
    t: int


ORIGIN = Position((0, 0), 0)  # before the first entry


class Entry(NamedTuple):
    """
    One entry of the log: term, put, cancel, fire, skip, end, restore or merged.

    Absolute: *record* is the one-shot *id* afterwards, so that replaying over a later scan converges. *changed_t* is
    the time of the change by a client or the leader: the entry's own t, but for a restore the old one. *covers* are the
    positions that a merged entry names; *by* names the archive behind a restore. *previous_t*, the true previous entry,
    is for the checks only: the protocol cannot know it.
    """

    position: Position
    kind: str
    id: int | None
    record: Record | None
    changed_t: int
    covers: tuple[Position, ...]
    previous_t: int
    by: str = ""


class Report(NamedTuple):
    """
    An archive's position and the time of its report. ``looked_at`` are the lost positions of others that it knows: its
    own history of them is in a merged entry. None while it does not follow the log. ``began_t``: of the last entry when
    it began.
    """

    position: Position
    told: int
    looked_at: frozenset[Position] | None = None
    began_t: int = 0


class Lease(NamedTuple):
    """The leader, and the end of its lease. A token is never used twice."""

    token: tuple[str, int]
    until: int


class Dataset:
    """The keys of one namespace. An empty Redis has none: gen, server, hold and doubt are None."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.gen: int | None = None
        self.epoch, self.seq = 0, 0
        self.server: int | None = None
        self.hold: int | None = None
        self.doubt: int | None = None
        self.doubted_t = 0  # of the term that cast the doubt
        self.is_shown = False  # that nothing was lost then
        self.lost: int | None = None  # the doubt of the last change of server with a loss
        self.lost_epoch = -1  # in which that loss was found
        self.put_t: dict[int, int] = {}
        self.log: list[Entry] = []
        self.records: dict[int, Record] = {}
        self.queue: list[int] = []
        self.reports: dict[str, Report] = {}
        self.origin = 0  # whose it is in truth, which nobody can read: another server's that took the place of ours

    def copy(self) -> Dataset:
        """Return a copy, like a snapshot or a replica."""
        copied = Dataset()
        copied.__dict__.update(self.__dict__)
        copied.log, copied.records = list(self.log), dict(self.records)
        copied.queue, copied.reports, copied.put_t = list(self.queue), dict(self.reports), dict(self.put_t)
        return copied

    @property
    def tail(self) -> Position:
        """The last entry's position."""
        return self.log[-1].position if self.log else ORIGIN

    @property
    def is_complete(self) -> bool:
        """Return True if nothing was trimmed: the log is empty or begins with seq 1."""
        return not self.log or self.log[0].position.id[1] == 1

    def since(self, position: Position) -> list[Entry]:
        """Return the entries after *position*; all of them if the log does not have it."""
        for index in range(len(self.log) - 1, -1, -1):
            if self.log[index].position == position:
                return self.log[index + 1 :]
        return list(self.log)


def is_skip(id: int) -> bool:
    """Return True if this one-shot has ``on_uncertain="skip"``: the odd ones; the even ones have ``"refire"``."""
    return id % 2 == 1
