"""What the log is told of a run that is over, and how it counts in its schedule's row of failures."""

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
def test_a_run_counts_by_how_it_ended(status: RunStatus, error: str, counts: str) -> None:
    run = Run("poll-1700000000000", status, error=error)

    assert Over("poll", run.id, "seen", counts, run.status.value, facts_text(run)) == Over.of(run, "seen")
