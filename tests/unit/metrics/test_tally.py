"""The counters from the log: only led terms, each entry once, and the same numbers as in the log."""

import pytest

from tests.builders.entries import advance, at, end, entry, row_fields
from tests.unit.metrics.counting import outcomes_of
from zsched.core.entry import Entry, Position
from zsched.core.runs.run import Run, RunStatus
from zsched.metrics.meter import LABELS, Distribution, LogTally, Names

T_MS = at(1).t_us // 1000
FIRE = entry(
    1,
    "fire",
    runs=f"a-{T_MS} b-2-{T_MS - 40} c-{T_MS - 7000}",
    uncertain=f"c-{T_MS - 7000}",
    skipped=f"d-{T_MS} e-{T_MS}",
    expired=f"f-{T_MS}",
    cancelled=f"g-{T_MS}=canceled",
)
ADVANCE = advance(
    1,
    f"a fired {T_MS - 3} {T_MS + 9} {T_MS + 9} -",
    f"b fired {T_MS - 5000}+4000 {T_MS + 9} {T_MS + 9} coalesced:{T_MS - 9}:{T_MS - 6}:4",
    f"c deferred {T_MS} - - - c-{T_MS - 9}",
    f"d uncertain {T_MS} - - -",
    f"e skipped {T_MS} - - -",
    f"f overlap {T_MS} - - - f-{T_MS - 9}",
    f"g expired {T_MS} - - -",
    f"h duplicate {T_MS} - - -",
    f"i quarantined {T_MS} - - - its template is gone",
    f"j passed - {T_MS + 9} {T_MS + 9} missed:{T_MS - 9}:{T_MS - 3}:3,limit:{T_MS - 2}:{T_MS - 1}:2",
)
OTHERS = [
    entry(1, "enqueue", b"rows", b"1", b"a-%d" % T_MS, b"0 0 -"),
    entry(1, "quarantine", *row_fields("quarantine", f"a normal {T_MS} no rule")),
]


OF_A_SCHEDULE = [
    entry(1, "run_now", id="a", run=f"a-{T_MS}"),
    entry(1, "backfill", id="a", runs=f"a-{T_MS} a-{T_MS + 1}"),
    entry(1, "cancel", *row_fields("cancel", f"a {T_MS}")),
    entry(1, "pause", b"note", b"", *row_fields("pause", f"a normal {T_MS}")),
    entry(1, "resume", *row_fields("resume", f"a normal {T_MS + 9} {T_MS + 9} paused:{T_MS - 9}:{T_MS}:5")),
]


@pytest.fixture
def tally() -> LogTally:
    tally = LogTally("", Names(2))
    tally.began(1)
    return tally


def moved(one: Entry, id: str, t_us: int = T_MS * 1000) -> Entry:
    """Return the same entry at another place."""
    epoch, _, seq = id.partition("-")
    return one._replace(position=Position(int(epoch), int(seq), t_us))


def counted(tally: LogTally) -> dict[str, int]:
    return {outcome: number for outcome, number in tally.outcomes.items() if number}


def number(distribution: Distribution) -> float:
    return distribution.buckets()[-1][1]


ONCE = "uncertain skipped_uncertain skipped_overlap expired duplicate quarantined".split()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (FIRE, {"fired": 2, "uncertain": 1, "skipped_uncertain": 2, "expired": 1, "cancelled": 1}),
        (ADVANCE, {"fired": 3, "coalesced": 4, "skipped_missed": 3, "skipped_limit": 2, **dict.fromkeys(ONCE, 1)}),
    ],
)
def test_every_word_of_a_fire_or_an_advance_is_counted(tally: LogTally, given: Entry, words: dict[str, int]) -> None:
    tally.archived([given])

    assert words == counted(tally)
    assert outcomes_of([given]) == tally.outcomes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OTHERS[0], {"enqueued": 1}),
        (OTHERS[1], {"quarantined": 1}),
        (OF_A_SCHEDULE[0], {"enqueued": 1}),
        (OF_A_SCHEDULE[1], {"enqueued": 2}),
        (OF_A_SCHEDULE[2], {"cancelled": 1}),
        (OF_A_SCHEDULE[3], {}),
        (OF_A_SCHEDULE[4], {"skipped_paused": 5}),
    ],
)
def test_calls_of_clients_are_counted(tally: LogTally, given: Entry, expected: dict[str, int]) -> None:
    tally.archived([given])

    assert expected == counted(tally)


def test_lateness_counts_from_the_due_time_with_jitter(tally: LogTally) -> None:
    tally.archived([moved(FIRE, "1-1"), moved(ADVANCE, "1-2")])

    # 0, 0.04 and 7 s; 0.003 s, 5 s less 4 s of jitter, and twice 0
    expected = {"0.001": 3, "0.005": 4, "0.05": 5, "1.0": 6, "10.0": 7}
    assert expected.items() <= dict(tally.lateness_s.buckets()).items()
    assert 8.043 == pytest.approx(tally.lateness_s.total)


def test_a_requeued_run_ends_again_and_its_end_before_no_longer_counts(tally: LogTally) -> None:
    run = Run(f"a-{T_MS}", RunStatus.FAILED, T_MS * 1000, T_MS, T_MS + 9, T_MS + 99, queue="mail")
    again = run._replace(status=RunStatus.SUCCEEDED, attempt=2, was=RunStatus.FAILED)

    tally.archived([end(1, run), end(2, again)])

    assert {("mail", "failed"): 1, ("mail", "succeeded"): 1} == tally.ended
    assert {("mail", "failed"): 1} == tally.requeued
    assert 1 == number(tally.wait_s["mail"])


