"""Filters, order, cursors and pages of a listing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.builders.schedules import schedule
from zsched.core.clock import from_ms
from zsched.core.facets import Facets
from zsched.core.listing import Cursor, Filter, IdTest, select
from zsched.core.model import Schedule
from zsched.core.options.choices import ScheduleState
from zsched.core.pages import pages_of
from zsched.errors import InvalidSchedule

ACTIVE, PAUSED, QUARANTINED, ENDED = ScheduleState


def _schedule(
    id: str, state: ScheduleState = ACTIVE, due_ms: int | None = 10, kind: str = "once", **over: Any
) -> Schedule:
    return schedule(id, state=state, kind=kind, next_ms=due_ms, **over)


class _Memory:
    """A source of schedules in memory, with the interface of Redis."""

    def __init__(self, *schedules: Schedule) -> None:
        self._all = {schedule.id: schedule for schedule in schedules}
        self.read: list[str] = []

    def _ids(self, state: ScheduleState) -> list[str]:
        return sorted(id for id, one in self._all.items() if one.state is state)

    def active(
        self, from_ms: int | None, until_ms: int | None, after: tuple[int, str] | None, is_wanted: IdTest
    ) -> Iterator[tuple[int, str]]:
        due = sorted((self._all[id].next_ms or 0, id) for id in self._ids(ACTIVE) if is_wanted(id))
        for one in due:
            is_between = (from_ms is None or one[0] >= from_ms) and (until_ms is None or one[0] <= until_ms)
            if is_between and (after is None or one > after):
                yield one

    def waiting_with(self, facets: Facets) -> Sequence[tuple[int | None, str]] | None:
        return None

    def paused(self) -> list[str]:
        return self._ids(PAUSED)

    def quarantined(self) -> list[str]:
        return self._ids(QUARANTINED)

    def recurring(self) -> list[str]:
        return sorted(id for id, one in self._all.items() if one.kind != "once")

    def schedules(
        self, ids: Iterable[str], at_first: int | None = None, texts: Iterable[str] = ()
    ) -> Iterator[Schedule]:
        for id in ids:
            self.read.append(id)
            if id in self._all:
                yield self._all[id]


class _Archived(_Memory):
    """A source that knows the schedules with an owner, a name or a tag, and one that is gone."""

    def waiting_with(self, facets: Facets) -> Sequence[tuple[int | None, str]] | None:
        found = [one for one in self._all.values() if set(facets.tags) <= set(one.tags)]
        return [(5, "gone"), *((one.next_ms, one.id) for one in reversed(found))]


SCHEDULES = (
    _schedule("b", due_ms=20), _schedule("a", due_ms=20), _schedule("z", due_ms=10, func="app.other", tags=("t",)),
    _schedule("r", due_ms=15, kind="cron", queue="sms"), _schedule("p2", PAUSED, 5),
    _schedule("p1", PAUSED, 50, "every"),
    _schedule("q", QUARANTINED, 1), _schedule("e", ENDED, None, "rrule", priority=None),
)  # fmt: skip
SOURCE = _Memory(*SCHEDULES)
ORDER = ["z", "r", "a", "b", "p1", "p2", "q", "e"]


def _filter(**options: Any) -> Filter:
    return Filter.of(**({"state": None, "kind": None, "limit": None, "after": None} | options))


def _listed(**options: Any) -> list[str]:
    return [schedule.id for schedule in select(_filter(**options), SOURCE)]


def test_active_schedules_are_listed_by_due_time_and_the_others_by_id() -> None:
    assert ORDER == _listed()


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"state": "active"}, ["z", "r", "a", "b"]),
        ({"state": ScheduleState.PAUSED}, ["p1", "p2"]),
        ({"state": "quarantined"}, ["q"]),
        ({"state": "ended"}, ["e"]),
        ({"kind": "once"}, ["z", "a", "b", "p2", "q"]),
        ({"kind": "cron"}, ["r"]),
        ({"kind": "recurring"}, ["r", "p1", "e"]),
        ({"func": "app.other"}, ["z"]),
        ({"queue": "sms"}, ["r"]),
        ({"tag": "t"}, ["z"]),
        ({"match": "p*"}, ["p1", "p2"]),
        ({"match": "[ab]"}, ["a", "b"]),
        ({"match": "A"}, []),
        ({"match": "[!ab]", "state": "active"}, ["z", "r"]),
        ({"match": "?", "queue": "sms"}, ["r"]),
        ({"match": "p*", "limit": 1}, ["p1"]),
        ({"due_after": from_ms(15)}, ["a", "b", "p1"]),
        ({"due_before": from_ms(15)}, ["z", "p2", "q"]),
        ({"due_after": from_ms(10), "due_before": from_ms(20)}, ["r"]),
        ({"limit": 3}, ["z", "r", "a"]),
        ({"limit": 0}, []),
        ({"limit": 10**15, "state": "paused"}, ["p1", "p2"]),
        ({"limit": 1, "state": "paused"}, ["p1"]),
    ],
)
def test_a_listing_has_only_schedules_that_match_its_filters(options: dict[str, Any], ids: list[str]) -> None:
    assert ids == _listed(**options)


def test_a_schedule_whose_id_does_not_match_is_not_read() -> None:
    source = _Memory(*SCHEDULES)

    assert ["a", "q"] == [schedule.id for schedule in select(_filter(match="[aq]*"), source)]
    assert {"a", "q"} == set(source.read)


def test_a_listing_of_recurring_schedules_reads_no_one_shot() -> None:
    rules = [_schedule(id, due_ms=due_ms, kind="every") for id, due_ms in (("x", 30), ("y", 10), ("w", 30))]
    source = _Memory(*SCHEDULES, *rules)

    assert ["y", "w", "x"] == [one.id for one in select(_filter(kind="every", state="active"), source)]
    assert ["x"] == [one.id for one in select(_filter(kind="every", state="active", after="active:30:w"), source)]
    assert {"a", "b", "z"}.isdisjoint(source.read)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_pages_of_a_listing_add_up_to_all_schedules(limit: int) -> None:
    seen: list[str] = []
    after = None
    while page := list(select(_filter(limit=limit, after=after), SOURCE)):
        assert len(page) <= limit
        seen += [schedule.id for schedule in page]
        after = page[-1].cursor

    assert ORDER == seen


@pytest.mark.parametrize("after", [None, "active:10:z", "active:20:a", "paused:50:p1"])
@pytest.mark.parametrize(
    "filters",
    [{}, {"kind": "every"}, {"state": "paused"}, {"match": "[abp]*"}, {"due_after": from_ms(15)}, {"limit": 2}],
)
def test_a_listing_by_tag_is_the_same_if_an_archive_knows_what_has_it(
    filters: dict[str, Any], after: str | None
) -> None:
    tagged = [replace(one, tags=("t",)) for one in SCHEDULES if one.id != "r"]
    others = [_schedule(f"o{number}", due_ms=number) for number in range(9)]
    all, known = _Memory(*SCHEDULES[3:4], *tagged, *others), _Archived(*SCHEDULES[3:4], *tagged, *others)
    wanted = _filter(tag="t", after=after, **filters)

    assert list(select(wanted, all)) == list(select(wanted, known))
    assert not {one.id for one in others} & set(known.read)


def test_a_cursor_of_a_removed_schedule_still_marks_a_place() -> None:
    assert ["a", "b", "p1", "p2", "q", "e"] == _listed(after="active:16:gone")
    assert ["p2", "q", "e"] == _listed(after="paused:0:p1x")


def test_a_cursor_is_parsed_as_it_was_written() -> None:
    for id in ORDER:
        schedule = next(SOURCE.schedules([id]))
        assert Cursor(schedule.state, schedule.next_ms or 0, id) == Cursor.parse(schedule.cursor)


BAD = [("after", text) for text in ("", "active", "active:5", "active:5:", "active:x:a", "gone:5:a", "active:-5:a", 5)]
BAD += [("after", f"active:{'9' * 5000}:a"), ("kind", "daily"), ("state", "running"), ("match", 5), ("func", print)]
BAD += [("limit", number) for number in (-1, 10**15 + 1, True, "5")] + [("queue", b"q"), ("tag", ["t"])]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_cursor_or_filter_is_an_error(field: str, value: Any) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{field}="):
        _filter(**{field: value})


@pytest.mark.parametrize(
    ("items", "pages"), [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3], [[1, 2], [3]])], ids=str
)
def test_pages_hold_all_items_in_order(items: list[int], pages: list[list[int]]) -> None:
    assert pages == list(pages_of(items, 2))


def test_pages_grow_from_a_short_first_page_and_are_read_one_at_a_time() -> None:
    assert [[0], [1, 2], [3, 4, 5], [6]] == list(pages_of(range(7), 3, first=1))
    assert [[0, 1], [2]] == list(pages_of(range(3), 2, first=5))
    assert [[0]] == list(pages_of(range(1), 2, first=0))
    endless = count()
    assert ([0, 1, 2], 3) == (next(pages_of(endless, 3)), next(endless))
