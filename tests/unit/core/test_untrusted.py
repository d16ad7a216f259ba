"""Texts of other programs, as they may stand in an entry or an event."""

from __future__ import annotations

import pytest

from zsched.core.untrusted import LONGEST_NAME, in_a_line, truncated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worker-1", "worker-1"),
        ("", ""),
        (" two  words ", "two words"),
        ("two\nlines\tand\x00more\x1b[0m", "two lines and more [0m"),
        ("é\u2028ü", "é ü"),
        ("x" * LONGEST_NAME, "x" * LONGEST_NAME),
        ("x" * (LONGEST_NAME + 1), "x" * LONGEST_NAME),
    ],
)
def test_a_name_is_shown_in_one_line_and_cut(text: str, expected: str) -> None:
    assert expected == in_a_line(text)


def test_a_name_is_cut_where_it_is_asked_for() -> None:
    assert "abc" == in_a_line("abcdef", 3)


@pytest.mark.parametrize(
    ("length", "expected"), [(0, ""), (2000, "x" * 2000), (2001, "x" * 2000 + "… (2,001 characters)")]
)
def test_a_long_text_says_how_long_it_was(length: int, expected: str) -> None:
    assert expected == truncated("x" * length)
