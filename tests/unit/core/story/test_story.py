"""The story of a schedule: a line for every kind of change, gaps, backfills, and its source."""

import re
from functools import partial

import pytest

from tests.unit.core.stories import (
    COMPLETE,
    DUE,
    DUE_MS,
    MINUTE_MS,
    PARTIAL,
    REDIS,
    RUN,
    change,
    held,
    put,
    story,
    texts,
)
from zsched.core.clock import LAST_MS
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.story.sentences import local_text, sentence
from zsched.core.story.source import Source

found, fired, skipped = (partial(change, what) for what in (What.FOUND, What.FIRED, What.SKIPPED))
enqueued, taken_out = partial(change, What.ENQUEUED), partial(change, What.WITHDRAWN)
OF_RUN, SINGLE = {"nominal_ms": DUE_MS, "run_id": RUN}, {"first_ms": DUE_MS, "last_ms": DUE_MS}
BEFORE = " earlier history is not in this archive"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (put(0), f"created for {DUE}"),
        (put(0, by="me"), f"created by me for {DUE}"),
        (put(0, None), "created for no time: it has ended"),
        (found(nominal_ms=DUE_MS, why="due"), f"found in Redis (active, due {DUE}):{BEFORE}"),
        (found(run_id=RUN, why="open"), f"found in Redis: run {RUN} was not over;{BEFORE}"),
        (change(What.PAUSED), "paused"),
        (change(What.PAUSED, why="until May"), 'paused: "until May"'),
        (change(What.PAUSED, why="until May", by="ann@host"), 'paused by ann@host: "until May"'),
        (change(What.RESUMED, nominal_ms=DUE_MS + 1), "resumed; next 2026-01-01 00:00:00.001+00:00"),
        (change(What.RESUMED, nominal_ms=DUE_MS), f"resumed; it was due {DUE}"),
        (change(What.RESUMED, nominal_ms=DUE_MS, by="ann@host"), f"resumed by ann@host; it was due {DUE}"),
        (fired(DUE_MS + 0.4, **OF_RUN), f"fired for {DUE}, 0.4 ms late; run {RUN}"),
        (
            fired(**OF_RUN, why="uncertain"),
            f"fired for {DUE}, 0.0 ms late; run {RUN}; uncertain: a lost Redis may have pushed this run already",
        ),
        (fired(**OF_RUN, why="waits for a-1"), f"fired for {DUE}, 0.0 ms late; run {RUN}; it waits for a-1"),
        (enqueued(run_id=RUN, by="me"), f"enqueued by me; run {RUN}"),
        (change(What.RETRIED, run_id=f"{RUN}-r1", why=RUN), f"retry of {RUN}, on request; run {RUN}-r1"),
        (change(What.RETRIED, run_id=f"{RUN}-r1", why=RUN, by="me"), f"retry of {RUN}, asked by me; run {RUN}-r1"),
        (enqueued(run_id=RUN, why="run now"), f"run now, on request; run {RUN}"),
        (enqueued(run_id=RUN, why="run now", by="me"), f"run now, asked by me; run {RUN}"),
        (enqueued(**OF_RUN, why="backfill", by="me"), f"backfilled by me: the occurrence of {DUE}; run {RUN}"),
        (skipped(nominal_ms=DUE_MS, why="uncertain"), f"skipped {DUE}: a lost Redis may have pushed it already"),
        (skipped(nominal_ms=DUE_MS, why="overlap: a-1 was still open"), f"skipped {DUE}: overlap: a-1 was still open"),
        (skipped(**SINGLE, why="paused"), f"skipped the occurrence of {DUE}: it was paused"),
        (
            skipped(first_ms=DUE_MS, last_ms=DUE_MS + MINUTE_MS, count=1234, why="paused"),
            f"skipped 1,234 occurrences, {DUE} to 2026-01-01 00:01:00+00:00: it was paused",
        ),
        (
            skipped(**SINGLE, why="paused", by="me"),
            f"skipped the occurrence of {DUE}: it was paused, and was resumed without it by me",
        ),
        (
            change(What.COALESCED, **SINGLE, nominal_ms=DUE_MS + MINUTE_MS),
            f"left out the occurrence of {DUE} in favour of 2026-01-01 00:01:00+00:00: all had passed by then",
        ),
        (
            change(What.DUPLICATE, **OF_RUN),
            f"not pushed for {DUE}: another program had made a job of run {RUN}, which was never pushed",
        ),
        (change(What.CANCELLED, nominal_ms=DUE_MS), f"cancelled; it was for {DUE}"),
        (change(What.CANCELLED, nominal_ms=DUE_MS, by="ann@host"), f"cancelled by ann@host; it was for {DUE}"),
        (change(What.CANCELLED, why="its status in RQ is canceled"), "cancelled (its status in RQ is canceled)"),
        (change(What.QUARANTINED, nominal_ms=DUE_MS, why="its hash is gone"), "quarantined: its hash is gone"),
        (
            change(What.REPLANNED, nominal_ms=DUE_MS, next_ms=DUE_MS + MINUTE_MS, why="tzdata 2025b → 2026a"),
            f"its zone's rules changed (tzdata 2025b → 2026a): next 2026-01-01 00:01:00+00:00 instead of {DUE}",
        ),
        (
            change(What.RELEASED, run_id=RUN, why="a-1 is over"),
            f"run {RUN} was released to its queue: a-1 is over",
        ),
        (change(What.RESTORED, nominal_ms=DUE_MS, why="lost"), f"restored, due {DUE}: Redis had lost it"),
        (change(What.RESTORED, why="lost", by="ann@host"), "restored by ann@host: Redis had lost it"),
        (change(What.RESTORED, why="audit"), "restored: it was missing from Redis, and the log has no reason"),
        (
            change(What.RESTORED, nominal_ms=DUE_MS, why="corrected"),
            f"restored, due {DUE}: an archive had restored an older state, and another one knows a later change",
        ),
        (
            taken_out(why="corrected"),
            "removed again: an archive that did not know that it fired or was cancelled had restored it",
        ),
        (taken_out(why="audit"), "removed: RQ has its run already"),
        (taken_out(why="lost"), "removed again: Redis had gone back to a time before it fired or was cancelled"),
        (change(What.ENDED), "ended: its rule gives no more occurrences"),
    ],
)
def test_every_kind_of_change_has_its_sentence(told: Change, expected: str) -> None:
    assert [expected] == texts(told)


