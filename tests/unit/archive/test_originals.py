"""The original call of a run, found in the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.archive.ground import DUE_MS, T_US, archived, enqueue, entry, fire, put, put_recurring
from zsched.archive import History
from zsched.archive.originals import Original, Originals
from zsched.core.log import Entry
from zsched.core.log.recovery import Restored

CALL = {b"origin": b"mail", b"data": b"call"}
RUN = f"a-{DUE_MS}"


def fired(seq: int, id: str, nominal_ms: int, word: str = "fired") -> Entry:
    """Return the entry of a rule that pushed a run."""
    return entry(seq, "advance", "rows", 1, id, f"{word} {nominal_ms} - - -")


def original(tmp_path: Path, *entries: Entry, run: str = RUN, **options: Any) -> Original:
    with History(archived(tmp_path / "archive.db", entries, **options)) as history:
        return Originals(history).of(run)


def fields(found: Original) -> dict[bytes, bytes]:
    assert found.is_known
    assert found.record is not None
    return dict(zip(found.record[::2], found.record[1::2], strict=True))


def test_the_original_of_a_one_shot_is_its_last_put_before_it_fired(tmp_path: Path) -> None:
    history = [put(1, "a", data=b"old"), put(2, "a"), fire(3, RUN), put(4, "a", data=b"later")]

    assert CALL.items() <= fields(original(tmp_path, *history)).items()


def test_a_waiting_or_cancelled_schedule_has_no_original_of_a_run(tmp_path: Path) -> None:
    assert Original(False) == original(tmp_path, put(1, "a"), entry(2, "cancel", "rows", 1, "a", DUE_MS))


@pytest.mark.parametrize("run", ["b-1900000000000", "a-1900000000001", "x", "a-1900000000000-nmail"])
def test_the_original_of_a_run_that_was_never_pushed_is_unknown(tmp_path: Path, run: str) -> None:
    assert Original(False) == original(tmp_path, put(1, "a"), fire(2, RUN), run=run)


@pytest.mark.parametrize("word", ["fired", "uncertain"])
def test_the_original_of_a_rules_run_is_the_put_in_force_when_it_fired(tmp_path: Path, word: str) -> None:
    history = [
        put_recurring(1, "a", data=b"old"),
        put_recurring(2, "a"),
        fired(3, "a", DUE_MS, word),
        put_recurring(4, "a", data=b"later"),
        fired(5, "a", DUE_MS + 1),
    ]

    assert CALL == fields(original(tmp_path, *history))


def test_the_original_of_a_skipped_occurrence_is_unknown(tmp_path: Path) -> None:
    assert Original(False) == original(tmp_path, put_recurring(1, "a"), fired(2, "a", DUE_MS, "skipped"))


@pytest.mark.parametrize("ahead_us", [0, 3600 * 1_000_000])
def test_an_extra_run_of_a_rule_has_the_rules_record(tmp_path: Path, ahead_us: int) -> None:
    run = f"a-{(T_US + ahead_us) // 1000}-r1"
    history = [put_recurring(1, "a"), entry(2, "run_now", "id", "a", "run", run, "last", 1)]

    assert CALL == fields(original(tmp_path, *history, run=run))


def test_a_backfilled_run_has_the_rules_record(tmp_path: Path) -> None:
    backfill = entry(3, "backfill", "id", "a", "runs", f"{RUN} a-{DUE_MS + 1}")
    history = [
        put_recurring(1, "a", data=b"old"),
        put_recurring(2, "a"),
        backfill,
        put_recurring(4, "a", data=b"later"),
    ]

    assert CALL == fields(original(tmp_path, *history, run=RUN))


def test_the_original_of_a_one_shot_run_on_request_is_its_put(tmp_path: Path) -> None:
    assert (
        CALL.items()
        <= fields(original(tmp_path, put(1, "a"), entry(2, "run_now", "id", "a", "run", RUN, "last", 0))).items()
    )


def test_the_original_of_an_enqueued_or_retried_run_is_its_own_entry(tmp_path: Path) -> None:
    other = [f"{RUN}-r1", f"0 2 {RUN}", "origin", "sms", "data", "other"]
    texts = [f"{RUN}-r2", f"1 2 {RUN}", "origin", "mail", "data", "call"]
    history = [enqueue(1, RUN, data=b"first"), entry(2, "enqueue", "rows", 2, *other, *texts)]

    assert CALL | {b"zs": b"1f"} == fields(original(tmp_path, *history, run=f"{RUN}-r2"))


def test_the_original_of_a_restored_run_is_its_restore(tmp_path: Path) -> None:
    job = [b"origin", b"mail", b"data", b"call"]
    row = Restored("a", str(DUE_MS), "open", "", DUE_MS, T_US, None, job, [b"flags", b"s"])
    history = [entry(1, "restore", "reason", "lost", "archive", "x", "rows", 1, *row.texts())]

    assert CALL | {b"zs": b"1s"} == fields(original(tmp_path, *history))


def test_a_run_without_arguments_has_an_original_as_long_as_arguments_are_kept(tmp_path: Path) -> None:
    found = original(tmp_path, enqueue(1, RUN), keep_args=False)

    assert CALL == fields(found)


def test_a_push_without_a_record_is_known_to_have_happened(tmp_path: Path) -> None:
    assert Original(True) == original(tmp_path, fire(1, RUN))
