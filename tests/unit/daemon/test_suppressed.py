"""Suppressed occurrences: the time for which they are alarms, and the part of the history that is read. No archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.core.changes import Change, What
from zsched.daemon import suppressed
from zsched.daemon.suppressed import SuppressedRuns

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
PATH = Path("archive.db")


class _History:
    """Rows 1, 2, … of which each is suppressed; the rows of the last hour begin at row 3."""

    last_n = 4
    asked: list[tuple[str, int]]

    def __init__(self, path: Path) -> None:
        assert path == PATH

    def __enter__(self) -> _History:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def before(self, t_us: int) -> int:
        self.asked.append(("before", t_us))
        return 2

    def look(self, after_n: int) -> tuple[list[Change], int]:
        self.asked.append(("look", after_n))
        rows = range(after_n + 1, self.last_n + 1)
        return [Change(f"s{n}", What.DUPLICATE, n, f"1-{n}", run_id=f"s{n}-5") for n in rows], self.last_n


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> type[_History]:
    history = type("History", (_History,), {"asked": []})
    monkeypatch.setattr(suppressed, "History", history)
    monkeypatch.setattr(suppressed, "Suppressed", lambda opened: opened)
    return history


def test_suppressed_runs_of_the_last_hour_come_before_new_runs(history: type[_History]) -> None:
    runs = SuppressedRuns()

    first, others = runs.look(PATH, NOW_MS)
    history.last_n = 5
    second, still = runs.look(PATH, NOW_MS + 1)

    assert (["s3", "s4"], 0) == ([alarm.id for alarm in first], others)
    assert (["s5"], 2) == ([alarm.id for alarm in second], still)
    assert [("before", (NOW_MS - HOUR_MS) * 1000), ("look", 2), ("look", 4)] == history.asked


def test_a_suppressed_run_counts_as_an_alarm_for_an_hour(history: type[_History]) -> None:
    runs = SuppressedRuns()
    runs.look(PATH, NOW_MS)
    history.last_n = 5
    runs.look(PATH, NOW_MS + HOUR_MS // 2)

    later = [runs.look(PATH, NOW_MS + HOUR_MS + ms)[1] for ms in (0, 1, HOUR_MS // 2, HOUR_MS // 2 + 1)]

    assert [3, 1, 1, 0] == later


def test_suppressed_runs_of_the_last_hour_are_read_again_from_a_new_archive(history: type[_History]) -> None:
    runs = SuppressedRuns()
    history.last_n = 7
    runs.look(PATH, NOW_MS)
    history.last_n = 3

    told, _ = runs.look(PATH, NOW_MS)

    assert ["s3"] == [alarm.id for alarm in told]
