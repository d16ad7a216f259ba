"""The story of one run by its id, and the lines of a story about the attempts of a run."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import schedules
from tests.unit.core.stories import DUE_MS, RUN, answer, change, put, run_ended, story
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.run import Run, RunStatus, pushed
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle, Story, tell

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
SECOND_MS = FIRST_MS + 60_000
FIRST, SECOND = f"a-{FIRST_MS}", f"a-{SECOND_MS}"
SOURCE = Source("host:/a.db", None, "1-9")
HELD = schedules.schedule(kind="every", next_ms=SECOND_MS + 60_000, queue="mail")


def fired(run_id: str, nominal_ms: int, **more: Any) -> Change:
    return change(What.FIRED, nominal_ms, run_id=run_id, nominal_ms=nominal_ms, next_ms=nominal_ms + 60_000, **more)


PUT = change(What.PUT, FIRST_MS - 60_000, nominal_ms=FIRST_MS)
RETRY = change(What.RETRIED, SECOND_MS + 5, run_id=f"{FIRST}-r7", nominal_ms=FIRST_MS, why=FIRST)
OVERLAP = change(What.SKIPPED, SECOND_MS, nominal_ms=SECOND_MS, why=f"overlap: {FIRST} was still open")


def story_of(run_id: str, *changes: Change, schedule: Schedule | None = HELD, **more: Any) -> Story:
    chronicle = Chronicle("a", SOURCE, changes, left_out=more.pop("left_out", 0))
    return tell(chronicle, schedule, SECOND_MS, run_id=run_id, **more)


def texts(story: Story) -> list[str]:
    return [text.partition(" ")[0] for _, text in story.lines]


def test_the_story_of_a_run_has_its_changes_and_those_of_its_occurrence_if_it_has_one() -> None:
    story = story_of(FIRST, PUT, fired(FIRST, FIRST_MS), fired(SECOND, SECOND_MS), RETRY, OVERLAP)

    assert ["created", "fired", "retry", "skipped"] == texts(story)
    assert (FIRST, True) == (story.id, story.is_known)
    assert ["retry"] == texts(story_of(f"{FIRST}-r7", PUT, fired(FIRST, FIRST_MS), RETRY))


def test_the_story_of_a_left_out_occurrence_says_so() -> None:
    left_out = change(What.COALESCED, SECOND_MS, first_ms=FIRST_MS - 1, last_ms=FIRST_MS + 1, nominal_ms=SECOND_MS)

    story = story_of(FIRST, left_out, fired(SECOND, SECOND_MS))

    assert (["left"], "SKIPPED") == (texts(story), story.verdict.word)
    assert story.verdict.text.endswith(f"; run {FIRST} of schedule a was not pushed")


@pytest.mark.parametrize(
    ("first", "last", "is_told"), [(0, 0, True), (-9, 0, True), (0, 9, True), (-9, -1, False), (1, 9, False)]
)
def test_a_range_of_missed_occurrences_is_in_the_story_of_each(first: int, last: int, is_told: bool) -> None:
    times = {"first_ms": FIRST_MS + first, "last_ms": FIRST_MS + last, "nominal_ms": SECOND_MS}

    assert is_told is story_of(FIRST, change(What.SKIPPED, SECOND_MS, **times)).is_known


def test_the_reason_of_lateness_uses_the_whole_history_of_the_schedule() -> None:
    resumed = change(What.RESUMED, SECOND_MS + 1, nominal_ms=SECOND_MS + 60_000)
    late = change(What.FIRED, SECOND_MS + 1000, run_id=FIRST, nominal_ms=FIRST_MS)

    assert ": it was paused until 2026-01-01 00:01:00.001+00:00;" in story_of(FIRST, PUT, resumed, late).lines[-1][1]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (pushed(FIRST, FIRST_MS * 1000), "is queued since 2026-01-01 00:00:00+00:00"),
        (Run(FIRST, RunStatus.RUNNING, worker="w"), "is running on worker w"),
        (Run(FIRST, RunStatus.FAILED, error="no"), "failed: no"),
    ],
)
def test_the_state_of_a_run_comes_from_its_status(run: Run, expected: str) -> None:
    story = story_of(FIRST, fired(FIRST, FIRST_MS), schedule=None, runs=[run])

    assert f"run {FIRST} {expected}; it is of schedule a" == story.verdict.text


def test_a_run_that_was_not_pushed_is_shown_with_the_reason_or_the_state_of_its_schedule() -> None:
    skipped = change(What.SKIPPED, FIRST_MS, run_id=FIRST, nominal_ms=FIRST_MS, why="uncertain")

    waiting, passed_over = story_of(FIRST, PUT), story_of(FIRST, fired(FIRST, FIRST_MS), skipped)

    soon = "next 2026-01-01 00:02:00+00:00, in 1 min"
    assert ("SCHEDULED", f"{soon}; run {FIRST} of schedule a was not pushed") == answer(waiting)
    doubt = "skipped 2026-01-01 00:00:00+00:00: a lost Redis may have pushed it already"
    assert ("SKIPPED", f"{doubt}; run {FIRST} of schedule a was not pushed again") == answer(passed_over)


@pytest.mark.parametrize(("left_out", "told"), [(0, "the changes"), (7, "the newest 1 changes")])
def test_a_run_that_no_change_of_its_schedule_names_is_unknown(left_out: int, told: str) -> None:
    story = story_of(SECOND, fired(FIRST, FIRST_MS), left_out=left_out)

    assert not story.is_known
    assert ("UNKNOWN", f"{told} of schedule a do not name run {SECOND}") == answer(story)


def failed(number: int, at_ms: int, next_ms: int | None) -> Attempt:
    return Attempt(number, "w", at_ms, at_ms, at_ms + 200, "ValueError: no", next_ms, "Traceback:\nValueError: no")


def test_a_story_has_a_line_for_each_failed_attempt_at_its_time() -> None:
    first, second = failed(1, DUE_MS, DUE_MS + 10_200), failed(2, DUE_MS + 10_300, DUE_MS + 10_500)
    attempts = (first, second, failed(3, DUE_MS + 20_000, None))
    run = Run(RUN, RunStatus.FAILED, DUE_MS * 1000, DUE_MS, worker="w", attempt=3, attempts=attempts)
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
