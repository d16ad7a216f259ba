"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.durations import duration_text, parse_duration, relative_text, rough_duration


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


@pytest.mark.parametrize("text", ["", "x", "5 m", "m", "1h-5m", "5M", "1e3", "٣s", "1h x", "999999999999999999w"])
def test_an_invalid_duration_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="give "):
        parse_duration(text)


@given(st.integers(0, 10**15))
def test_a_written_duration_is_read_back(ms: int) -> None:
    assert timedelta(milliseconds=ms) == parse_duration(duration_text(ms))


@pytest.mark.parametrize(("ms", "expected"), [(0, "0s"), (1, "1ms"), (5_400_000, "1h30m"), (14 * 86_400_000, "14d")])
def test_the_largest_units_are_written(ms: int, expected: str) -> None:
    assert expected == duration_text(ms)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0.44, "0.4 ms"),
        (999.9, "999.9 ms"),
        (999.96, "1.0 s"),
        (999, "999 ms"),
        (3200, "3.2 s"),
        (59_960, "1 min"),
        (60_000, "1 min"),
        (725_000, "12 min 5 s"),
        (7_380_000, "2 h 3 min"),
        (349_200_000, "4 d 1 h"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(ms: float, expected: str) -> None:
    assert expected == rough_duration(ms)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (999, "now"),
        (1500, "in 1s"),
        (-12_999, "12s ago"),
        (3_600_000, "in 1h"),
        (3_659_999, "in 1h"),
        (273_600_000, "in 3d 4h"),
        (-86_400_000, "1d ago"),
    ],
)
def test_a_distance_is_shown_in_its_two_largest_units(ms: int, expected: str) -> None:
    assert expected == relative_text(1_780_000_000_000 + ms, 1_780_000_000_000)
