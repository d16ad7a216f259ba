"""Runs: the meaning of RQ's words, and the record of their ends."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from zsched.core.clock import LAST_MS
from zsched.core.runs.attempts import Attempt, attempts_text
from zsched.core.runs.job import JobFacts, ms_of, rq_time
from zsched.core.runs.run import (
    EXPIRED,
    EXPIRED_OR_ENDED,
    GONE,
    OVER,
    UNSUCCESSFUL,
    Run,
    RunStatus,
    as_seen,
    ended_as,
    facts_of,
    facts_text,
    of_facts,
    of_job,
    pushed,
    requeued,
)

T_MS = 1_800_000_000_000
RUN = f"a-{T_MS}"
PUSHED = pushed(RUN, T_MS * 1000 + 400)
NOTHING = JobFacts()
TIMES = {"queued_at": rq_time(T_MS + 1), "started_at": rq_time(T_MS + 4), "ended_at": rq_time(T_MS + 1204)}


def job(status: str, **more: str) -> JobFacts:
    """Return RQ's hash of a run that began and ended."""
    return NOTHING._replace(status=status, worker="w", **TIMES | more)


MEANINGS = {
    RunStatus.QUEUED: ["created", "queued", "deferred", "ready_to_enqueue", "rate_limited", "scheduled"],
    RunStatus.RUNNING: ["started"],
    RunStatus.SUCCEEDED: ["finished"],
    RunStatus.FAILED: ["failed"],
    RunStatus.CANCELLED: ["stopped", "canceled"],
    RunStatus.LOST: ["enchanted", ""],
}


@pytest.mark.parametrize(
    ("status", "expected"), [(status, expected) for expected, words in MEANINGS.items() for status in words]
)
def test_every_status_of_rq_has_its_meaning(status: str, expected: RunStatus) -> None:
    run = as_seen(PUSHED, job(status))

    assert (expected, expected in OVER) == (run.status, run.is_over)


def test_every_status_word_of_rq_is_known() -> None:
    rq_job = pytest.importorskip("rq.job")

    assert not [one for one in rq_job.JobStatus if as_seen(PUSHED, job(one.value)).error.startswith("another writer")]


def test_a_run_without_a_job_in_rq_is_lost() -> None:
    assert PUSHED._replace(status=RunStatus.LOST, error=GONE, queued_ms=None) == as_seen(PUSHED, None)


@pytest.mark.parametrize(
    ("watched_since_ms", "heartbeat_ms", "expected"),
    [
        (T_MS + 59_999, None, EXPIRED),
        (T_MS + 60_000, None, EXPIRED_OR_ENDED),  # what ended a minute before is seen, too
        (None, None, EXPIRED),
        (None, T_MS + 59_999, EXPIRED),
        (None, T_MS + 60_000, EXPIRED_OR_ENDED),
    ],
)
def test_a_run_that_expired_may_have_ended_unless_all_ends_since_it_was_pushed_were_seen(
    watched_since_ms: int | None, heartbeat_ms: int | None, expected: str
) -> None:
    shown = "" if heartbeat_ms is None else rq_time(heartbeat_ms)

    run = of_job(RUN, NOTHING._replace(status="expired", heartbeat_at=shown), T_MS * 1000, False, watched_since_ms)

    assert (RunStatus.EXPIRED, expected) == (run.status, run.error)


def test_an_ended_run_keeps_its_status() -> None:
    over = PUSHED._replace(status=RunStatus.SUCCEEDED, ended_ms=T_MS + 1204)

    assert over == as_seen(over, None) == as_seen(over, job("started"))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (job("finished"), {"lateness_ms": 0.4, "queue_wait_ms": 3, "duration_ms": 1200}),
        (job("finished", queued_at=rq_time(T_MS + 9)), {"queue_wait_ms": 0}),  # two clocks: never a negative wait
        (job("started"), {"started_ms": T_MS + 4, "ended_ms": None}),
        (
            job("scheduled", error="ValueError: no"),  # it waits for a retry
            {"started_ms": None, "ended_ms": None, "queue_wait_ms": None, "error": ""},
        ),
    ],
    ids=["succeeded", "two clocks", "started", "scheduled"],
)
def test_a_run_has_the_times_of_its_status(seen: JobFacts, expected: dict[str, Any]) -> None:
    run = as_seen(PUSHED, seen)

    assert expected == {name: getattr(run, name) for name in expected}


def test_a_lost_run_lasted_at_least_until_the_last_heartbeat_of_its_worker() -> None:
    lost = PUSHED._replace(status=RunStatus.LOST, started_ms=T_MS, ended_ms=T_MS + 92_000)

    beats = [None, T_MS, T_MS + 31_000]
    assert [None, None, 31_000] == [lost._replace(heartbeat_ms=beat_ms).duration_ms for beat_ms in beats]


COUNTED = [("", "", "", 1), ("3", "3", "", 1), ("3", "1", "", 3), ("3", "0", "2", 6), ("", "", "2", 3)]
COUNTED += [("2", "5", "", 1), ("x", "-1", "²", 1), ("3", "", "", 1)]


