"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.wording import duration_text, parse_duration


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
