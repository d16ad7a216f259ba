"""Lateness counts from the later of due time and put, resume or move: in status, metrics, history and stories alike."""

from pathlib import Path

import pytest

from tests.builders import entries
from tests.builders.entries import T_US, entry, row_fields
from tests.unit.archive.contents import archived
from zsched.archive import History
from zsched.archive.search import Search
from zsched.core.entry import Entry
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import LogCounter
from zsched.metrics.meter import LogTally, Names

HOUR_MS = 3_600_000
T_MS = T_US // 1000
DUE_MS = T_MS - 20 * HOUR_MS


def put(at_ms: int, *ids: str, due_ms: int = DUE_MS, **lists: str) -> Entry:
    return entries.put(at_ms - DUE_MS, *ids, due_ms=due_ms, t_us=at_ms * 1000, **lists)


def fire(at_ms: int, *runs: str, **lists: str) -> Entry:
    return entries.fire(at_ms - DUE_MS, *runs, t_us=at_ms * 1000, **lists)


def rows(kind: str, at_ms: int, *lines: str) -> Entry:
    before = {"of": "tzdata", "old": "2025b", "new": "2026a"} if kind == "replan" else {}
    return entry(at_ms - DUE_MS, kind, *row_fields(kind, *lines), t_us=at_ms * 1000, **before)


RUN = f"a-{DUE_MS}"
MOVED = put(T_MS - 600, "a", due_ms=DUE_MS - 7, replaced="a", past="a")
NEW_RULES = rows("replan", T_MS - 60, f"a {T_MS + HOUR_MS} {DUE_MS} {DUE_MS} -")
PUT_LATE = put(T_MS - 900, "a", "b", past="a b")
CASES: dict[str, tuple[list[Entry], list[float]]] = {
    "put late": ([PUT_LATE, fire(T_MS - 895, RUN, f"b-{DUE_MS}")], [5, 5]),
    "put late with a namespace": ([PUT_LATE, fire(T_MS - 895, f"{RUN}-nshop")], [5]),
    "put in time": ([put(DUE_MS - 9, "a"), fire(T_MS, RUN)], [20 * HOUR_MS]),
    "put again when it was overdue": ([PUT_LATE, put(T_MS - 600, "a", replaced="a"), fire(T_MS - 500, RUN)], [400]),
    "moved to another past time": ([PUT_LATE, MOVED, fire(T_MS - 500, f"a-{DUE_MS - 7}")], [100]),
    "put late twice": ([PUT_LATE, fire(T_MS - 895, RUN), put(T_MS - 90, "a", past="a"), fire(T_MS - 89, RUN)], [5, 1]),
    "resumed late": ([rows("resume", T_MS - 60, f"a normal {DUE_MS}"), fire(T_MS - 57, RUN)], [3]),
    "resumed in time": ([rows("resume", DUE_MS - 60, f"a normal {DUE_MS}"), fire(T_MS, RUN)], [20 * HOUR_MS]),
    "moved by new rules": ([NEW_RULES, rows("advance", T_MS, f"a fired {DUE_MS} - - -")], [60]),
    "a rule that catches up after a resume": (
        [
            rows("resume", T_MS - 2000, f"a normal {DUE_MS}"),
            rows("advance", T_MS - 1990, f"a fired {DUE_MS} {T_MS} {T_MS} -"),
            rows("advance", T_MS - 1000, f"a fired {T_MS - 1500} {T_MS} {T_MS} -"),
        ],
        [10, 500],
    ),
    "catches up after an outage": (
        [put(DUE_MS - 9, "a"), rows("advance", T_MS, f"a fired {DUE_MS} {T_MS} {T_MS} -")], [20 * HOUR_MS],
    ),
    "expires": ([PUT_LATE, fire(T_MS, expired=RUN)], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_lateness_counts_from_the_time_since_when_a_schedule_could_fire(name: str, tmp_path: Path) -> None:
    past, lates_ms = CASES[name]
    namespace, suffix = ("shop", "-nshop") if "namespace" in name else ("default", "")
    tally, counter = LogTally(suffix, Names()), LogCounter(suffix, windows_ms=(30 * HOUR_MS,))
    tally.began(1)

    tally.archived(past)
    for each in reversed(past):
        assert counter.add(each, T_MS)

    counter.is_all = True
    [stretch] = counter.summary(T_MS).stretches
    assert sum(lates_ms) / 1000 == pytest.approx(tally.lateness_s.total)
    assert (max(lates_ms, default=None), len(lates_ms)) == (stretch.late_ms, tally.lateness_s.buckets()[-1][1])
    with History(archived(tmp_path / "a.zarchive", past, namespace=namespace)) as history:
        found = Search(history, Wanted(frozenset([What.FIRED]), frozenset(), 9)).next_part().occurrences
        told = [one for id in {one.id for one in found} for one in history.of_schedule(id, 9)[0]]
    assert sorted(lates_ms) == sorted(one.late_ms for one in found)
    assert sorted(lates_ms) == sorted(one.late_ms for one in told if one.what is What.FIRED)


def test_a_put_by_a_client_in_another_term_counts_for_the_fire_of_this_one() -> None:
    tally = LogTally("", Names())
    tally.began(2)

    tally.archived(
        [PUT_LATE, fire(T_MS - 895, RUN)._replace(position=fire(T_MS - 895, RUN).position._replace(epoch=2))]
    )

    assert 0.005 == pytest.approx(tally.lateness_s.total)


def test_only_the_last_schedules_that_were_put_late_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.core.occurrences.lateness._WAITING", 2)
    tally = LogTally("", Names())
    tally.began(1)

    puts = [put(T_MS - 902 + n, id, past=id) for n, id in enumerate("abc")]
    tally.archived([*puts, fire(T_MS - 895, *(f"{id}-{DUE_MS}" for id in "bc"))])

    assert 0.011 == pytest.approx(tally.lateness_s.total)
