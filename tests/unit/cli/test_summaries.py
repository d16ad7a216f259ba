"""Runs as cells of a table, and one-line summaries of log entries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from zsched.cli.formats import run_table
from zsched.cli.log import summary
from zsched.cli.terminal import Terminal
from zsched.core.changes import Change, What
from zsched.core.log import Entry, Position
from zsched.core.run_cells import cells, remark, with_short_workers
from zsched.core.runs import Run, RunStatus
from zsched.core.sentences import sentence

AT = Position(1, 7, 1_767_225_600_000_000)


def entry(kind: str, *body: str) -> Entry:
    return Entry(AT, kind, [text.encode() for text in body])


def many(what: What, number: int = 5, **more: object) -> list[Change]:
    """Return a change of each of schedules s0, s1, …"""
    return [Change(f"s{n}", what, AT.t_us, AT.id, run_id=f"s{n}-1", **more) for n in range(number)]  # type: ignore[arg-type]


def ends(*statuses: str) -> list[Change]:
    return [Change(f"s{n}", What.RUN_ENDED, AT.t_us, AT.id, run_id=f"s{n}-1", why=w) for n, w in enumerate(statuses)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (many(What.PUT), "put 5 schedules: s0, s1, s2, …"),
        (many(What.FIRED, 3), "fired 3 runs: s0-1, s1-1, s2-1"),
        (many(What.RESTORED), "put back 5 schedules that Redis had lost: s0, s1, s2, …"),
        (many(What.HELD, 2), "found 2 runs in RQ that Redis had lost, not pushed again: s0-1, s1-1"),
        (many(What.PUSHED_AGAIN, 2), "pushed 2 runs again that Redis had lost, marked uncertain: s0-1, s1-1"),
        (many(What.RUN_AGAIN, 2), "pushed 2 runs again after their workers died: s0-1, s1-1"),
        (many(What.COALESCED, 2, count=600), "left out 1,200 occurrences in favour of later ones: s0, s1"),
        (many(What.SKIPPED, 2), "skipped 2 occurrences: s0, s1"),
        (ends("succeeded", "succeeded"), "2 runs succeeded: s0-1, s1-1"),
        (ends("failed", "lost", "failed", "lost"), "2 runs failed: s0-1, s2-1; 2 runs are lost: s1-1, s3-1"),
        (ends("enchanted", "enchanted"), "2 runs ended: s0-1, s1-1"),
    ],
)
def test_a_summary_counts_many_changes_and_names_the_first(found: Sequence[Change], expected: str) -> None:
    assert expected == summary(entry("any"), list(found), "UTC")


def test_a_summary_has_the_whole_sentence_of_a_single_change() -> None:
    paused = Change("a", What.PAUSED, AT.t_us, AT.id)

    told = summary(entry("any"), [paused, *many(What.CANCELLED, 2)], "UTC")

    assert f"a: {sentence(paused, 'UTC')}; cancelled 2 schedules: s0, s1" == told


def test_every_kind_of_change_has_a_summary_for_many() -> None:
    for what in What:
        assert summary(entry("any"), many(what, 2), "UTC")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (entry("term", "daemon", "d1", "server", "s"), "daemon d1 leads"),
        (entry("merged", "archive", "x7", "rows", "1", "1-9", "5"), "all that archive x7 knows is in Redis"),
        (entry("fire"), "nothing of any schedule"),
    ],
)
def test_an_entry_without_changes_has_a_summary(told: Entry, expected: str) -> None:
    assert expected == summary(told, [], "UTC")


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
