"""
Messages: what a sink tells people, made of the changes in the log.

Equal events of a minute are one message with their number: events of one kind, function and reason, whose numbers do
not count. The events of one schedule keep their order over messages: one that would have to go into an earlier message
than the schedule's last event begins another message. A message's id depends on its events alone, so a message that is
sent again, also by another daemon, has the same id.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final, Self

from zsched.config.bounds import TOLD
from zsched.core.model import iso
from zsched.core.occurrences.changes import Change, SearchCursor
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.runs.run import RunStatus
from zsched.core.wording import in_a_line

_SHOWN: Final = 10  # events in a message
_KINDS: Final[dict[str, tuple[str, tuple[RunStatus, ...], tuple[What, ...]]]] = {  # its verb; what it tells
    "failed": ("failed", (RunStatus.FAILED, RunStatus.REFUSED), ()),
    "lost": ("was lost", (RunStatus.LOST,), ()),
    "expired": ("expired", (RunStatus.EXPIRED,), (What.EXPIRED,)),
    "missed": ("was missed", (), (What.COALESCED,)),
    "skipped": ("was skipped", (), (What.SKIPPED,)),
    "deadline": ("was not done by its deadline", (), (What.DEADLINE_MISSED,)),
    "quarantined": ("was quarantined", (), (What.QUARANTINED,)),
}
_KIND_OF: Final = {each: kind for kind, (_, ends, whats) in _KINDS.items() for each in (*ends, *whats)}
TEST: Final = "test"
UNHEALTHY: Final = "unhealthy"
USUAL: Final = tuple(kind for kind in TOLD if kind != "skipped")
_OF_SKIPS: Final = {Outcome.MISSED.reason: "missed", Outcome.LIMIT.reason: "missed"}
_WANTED_BY_PEOPLE: Final = {Outcome.PAUSED.reason, Outcome.BY_HAND.reason}  # skips that nobody needs to be told


def message_kind(change: Change) -> str | None:
    """Return the kind of message that tells *change*, as a search found it; None if no message does."""
    if change.run is not None and change.run.is_over:
        return _KIND_OF.get(change.run.status)
    if change.what is What.SKIPPED and change.why in _WANTED_BY_PEOPLE:
        return None
    kind = _KIND_OF.get(change.what)
    return _OF_SKIPS.get(change.why, kind) if change.what is What.SKIPPED else kind


def searched_for(kinds: Collection[str]) -> tuple[frozenset[What], frozenset[RunStatus]]:
    """Return the changes and the statuses of runs among which those of *kinds* are."""
    wanted = {*kinds, *(("skipped",) if "missed" in kinds else ())}
    whats = frozenset(what for what in What if _KIND_OF.get(what) in wanted)
    return whats, frozenset(status for status in RunStatus if _KIND_OF.get(status) in wanted)


@dataclass(frozen=True, slots=True)
class Message:
    """
    A message. ``kind``: of TOLD, or TEST. ``text``: a line; ``details``: more lines. ``count``: how many events it
    tells, the first of them in ``events``, as the HTTP API shows them. ``func`` and ``reason``: of all of them. ``at``
    and ``until``: of the first and of the last one.
    """

    id: str
    kind: str
    namespace: str
    text: str
    at: str
    until: str
    count: int = 1
    func: str = ""
    reason: str = ""
    details: tuple[str, ...] = ()
    events: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of_problems(cls, namespace: str, key: str, now_ms: int, problems: Mapping[str, str]) -> Self:
        """Return the message of all *problems* of ``zsched status``, by name. *key*: for its id."""
        state = f"not healthy: {next(iter(problems.values()))}" if problems else "healthy again"
        id, at = _id_of(namespace, UNHEALTHY, key, *problems), iso(now_ms) or ""
        text, details = f"zsched {namespace} is {state}", tuple(problems.values())
        return cls(id, UNHEALTHY, namespace, text, at, at, reason=" ".join(problems), details=details)

    @classmethod
    def of_test(cls, namespace: str, name: str, now_ms: int) -> Self:
        """Return a message that sink *name* is asked to send."""
        id, at = _id_of(namespace, TEST, name, now_ms), iso(now_ms) or ""
        return cls(id, TEST, namespace, f"A test of [notify.{name}] of zsched {namespace}: it arrives", at, at)

    @property
    def lines(self) -> list[str]:
        """The text and the details."""
        return [self.text, *self.details]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; every key is always present and stable."""
        return asdict(self) | {"details": list(self.details)}


@dataclass(slots=True)
class _Group:
    """Equal events: the first ones, their number, and the last one."""

    kind: str
    reason: str
    place: SearchCursor
    first: list[tuple[Change, SearchCursor]] = field(default_factory=list)
    count: int = 0
    last: SearchCursor | None = None

    def add(self, change: Change, place: SearchCursor) -> None:
        self.first += [(change, place)] if len(self.first) < _SHOWN else []
        self.count += change.count
        self.last = place

    def message(self, namespace: str) -> Message:
        first, last = self.first[0][0], self.last or self.place
        func = (first.facets and first.facets.func) or ""
        at, until = (iso(place.position.t_us // 1000) or "" for place in (self.place, last))
        times = "" if self.count == 1 else f" {self.count:,} times"
        text = in_a_line(
            f"{func or first.id} {_KINDS[self.kind][0]}{times}" + (f": {self.reason}" if self.reason else "")
        )
        details = [f"{one.run_id or one.id} at {iso(place.position.t_us // 1000)}" for one, place in self.first]
        more = self.count - sum(one.count for one, _ in self.first)
        places = (f"{place.position} {place.row}" for place in (self.place, last))
        id = _id_of(namespace, self.kind, func, self.reason, *places, self.count)
        return Message(
            *(id, self.kind, namespace, text, at, until),
            *(self.count, func, self.reason, (*details, *([f"and {more:,} more"] if more else []))),
            events=[one.shown_occurrence() | {"cursor": None} for one, _ in self.first],  # it differs by archive
        )


class Gathered:
    """The messages of changes that are added in order."""

    def __init__(self, namespace: str) -> None:
        self._namespace, self._groups = namespace, list[_Group]()
        self._newest: dict[tuple[str, str, str], int] = {}  # the last group of equal events
        self._last: dict[str, int] = {}  # by schedule: the group of its last event

    def add(self, kind: str, change: Change, place: SearchCursor) -> None:
        """Add *change*, which a message of *kind* tells, at *place* in the log."""
        reason = change.why if change.run is None else change.run.error
        alike = kind, (change.facets and change.facets.func) or "", re.sub(r"\d+", "0", reason)
        number = self._newest.get(alike, -1)
        if number < self._last.get(change.id, 0):
            number = self._newest[alike] = len(self._groups)
            self._groups.append(_Group(kind, reason, place))
        self._last[change.id] = number
        self._groups[number].add(change, place)

    def messages(self) -> Iterator[tuple[SearchCursor, Message]]:
        """Yield the messages in the order of their first events, each with the place of that."""
        for group in self._groups:
            yield group.place, group.message(self._namespace)


def order_of(place: SearchCursor) -> tuple[int, ...]:
    """Return a place in the log for comparisons: it is the same in every archive."""
    return (*place.position.order, place.row)


def _id_of(*parts: object) -> str:
    return blake2b("\n".join(map(str, parts)).encode(errors="replace"), digest_size=16).hexdigest()
