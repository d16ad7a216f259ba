"""Instants and milliseconds, and the clock of tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.clock import LAST_MS, ManualClock, SystemClock, from_ms, to_ms

_MOMENTS = st.datetimes(
    datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.timezones() | st.none().map(lambda _: UTC)
)


@pytest.mark.parametrize(
    ("instant", "ms"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1),
        (datetime(1970, 1, 1, 0, 0, 0, 999, tzinfo=UTC), 1),
        (datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC), 1),
        (datetime(1970, 1, 1, 0, 0, 0, 1001, tzinfo=UTC), 2),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), -1),
        (datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), 2**31 * 1000),
        (datetime(2026, 1, 1, 5, 45, tzinfo=timezone(timedelta(hours=5, minutes=45))), 1_767_225_600_000),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), LAST_MS),
    ],
)
def test_an_instant_is_rounded_up(instant: datetime, ms: int) -> None:
    assert ms == to_ms(instant)


@given(_MOMENTS)
def test_a_rounded_instant_is_less_than_one_millisecond_late_and_never_early(instant: datetime) -> None:
    late = from_ms(to_ms(instant)) - instant.astimezone(UTC)

    assert timedelta(0) <= late < timedelta(milliseconds=1)


@given(st.integers(0, LAST_MS))
def test_milliseconds_survive_conversion_to_a_datetime_and_back(ms: int) -> None:
    assert ms == to_ms(from_ms(ms))


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match="naive"):
        to_ms(datetime(2026, 1, 1))


def test_a_manual_clock_moves_only_by_advance_and_jump_and_adds_up_fractions() -> None:
    clock = ManualClock(wall_ms=1000)

    clock.advance(2.5)
    assert (1002, 2.5) == (clock.now_ms(), clock.monotonic_ms())
    clock.jump(-500)
    assert (502, 2.5) == (clock.now_ms(), clock.monotonic_ms())
    for _ in range(10):
        clock.advance(0.25)
    assert (505, 5.0) == (clock.now_ms(), clock.monotonic_ms())


def test_the_systems_clock_is_the_machines_wall_clock_and_its_monotonic_one() -> None:
    clock = SystemClock()

    wall_ms = [time.time_ns() // 1_000_000, clock.now_ms(), time.time_ns() // 1_000_000]
    monotonic_ms = [time.monotonic_ns() / 1_000_000, clock.monotonic_ms(), time.monotonic_ns() / 1_000_000]

    assert [sorted(wall_ms), sorted(monotonic_ms)] == [wall_ms, monotonic_ms]
