"""The story of one run by its id, extracted from that of its schedule; and runs without a worker."""

from __future__ import annotations

from typing import Any

import pytest

from zsched.core.changes import Change, What
from zsched.core.choices import ScheduleState
from zsched.core.model import Schedule
from zsched.core.runs import Run, RunStatus, pushed
from zsched.core.story import Chronicle, Source, Story, tell_of_run

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
SECOND_MS = FIRST_MS + 60_000
FIRST, SECOND = f"a-{FIRST_MS}", f"a-{SECOND_MS}"
SOURCE = Source("host:/a.db", None, "1-9")
HELD = Schedule("a", ScheduleState.ACTIVE, "every", "app.run", SECOND_MS + 60_000, queue="mail")


def change(what: What, at_ms: int, **more: Any) -> Change:
    return Change("a", what, at_ms * 1000, f"1-{at_ms}", **more)


def fired(run_id: str, nominal_ms: int, **more: Any) -> Change:
    return change(What.FIRED, nominal_ms, run_id=run_id, nominal_ms=nominal_ms, next_ms=nominal_ms + 60_000, **more)


PUT = change(What.PUT, FIRST_MS - 60_000, nominal_ms=FIRST_MS)
RETRY = change(What.RETRIED, SECOND_MS + 5, run_id=f"{FIRST}-r7", nominal_ms=FIRST_MS, why=FIRST)
OVERLAP = change(What.SKIPPED, SECOND_MS, nominal_ms=SECOND_MS, why=f"overlap: {FIRST} was still open")


def story_of(run_id: str, *changes: Change, schedule: Schedule | None = HELD, **more: Any) -> Story:
    chronicle = Chronicle("a", SOURCE, changes, left_out=more.pop("left_out", 0))
    return tell_of_run(run_id, chronicle, schedule, SECOND_MS, **more)


def answer(story: Story) -> tuple[str, str]:
    return story.verdict.word.value, story.verdict.text


def texts(story: Story) -> list[str]:
    return [text.partition(" ")[0] for _, text in story.lines]


def test_the_story_of_a_run_has_the_changes_of_the_run_and_of_its_occurrence() -> None:
    story = story_of(FIRST, PUT, fired(FIRST, FIRST_MS), fired(SECOND, SECOND_MS), RETRY, OVERLAP)

    assert ["created", "fired", "retry", "skipped"] == texts(story)
    assert (FIRST, True) == (story.id, story.is_known)


def test_the_story_of_an_extra_run_has_only_the_changes_that_name_it() -> None:
    assert ["retry"] == texts(story_of(f"{FIRST}-r7", PUT, fired(FIRST, FIRST_MS), RETRY))


def test_the_story_of_a_left_out_occurrence_says_so() -> None:
    left_out = change(What.COALESCED, SECOND_MS, first_ms=FIRST_MS - 1, last_ms=FIRST_MS + 1, nominal_ms=SECOND_MS)

    story = story_of(FIRST, left_out, fired(SECOND, SECOND_MS))

    assert (["left"], "ENDED") == (texts(story), story.verdict.word)
    assert story.verdict.text.endswith(f"; run {FIRST} of schedule a was not pushed")


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "is_told"),
    [
        (FIRST_MS, FIRST_MS, True),
        (FIRST_MS - 9, FIRST_MS, True),
        (FIRST_MS, FIRST_MS + 9, True),
        (FIRST_MS - 9, FIRST_MS - 1, False),
        (FIRST_MS + 1, FIRST_MS + 9, False),
    ],
)
def test_a_range_of_missed_occurrences_is_in_the_story_of_each(first_ms: int, last_ms: int, is_told: bool) -> None:
    missed = change(What.SKIPPED, SECOND_MS, first_ms=first_ms, last_ms=last_ms, nominal_ms=SECOND_MS)

    assert is_told is story_of(FIRST, missed).is_known


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