@pytest.mark.parametrize(("retries", "left", "returned", "attempt"), COUNTED)
def test_a_run_counts_its_attempts(retries: str, left: str, returned: str, attempt: int) -> None:
    assert attempt == as_seen(PUSHED, job("started", retries=retries, retries_left=left, returned=returned)).attempt


BAD_NOTES = ["", "{", "[1]", '"text"', "null", '{"a": NaN}', '{"a": 1e999}', '{"a": -Infinity}', "[" * 4000]
BAD_NOTES += [json.dumps({"a": "x" * 5000})]


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ('{"sent": 123}', {"sent": 123}),
        ('{"a":' * 800 + "1" + "}" * 800, None),
        ('{"a": "\\ud800"}', {"a": "\ud800"}),
        *((note, {}) for note in BAD_NOTES),
    ],
)
def test_the_valid_part_of_a_note_is_read(note: str, expected: dict[str, Any] | None) -> None:
    run = as_seen(PUSHED, job("finished", note=note))

    if expected is not None:
        assert expected == run.note
    assert run == of_facts(run.id, run.status, json.loads(facts_text(run)))
    json.dumps(run.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("status", "error", "expected", "shown"),
    [
        ("failed", "ValueError: no", RunStatus.FAILED, "ValueError: no"),
        ("failed", "", RunStatus.FAILED, ""),
        ("failed", "rq.exceptions.AbandonedJobError: gone", RunStatus.LOST, "rq.exceptions.AbandonedJobError: gone"),
        ("finished", "ValueError: of an earlier attempt", RunStatus.SUCCEEDED, ""),
        ("stopped", "ValueError: no", RunStatus.CANCELLED, ""),
    ],
)
def test_only_a_run_that_ended_badly_has_an_error(status: str, error: str, expected: RunStatus, shown: str) -> None:
    assert (expected, shown) == ((run := as_seen(PUSHED, job(status, error=error))).status, run.error)


@pytest.mark.parametrize(("timeout", "expected"), [("180", 180), ("", None), ("-1", None), ("0", None), ("1e3", None)])
def test_a_run_has_queue_and_timeout_of_its_job(timeout: str, expected: int | None) -> None:
    run = as_seen(PUSHED, job("finished", queue="mail", timeout=timeout))

    assert ("mail", expected) == (run.queue, run.timeout_s)


def test_an_extra_run_has_no_lateness() -> None:
    assert None is pushed(f"{RUN}-r1", T_MS * 1000 + 5).lateness_ms


def back(status: str, after_ms: int, **more: str) -> JobFacts:
    """Return RQ's hash of a run that was requeued *after_ms* after its first end, and ended a second later."""
    at_ms = T_MS + 1204 + after_ms
    times = {"queued_at": rq_time(at_ms), "started_at": rq_time(at_ms + 1), "ended_at": rq_time(at_ms + 1000)}
    return job(status, **times | more)


@pytest.mark.parametrize("words", [("finished", RunStatus.SUCCEEDED), ("failed", RunStatus.FAILED), *(
    (word, status) for status in (RunStatus.QUEUED, RunStatus.RUNNING) for word in MEANINGS[status]
)])  # fmt: skip
@pytest.mark.parametrize("before", UNSUCCESSFUL)
def test_a_requeued_run_is_as_rq_has_it(before: RunStatus, words: tuple[str, RunStatus]) -> None:
    over = PUSHED._replace(status=before, ended_ms=T_MS + 1204, attempt=3, error="no")

    for run in (as_seen(over, back(words[0], after_ms)) for after_ms in (1, 5000)):
        assert (words[1], before, 4) == (run.status, run.was, run.attempt)
    assert over == as_seen(over, back(words[0], -5000)) == as_seen(over, None)


def test_an_end_that_two_writers_tell_with_different_times_is_one_end() -> None:
    over = PUSHED._replace(status=RunStatus.CANCELLED, ended_ms=T_MS + 204)

    assert over == as_seen(over, job("stopped"))
    assert over._replace(ended_ms=T_MS + 203) != as_seen(over._replace(ended_ms=T_MS + 203), job("stopped"))


def test_a_run_without_a_job_does_not_come_back_as_expired() -> None:
    over = PUSHED._replace(status=RunStatus.FAILED, ended_ms=T_MS + 1204)

    assert over == as_seen(over, NOTHING._replace(status="expired", ended_at=rq_time(T_MS + 99_999)))


def test_a_requeued_run_continues_with_its_attempts() -> None:
    end_ms = T_MS + 1204 + 6000
    first, second = Attempt(1, "w", T_MS, T_MS, T_MS + 1204, "no"), Attempt(2, "w", T_MS, end_ms - 9, end_ms, "no")
    before = Run(RUN, RunStatus.FAILED, attempt=1, ended_ms=T_MS + 1204, attempts=(first,))

    failed = requeued(before, back("failed", 5000, attempts=attempts_text((first, second))))
    succeeded = requeued(before, back("finished", 5000))

    assert failed is not None
    assert succeeded is not None
    assert (2, (first, second)) == (failed.attempt, failed.attempts)
    assert (2, (first,)) == (succeeded.attempt, succeeded.attempts)
    assert first == failed.first == succeeded.first


