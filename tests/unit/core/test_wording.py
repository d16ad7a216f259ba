"""Texts for people: durations, numbers of things, lists, names in a line. Instants and clocks."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.clock import LAST_MS, ManualClock, SystemClock, from_ms, to_ms
from zsched.core.wording import (
    LONGEST_NAME,
    duration_text,
    in_a_line,
    parse_duration,
    plural,
    relative_text,
    rough_duration,
    some,
    truncated,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", timedelta(seconds=90)),
        ("0.5", timedelta(milliseconds=500)),
        ("-1", timedelta(seconds=-1)),
        ("500ms", timedelta(milliseconds=500)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1.5h", timedelta(minutes=90)),
        ("2w1d", timedelta(days=15)),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "x", "5 m", "m", "1h-5m", "5M", "1e3", "٣s", "1h x", "999999999999999999w", "1h" * 200]
)
def test_an_invalid_duration_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="give "):
        parse_duration(text)


@given(st.integers(0, 10**15))
def test_a_written_duration_is_read_back(ms: int) -> None:
    assert timedelta(milliseconds=ms) == parse_duration(duration_text(ms))


def distance(ms: int) -> str:
    return relative_text(1_780_000_000_000 + ms, 1_780_000_000_000)


SHOWN: dict[Callable[..., str], list[tuple[Any, ...]]] = {  # arguments, and the text
    duration_text: [(0, "0s"), (1, "1ms"), (5_400_000, "1h30m"), (14 * 86_400_000, "14d")],
    rough_duration: [  # in the two largest units
        *((0.44, "0.4 ms"), (999.9, "999.9 ms"), (999.96, "1.0 s"), (999, "999 ms"), (3200, "3.2 s")),
        *((59_960, "1 min"), (60_000, "1 min"), (725_000, "12 min 5 s"), (7_380_000, "2 h 3 min")),
        (349_200_000, "4 d 1 h"),
    ],
    distance: [
        *((999, "now"), (1500, "in 1s"), (-12_999, "12s ago"), (3_600_000, "in 1h"), (3_659_999, "in 1h")),
        *((273_600_000, "in 3d 4h"), (-86_400_000, "1d ago")),
    ],
    plural: [(0, "run", "0 runs"), (1, "run", "1 run"), (2000, "run", "2,000 runs")],
    some: [(["a", "b"], 1, "a, …"), (["a", "b"], 2, "a, b"), (["a", "b"], 3, "a, b")],
    in_a_line: [
        *(("worker-1", "worker-1"), ("", ""), (" two  words ", "two words"), ("é\u2028ü", "é ü"), ("abcdef", 3, "abc")),
        ("two\nlines\tand\x00more\x1b[0m", "two lines and more [0m"),
        *(("x" * length, "x" * LONGEST_NAME) for length in (LONGEST_NAME, LONGEST_NAME + 1)),
    ],
    truncated: [("", ""), ("x" * 2000, "x" * 2000), ("x" * 2001, "x" * 2000 + "… (2,001 characters)")],
}


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [(function, row[:-1], row[-1]) for function, rows in SHOWN.items() for row in rows],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_value_is_shown_for_people(function: Callable[..., str], given: tuple[Any, ...], expected: str) -> None:
    assert expected == function(*given)


_ZONES = st.timezones() | st.none().map(lambda _: UTC)
_MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=_ZONES)


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
