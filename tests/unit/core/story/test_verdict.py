"""The verdict of a story: did it run, the state of the schedule or the end of its run, and what to do."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.unit.core.stories import (
    COMPLETE,
    DUE,
    DUE_MS,
    MINUTE_MS,
    PARTIAL,
    REDIS,
    RUN,
    answer,
    change,
    held,
    put,
    run_ended,
    story,
    texts,
)
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run import GONE, Run, RunStatus, pushed
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle, Story, tell
from zsched.core.story.verdict import LEADERLESS, Stalled, StoryVerdict, Word


def remedy_of(verdict: StoryVerdict) -> str:
    """Return the remedy with its command."""
    return verdict.completed(shlex.join).remedy


def ended(status: RunStatus = RunStatus.SUCCEEDED, **more: Any) -> Run:
    """Return a run that waited for 3 ms and took 1.2 s."""
    return Run(RUN, status, DUE_MS * 1000, DUE_MS, DUE_MS + 3, DUE_MS + 1203, worker="w", **more)


@pytest.mark.parametrize(
    ("schedule", "word", "text", "remedy"),
    [
        (held(), "SCHEDULED", "next 2026-01-01 00:01:00+00:00, in 1 min", "nothing to do: it fires then"),
        (
            held(next_ms=DUE_MS - 5000),
            "OVERDUE",
            "due 2025-12-31 23:59:55+00:00, 5.0 s ago; no daemon is leading",
            "see what is wrong: zsched status",
        ),
        (
            held(ScheduleState.PAUSED, next_ms=DUE_MS + 1000, since_ms=DUE_MS - 1000, note="sale"),
            "PAUSED",
            'since 2025-12-31 23:59:59+00:00: "sale"; it would be due 2026-01-01 00:00:01+00:00',
            "resume it: zsched resume a",
        ),
        (
            held(unreadable=("jitter", "policy")),
            "UNREADABLE",
            "its jitter and policy cannot be read, because another program changed it in Redis",
            "schedule it again by its id, or cancel it: zsched cancel a",
        ),
        (
            held(ScheduleState.PAUSED, next_ms=DUE_MS - 14_000, since_ms=DUE_MS - 20_000),
            "PAUSED",
            "since 2025-12-31 23:59:40+00:00; it was due 2025-12-31 23:59:46+00:00, 14.0 s ago, and waits",
            "resume it: zsched resume a",
        ),
        (
            held(ScheduleState.QUARANTINED, since_ms=DUE_MS, note="its hash is gone"),
            "QUARANTINED",
            f'since {DUE}: "its hash is gone"',
            "schedule it again, or cancel it, or release it if the cause is gone: zsched release a",
        ),
        (
            held(ScheduleState.ENDED, next_ms=None, since_ms=DUE_MS),
            "ENDED",
            f"since {DUE}: its rule gives no more occurrences",
            "nothing to do",
        ),
    ],
)
def test_the_verdict_without_runs_is_the_state(schedule: Schedule, word: str, text: str, remedy: str) -> None:
    verdict = story(schedule=schedule).verdict.completed(shlex.join)

    assert {"word": word, "text": text, "remedy": remedy} == verdict.to_dict()


REPAIR = f"zsched show {RUN} has the traceback; repair the cause, then run it again"
UNRECORDED = f"run {RUN} was pushed; its end is not recorded yet"
LOST = "Redis does not have it: no reason is recorded, so Redis lost it, or another writer removed it"
FIRED = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS)
QUEUED = pushed(RUN, DUE_MS * 1000)
VERDICTS = {
    "fired": (story(put(0), FIRED), "PUSHED", UNRECORDED),
    "found open": (story(put(0), change(What.FOUND, run_id=RUN, why="open")), "PUSHED", UNRECORDED),
    "enqueued": (story(put(0), change(What.ENQUEUED, run_id=RUN)), "PUSHED", UNRECORDED),
    "cancelled": (story(put(0), change(What.CANCELLED)), "CANCELLED", "cancelled"),
    "skipped": (
        story(put(0), change(What.SKIPPED, nominal_ms=DUE_MS, why="uncertain")),
        "SKIPPED",
        f"skipped {DUE}: a lost Redis may have pushed it already",
    ),
    "gone without a reason": (story(put(0), change(What.PAUSED)), "MISSING", LOST),
    "an open run of a paused schedule": (
        story(schedule=held(ScheduleState.PAUSED, next_ms=None), runs=[QUEUED]),
        "PAUSED",
        f"it fires when it is resumed; its run {RUN} is queued since {DUE}",
    ),
    "the end of an earlier run is not that of the last one": (
        story(
            change(What.ENQUEUED, run_id="a-1"),
            change(What.ENQUEUED, run_id="a-2"),
            run_ended(Run("a-1", RunStatus.SUCCEEDED)),
        ),
        "PUSHED",
        "run a-2 was pushed; its end is not recorded yet",
    ),
    "a cancelled rule, whatever the end of its last run": (
        story(
            change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS),
            change(What.CANCELLED),
            run_ended(Run(RUN, RunStatus.SUCCEEDED)),
        ),
        "CANCELLED",
        "cancelled",
    ),
    "an open run of a cancelled rule": (
        story(change(What.CANCELLED), runs=[QUEUED]),
        "CANCELLED",
        f"cancelled; its run {RUN} is queued since {DUE}",
    ),
    "only an end is known": (story(run_ended(Run(RUN, RunStatus.FAILED))), "FAILED", f"run {RUN} failed"),
}


@pytest.mark.parametrize(("told", "word", "text"), VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_has_a_word_and_the_reason(told: Story, word: str, text: str) -> None:
    assert (word, text) == answer(told)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ended(), "succeeded after 1.2 s, having waited 3 ms for a worker, by worker w"),
        (
            ended(attempt=2, note={"sent": 123, "city": "Séoul"}),
            'succeeded after 1.2 s, attempt 2, by worker w; it noted sent=123, city="Séoul"',
        ),
        (
            ended(RunStatus.FAILED, error="ZeroDivisionError: division by zero"),
            "failed after 1.2 s, having waited 3 ms for a worker, by worker w: ZeroDivisionError: division by zero",
        ),
        (Run(RUN, RunStatus.FAILED), "failed"),
        (Run(RUN, RunStatus.CANCELLED, worker="w"), "was cancelled"),
        (Run(RUN, RunStatus.EXPIRED), "expired in its queue"),
        (Run(RUN, RunStatus.EXPIRED, ended_ms=DUE_MS, error="too late"), f"expired in its queue at {DUE}: too late"),
        (ended(RunStatus.LOST, attempt=3, error="worker w died"), "is lost, attempt 3: worker w died"),
        (ended(RunStatus.LOST, error=GONE), f"is lost: {GONE}"),
        (Run(RUN, RunStatus.FAILED, error="x" * 300), f"failed: {'x' * 199}…"),
    ],
)
def test_the_verdict_on_a_fired_one_shot_is_the_end_of_its_run(run: Run, expected: str) -> None:
    told = story(put(0), FIRED, run_ended(run))

    assert f"run {RUN} {expected}" == told.verdict.text == told.lines[-1][1]


@pytest.mark.parametrize(
    ("status", "word", "remedy"),
    [
        (RunStatus.SUCCEEDED, "RAN", "nothing to do"),
        (RunStatus.FAILED, "FAILED", f"{REPAIR}: zsched retry {RUN}"),
        (RunStatus.LOST, "LOST", f"run it again: zsched retry {RUN}"),
        (RunStatus.EXPIRED, "EXPIRED", f"run it again: zsched retry {RUN}"),
        (RunStatus.CANCELLED, "CANCELLED", f"if it is still wanted, run it again: zsched retry {RUN}"),
    ],
)
def test_the_word_of_a_verdict_follows_the_end_of_the_run(status: RunStatus, word: str, remedy: str) -> None:
    over = run_ended(Run(RUN, status))
    one_shot, rule = story(put(0), FIRED, over), story(FIRED, over, schedule=held())

    assert {(word, remedy)} == {(told.verdict.word, remedy_of(told.verdict)) for told in (one_shot, rule)}
    assert rule.verdict.text.endswith("; next 2026-01-01 00:01:00+00:00, in 1 min")


TIMED_OUT = "rq.timeouts.JobTimeoutException: Task exceeded maximum timeout value ({} seconds)"


@pytest.mark.parametrize(
    ("timeout_s", "whose", "more"),
    [(180, "RQ's default", "12m"), (5, "its timeout", "20s"), (3600, "its timeout", "4h")],
)
def test_the_remedy_of_a_run_that_took_too_long_is_a_longer_timeout_and_no_retry(
    timeout_s: int, whose: str, more: str
) -> None:
    over = run_ended(ended(RunStatus.FAILED, error=TIMED_OUT.format(timeout_s), timeout_s=timeout_s))

    one_shot, rule = story(put(0), FIRED, over), story(FIRED, over, schedule=held())

    limit = f"{timeout_s} s is {whose}, also of a retry; "
    assert ("FAILED", f"{limit}schedule it again with more: --timeout {more}") == (
        one_shot.verdict.word, remedy_of(one_shot.verdict)
    )  # fmt: skip
    assert f"{limit}give its next runs more: zsched set a --timeout {more}" == remedy_of(rule.verdict)


def test_an_end_of_a_later_version_is_shown_as_lost() -> None:
    over = change(What.RUN_ENDED, run_id=RUN, why="enchanted", record="{}")

    assert [f"run {RUN} is lost: the record of its end cannot be read"] == texts(over)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (pushed(RUN, DUE_MS * 1000), f"is queued since {DUE}"),
        (Run(RUN, RunStatus.QUEUED, attempt=2), "is queued, attempt 2"),
        (Run(RUN, RunStatus.QUEUED, limit="mail (3)"), "is queued; it waits for a slot of RQ's limit mail (3)"),
        (Run(RUN, RunStatus.RUNNING, started_ms=DUE_MS, worker="w"), f"is running since {DUE} on worker w"),
        (Run(RUN, RunStatus.RUNNING, attempt=2), "is running, attempt 2"),
        (Run(RUN, RunStatus.LOST, error=GONE), f"is lost: {GONE}"),
    ],
)
def test_the_verdict_on_an_open_run_comes_from_rq(run: Run, expected: str) -> None:
    one_shot, rule = story(put(0), FIRED, runs=[run]), story(FIRED, schedule=held(), runs=[run])

    assert f"run {RUN} {expected}" == one_shot.verdict.text
    assert f"run {RUN} {expected}; next 2026-01-01 00:01:00+00:00, in 1 min" == rule.verdict.text


def test_the_last_of_several_open_runs_is_shown_and_the_others_are_counted() -> None:
    runs = [pushed(f"a-{number}", DUE_MS * 1000) for number in (3, 2, 1)]

    two, three = story(schedule=held(), runs=runs[:2]), story(schedule=held(), runs=runs)

    assert two.verdict.text.startswith(f"run a-3 is queued since {DUE}; 1 more of its runs is not over; next ")
    assert three.verdict.text.startswith(f"run a-3 is queued since {DUE}; 2 more of its runs are not over; next ")


UNHEARD, SUSPENDED = {"mail": Stalled.UNHEARD}, {"mail": Stalled.SUSPENDED}


GO_ON, IDLE = "resume them: rq resume", "; RQ's workers are suspended"
NO_WORKER = "; no RQ worker is registered for queue mail"
TURN = "nothing to do: its turn comes; if that takes too long, start another worker: rq worker mail"
STOP = f"nothing to do, unless it hangs; then stop it: zsched cancel-run {RUN}"
STALLED: list[tuple[RunStatus, Mapping[str, Stalled], str, str, str]] = [
    (RunStatus.QUEUED, UNHEARD, "NOT RUN", f"queued since {DUE}{NO_WORKER}", "start one: rq worker mail"),
    (RunStatus.QUEUED, SUSPENDED, "NOT RUN", f"queued since {DUE}{IDLE}", GO_ON),
    (RunStatus.QUEUED, {}, "QUEUED", f"queued since {DUE}", TURN),
    (RunStatus.RUNNING, UNHEARD, "RUNNING", "running", STOP),
]


@pytest.mark.parametrize("schedule", [None, held()])
@pytest.mark.parametrize("row", STALLED)
def test_a_run_that_no_worker_takes_was_not_run(
    schedule: Schedule | None, row: tuple[RunStatus, Mapping[str, Stalled], str, str, str]
) -> None:
    status, stalled, word, text, remedy = row
    chronicle = Chronicle("a", COMPLETE, [put(0), FIRED])
    run = Run(RUN, status, queued_ms=DUE_MS, queue="mail")

    verdict = tell(chronicle, schedule, DUE_MS, runs=[run], stalled=stalled).verdict

    assert (word, remedy) == (verdict.word, remedy_of(verdict))
    assert verdict.text.startswith(f"run {RUN} is {text}")


def test_the_verdict_on_a_rule_is_its_newest_occurrence_also_if_that_was_left_out() -> None:
    fired = change(What.FIRED, run_id=RUN, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS)
    skipped = change(What.SKIPPED, nominal_ms=DUE_MS + MINUTE_MS, why="overlap: a-1 was still open")
    running = Run(RUN, RunStatus.RUNNING)

    told = story(fired, skipped, schedule=held(), runs=[running])

    assert "SKIPPED" == told.verdict.word
    assert told.verdict.text.startswith("skipped 2026-01-01 00:01:00+00:00: overlap: a-1 was still open; next ")
    assert "RUNNING" == story(skipped, fired, schedule=held(), runs=[running]).verdict.word


IN_THE_WAY = {
    "a run that a worker has": (
        [Run("a-1", RunStatus.RUNNING, started_ms=DUE_MS - 33_000, worker="w", queue="mail")],
        "; run a-1 is running since 2025-12-31 23:59:27+00:00 on worker w, for 33.0 s now; next ",
        "nothing to do, unless it hangs; then stop it: zsched cancel-run a-1",
    ),
    "a queued run": (
        [Run("a-1", RunStatus.QUEUED, queued_ms=DUE_MS - 90_000, queue="mail")],
        "; run a-1 is queued since 2025-12-31 23:58:30+00:00, for 1 min 30 s now; next ",
        TURN,
    ),
    "a run that waits for a running one": (
        [Run("a-1", RunStatus.QUEUED, queue="mail"), Run("a-0", RunStatus.RUNNING)],
        "; run a-0 is running; 1 more of its runs is not over; next ",
        "nothing to do, unless it hangs; then stop it: zsched cancel-run a-0",
    ),
    "a run that is over": ([Run("a-1", RunStatus.SUCCEEDED)], "; next ", "nothing to do: that run is over"),
    "a run that RQ has no more": ([], "; next ", "nothing to do: that run is over"),
}


@pytest.mark.parametrize(("runs", "text", "remedy"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_skipped_occurrence_names_the_run_in_its_way_and_how_to_end_it(
    runs: list[Run], text: str, remedy: str
) -> None:
    skipped = change(What.SKIPPED, nominal_ms=DUE_MS, why="overlap: a-1 was still open")

    verdict = story(skipped, schedule=held(), runs=runs).verdict

    assert ("SKIPPED", remedy) == (verdict.word, remedy_of(verdict))
    assert verdict.text.startswith(f"skipped {DUE}: overlap: a-1 was still open{text}")


FIRST_GONE, LAST_GONE = "2025-12-31T23:57:00.000Z", "2025-12-31T23:59:00.001Z"
AT = {"run_id": RUN, "nominal_ms": DUE_MS, "next_ms": DUE_MS + MINUTE_MS}
RAN = run_ended(Run(RUN, RunStatus.SUCCEEDED))


def skipped_at(minute: int, why: str) -> Change:
    at_ms = DUE_MS + minute * MINUTE_MS
    return change(What.SKIPPED, at_ms, nominal_ms=at_ms, why=why)


def test_a_run_instead_of_several_occurrences_is_not_good_until_the_next_one_ran() -> None:
    times = {"first_ms": DUE_MS - 180_000, "last_ms": DUE_MS - 60_000, "count": 3, "nominal_ms": DUE_MS}
    instead = [change(What.COALESCED, entry="1-5", **times), change(What.FIRED, entry="1-5", **AT), RAN]
    later = change(What.FIRED, DUE_MS + MINUTE_MS, **AT | {"run_id": "a-9"})

    gap = story(*instead, schedule=held()).verdict
    well = story(*instead, later, run_ended(Run("a-9", RunStatus.SUCCEEDED)), schedule=held()).verdict

    assert [("RAN", False), ("RAN", True)] == [(one.word, one.is_good) for one in (gap, well)]
    assert f"; left out 3 occurrences, 2025-12-31 23:57:00+00:00 to 2025-12-31 23:59:00+00:00, in favour of {DUE}" in (
        gap.text
    )
    command = f"zsched backfill a --from {FIRST_GONE} --to {LAST_GONE}"
    assert f"nothing to do, if that is enough; the others run, too, by: {command}" == remedy_of(gap)


@pytest.mark.parametrize(
    ("why", "is_good"), [("overlap: a-1 was still open", False), ("missed", False), ("paused", True)]
)
def test_a_run_is_not_good_if_later_occurrences_were_left_out_unless_somebody_wanted_that(
    why: str, is_good: bool
) -> None:
    later = [skipped_at(1, why), skipped_at(2, why)]

    verdict = story(change(What.FIRED, **AT), *later, RAN, schedule=held()).verdict

    assert ("RAN", is_good) == (verdict.word, verdict.is_good)
    assert is_good is not ("; 2 occurrences left out; skipped 2026-01-01 00:02:00+00:00: " in verdict.text)


def every_verdict() -> Iterator[StoryVerdict]:
    """Yield the verdicts on each change, on each state, and on runs of each status, with and without a schedule."""
    reasons = {
        What.SKIPPED: [
            "uncertain",
            "paused",
            "missed",
            "limit",
            Outcome.RULE_CHANGED.reason,
            "overlap: a-1 was still open",
        ]
    }
    stalls: list[Mapping[str, Stalled]] = [{}, UNHEARD, SUSPENDED]
    odd = held(next_ms=DUE_MS - 5000), held(unreadable=("jitter", "policy"))
    for schedule in (None, *(held(state) for state in ScheduleState), *odd):
        for what in What:
            for why in reasons.get(what, ["cancelled"]):
                one = change(what, run_id=RUN, nominal_ms=DUE_MS, first_ms=DUE_MS, last_ms=DUE_MS, why=why)
                chronicle = Chronicle("a", COMPLETE, [put(0), one])
                for hindrance in (LEADERLESS, StoryVerdict(Word.HELD_BACK, "a limit", "raise the limit")):
                    yield tell(chronicle, schedule, DUE_MS, hindrance=hindrance).verdict
                    yield tell(chronicle, schedule, DUE_MS, hindrance=hindrance, run_id=RUN).verdict
        for status, stalled, queue in product(RunStatus, stalls, ("mail", "")):
            run = Run(RUN, status, queue=queue)
            yield tell(Chronicle("a", COMPLETE, [FIRED]), schedule, DUE_MS, runs=[run], stalled=stalled).verdict
    for source in (COMPLETE, PARTIAL, REDIS):
        yield story(source=source).verdict
        yield tell(Chronicle("a", source, [change(What.ENDED)]), None, DUE_MS, run_id=RUN).verdict


def test_every_verdict_says_what_to_do_or_that_nothing_has_to_be_done() -> None:
    verdicts = list(every_verdict())

    assert set(Word) == {one.word for one in verdicts}
    assert [] == [one for one in verdicts if len(remedy_of(one)) < 10 or "{" in remedy_of(one)]


@pytest.mark.parametrize(
    ("later", "line"),
    [
        (change(What.RUN_AGAIN, run_id=RUN, count=2, why="worker w died"), "worker w died: pushed again, attempt 2"),
        (change(What.RUN_AGAIN, run_id=RUN, count=3), "its worker died: pushed again, attempt 3"),
        (change(What.RELEASED, run_id=RUN, why="a-5 was stopped"), "was released to its queue"),
    ],
)
def test_a_run_pushed_again_or_released_is_shown_with_the_reason(later: Change, line: str) -> None:
    told = story(put(0), FIRED, later)

    assert told.lines[2][1].replace(f"run {RUN}:", f"run {RUN}").startswith(f"run {RUN} {line}")
    assert ("PUSHED", UNRECORDED) == answer(told)


def test_a_one_shot_that_rq_held_after_a_loss_is_shown_as_possibly_run() -> None:
    told = story(change(What.HELD, run_id=RUN, why="uncertain"), run_ended(Run(RUN, RunStatus.FAILED)))

    doubt = "which Redis had lost before it was over; uncertain: it may have run, so it was not pushed again"
    assert f"found in RQ: run {RUN}, {doubt}" == told.lines[0][1]
    assert ("FAILED", f"run {RUN} failed") == answer(told)


def test_an_absence_is_explained_unless_the_last_change_left_a_schedule() -> None:
    pasts: list[list[Change]] = [[], [put(0), change(What.FIRED, nominal_ms=DUE_MS)], [put(0)]]

    assert [True, True, False] == [Chronicle("a", COMPLETE, past).explains_absence for past in pasts]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (COMPLETE, "no schedule a was ever put into this namespace"),
        (PARTIAL, f"nothing is known of a schedule a in this namespace since {DUE}; earlier history is not available"),
        (REDIS, f"nothing is known of a schedule a in this namespace since {DUE}; earlier history is not available"),
    ],
)
def test_an_unknown_id_is_reported_with_the_reach_of_the_source(source: Source, expected: str) -> None:
    unknown = story(source=source)

    assert (False, "UNKNOWN", expected) == (unknown.is_known, *answer(unknown))


LATE_TEXT = f"missed its deadline 2026-01-01 00:01:00+00:00: the occurrence of {DUE} is running for 1 min"
FIRED = change(What.FIRED, nominal_ms=DUE_MS, run_id=RUN)
LATE = change(What.DEADLINE_MISSED, DUE_MS + MINUTE_MS, run_id=RUN, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS,
              why="is running for 1 min")  # fmt: skip
NEXT = change(What.FIRED, DUE_MS + 2 * MINUTE_MS, nominal_ms=DUE_MS + 2 * MINUTE_MS, run_id="a-2")
NEVER_FIRED = replace(LATE, run_id=None, why="never fired")


@pytest.mark.parametrize(
    ("changes", "runs", "expected"),
    [
        ([put(0), FIRED, LATE], [pushed(RUN, DUE_MS * 1000)], ("LATE", f"{LATE_TEXT}; run {RUN} is queued since")),
        ([put(0), FIRED, LATE, run_ended(ended())], [], ("LATE", f"{LATE_TEXT}; run {RUN} succeeded after")),
        ([put(0), LATE, FIRED], [pushed(RUN, DUE_MS * 1000)], ("LATE", f"{LATE_TEXT}; run {RUN} is queued since")),
        ([put(0), FIRED, LATE, run_ended(ended(RunStatus.FAILED))], [], ("FAILED", f"{LATE_TEXT}; run {RUN} failed")),
        ([put(0), FIRED, LATE, NEXT], [pushed("a-2", DUE_MS * 1000)], ("QUEUED", "run a-2 is queued since")),
        ([put(0), NEVER_FIRED], [], ("LATE", f"{LATE_TEXT.replace('is running for 1 min', 'never fired')}; next")),
    ],
    ids=["queued", "succeeded late", "fired late", "failed", "a later occurrence fired", "never fired"],
)
def test_the_verdict_begins_with_the_missed_deadline_of_the_newest_occurrence(
    changes: list[Change], runs: list[Run], expected: tuple[str, str]
) -> None:
    told = story(*changes, schedule=held(), runs=runs)

    word, text = answer(told)
    assert expected == (word, text[: len(expected[1])])


@pytest.mark.parametrize("late", [LATE, NEVER_FIRED])
def test_the_verdict_on_a_one_shot_or_a_run_begins_with_its_missed_deadline(late: Change) -> None:
    gone, of_run = (
        story(put(0), FIRED, late),
        tell(Chronicle("a", COMPLETE, [put(0), late]), held(), DUE_MS, run_id=RUN),
    )

    assert {"missed its deadline"} == {told.verdict.text[:19] for told in (gone, of_run)}
    assert ["LATE", "LATE"] == [told.verdict.word for told in (gone, of_run)]
