"""Listings: the filters of ``client.list`` and ``zsched ls``, and the order of their schedules."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import translate
from itertools import islice
from math import inf
from typing import Any, NamedTuple, Protocol, Self

from zsched.core.facets import NO_FACETS, Facets
from zsched.core.model import Schedule
from zsched.core.options.allowed import Limits
from zsched.core.options.arguments import FacetFilters, check_filter, check_number, choice
from zsched.core.options.choices import ScheduleState
from zsched.core.options.forms import whole_number
from zsched.core.triggers.trigger import RULES
from zsched.core.triggers.zones import instant_ms
from zsched.errors import InvalidSchedule

RECURRING = "recurring"  # every kind of rule
LISTED_KINDS = ("once", *RULES, RECURRING)

Due = Sequence[tuple[int | None, str]]  # due times in ms, and ids
IdTest = Callable[[str], object]  # returns a true value for a wanted id


def id_test(globs: Sequence[str]) -> IdTest:
    """
    Return a test of ids by *globs*: an id is wanted if one of them matches; without globs, every id is wanted. Raises
    InvalidSchedule for a glob that is not text to search for.

    Apply it before schedules are read: a million ids take a second to test and a minute to read (measured).
    """
    for glob in globs:
        check_filter("match", glob)
    if not globs:
        return lambda id: True
    return re.compile("|".join(map(translate, globs))).match


class ScheduleSource(Protocol):
    """A reader of schedules, place by place."""

    def active(
        self, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        """Yield (due ms, id) of wanted ids, ascending, after *after*."""

    def paused(self) -> list[str]:
        """Sorted ids."""

    def quarantined(self) -> list[str]:
        """Sorted ids."""

    def recurring(self) -> list[str]:
        """Return sorted ids, in any state."""

    def waiting_with(self, facets: Facets) -> Due | None:
        """
        Return (due ms, id) of all schedules with *facets*, or more, in any order and state; None: not known, so all
        schedules are to be read.
        """

    def schedules(
        self, ids: Iterable[str], at_first: int | None = None, texts: Iterable[str] = ()
    ) -> Iterator[Schedule]:
        """
        Read the existing schedules of *ids*, page by page. *at_first*: the number that is probably needed. Schedules
        without *texts* in their stored form may be left out.
        """


class Cursor(NamedTuple):
    """The schedule after which a listing continues: its state, due time and id."""

    state: ScheduleState
    due_ms: int
    id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor from the text of ``Schedule.cursor``. Raises InvalidSchedule."""
        state, _, rest = str(text).partition(":")
        due_ms, _, id = rest.partition(":")
        with suppress(ValueError):
            if id:
                return cls(ScheduleState(state), whole_number(due_ms, 0), id)
        raise InvalidSchedule("after", text, "not a cursor", "give the cursor of the last schedule seen")


class Filter(NamedTuple):
    """
    Conditions of a listing; None: no condition. ``match`` is a glob over ids; ``owner`` "": without owner. Instants
    in ms, exclusive. ``limits``: of the caller.
    """

    state: ScheduleState | None = None
    kind: str | None = None
    func: str | None = None
    queue: str | None = None
    tag: str | None = None
    owner: str | None = None
    name: str | None = None
    due_after_ms: int | None = None
    due_before_ms: int | None = None
    match: str | None = None
    limit: int | None = None
    after: Cursor | None = None
    limits: Limits | None = None

    @classmethod
    def of(
        cls, *, state: Any = None, kind: Any = None, limit: Any = None, after: Any = None, due_after: Any = None,
        due_before: Any = None, **given: Any,
    ) -> Self:  # fmt: skip
        """Return the filter from a caller's arguments; instants are aware. Raises InvalidSchedule."""
        if kind is not None and kind not in LISTED_KINDS:
            raise InvalidSchedule("kind", kind, "not one of its values", f"give one of {', '.join(LISTED_KINDS)}")
        if limit is not None:
            check_number("limit", limit, 10**15, "schedules", least=0)
        for name in FacetFilters.__annotations__:
            if (name, given.get(name)) != ("owner", ""):
                check_filter(name, given.get(name))
        return cls(
            state=None if state is None else choice("state", state, ScheduleState),
            kind=kind,
            limit=limit,
            due_after_ms=None if due_after is None else instant_ms("due_after", due_after, None),
            due_before_ms=None if due_before is None else instant_ms("due_before", due_before, None),
            after=None if after is None else Cursor.parse(after),
            **given,
        )

    @property
    def labels(self) -> Facets:
        """The wanted owner, name and tag."""
        return Facets(owner=self.owner or "", tags=() if self.tag is None else (self.tag,), name=self.name or "")

    @property
    def texts(self) -> list[str]:
        """Texts in the stored form of every schedule that is kept: to look for them is quicker than to read it."""
        tag = None if self.tag is None else json.dumps(self.tag, ensure_ascii=False).strip('"')
        return [text for text in (self.func, self.queue, self.owner, self.name, tag) if text]

    def keeps(self, schedule: Schedule) -> bool:
        """Return True if *schedule* passes every filter except the one of ids."""
        due_ms = schedule.next_ms
        return (
            (self.state is None or schedule.state is self.state)
            and (self.kind is None or schedule.kind == self.kind or (self.kind == RECURRING and schedule.kind in RULES))
            and (self.func is None or schedule.func == self.func)
            and (self.queue is None or schedule.queue == self.queue)
            and (self.tag is None or self.tag in schedule.tags)
            and (self.owner is None or self.owner == (schedule.owner or ""))
            and (self.name is None or self.name == schedule.name)
            and (self.due_after_ms is None or (due_ms is not None and due_ms > self.due_after_ms))
            and (self.due_before_ms is None or (due_ms is not None and due_ms < self.due_before_ms))
            and (self.limits is None or self.limits.refusal(schedule.limited_by) is None)
        )


