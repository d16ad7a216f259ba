"""The deadlines in an archive's state: of occurrences that wait, run or failed, until they are settled or logged."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders.entries import advance, cancel, end, entry, fire, put, put_recurring, restore, row_fields
from tests.builders.records import DUE_MS, RUN, job, one_shot, rule
from tests.unit.archive.contents import take
from zsched.archive import Archive, History
from zsched.archive.deadlines import deadlines_of
from zsched.archive.search import Search
from zsched.core.clock import LAST_MS
from zsched.core.entry import Entry, Position
from zsched.core.facets import Facets
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import Run, RunStatus

SECOND_MS = 1000
NEXT = DUE_MS + 60_000
BEFORE_US, AFTER_US = (DUE_MS + 5 * SECOND_MS) * 1000, (DUE_MS + 15 * SECOND_MS) * 1000  # the deadline, 10 s
OF_A, OF_R, OF_NEXT = f"a-{RUN} {DUE_MS + 10_000}", f"r-{RUN} {DUE_MS + 10_000}", f"r-{NEXT} {NEXT + 10_000}"
FAILED = Run(f"a-{RUN}", RunStatus.FAILED, ended_ms=DUE_MS + 1000)


def with_deadline(given: Entry, after: bytes) -> Entry:
    """Return a put whose jobs have ``done_by``; their number is behind *after*."""
    texts = list(given.body)
    at = texts.index(after) + 1
    texts[at] = b"%d" % (int(texts[at]) + 1)
    return Entry(given.position, given.kind, [*texts[: at + 1], b"zs_done_by", b"10s", *texts[at + 1 :]])


def one_shots(seq: int, *ids: str, **more: Any) -> Entry:
    return with_deadline(put(seq, *ids, **more), b"fields")


def rules(seq: int, *ids: str) -> Entry:
    return with_deadline(put_recurring(seq, *ids), b"template")


def moved(seq: int, words: str, t_us: int = BEFORE_US) -> Entry:
    """Return the entry of rule ``r`` that goes on to NEXT."""
    return advance(seq, f"r {words} {NEXT} {NEXT} -", t_us=t_us)


def ended(seq: int, status: str, of: str = f"a-{RUN}", ended_ms: int = DUE_MS + 9999, t_us: int = BEFORE_US) -> Entry:
    return end(seq, Run(of, RunStatus(status), ended_ms=ended_ms), t_us=t_us)


PAUSE = entry(2, "pause", "note", "", "rows", 1, "a", f"low {DUE_MS}")
PAUSE_R = entry(2, "pause", "note", "", "rows", 1, "r", f"low {DUE_MS}")
RESUME = entry(3, "resume", "rows", 1, "a", f"low {DUE_MS}")
LOGGED = entry(9, "deadline", *row_fields("deadline", f"a-{RUN} {DUE_MS + 10_000} 1 failed"))
AGAIN = entry(5, "enqueue", "rows", 1, f"a-{RUN}-r1", f"0 1 a-{RUN}", "zs_done_by", "10s", t_us=BEFORE_US)
WITH: dict[str, Any] = {"job": job(zs_done_by="10s")}
STATES: dict[str, tuple[list[Entry], list[str]]] = {
    "waiting": ([one_shots(1, "a")], [OF_A]),
    "waiting without the option": ([put(1, "a")], []),
    "fired": ([one_shots(1, "a"), fire(2, f"a-{RUN}")], [OF_A]),
    "replaced without the option": ([one_shots(1, "a"), put(2, "a", replaced="a")], []),
    "cancelled": ([one_shots(1, "a"), cancel(2, "a")], []),
    "cancelled too late": ([one_shots(1, "a"), entry(2, "cancel", "rows", 1, "a", DUE_MS, t_us=AFTER_US)], [OF_A]),
    "paused": ([one_shots(1, "a"), PAUSE], []),
    "put while it is paused": ([one_shots(1, "a", paused="a")], []),
    "resumed": ([one_shots(1, "a"), PAUSE, RESUME], [OF_A]),
    "expired": ([one_shots(1, "a"), fire(2, expired=f"a-{RUN}")], []),
    "succeeded": ([one_shots(1, "a"), fire(2, f"a-{RUN}"), ended(3, "succeeded")], []),
    "succeeded, and told late": ([one_shots(1, "a"), ended(3, "succeeded", t_us=AFTER_US)], []),
    "succeeded late": ([one_shots(1, "a"), ended(3, "succeeded", ended_ms=DUE_MS + 10_001, t_us=AFTER_US)], [OF_A]),
    "failed": ([one_shots(1, "a"), fire(2, f"a-{RUN}"), ended(3, "failed")], [OF_A]),
    "retried": ([one_shots(1, "a"), fire(2, f"a-{RUN}"), ended(3, "failed"), AGAIN], [OF_A]),
    "saved by a retry": (
        [one_shots(1, "a"), ended(3, "failed"), AGAIN, ended(6, "succeeded", f"a-{RUN}-r1")],
        [],
    ),
    "logged": ([one_shots(1, "a"), fire(2, f"a-{RUN}"), ended(3, "failed"), LOGGED], []),
    "a rule": ([rules(1, "r")], [OF_R]),
    "a fired rule": ([rules(1, "r"), moved(2, f"fired {DUE_MS}")], [OF_R, OF_NEXT]),
    "a skipped rule": ([rules(1, "r"), moved(2, f"overlap {DUE_MS}")], [OF_NEXT]),
    "a rule skipped too late": ([rules(1, "r"), moved(2, f"overlap {DUE_MS}", AFTER_US)], [OF_R, OF_NEXT]),
    "a rule logged, then fired": (
        [rules(1, "r"), entry(2, "deadline", *row_fields("deadline", f"r-{RUN} 5 0 never fired")),
         moved(3, f"fired {DUE_MS}", AFTER_US)],
        [OF_NEXT],
    ),
    "a paused rule": ([rules(1, "r"), PAUSE_R], []),
    "a rule in quarantine": ([rules(1, "r"), entry(2, "quarantine", "rows", 1, "r", f"high {DUE_MS}")], [OF_R]),
    "a cancelled rule": ([rules(1, "r"), moved(2, f"fired {DUE_MS}"), entry(3, "cancel", "rows", 1, "r", NEXT)],
                         [OF_R]),
    "a rule put again": ([rules(1, "r"), put_recurring(2, "r")], []),
    "restored": ([restore(1, one_shot(**WITH), rule("paused", note="5 "))], [OF_A]),
    "restored in another state": ([one_shots(1, "a"), restore(2, one_shot("open", **WITH))], [OF_A]),
    "restored after its deadline": (
        [restore(1, one_shot("open", **WITH))._replace(position=Position(1, 1, AFTER_US))], []
    ),
}  # fmt: skip


def pending(path: Path) -> list[str]:
    """Return the deadlines that are not settled: ``<run id> <deadline>``."""
    with History(path) as history:
        return [f"{one.run_id} {one.at_ms}" for one in deadlines_of(history, 0, LAST_MS, 10)]


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("is_written", [True, False])
def test_a_state_has_the_deadlines_that_are_not_settled(path: Path, name: str, is_written: bool) -> None:
    given, expected = STATES[name]

    with closing(Archive(path, "default")) as archive:
        for part in [[one] for one in given] if is_written else [given]:
            take(archive, *part)

        assert expected == pending(path)


def test_a_bootstrap_reads_the_deadlines_that_have_not_passed(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a", "old"))
        archive.begin_bootstrap()
        archive.scan([one_shot(**WITH), rule("paused", job=WITH["job"])], Position(1, 2, BEFORE_US))
        archive.scan([one_shot("open", "late", **WITH)], Position(1, 2, AFTER_US))
        archive.end_bootstrap("start")

        assert [OF_A] == pending(path)


def test_a_bootstrap_keeps_deadlines_of_the_state_before_unless_their_occurrences_went_on_unseen(path: Path) -> None:
    after, gone = Position(1, 8, AFTER_US), ended(4, "failed", f"failed-{RUN}")
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a", "gone", "moved", "failed", "told"), rules(2, "r", "ahead"), gone)
        archive.begin_bootstrap()
        archive.scan(
            [one_shot("open", **WITH), one_shot(id="moved", run="5", **WITH), one_shot("open", "told", **WITH)], after
        )
        archive.scan([rule(job=WITH["job"]), rule(id="ahead", nominal_ms=NEXT, job=WITH["job"])], after)
        archive.append([entry(9, "deadline", *row_fields("deadline", f"told-{RUN} 5 1 failed"), t_us=AFTER_US)])
        archive.end_bootstrap("start")

        assert [OF_A, f"failed-{RUN} {DUE_MS + 10_000}", OF_R, f"ahead-{NEXT} {NEXT + 10_000}"] == pending(path)


def test_a_bootstrap_keeps_no_deadline_that_the_log_before_its_scan_has(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a", "logged"))
        archive.begin_bootstrap()
        archive.copy([entry(2, "deadline", *row_fields("deadline", f"logged-{RUN} 5 1 failed"), t_us=AFTER_US)])
        archive.scan([one_shot("open", **WITH), one_shot("open", "logged", **WITH)], Position(1, 2, AFTER_US))
        archive.end_bootstrap("start")

        assert [OF_A] == pending(path)


def test_a_bootstrap_from_the_log_of_a_redis_that_went_back_brings_no_settled_deadline_back(path: Path) -> None:
    puts = [one_shots(1, "a", "logged", "b"), rules(2, "r")]
    lost = [
        moved(3, f"fired {DUE_MS}"),
        ended(4, "succeeded"),
        ended(5, "succeeded", f"r-{RUN}"),
        entry(6, "deadline", *row_fields("deadline", f"logged-{RUN} 5 1 failed"), t_us=AFTER_US),
    ]
    later = [restore(7, one_shot("over"), one_shot("gone", "logged"))._replace(position=Position(2, 3, AFTER_US))]
    later += [advance(4, f"r fired {DUE_MS} {NEXT} {NEXT} -", epoch=2, t_us=AFTER_US), one_shots(9, "c")]
    with closing(Archive(path, "default")) as archive:
        take(archive, *puts, *lost)
        archive.begin_bootstrap()
        archive.append([*puts, *later])
        archive.end_bootstrap("start")

        assert [f"b-{RUN} {DUE_MS + 10_000}", f"c-{RUN} {DUE_MS + 10_000}", OF_NEXT] == pending(path)


def test_an_archive_that_was_left_behind_forgets_its_deadlines(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a"))
        archive.leave_behind()

        assert [] == pending(path)


def test_an_unfinished_bootstrap_leaves_the_deadlines_of_the_state_before(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a"))
        archive.begin_bootstrap()
        archive.scan([one_shot(id="b", **WITH)], Position(1, 2, BEFORE_US))

    with closing(Archive(path, "default")):
        assert [OF_A] == pending(path)


def test_a_missed_deadline_is_found_with_the_facets_of_its_schedule(path: Path) -> None:
    wanted = Wanted(frozenset({What.DEADLINE_MISSED}), frozenset(), 10, facets=Facets(queue="mail", owner="ann"))
    with closing(Archive(path, "default")) as archive:
        take(archive, one_shots(1, "a"), fire(2, f"a-{RUN}"), ended(3, "failed"), LOGGED)

    with History(path) as history:
        [found] = Search(history, wanted).next_part().occurrences

    assert (f"a-{RUN}", "failed", DUE_MS + 10_000) == (found.run_id, found.why, found.next_ms)


def test_an_unreadable_deadline_leaves_its_schedule_without_one(path: Path) -> None:
    broken = [one_shot(id=str(n), job=job(zs_done_by=text, zs_tz=tz)) for n, (text, tz) in enumerate(BROKEN)]
    with closing(Archive(path, "default")) as archive:
        take(archive, restore(1, *broken))

        assert [] == pending(path)


BROKEN = [("25:00", "UTC"), ("soon", "UTC"), ("06:00", "Mars/Base"), ("9" * 30 + "w", "UTC")]
