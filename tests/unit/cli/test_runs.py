"""Runs as cells of a table: the least duration of a lost run, and short names of workers."""

from __future__ import annotations

from zsched.cli.formats import run_table
from zsched.cli.terminal import Terminal
from zsched.core.run_cells import cells, remark, with_short_workers
from zsched.core.runs import Run, RunStatus

WORKER = "b5958f3c" + "0" * 24
LOST = Run(
    "a-1", RunStatus.LOST, 1, 1, 2, 92_000, worker=WORKER, error=f"its worker {WORKER} died", heartbeat_ms=3002
)  # fmt: skip


def test_a_lost_run_shows_its_least_duration() -> None:
    assert ("lost", "1 ms", "≥ 3.0 s") == cells(LOST)
    assert ("lost", "", "") == cells(Run("a-1", RunStatus.LOST))


def test_an_unnamed_worker_is_shown_by_its_first_digits() -> None:
    assert "run a is running on worker b5958f3c…, now" == with_short_workers(
        f"run a is running on worker {WORKER}, now"
    )
    assert "its worker b5958f3c… died" == remark(LOST)
    assert WORKER not in "".join(Terminal().shown([run_table([LOST], "UTC")]))


def test_a_name_that_rq_did_not_generate_is_left_alone() -> None:
    for text in (f"digest {WORKER}", f"worker {WORKER}0", "worker mail-1"):
        assert text == with_short_workers(text)