def test_the_first_start_of_a_run_is_that_of_its_first_attempt() -> None:
    known = (Attempt(1, "w", T_MS, T_MS + 7, T_MS + 9), Attempt(2, "w", T_MS + 20, T_MS + 70, T_MS + 90))
    run = Run(RUN, RunStatus.FAILED, None, T_MS + 20, T_MS + 70, T_MS + 90, 2, attempts=known)

    assert (T_MS + 7, 7) == (run.first and run.first.started_ms, run.queue_wait_ms)
    assert (None, None) == (run._replace(attempts=known[1:]).first, run._replace(attempts=known[1:]).queue_wait_ms)
    assert 50 == run._replace(attempt=1, attempts=()).queue_wait_ms
    assert "2027-01-15T08:00:00.007Z" == run.to_dict()["first_started_at"]


def test_the_last_attempt_is_known_even_if_nobody_recorded_it() -> None:
    first = Attempt(1, "w", T_MS, T_MS, T_MS + 5, "no", T_MS + 9)
    run = Run(RUN, RunStatus.RUNNING, None, T_MS + 9, T_MS + 10, None, 2, "v", attempts=(first,))

    assert [first, Attempt(2, "v", T_MS + 9, T_MS + 10)] == run.every_attempt


@pytest.mark.parametrize("shown", ["", "yesterday", "2027-01-15", "0001-01-01T00:00:00.000000Z", "x" * 27])
def test_an_invalid_time_of_rq_is_read_as_none(shown: str) -> None:
    assert None is ms_of(shown)


def test_a_time_of_rq_survives_parsing_unchanged() -> None:
    assert [0, T_MS + 7, LAST_MS] == [ms_of(rq_time(ms)) for ms in (0, T_MS + 7, LAST_MS)]


INSTANTS = some.none() | some.integers(1, LAST_MS)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
ATTEMPT = some.builds(
    Attempt, number=some.integers(1, 99), worker=some.just("w"), queued_ms=INSTANTS, started_ms=INSTANTS,
    ended_ms=INSTANTS, error=some.just("ValueError: é"), next_ms=INSTANTS,
    traceback=some.just("Traceback:\n  call\nValueError: é"),
)  # fmt: skip
ATTEMPTS = some.lists(ATTEMPT, max_size=3, unique_by=lambda one: one.number).map(
    lambda found: tuple(sorted(found, key=lambda one: one.number))
)
MICROSECONDS = some.none() | some.integers(1, LAST_MS * 1000)
NOTES = some.dictionaries(some.text(), JSON, max_size=3)
RUNS = some.builds(
    Run, some.just(RUN), some.sampled_from(RunStatus), MICROSECONDS, INSTANTS, INSTANTS, INSTANTS, some.integers(1, 50),
    some.text(), some.text(), NOTES, ATTEMPTS, some.booleans(), some.text(), INSTANTS, INSTANTS,
    some.none() | some.sampled_from(RunStatus), some.just(""), some.text(), some.just(""),
)  # fmt: skip


@given(RUNS)
def test_a_run_survives_conversion_to_text_and_back(run: Run) -> None:
    facts = facts_text(run)

    assert facts.isascii()
    assert json.dumps(facts_of(run), separators=(",", ":")) == facts
    assert run == of_facts(run.id, run.status.value, json.loads(facts))


@pytest.mark.parametrize("other", [{}, {"worker": "w"}, {"worker": "v", "attempt": 2}, {"note": {"sent": 1}}])
def test_runs_that_share_facts_keep_their_own_instants(other: dict[str, Any]) -> None:
    for ms in (T_MS, T_MS + 1):
        run = Run(RUN, RunStatus.SUCCEEDED, ms * 1000, ms, ms + 2, ms + 3)._replace(**other)

        instants = {"fired": ms * 1000, "queued": ms, "started": ms + 2, "ended": ms + 3}
        assert instants | other == json.loads(facts_text(run))


FOREIGN = ["", "{", "[]", "7", '{"fired": "soon"}', '{"ended": -1}', '{"ended": 1e30}', f'{{"ended": {LAST_MS + 1}}}']
FOREIGN += ['{"attempt": true}', '{"note": 7}', '{"attempts": 7}', '{"attempts": [[1]]}']


@pytest.mark.parametrize("facts", FOREIGN)
def test_facts_that_another_writer_wrote_are_refused(facts: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        of_facts(RUN, "failed", json.loads(facts))


@pytest.mark.parametrize("word", ["failed", "expired", "queued", "finished", ""])
def test_an_end_in_the_log_always_has_a_final_status(word: str) -> None:
    final = {"failed": RunStatus.FAILED, "expired": RunStatus.EXPIRED}

    assert final.get(word, RunStatus.LOST) == ended_as(word)
