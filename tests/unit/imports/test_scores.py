"""The scores of RQ's registries and rq-scheduler's set, and the times that one-shots are moved with."""

from __future__ import annotations

import pytest

from zsched.core.clock import from_ms, to_ms
from zsched.imports.rqjobs import not_before, score_of

SECOND_MS = 1_800_000_000_000


def test_a_whole_second_may_have_been_cut_so_its_end_is_never_early() -> None:
    assert from_ms(SECOND_MS + 1000) == not_before(SECOND_MS / 1000)


def test_a_score_of_a_millisecond_gives_that_millisecond_back() -> None:
    times_ms = range(SECOND_MS, SECOND_MS + 2001)

    assert list(times_ms) == [to_ms(not_before(score_of(at_ms))) for at_ms in times_ms]


def test_a_score_of_a_millisecond_has_not_come_for_rqs_scheduler_before_it() -> None:
    assert all(
        (SECOND_MS + ms) / 1000 - 0.001 < score_of(SECOND_MS + ms) < (SECOND_MS + ms) / 1000 for ms in range(1000)
    )


@pytest.mark.parametrize("score_s", [float("inf"), float("-inf"), float("nan"), 1e300, 1.8e12])
def test_a_score_that_is_no_time_is_refused_with_a_remedy(score_s: float) -> None:
    with pytest.raises(ValueError, match="ZADD"):
        not_before(score_s)
