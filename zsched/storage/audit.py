"""What an audit asks of Redis: where schedules are, all of their places, and one place for what is in many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zsched.config.settings import LONGEST_LEASE_MS
from zsched.core.log import Position, text
from zsched.core.model import Priority
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.queues import asides
from zsched.storage.scripts import Scripts

_SCANNED: Final = 200  # members in one reply, about


@dataclass(frozen=True, slots=True)
class Look:
    """
    What one look told, at ``now_ms`` of the server, when the log ended with ``tail``. By id: ``places``, every one that
    it is in, "<lane>:<queue>" where it stands aside; ``statuses``, RQ's of its waiting run, '' for none.
    """

    now_ms: int
    hold_ms: int
    tail: Position | None
    places: dict[str, list[str]]
    statuses: dict[str, str]

    def is_aside(self, id: str) -> bool:
        """Whether its queue has no room for it, by its limit: it is late as it should be."""
        return any(":" in place for place in self.places[id])

    def is_held(self) -> bool:
        """Whether nothing fires now; a hold further away was written before the clock jumped (lib/hold.lua)."""
        return self.now_ms < self.hold_ms <= self.now_ms + LONGEST_LEASE_MS


class Audit:
    """A leader's looks over one wire. Every call raises Stale or ServerChanged."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)

    def look(self, term: Term, schedules: Sequence[tuple[str, str]]) -> Look:
        """Where schedules are, each given with what follows its id in the id of its waiting run."""
        rows = [each for schedule in schedules for each in schedule]
        now_ms, hold_ms, last, last_t, *told = self._scripts.call("audit", rows=rows, **term.fence)
        tail = Position.parse(f"{text(last)} {text(last_t)}") if last else None
        ids = [id for id, _ in schedules]
        places = {id: text(each).split() for id, each in zip(ids, told[::2], strict=True)}
        statuses = {id: text(each) for id, each in zip(ids, told[1::2], strict=True)}
        return Look(int(now_ms), int(hold_ms), tail, places, statuses)

    def clear(self, term: Term, seen: Position, stays: Iterable[tuple[str, str]]) -> bool:
        """
        Take schedules out of all places but the one given with each id ('-': none), while the log ends with *seen*;
        False: it does not any more, and nothing was done.
        """
        rows = [each for schedule in stays for each in schedule]
        told = self._scripts.call("clear", rows=rows, seen_entry=seen.id, seen_t=seen.t_us, **term.fence)
        return str(told[0]) != "AGAIN"

    def ids(self) -> Iterator[list[str]]:
        """Ids in all places, in pages; some twice, and what moves meanwhile may be missed."""
        keys = self._keys
        for lane in Priority:
            yield from self._scan("ZSCAN", keys.due(lane))
        for aside in asides(self._wire, keys):
            yield from self._scan("ZSCAN", aside.key(keys))
        yield from self._scan("HSCAN", keys.paused())
        yield from self._scan("HSCAN", keys.quarantine())

    def _scan(self, command: str, key: str) -> Iterator[list[str]]:
        cursor: Any = b"0"
        while True:
            cursor, flat = self._wire.execute(command, key, cursor, "COUNT", _SCANNED)
            yield [text(member) for member in flat[::2]]
            if cursor == b"0":
                return
