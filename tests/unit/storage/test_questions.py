"""The form of questions to archives, and of their answers, in Redis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.storage.questions import packed, unpacked


def test_regular_times_are_packed_into_few_numbers() -> None:
    given = [*range(0, 100_000_000, 1000), *range(200_000_000, 200_005_000, 5), 300_000_000]

    assert [(0, 1000, 100_000), (200_000_000, 5, 1000), (300_000_000, 0, 1)] == packed(given)


@given(st.sets(st.integers(0, 200)))
def test_packed_times_are_unpacked_unchanged(given: set[int]) -> None:
    assert sorted(given) == unpacked(packed(sorted(given)), 201)


def test_a_packed_step_with_a_count_of_zero_is_dropped() -> None:
    assert [7] == unpacked([[0, 1, 0], [7, 0, 1]], 1)


@pytest.mark.parametrize("bad", [[[0, 1, 11]], [[0, 1, 5], [50, 1, 6]], [[0, 1, -1]], [[0, 1]], [["x", 1, 1]], [5]])
def test_an_invalid_or_too_long_packed_answer_is_refused(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        unpacked(bad, 10)
