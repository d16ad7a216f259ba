"""A namespace's counts, leader, backlog and archives at one moment, read in one round trip. Nothing here writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zsched.config.settings import LONGEST_LEASE_MS
from zsched.core.log import Entry, Position, text
from zsched.core.log.lives import TermEntry
from zsched.core.model import Priority
from zsched.storage.archivers import Report, reports_of
from zsched.storage.connection import Link, Wire
from zsched.storage.daemons import DaemonSeen, daemons_of
from zsched.storage.keys import Keys
from zsched.storage.limits import HeldBack, asides, held_back
from zsched.storage.log import Log
from zsched.storage.meta import NUMBERS, asking, numbers
from zsched.storage.time import due_of, server_now_ms


@dataclass(frozen=True, slots=True)
class Overview:
    """
    The namespace at one moment. ``lease_ms``: what is left of the leader's lease, None without one. ``archives``:
    what their archivers told last, of any age; they may have gone on since up to ``log_last``, the log's last entry.
    ``held_back``: what its queue has no room for, by its limit; it counts as waiting, not as overdue. ``led_since_ms``:
    when the leader's term began, None without one, or when the log does not tell any more. ``wrong_types``: keys of a
    wrong type without which firing goes on.
    """

    now_ms: int
    waiting: dict[Priority, int]
    overdue: dict[Priority, int]
    oldest_due_ms: int | None
    recurring: int
    paused: int
    quarantined: int
    leader: str | None
    lease_ms: int | None
    led_since_ms: int | None
    epoch: int
    log_length: int
    log_last: Position | None
    hold_ms: int
    archives: list[Report]
    held_back: list[HeldBack]
    wrong_types: list[str] = field(default_factory=list)
    doubt_ms: int = 0

    def behind(self, report: Report) -> int | None:
        """How many entries of the log an archive lacks; None if it has none, or some that this log has not."""
        last, position = self.log_last, report.position
        if position is None or last is None or position.order > last.order:
            return None
        return None if position.order == last.order and position != last else last.seq - position.seq

    @property
    def late_ms(self) -> int:
        """How late the oldest waiting schedule is; 0 when none is."""
        return 0 if self.oldest_due_ms is None else max(self.now_ms - self.oldest_due_ms, 0)

    @property
    def held_ms(self) -> int:
        """Time for which nothing fires. A longer hold was written before the clock jumped back (lib/hold.lua)."""
        held_ms = self.hold_ms - self.now_ms
        return held_ms if 0 < held_ms <= LONGEST_LEASE_MS else 0

    @property
    def daemons(self) -> list[DaemonSeen]:
        """The daemons that told of themselves, at any time; see ``storage.daemons``."""
        return daemons_of(self.archives, self.leader, self.now_ms)


def look(link: Link, keys: Keys) -> Overview:
    """
    How it stands now. What a foreign hand wrote as a report or a lease is passed over, or told as it is.

    Raises:
        Garbled: a number of meta is none, or a key of a wrong type. RedisRefused, RedisUnavailable.
    """
    now_ms = server_now_ms(link, keys)
    lanes, aside = list(Priority), asides(link, keys)
    types = {keys.rq_queues(): b"set", keys.deadlines(): b"zset"}
    commands: list[tuple[Any, ...]] = [("ZCARD", keys.due(lane)) for lane in lanes]
    commands += [("ZCOUNT", keys.due(lane), "-inf", now_ms) for lane in lanes]
    commands += [("ZRANGE", keys.due(lane), 0, 0, "WITHSCORES") for lane in lanes]
    commands += [("SCARD", keys.recurring()), ("HLEN", keys.paused()), ("HLEN", keys.quarantine())]
    commands += [("GET", keys.lease()), ("PTTL", keys.lease()), ("HMGET", keys.meta(), *NUMBERS)]
    commands += [("XLEN", keys.log()), ("HGETALL", keys.archivers())]
    commands += [("XREVRANGE", keys.log(), "+", "-", "COUNT", 1)]  # after the reports: they are not ahead of it
    commands += [("ZCARD", each.key(keys)) for each in aside] + [("HGETALL", keys.limits())]
    commands += [("TYPE", key) for key in types]
    with link.wire() as wire:
        for command in commands:
            wire.send(*command)
        replies = [_received(wire, key) for _, key, *_ in commands]
        told = numbers(keys, replies[14])
        began = Log(wire, keys).read(f"{max(told['epoch'], 0)}-0", 1)  # a term's first entry says that it began
    heads = [due_of(head[1]) for head in replies[6:9] if head]
    recurring, paused, quarantined, lease, lease_ms, _, log_length, reports, last = replies[9:18]
    *held, limits = replies[18 : -len(types)]
    counts, told_types = list(zip(aside, held, strict=True)), replies[-len(types) :]
    in_lanes = dict(zip(lanes, replies[0:3], strict=True))
    return Overview(
        now_ms=now_ms,
        waiting={lane: in_lanes[lane] + sum(n for one, n in counts if one.lane is lane) for lane in lanes},
        overdue=dict(zip(lanes, replies[3:6], strict=True)),
        oldest_due_ms=min(heads) if heads else None,
        recurring=recurring,
        paused=paused,
        quarantined=quarantined,
        leader=text(lease).split(":")[0] if lease else None,
        lease_ms=lease_ms if lease else None,
        led_since_ms=_began_ms(began, told["epoch"]) if lease else None,
        epoch=told["epoch"],
        log_length=log_length,
        log_last=Entry.of(*last[0]).position if last else None,
        hold_ms=told["hold"],
        archives=reports_of(reports),
        held_back=held_back(counts, limits),
        wrong_types=[key for key, type in zip(types, told_types, strict=True) if type not in (types[key], b"none")],
        doubt_ms=told["doubt"],
    )


def _began_ms(entries: list[Entry], epoch: int) -> int | None:
    """When the term began that one of *entries* is the beginning of."""
    terms = (entry.position for entry in entries if TermEntry.of(entry) and entry.position.epoch == epoch)
    return next((position.t_us // 1000 for position in terms), None)


def _received(wire: Wire, key: str) -> Any:
    """The next reply, which is about *key*."""
    with asking(key):
        return wire.receive()
