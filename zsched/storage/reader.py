"""Schedules in Redis, read back as values. Nothing here writes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from zsched.core.clock import Clock
from zsched.core.entry import text as shown
from zsched.core.facets import Facets
from zsched.core.listing import IdTest
from zsched.core.model import Schedule
from zsched.core.options.choices import Priority
from zsched.core.record import Place, Record
from zsched.core.runs.job import job_pairs
from zsched.errors import RedisRefused
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys, keys_of
from zsched.storage.log import Log
from zsched.storage.meta import asking, server_now_ms, throttled_sets
from zsched.storage.named_texts import read_calendars, read_known
from zsched.storage.records import PAGE, as_schedule, due_from_score, read_page, read_records
from zsched.storage.refusals import not_found
from zsched.storage.rqjob import Encoder
from zsched.storage.scripts import Scripts
from zsched.storage.throttled import HeldBack

if TYPE_CHECKING:
    from zsched.config.settings import Settings
    from zsched.core.known import Known
    from zsched.core.occurrences.recent import Ahead, RecentActivity
    from zsched.core.triggers.spec import Calendars
    from zsched.storage.last_minutes import LastMinutes
    from zsched.storage.overview import Overview
    from zsched.storage.puts import Put
    from zsched.storage.queues import QueueSeen

P = ParamSpec("P")
T = TypeVar("T")

# Ids and due times per command, if a listing needs more than a page: 1 to 2 ms of the server (measured).
_LONG_PAGE = 2000
_FEW = 1000  # schedules, which are read while an archive would answer
# Bounds of `has_fired` in the newest part of the log: entries, bytes, time.
_LOOKED_AT, _BYTES, _LOOKED_FOR_MS = 2000, 4 * 1_048_576, 250.0


class Reader:
    """The reading side of one namespace over one link."""

    def __init__(self, link: Link, keys: Keys, encoder: Encoder) -> None:
        self._link, self._keys = link, keys
        self._scripts = Scripts(link, keys)
        self._encoder = encoder

    @classmethod
    def by_settings(cls, settings: Settings, link: Link) -> Self:
        """Return the reader of the namespace of *settings* over *link*. Raises ConfigError."""
        return cls(link, keys_of(settings), Encoder(settings.rq.serializer))

    def now_ms(self) -> int:
        """Return the server's time, as scripts see it."""
        return server_now_ms(self._link, self._keys)

    def find(self, id: str) -> Schedule | None:
        """Return one schedule, or None."""
        page = read_page(self._scripts, self._keys, [id])
        return as_schedule(page.records[0], self._encoder, page.now_ms, self.calendars) if page.records else None

    def get(self, id: str) -> Schedule:
        """Return one schedule. Raises ScheduleNotFound."""
        if (found := self.find(id)) is None:
            raise not_found(id, self._keys)
        return found

    def schedules(
        self, ids: Iterable[str], at_first: int | None = None, texts: Iterable[str] = ()
    ) -> Iterator[Schedule]:
        """
        Yield the existing schedules of *ids*, in their order; read page by page. *at_first*: the largest number in the
        first page. Those without *texts* in their stored form are left out.
        """
        sought, calendars = [text.encode(errors="replace") for text in texts], cache(self.calendars)
        for page in read_records(self._scripts, self._keys, ids, at_first):
            found = (record for record in page.records if _has(record, sought))
            yield from (as_schedule(record, self._encoder, page.now_ms, calendars) for record in found)

    def calendars(self) -> Calendars:
        """Return the calendars of the namespace."""
        return read_calendars(self._link, self._keys)

    def known(self) -> list[Known]:
        """Return the known failures of the namespace."""
        return read_known(self._link, self._keys, self.now_ms())

    def expected(self, put: Put) -> Schedule:
        """Return the result of ``find`` after *put* of a recurring schedule, without its place and times."""
        shape, rule = put.shape, put.rule
        assert rule is not None
        job = _encoded([*shape.job, *job_pairs(put.name, put.data)])
        own = _encoded([*shape.own, "trigger", rule.text, "digest", put.digest])
        return as_schedule(Record(put.id, "", Place.DUE, shape.lane.value, None, job, own), self._encoder)

    def active(
        self, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        """
        Yield (due ms, id) of wanted schedules in lanes or throttled, with from_ms <= due <= until_ms, by due time and
        id, after *after*. A schedule that is throttled meanwhile may be missing, or come twice.
        """
        keys = [self._keys.due(lane) for lane in Priority]
        keys += [throttled.key(self._keys) for throttled in throttled_sets(self._link, self._keys)]
        return heapq.merge(*(self._lane(key, from_ms, until_ms, after, is_wanted) for key in keys))

    def waiting_with(self, facets: Facets) -> Sequence[tuple[int | None, str]] | None:
        """
        Return (due ms, id) of all schedules with the owner, name and tags of *facets*, from an archive. None: no
        archive knows, or the schedules are so few that they are read as quickly.
        """
        sizes = [("ZCARD", self._keys.due(lane)) for lane in Priority]
        sizes += [("SCARD", self._keys.recurring()), ("HLEN", self._keys.paused())]
        with self._link.wire() as wire:
            if sum(wire.execute_all(sizes)) < _FEW:
                return None
        from zsched.storage.questions import UNREADABLE, ask_archives  # few listings ask an archive

        last = Log(self._link, self._keys).last()
        with suppress(RedisRefused, *UNREADABLE):
            answer = ask_archives(self._link, self._keys, "waiting", facets=list(facets))
            if last is None or int(answer["source"]["as_of_us"]) >= last.position.t_us:
                return [(due and int(due), str(id)) for due, id in answer["waiting"]]
        return None

    def head_of(self, lane: Priority, most: int) -> Iterator[Schedule]:
        """Yield the schedules of *lane* that are due next, *most* at most."""
        ids = self._link.execute("ZRANGE", self._keys.due(lane), 0, most - 1)
        return self.schedules(id.decode(errors="backslashreplace") for id in ids)

    def due_in(self, bounds: Sequence[int]) -> list[int]:
        """Count the schedules of the lanes that are due in [a, b), for each two neighbours in *bounds*, in ms."""
        commands = [("ZCOUNT", self._keys.due(lane), a, f"({b}") for a, b in pairwise(bounds) for lane in Priority]
        with self._link.wire() as wire:
            counts = wire.execute_all(commands)
        return [sum(counts[at : at + len(Priority)]) for at in range(0, len(counts), len(Priority))]

    def paused(self) -> list[str]:
        """Return the ids of paused schedules, sorted."""
        return sorted(shown(id) for id in self._link.execute("HKEYS", self._keys.paused()))

    def quarantined(self) -> list[str]:
        """Return the ids of quarantined schedules, sorted."""
        return sorted(shown(id) for id in self._link.execute("HKEYS", self._keys.quarantine()))

    def recurring(self) -> list[str]:
        """Return the ids of recurring schedules in any state, sorted."""
        return sorted(shown(id) for id in self._link.execute("SMEMBERS", self._keys.recurring()))

    def has_fired(self, id: str) -> str | None:
        """
        Return the id of the run by which one-shot *id* fired. None: the newest entries of the log have no change of
        that schedule, or the last one is another, such as cancelled or expired. Bounded in entries, bytes and time: an
        older run is not found.
        """
        from zsched.core.entry import UnknownEntry  # for `cancel` of an id that does not wait
        from zsched.core.log.kinds import changes, narrowed

        name = id.encode()
        for entry in Log(self._link, self._keys).back(_LOOKED_AT, most_bytes=_BYTES, for_ms=_LOOKED_FOR_MS):
            if not any(name in each for each in entry.body):
                continue
            try:
                found = [one for one in changes(narrowed(entry, id), self._keys.run_suffix) if one.id == id]
            except UnknownEntry:  # of a newer version
                continue
            for change in reversed(found):
                if change.is_of_schedule:
                    return change.run_id if change.is_firing else None
        return None

    def overview(self, known: Sequence[Known] = ()) -> Overview:
        """Return counts, leader and backlog. *known* as in ``storage.overview.read_overview``. Raises as that."""
        from zsched.storage.overview import read_overview  # for `zsched status`

        return read_overview(self._link, self._keys, known)

    def on_wire(self, read: Callable[Concatenate[Wire, Keys, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return what *read* reads over one connection, such as ``storage.queues.stalled_queues``. Raises as *read*."""
        with self._link.wire() as wire:
            return read(wire, self._keys, *arguments, **named)

    def queues(self, held: Iterable[HeldBack]) -> list[QueueSeen]:
        """Return the queues in use, as ``queues.queues_seen``. Raises as there."""
        from zsched.storage.queues import queues_seen  # few clients ask for them

        return self.on_wire(queues_seen, held, self.due_soon())

    def due_soon(self) -> dict[str, dict[str, int]]:
        """Return the number of runs that are due soon, by queue, as ``upcoming.due_soon``. Raises as there."""
        from zsched.storage.queues import MOST_RULES, due_soon

        key = self._keys.recurring()
        with self._link.wire() as wire:
            number, (_, ids) = wire.execute_all([("SCARD", key), ("SSCAN", key, 0, "COUNT", MOST_RULES)])
        return self.on_wire(due_soon, list(self.schedules(map(shown, ids))), number)

    def recent(self, clock: Clock) -> RecentActivity:
        """
        Count the last minutes, as far as the log can be read quickly; *clock* measures the time of the read. The next
        call of the same reader counts only what is new, and what this one had no time for. Known failures are in
        counts only.
        """
        found = self._last_minutes.read(self.now_ms(), clock, self.known())
        return replace(found, ahead=self._still_silent(found.ahead)) if found.ahead is not None else found

    @cached_property
    def _last_minutes(self) -> LastMinutes:
        from zsched.storage.last_minutes import LastMinutes  # imported late: it imports all kinds of entries

        return LastMinutes(Log(self._link, self._keys), self._keys.run_suffix)

    def _still_silent(self, ahead: Ahead) -> Ahead:
        """Return *ahead* with only the unchanged schedules."""
        with self._link.wire() as wire, asking(self._keys.recurring()):
            texts = wire.execute_all(("HGET", self._keys.schedule(id), "progress") for id in ahead.times)
        pairs = zip(ahead.times.items(), texts, strict=True)
        times = {id: ms for (id, ms), progress in pairs if (progress or b"").startswith(b"%d " % ms)}
        return replace(ahead, times=times)

    def _lane(
        self, key: str, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        """
        Read one ZSET in pages. LIMIT counts members from the first one with the score of the last one that was read,
        and some may leave meanwhile. So a page begins at the last one; if that is not there, at an earlier place, and
        known members are skipped.
        """
        low: float = max(from_ms or 0, after[0] if after else 0)
        high: int | str = "+inf" if until_ms is None else until_ms
        last, offset, size = after, 0, PAGE
        before = (low, b"")
        while True:
            flat = self._link.execute("ZRANGEBYSCORE", key, low, high, "WITHSCORES", "LIMIT", offset, size)
            page = list(zip(map(float, flat[1::2]), flat[::2], strict=True))
            if offset and (not page or page[0] > before):
                offset = max(offset - size, 0)
                continue
            for score, member in page:
                place = due_from_score(score), member.decode(errors="backslashreplace")
                if is_wanted(place[1]) and (last is None or place > last):
                    last = place
                    yield place
            if len(page) < size:
                return
            before = page[-1]
            offset = (offset if before[0] == low else 0) + sum(score == before[0] for score, _ in page) - 1
            low, size = before[0], min(2 * size, _LONG_PAGE)


def _has(record: Record, texts: list[bytes]) -> bool:
    """Return True if all *texts* are in the stored form: a quarter of the time to read it (measured)."""
    stored = b" ".join((*record.own, *record.job)) if texts else b""
    return all(text in stored for text in texts)


def _encoded(texts: Iterable[str | bytes]) -> list[bytes]:
    """Return names and texts of a hash, flat, as Redis returns them."""
    return [text if isinstance(text, bytes) else text.encode() for text in texts]