def test_a_duplicate_of_a_pushed_or_unknown_run_is_shown_as_not_pushed_again() -> None:
    pushed = change(What.FIRED, DUE_MS, nominal_ms=DUE_MS, run_id=RUN)
    duplicate = change(What.DUPLICATE, DUE_MS + 1, nominal_ms=DUE_MS, run_id=RUN)
    again = f"not pushed again for {DUE}: run {RUN} was there already"

    assert again == texts(pushed, duplicate)[-1]
    assert [again] == texts(duplicate, source=Source("host:/a.db", DUE_MS + 1, "1-9"))


def test_a_run_that_was_never_pushed_was_made_by_another_program() -> None:
    duplicate = change(What.DUPLICATE, DUE_MS + 1, nominal_ms=DUE_MS, run_id=RUN)

    for source in (COMPLETE, Source("host:/a.db", DUE_MS, "1-9"), Source(None, DUE_MS, "1-9")):
        [told] = texts(duplicate, source=source)
        assert "another program had made a job of run" in told


def test_every_kind_of_change_has_a_sentence_without_a_story() -> None:
    for what in What:
        assert sentence(change(what, DUE_MS + 5000, nominal_ms=DUE_MS, run_id=RUN), "UTC")


SOON = "2026-01-01 00:00:01+00:00"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (put(0), f"put for {DUE}"),
        (change(What.FIRED, DUE_MS + 5000, nominal_ms=DUE_MS, run_id=RUN), f"fired for {DUE}, 5.0 s late; run {RUN}"),
        (
            change(What.FIRED, DUE_MS + 1500, nominal_ms=DUE_MS, jitter_ms=1000, run_id=RUN),
            f"fired for {DUE} (due {SOON}, by its jitter), 500.0 ms late; run {RUN}",
        ),
        (
            change(What.EXPIRED, DUE_MS + 5000, nominal_ms=DUE_MS, run_id=RUN),
            f"expired: the occurrence of {DUE} was 5.0 s late, more than expires_after allows",
        ),
    ],
)
def test_the_sentence_of_a_single_change_claims_nothing_about_earlier_changes(told: Change, expected: str) -> None:
    assert expected == sentence(told, "UTC")