def select(wanted: Filter, source: ScheduleSource) -> Iterator[Schedule]:
    """Yield the schedules that *wanted* keeps: active by due time, then paused, quarantined and ended by id."""
    is_wanted = id_test([] if wanted.match is None else [wanted.match])
    found = None if wanted.labels == NO_FACETS else source.waiting_with(wanted.labels)
    if found is not None:
        is_wanted = {id for _, id in found if is_wanted(id)}.__contains__
    states = [state for state in ScheduleState if wanted.state in (None, state)]
    in_order = (one for state in states for one in _in_state(state, wanted, source, is_wanted, found))
    yield from islice(filter(wanted.keeps, in_order), wanted.limit)


def _in_state(
    state: ScheduleState, wanted: Filter, source: ScheduleSource, is_wanted: IdTest, found: Due | None
) -> Iterator[Schedule]:
    """Yield the schedules in *state* whose ids are wanted; *found*: those among which they are, if that is known."""
    order = list(ScheduleState)
    after = wanted.after
    if after and order.index(after.state) > order.index(state):
        return iter(())
    last = after if after and after.state is state else None
    if state is ScheduleState.ACTIVE and wanted.kind in (RECURRING, *RULES):
        return _active_rules(source, is_wanted, last, wanted.texts)
    if state is ScheduleState.ACTIVE:
        from_ms = None if wanted.due_after_ms is None else wanted.due_after_ms + 1
        until_ms = None if wanted.due_before_ms is None else wanted.due_before_ms - 1
        place = (last.due_ms, last.id) if last else None
        if found is None:
            places = source.active(from_ms, until_ms, place, is_wanted)
        else:
            low, high = max((from_ms or 0, ""), place or (0, "")), (inf if until_ms is None else until_ms)
            due = ((due_ms, id) for due_ms, id in found if due_ms is not None and due_ms <= high and is_wanted(id))
            places = (one for one in sorted(due) if low <= one != place)
        ids: Iterable[str] = (id for _, id in places)
    else:
        ids = [id for id in _ids_in(state, source) if is_wanted(id) and (last is None or id > last.id)]
    return (schedule for schedule in source.schedules(ids, wanted.limit, wanted.texts) if schedule.state is state)


def _active_rules(
    source: ScheduleSource, is_wanted: IdTest, last: Cursor | None, texts: list[str]
) -> Iterator[Schedule]:
    """Yield the active recurring schedules by due time: all are read, but none of the one-shots beside them."""
    after = (-1, "") if last is None else (last.due_ms, last.id)
    found = source.schedules((id for id in source.recurring() if is_wanted(id)), None, texts)
    due = [(each.next_ms, each.id, each) for each in found if each.state is ScheduleState.ACTIVE and each.next_ms]
    return (each for due_ms, id, each in sorted(due, key=lambda one: one[:2]) if (due_ms, id) > after)


def _ids_in(state: ScheduleState, source: ScheduleSource) -> Iterable[str]:
    """Return the ids that may be in *state*, which is not active, in order."""
    if state is ScheduleState.PAUSED:
        return source.paused()
    if state is ScheduleState.QUARANTINED:
        # Paused ones too: if another program wrote its value, a paused schedule counts as quarantined.
        return sorted({*source.quarantined(), *source.paused()})
    return source.recurring()