def test_run_ids_with_the_suffix_of_the_namespace_are_read() -> None:
    tally = LogTally("-nother", Names())
    tally.began(1)

    tally.archived([entry(1, "fire", runs=f"a-{T_MS - 1000}-nother b-7-{T_MS - 1000}-nother", t_us=T_MS * 1000)])

    assert (2, 2.0) == (number(tally.lateness_s), pytest.approx(tally.lateness_s.total))


def test_a_term_is_counted_from_the_entry_that_names_the_daemon() -> None:
    tally = LogTally("", Names(), "d1")
    others = entry(1, "term", daemon="d2"), moved(FIRE, "1-2")
    ours = entry(3, "term", daemon="d1", epoch=2), moved(FIRE, "2-4")

    tally.archived([*others, *ours])

    assert outcomes_of([FIRE]) == tally.outcomes


def run(queue: str, status: RunStatus = RunStatus.SUCCEEDED, timeout_s: int | None = 100) -> Run:
    """Return a run that waited 2 s and took 80."""
    times = {"queued_ms": T_MS, "started_ms": T_MS + 2000, "ended_ms": T_MS + 82_000}
    return Run(f"a-{T_MS}", status, T_MS * 1000, queue=queue, timeout_s=timeout_s, **times)


def test_ended_runs_are_counted_by_queue_and_status_with_their_times(tally: LogTally) -> None:
    tally.archived([end(1, run("mail"), run("mail", RunStatus.FAILED), run("bulk", timeout_s=None))])

    expected = {("mail", "succeeded"): 1, ("mail", "failed"): 1, ("bulk", "succeeded"): 1}
    assert expected == dict(tally.ended)
    assert {"mail": 4.0, "bulk": 2.0} == {queue: one.total for queue, one in tally.wait_s.items()}
    assert {"mail": 160.0, "bulk": 80.0} == {queue: one.total for queue, one in tally.duration_s.items()}
    assert (2, 1.6) == (number(tally.timeout_ratio), pytest.approx(tally.timeout_ratio.total))


def test_a_run_whose_job_rq_forgot_is_counted_without_its_queue(tally: LogTally) -> None:
    times = {"queued_ms": T_MS, "started_ms": T_MS + 50, "ended_ms": T_MS + 90}

    tally.archived([end(1, Run(f"a-{T_MS}", RunStatus.FAILED, T_MS * 1000, **times))])

    assert {("unknown", "failed"): 1} == dict(tally.ended)
    assert 0.04 == pytest.approx(tally.duration_s["unknown"].total)
    assert 0 == number(tally.timeout_ratio)


def test_a_run_that_never_began_has_no_times(tally: LogTally) -> None:
    tally.archived([end(1, Run(f"a-{T_MS}", RunStatus.CANCELLED, queue="mail", ended_ms=T_MS))])

    assert {("mail", "cancelled"): 1} == dict(tally.ended)
    assert {} == tally.wait_s == tally.duration_s


def test_a_thousand_queues_take_two_labels_and_other(tally: LogTally) -> None:
    tally.archived([end(1, *(run(f"q{n}") for n in range(1000)))])

    assert {"q0": 1, "q1": 1, "other": 998} == {queue: count for (queue, _), count in tally.ended.items()}
    assert {"q0", "q1", "other"} == tally.wait_s.keys() == tally.duration_s.keys()


def test_only_entries_of_led_terms_are_counted(tally: LogTally) -> None:
    tally.archived([moved(OTHERS[0], "0-9"), moved(OTHERS[0], "1-10"), moved(OTHERS[0], "2-11")])

    assert {"enqueued": 1} == counted(tally)


def test_two_entries_of_one_moment_and_entries_of_a_rolled_back_redis_with_old_ids_are_counted(tally: LogTally) -> None:
    tally.archived([moved(OTHERS[0], "1-7"), moved(OTHERS[0], "1-8")])
    tally.archived([moved(OTHERS[0], "1-6", T_MS * 1000 + 5)])

    assert {"enqueued": 3} == counted(tally)


def test_an_entry_seen_twice_is_counted_once(tally: LogTally) -> None:
    entries = [moved(OTHERS[0], f"1-{seq}", T_MS * 1000 + seq) for seq in (1, 2, 3)]

    tally.archived(entries[:2])
    tally.archived(entries)
    tally.archived(entries[:1])

    assert {"enqueued": 3} == counted(tally)


@pytest.mark.parametrize(
    "broken",
    [
        entry(1, "quarantine", rows="nonsense"),
        entry(1, "advance", b"rows", b"1", b"a", b"fired"),
        entry(1, "advance", *row_fields("advance", f"a teleported {T_MS} - - -")),
        entry(1, "end", rows="a"),
        entry(1, "end", *row_fields("end", f"a-{T_MS} vanished {{nonsense")),
        entry(1, "from_the_future", rows="a"),
        Entry.of(b"1-1", [b"odd"]),
    ],
)
def test_an_entry_of_another_writer_does_not_stop_the_tally(tally: LogTally, broken: Entry) -> None:
    tally.archived([broken, moved(OTHERS[0], "1-2")])

    assert 1 == tally.outcomes["enqueued"]
    assert tuple(tally.outcomes) == LABELS
