"""Results of calls, as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from zsched.core.choices import ScheduleState
from zsched.core.clock import LAST_MS
from zsched.core.model import Many, Schedule, Scheduled
from zsched.errors import InvalidSchedule

DUE_MS = 1_767_225_600_123  # 2026-01-01T00:00:00.123Z
DUE = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


def schedule(**more: Any) -> Schedule:
    return Schedule("a", ScheduleState.ACTIVE, "once", "app.run", queue="mail", **{"next_ms": None, **more})


@pytest.mark.parametrize(
    ("next_ms", "next_at", "cursor"), [(None, None, "active:0:a"), (DUE_MS, DUE, f"active:{DUE_MS}:a")]
)
def test_a_schedule_has_the_time_when_it_is_due_next(
    next_ms: int | None, next_at: datetime | None, cursor: str
) -> None:
    found = schedule(next_ms=next_ms)

    assert (next_at, cursor) == (found.next_at, found.cursor)


@pytest.mark.parametrize(("next_at", "told"), [(None, None), (DUE, "2026-01-01T00:00:00.123Z")])
def test_the_answer_to_a_put_is_json(next_at: datetime | None, told: str | None) -> None:
    answer = Scheduled("a", "created", next_at, f"a-{DUE_MS}")

    assert {
        "id": "a",
        "outcome": "created",
        "next_at": told,
        "run_id": f"a-{DUE_MS}",
        "version": None,
    } == answer.to_dict()


def test_the_answer_to_many_puts_is_json_and_names_each_error() -> None:
    error = InvalidSchedule("at", LAST_MS + 1, "too late", "give an earlier one")
    answer = Many(
        ids=["a", None], outcomes=["created", None], created=1, updated=2, unchanged=3, kept=4, already_fired=5, done=11
    )
    answer.errors.append((7, error))

    assert {
        "ids": ["a", None], "outcomes": ["created", None], "created": 1, "updated": 2, "unchanged": 3, "kept": 4,
        "already_fired": 5, "done": 11,
        "errors": [{"index": 7, "error": str(error), "type": "InvalidSchedule"}],
    } == answer.to_dict()  # fmt: skip


def test_the_answer_to_many_puts_is_printed_as_counts_without_its_ids() -> None:
    plain = Many(ids=["a"] * 20_000, created=20_000, done=20_000)
    mixed = Many(created=1, kept=2, already_fired=3, errors=[(6, ValueError())], done=7)

    assert "Many(created=20000, updated=0, unchanged=0, errors=0)" == repr(plain)
    assert "Many(created=1, updated=0, unchanged=0, kept=2, already_fired=3, errors=1)" == repr(mixed)


def test_an_answer_to_zero_puts_has_only_zero_counts() -> None:
    counts = {name: value for name, value in Many().to_dict().items() if isinstance(value, int)}

    assert {0} == set(counts.values())
