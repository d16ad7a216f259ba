"""Ends of runs: their search and their record. Suppressed occurrences, and the history in one answer. No Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.prefix import RQ
from zsched.core.entry import Entry, Position
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import EXPIRED, FAILURES, GONE, Run, RunStatus, facts_text
from zsched.daemon import auditor
from zsched.daemon.auditor import SuppressedRuns
from zsched.daemon.tracker import Endings
from zsched.storage import answering
from zsched.storage.dispatch import end_row

NOW_S = 1_800_000_000
KEY = f"{RQ}:finished:mail"


@dataclass
class _Registries:
    """Registries with given lifetimes, which remember the requested spans."""

    shown: list[int] = field(default_factory=list)
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    learnt: int = 0  # how often lifetimes were asked for

    def now_s(self) -> int:
        return NOW_S

    def keys(self) -> dict[str, str]:
        return {KEY: "finished"}

    def lifetimes(self, keys: Sequence[str]) -> dict[str, list[int]]:
        self.learnt += 1
        return {KEY: self.shown}

    def members(self, spans: Sequence[tuple[str, int, int]]) -> list[list[bytes]]:
        self.asked = list(spans)
        return [[b"a-1"] for _ in spans]

    @property
    def lifetimes_s(self) -> list[int]:
        """Return the lifetimes of the last look, which ends a minute after now."""
        return [until_s - NOW_S - 60 for _, _, until_s in self.asked]


def _look(registries: _Registries, endings: Endings | None = None) -> list[str]:
    return (endings or Endings()).scan(registries)  # type: ignore[arg-type]  # the fake


def test_ends_are_searched_with_the_newest_16_lifetimes_that_differ_by_more_than_clock_errors() -> None:
    for learnt, asked in (
        ([86_400, 3600], [3600, 86_400]),
        ([3600, 3599, 3604], [3600]),
        ([3600, 3598, 3605], [3598, 3600, 3605]),
        ([1000 * number for number in range(1, 41)], [1000 * number for number in range(26, 41)]),
    ):
        registries = _Registries(learnt)
        assert ["a-1"] == _look(registries)
        assert [500, *asked] == registries.lifetimes_s


def test_an_end_is_returned_once_and_a_scan_begins_half_a_minute_ago_or_where_the_last_ended() -> None:
    registries, endings = _Registries(), Endings()

    for found, back_s in ((["a-1"], 30), ([], 0)):
        assert found == _look(registries, endings)
        assert [NOW_S - back_s - 2 + 500] == [since_s for _, since_s, _ in registries.asked]


def test_lifetimes_are_read_at_the_first_look_and_at_every_twentieth_after_that() -> None:
    registries, endings = _Registries(), Endings()

    learnt = [(_look(registries, endings), registries.learnt)[1] for _ in range(41)]

    assert [1] * 20 + [2] * 20 + [3] == learnt


NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
PATH = Path("archive.db")


class _History:
    """Rows 1, 2, … of which each is suppressed; the rows of the last hour begin at row 3."""

    last_n = 4
    asked: list[tuple[int, int | None]]

    def __init__(self, path: Path) -> None:
        assert path == PATH

    def __enter__(self) -> _History:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def find(self, since_us: int, behind_n: int | None) -> tuple[list[Change], int]:
        self.asked.append((since_us, behind_n))
        rows = range((2 if behind_n is None or behind_n > self.last_n else behind_n) + 1, self.last_n + 1)
        return [Change(f"s{n}", What.DUPLICATE, n, f"1-{n}", run_id=f"s{n}-5") for n in rows], self.last_n


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> type[_History]:
    history = type("History", (_History,), {"asked": []})
    monkeypatch.setattr(auditor, "History", history)
    monkeypatch.setattr(auditor, "find_suppressed", history.find)
    return history


def test_suppressed_runs_of_the_last_hour_come_before_new_runs(history: type[_History]) -> None:
    runs = SuppressedRuns()

    first, others = runs.read_new(PATH, NOW_MS)
    history.last_n = 5
    second, still = runs.read_new(PATH, NOW_MS + 1)

    assert (["s3", "s4"], 0) == ([alarm.id for alarm in first], others)
    assert (["s5"], 2) == ([alarm.id for alarm in second], still)
    since_us = (NOW_MS - HOUR_MS) * 1000
    assert [(since_us, None), (since_us + 1000, 4)] == history.asked


def test_a_suppressed_run_counts_as_an_alarm_for_an_hour(history: type[_History]) -> None:
    runs = SuppressedRuns()
    runs.read_new(PATH, NOW_MS)
    history.last_n = 5
    runs.read_new(PATH, NOW_MS + HOUR_MS // 2)

    later = [runs.read_new(PATH, NOW_MS + HOUR_MS + ms)[1] for ms in (0, 1, HOUR_MS // 2, HOUR_MS // 2 + 1)]

    assert [3, 1, 1, 0] == later


def test_suppressed_runs_of_the_last_hour_are_read_again_from_a_new_archive(history: type[_History]) -> None:
    runs = SuppressedRuns()
    history.last_n = 7
    runs.read_new(PATH, NOW_MS)
    history.last_n = 3

    told, _ = runs.read_new(PATH, NOW_MS)

    assert ["s3"] == [alarm.id for alarm in told]


@pytest.mark.parametrize(("sizes", "held"), [([4, 4, 4], 2), ([4, 6, 1], 2), ([20, 1], 1), ([4, 20], 1)])
def test_an_answer_holds_the_entries_that_its_bound_allows_and_the_first_always(
    sizes: list[int], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_ENTRY_BYTES", 10)
    entries = [Entry(Position(1, seq, 5), "", (b"x" * size,)) for seq, size in enumerate(sizes, 1)]

    assert entries[:held] == list(answering._within_bounds(entries))


@pytest.mark.parametrize(
    ("status", "error", "counts"),
    [
        (RunStatus.SUCCEEDED, "", "+"),
        (RunStatus.FAILED, "ValueError: no", "!"),
        (RunStatus.LOST, "AbandonedJobError", "!"),
        (RunStatus.LOST, GONE, "-"),  # nobody knows how it ended
        (RunStatus.EXPIRED, EXPIRED, "-"),
        (RunStatus.CANCELLED, "", "-"),
    ],
)
def test_a_run_counts_in_its_streak_by_its_status(status: RunStatus, error: str, counts: str) -> None:
    run = Run("poll-1700000000000", status, error=error)

    assert ("poll", run.id, "seen", counts, run.status.value, facts_text(run)) == end_row(run, "seen")


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.LOST])
@pytest.mark.parametrize("was", RunStatus)
def test_a_requeued_run_that_fails_again_counts_once_in_its_streak(was: RunStatus, status: RunStatus) -> None:
    run = Run("poll-1700000000000", status, was=was)

    assert ("-" if was in FAILURES else "!") == end_row(run, "seen")[3]
    assert "+" == end_row(run._replace(status=RunStatus.SUCCEEDED), "seen")[3]
