"""The log's record of an ended run, and its count in the streak of failures of its schedule."""

from __future__ import annotations

import pytest

from zsched.core.runs import EXPIRED, GONE, Run, RunStatus, facts_text
from zsched.storage.dispatch import Over


@pytest.mark.parametrize(
    ("status", "error", "counts"),
    [
        (RunStatus.SUCCEEDED, "", "+"),
        (RunStatus.FAILED, "ValueError: no", "!"),
        (RunStatus.LOST, "AbandonedJobError", "!"),
        (RunStatus.LOST, GONE, "-"),  # nobody knows how it ended
        (RunStatus.EXPIRED, EXPIRED, "-"),
        (RunStatus.CANCELLED, "", "-"),
    ],
)
def test_a_run_counts_in_its_streak_by_its_status(status: RunStatus, error: str, counts: str) -> None:
    run = Run("poll-1700000000000", status, error=error)

    assert Over("poll", run.id, "seen", counts, run.status.value, facts_text(run)) == Over.of(run, "seen")