def test_times_are_local_in_the_requested_zone_or_the_zone_of_the_schedule() -> None:
    seoul, new_york = held(tz="Asia/Seoul"), "America/New_York"

    assert ["created for 2026-01-01 09:00:00+09:00"] == texts(put(0), schedule=seoul)
    assert ["created for 2025-12-31 19:00:00-05:00"] == texts(put(0), schedule=seoul, tz=new_york)
    assert "Asia/Seoul" == story(put(0), schedule=seoul).tz


def test_a_time_of_before_a_change_of_zone_is_shown_in_the_zone_of_that_time() -> None:
    moved = put(2, changed=("tz: - → Asia/Seoul", "args: [1] → [2]")), put(4, changed=("tz: Asia/Seoul → Etc/GMT+8",))
    changes = put(0), fired(1, **OF_RUN), moved[0], fired(3, **OF_RUN), moved[1], fired(5, **OF_RUN)
    here = held(tz="Etc/GMT+8")

    shown = [re.findall(r"(?:2025-12-31|2026-01-01) [^ ,]+", text)[0] for text in texts(*changes, schedule=here)]

    utc, seoul, west = DUE, "2026-01-01 09:00:00+09:00", "2025-12-31 16:00:00-08:00"
    assert [utc, utc, seoul, seoul, west, west] == shown
    told = texts(*changes, schedule=here, tz="Asia/Seoul")
    assert 6 == sum(seoul in text for text in told)


def test_a_time_that_another_writer_wrote_is_brought_into_range() -> None:
    assert "9999-12-31 23:59:59.999+00:00" == local_text(10**30 + 1, "Asia/Seoul")
    assert "1970-01-01 00:00:00.000+00:00" == local_text(-5, "UTC", has_ms=True)
    assert "9999-12-31T23:59:59.999Z" == change(What.PUT, nominal_ms=LAST_MS * 1000).shown()["nominal_at"]


def test_lateness_is_shown_to_the_microsecond() -> None:
    assert 0.001234 == change(What.FIRED, DUE_MS + 1.2341, nominal_ms=DUE_MS).shown()["late_s"]


@pytest.mark.parametrize(
    ("before", "verb"),
    [
        ([put(1)], "changed: now"),
        ([put(1), change(What.PAUSED, 2)], "changed: now"),
        ([put(1), change(What.QUARANTINED, 2)], "changed: now"),
        ([put(1), change(What.CANCELLED, 2)], "created"),
        ([put(1), change(What.FIRED, 2, nominal_ms=1)], "created"),
        ([put(1), change(What.ENQUEUED, 2, why="run now")], "created"),
        ([put(1), change(What.ENQUEUED, 2)], "created"),
        ([put(1), change(What.FIRED, 2, nominal_ms=1), change(What.RETRIED, 3, why=RUN)], "created"),
        ([put(1), change(What.RETRIED, 2, why=RUN)], "changed: now"),
        ([put(1), change(What.SKIPPED, 2, nominal_ms=1, why="uncertain")], "created"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.FIRED, 2, nominal_ms=1, next_ms=3)], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.ENQUEUED, 2, why="run now")], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.SKIPPED, 2, first_ms=1, last_ms=1)], "changed: now"),
        ([change(What.PUT, 1, nominal_ms=1), change(What.FIRED, 2), change(What.ENDED, 2)], "changed: now"),
        ([change(What.FOUND, 1, why="due"), change(What.FIRED, 2)], "changed: now"),
        ([change(What.REPLANNED, 1, nominal_ms=1, next_ms=2), change(What.FIRED, 2)], "changed: now"),
        ([change(What.FOUND, 1, run_id=RUN, why="open")], "created"),
    ],
)
def test_a_put_is_shown_as_created_or_as_changed(before: list[Change], verb: str) -> None:
    assert f"{verb} for {DUE}" == texts(*before, put(9))[-1]


