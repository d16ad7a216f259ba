"""The original call of a run, found in the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.archive.ground import (
    DUE_MS,
    JOB,
    T_US,
    archived,
    cancel,
    enqueue,
    entry,
    fire,
    put,
    put_recurring,
    restore,
)
from zsched.archive import History
from zsched.archive.originals import Original, Originals
from zsched.core.log import Entry
from zsched.core.log.recovery import Restored

CALL = {b"origin": b"mail", b"data": b"call"}
RUN = f"a-{DUE_MS}"


def fired(seq: int, id: str, nominal_ms: int, word: str = "fired") -> Entry:
    """Return the entry of a rule that pushed a run."""
    return entry(seq, "advance", "rows", 1, id, f"{word} {nominal_ms} - - -")


def original(path: Path, *entries: Entry, run: str = RUN, **options: Any) -> Original:
    with History(archived(path, entries, **options)) as history:
        return Originals(history).of(run)


def fields(found: Original) -> dict[bytes, bytes]:
    assert found.is_known
    assert found.record is not None
    return dict(zip(found.record[::2], found.record[1::2], strict=True))


def run_now(seq: int, run: str, last: int) -> Entry:
    return entry(seq, "run_now", "id", "a", "run", run, "last", last)


ONE_SHOT = CALL | {b"zs_created_by": b"ann"}
RULES, LATER = [put_recurring(1, "a", data=b"old"), put_recurring(2, "a")], put_recurring(4, "a", data=b"later")
EXTRA, AHEAD = f"a-{T_US // 1000}-r1", f"a-{T_US // 1000 + 3_600_000}-r1"
MANY = ["rows", 2, f"{RUN}-r1", f"0 2 {RUN}", "origin", "sms", "data", "other"]
MANY += [f"{RUN}-r2", f"1 2 {RUN}", "origin", "mail", "data", "call"]
OPEN = Restored("a", str(DUE_MS), "open", "", DUE_MS, T_US, None, JOB, [b"flags", b"s"])
# entries, run, the fields of its original
FOUND: dict[str, tuple[list[Entry], str, dict[bytes, bytes]]] = {
    "a one-shot: its last put before it fired": (
        [put(1, "a", data=b"old"), put(2, "a"), fire(3, RUN), put(4, "a", data=b"later")], RUN, ONE_SHOT),
    "a rule: the put in force when it fired": (
        [*RULES, fired(3, "a", DUE_MS), LATER, fired(5, "a", DUE_MS + 1)], RUN, CALL),
    "a rule that fired uncertain": (
        [*RULES, fired(3, "a", DUE_MS, "uncertain"), LATER, fired(5, "a", DUE_MS + 1)], RUN, CALL),
    "an extra run of a rule": ([put_recurring(1, "a"), run_now(2, EXTRA, 1)], EXTRA, CALL),
    "an extra run by a clock that is ahead": ([put_recurring(1, "a"), run_now(2, AHEAD, 1)], AHEAD, CALL),
    "a backfilled run": ([*RULES, entry(3, "backfill", "id", "a", "runs", f"{RUN} a-{DUE_MS + 1}"), LATER], RUN, CALL),
    "a one-shot on request": ([put(1, "a"), run_now(2, RUN, 0)], RUN, ONE_SHOT),
    "a retried run: its own entry": (
        [enqueue(1, RUN, data=b"first"), entry(2, "enqueue", *MANY)], f"{RUN}-r2", CALL | {b"zs": b"1f"}),
    "a restored run: its restore": ([restore(1, OPEN)], RUN, CALL | {b"zs": b"1s"}),
}  # fmt: skip


@pytest.mark.parametrize(("history", "run", "expected"), FOUND.values(), ids=FOUND)
def test_a_run_that_was_pushed_has_an_original(
    path: Path, history: list[Entry], run: str, expected: dict[bytes, bytes]
) -> None:
    assert expected == fields(original(path, *history, run=run))


ELSEWHERE = ["b-1900000000000", "a-1900000000001", "x", "a-1900000000000-nmail"]


@pytest.mark.parametrize(
    ("history", "run"),
    [
        ([put(1, "a"), cancel(2, "a")], RUN),
        ([put_recurring(1, "a"), fired(2, "a", DUE_MS, "skipped")], RUN),
        *(([put(1, "a"), fire(2, RUN)], run) for run in ELSEWHERE),
    ],
)
def test_the_original_of_a_run_that_was_never_pushed_is_unknown(path: Path, history: list[Entry], run: str) -> None:
    assert Original(False) == original(path, *history, run=run)


def test_a_run_without_arguments_has_an_original_as_long_as_arguments_are_kept(path: Path) -> None:
    assert CALL == fields(original(path, enqueue(1, RUN), keep_args=False))


def test_a_push_without_a_record_is_known_to_have_happened(path: Path) -> None:
    assert Original(True) == original(path, fire(1, RUN))
