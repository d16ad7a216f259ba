"""The scores of RQ's registries and rq-scheduler's set, and the times of moved one-shots."""

from __future__ import annotations

import pytest

from zsched.core.clock import from_ms, to_ms
from zsched.imports.rqjobs import not_before, score_of

SECOND_MS = 1_800_000_000_000


def test_a_score_of_a_whole_second_is_due_at_its_end() -> None:
    assert from_ms(SECOND_MS + 1000) == not_before(SECOND_MS / 1000)


def test_a_score_of_a_millisecond_is_read_back_unchanged() -> None:
    times_ms = range(SECOND_MS, SECOND_MS + 2001)

    assert list(times_ms) == [to_ms(not_before(score_of(at_ms))) for at_ms in times_ms]


def test_a_score_of_a_millisecond_lies_within_the_millisecond_before() -> None:
    assert all(
        (SECOND_MS + ms) / 1000 - 0.001 < score_of(SECOND_MS + ms) < (SECOND_MS + ms) / 1000 for ms in range(1000)
    )


@pytest.mark.parametrize("score_s", [float("inf"), float("-inf"), float("nan"), 1e300, 1.8e12])
def test_an_invalid_score_is_refused_with_a_remedy(score_s: float) -> None:
    with pytest.raises(ValueError, match="ZADD"):
        not_before(score_s)
