"""Exact equality: values that a task would tell apart, though Python's == does not."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest

from zsched.core.exact import is_same

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
CET = timezone(timedelta(hours=1))


class _Moody:
    """A value whose comparison raises, or has no truth, as an array of numpy."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.5, 1.5),
        (float("nan"), float("nan")),
        ("a", "a"),
        ([1, (2, {"a": None})], [1, (2, {"a": None})]),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (NOON, NOON.replace()),
        (time(12, fold=1), time(12, fold=1)),
    ],
)
def test_values_of_one_type_and_content_are_the_same(one: Any, other: Any) -> None:
    assert is_same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (1.5, 2.5),
        ("a", b"a"),
        ([1], (1,)),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ((1, 2), (1, 3)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]}),
        (NOON, NOON.astimezone(CET)),
        (NOON, NOON.replace(fold=1)),
        (NOON, NOON + timedelta(microseconds=1)),
        (time(12), time(12, fold=1)),
        (_Moody(), _Moody()),
    ],
)
def test_values_that_a_task_would_tell_apart_are_not_the_same(one: Any, other: Any) -> None:
    assert not is_same(one, other)
    assert not is_same([one], [other])
