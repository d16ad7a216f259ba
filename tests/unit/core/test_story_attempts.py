"""The lines of a story about the attempts of a run."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.stories import DUE_MS, RUN, change, put, story
from zsched.core.attempts import Attempt
from zsched.core.changes import Change, What
from zsched.core.runs import Run, RunStatus, facts_text


def run_ended(run: Run) -> Change:
    return change(What.RUN_ENDED, run_id=run.id, why=run.status.value, record=facts_text(run))


def failed(number: int, at_ms: int, next_ms: int | None) -> Attempt:
    return Attempt(number, "w", at_ms, at_ms, at_ms + 200, "ValueError: no", next_ms, "Traceback:\nValueError: no")


def test_a_story_has_a_line_for_each_failed_attempt_at_its_time() -> None:
    first, second = failed(1, DUE_MS, DUE_MS + 10_200), failed(2, DUE_MS + 10_300, DUE_MS + 10_500)
    run = Run(
        RUN,
        RunStatus.FAILED,
        DUE_MS * 1000,
        DUE_MS,
        worker="w",
        attempt=3,
        attempts=(first, second, failed(3, DUE_MS + 20_000, None)),
    )
    changes = (
        put(0),
        at(DUE_MS, change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS)),
        at(DUE_MS + 5000, change(What.SKIPPED, nominal_ms=DUE_MS + 5000, why="missed")),
        at(DUE_MS + 30_000, run_ended(run)),
    )

    told = story(*changes)

    next_try = "next try at 2026-01-01 00:00:10.200+00:00"
    assert [
        (DUE_MS + 200, f"run {RUN}: attempt 1 failed after 200 ms on worker w: ValueError: no; {next_try}"),
        (DUE_MS + 10_500, f"run {RUN}: attempt 2 failed after 200 ms on worker w: ValueError: no; tried again at once"),
    ] == [told.lines[2], told.lines[4]]
    assert [at_ms for at_ms, _ in told.lines] == sorted(at_ms for at_ms, _ in told.lines)
    assert all("Traceback" not in text for _, text in told.lines)
    assert 6 == len(told.lines)


def at(at_ms: int, change: Change) -> Change:
    return replace(change, at_us=at_ms * 1000)


def test_an_attempt_of_a_dead_worker_has_one_line() -> None:
    lost = Attempt(1, "w", DUE_MS, DUE_MS, None, "worker w died", DUE_MS + 90_000)
    again = change(What.RUN_AGAIN, run_id=RUN, count=2, why="worker w died")

    run = Run(RUN, RunStatus.QUEUED, attempt=2, attempts=(lost,))

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), again, runs=[run])

    assert [f"run {RUN}: worker w died: pushed again, attempt 2"] == [text for _, text in told.lines if "died" in text]


def test_an_open_run_has_a_line_for_its_failed_attempt() -> None:
    run = Run(RUN, RunStatus.QUEUED, attempt=2, attempts=(failed(1, DUE_MS, DUE_MS + 600_000),))

    told = story(put(0), change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS), runs=[run])

    assert f"run {RUN}: attempt 1 failed after 200 ms on worker w" in told.lines[-1][1]
