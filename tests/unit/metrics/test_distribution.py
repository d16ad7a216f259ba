from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from zsched.metrics.meter import Distribution

BOUNDS = (0.1, 1, 10)


def test_a_value_is_in_the_first_bucket_that_it_does_not_exceed() -> None:
    distribution = Distribution(BOUNDS)

    for value in (0.05, 0.1, 0.11, 10, 11):
        distribution.note(value)

    assert [("0.1", 2), ("1.0", 3), ("10.0", 4), ("+Inf", 5)] == distribution.buckets()
    assert 21.26 == pytest.approx(distribution.total)


@given(some.lists(some.one_of(some.floats(-1, 20), some.sampled_from(BOUNDS))))
def test_many_values_at_once_count_like_single_values(values: list[float]) -> None:
    one_by_one, at_once = Distribution(BOUNDS), Distribution(BOUNDS)

    for value in values:
        one_by_one.note(value)
    at_once.note_all(list(values))

    assert one_by_one.buckets() == at_once.buckets()
    assert one_by_one.total == pytest.approx(at_once.total)
