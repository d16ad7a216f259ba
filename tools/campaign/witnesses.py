"""The evidence for the audit, collected when everything has come to rest: plain values, so that tests can make them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tools.campaign.calls import Call
from tools.campaign.receipts import Receipt
from zsched.core.entry import Entry


class Loss(NamedTuple):
    """A moment at which Redis lost history, and a flag if an older state, with RQ's queues, came back."""

    fault: str
    at_us: int
    brings_back: bool


class Window(NamedTuple):
    """The time of a fault, until everything was well again."""

    fault: str
    from_us: int
    until_us: int


class Place(NamedTuple):
    """
    A place of a schedule in Redis: due, paused, quarantine, ended; or *waiting*, a job that waits without a place.
    """

    id: str
    place: str
    due_ms: int | None


@dataclass
class Witnesses:
    """
    ``histories``: each archive's, in the order of reading; ``log``: the final log of Redis. ``foreign``: ids that a
    fault wrote without zsched. ``said``: messages that should not have occurred.
    """

    calls: list[Call] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    ends: list[Receipt] = field(default_factory=list)  # of runs with overlap="queue"
    histories: list[list[Entry]] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    seq: int | None = None  # that Redis counted to
    places: list[Place] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    ended_us: int = 0