def test_left_out_changes_are_mentioned_after_the_whole_first_entry() -> None:
    first = [change(What.COALESCED, 1, first_ms=1, last_ms=1, nominal_ms=2), change(What.FIRED, 1, nominal_ms=2)]
    last = [change(What.FIRED, 9, nominal_ms=9), change(What.ENDED, 9)]

    for left_out, line in ((1200, ["… 1,200"]), (0, [])):
        words = [re.match(r"(… )?\S+", text)[0] for text in texts(*first, *last, left_out=left_out)]
        assert ["left", "fired", *line, "fired", "ended:"] == words


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (COMPLETE, "from the archive host:/a.db, complete since the beginning, up to log entry 1-9"),
        (PARTIAL, f"from the archive host:/a.db, complete since {DUE}, up to log entry 1-9"),
        (REDIS, f"from Redis alone, whose log goes back to {DUE}: no archive answered within 2 s"),
        (Source(None, None, None), "from Redis alone, whose log is empty"),
    ],
)
def test_a_source_names_its_archive_and_its_range(source: Source, expected: str) -> None:
    assert expected == str(source)


def test_a_story_in_json_has_readable_instants() -> None:
    told = story(put(DUE_MS + 1), source=REDIS).to_dict()

    assert {"archive": None, "complete_since": "2026-01-01T00:00:00.000Z", "as_of": "1-9"} == {
        name: value for name, value in told["source"].items() if name not in ("as_of_at", "place", "problem")
    }
    assert ["2026-01-01T00:00:00.001Z"] == [line["at"] for line in told["story"]]
    assert ("2026-01-01T00:00:00.000Z", "put", None) == tuple(
        told["changes"][0][name] for name in ("nominal_at", "what", "late_s")
    )


def backfilled(*hours: int, entry: str = "1-5") -> list[Change]:
    times = [DUE_MS + hour * 60 * MINUTE_MS for hour in hours]
    return [change(What.ENQUEUED, entry=entry, run_id=f"a-{t}", nominal_ms=t, why="backfill") for t in times]


CREATED, THREE = f"created for {DUE}", "2025-12-31 21:00:00+00:00 to 2025-12-31 23:00:00+00:00"
ONE = f"backfilled the occurrence of {DUE}; run a-{DUE_MS}"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            [put(0), *backfilled(-3, -2), *backfilled(-1, entry="1-6"), change(What.PAUSED, why="backfill")],
            [CREATED, f"backfilled 3 occurrences, {THREE}", 'paused: "backfill"'],
        ),
        ([put(0), *backfilled(0)], [CREATED, ONE]),
        ([*backfilled(0), change(What.PUT, nominal_ms=DUE_MS)], [ONE, f"changed: now for {DUE}"]),
    ],
)
def test_a_backfill_is_one_line_which_names_a_single_run(changes: list[Change], lines: list[str]) -> None:
    assert lines == texts(*changes)


def test_left_out_changes_are_not_hidden_in_a_backfill() -> None:
    told = texts(*backfilled(0, 1), *backfilled(6, 7, entry="1-9"), left_out=3)

    assert ["backfilled 2", "… 3 more changes lie before this …", "backfilled 2"] == [
        text if text.startswith("…") else text[:12] for text in told
    ]
