"""Records of pushed runs: entries of retries, and the original call of a run, found in the history."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builders.entries import T_US, advance, cancel, enqueue, entry, fire, put, put_recurring, restore
from tests.builders.records import DUE_MS, TEMPLATE, open_run
from tests.states import state_of
from tests.unit.archive.contents import archived, places, rows
from zsched.archive import Archive, History
from zsched.archive.body import unpack
from zsched.archive.runs import original_of
from zsched.core.entry import Entry, UnknownEntry
from zsched.core.log.kinds import changes, touches
from zsched.core.log.puts import EnqueueEntry
from zsched.core.occurrences.outcomes import What

CALL = {b"origin": b"mail", b"data": b"call"}
RUN = f"a-{DUE_MS}"


def fired(seq: int, id: str, nominal_ms: int, word: str = "fired") -> Entry:
    """Return the entry of a rule that pushed a run."""
    return advance(seq, f"{id} {word} {nominal_ms} - - -")


def original(path: Path, *entries: Entry, run: str = RUN, **options: Any) -> list[bytes] | None:
    with History(archived(path, entries, **options)) as history:
        return original_of(history, run)


def fields(found: list[bytes] | None) -> dict[bytes, bytes]:
    assert found
    return dict(zip(found[::2], found[1::2], strict=True))


def run_now(seq: int, run: str, last: int) -> Entry:
    return entry(seq, "run_now", "id", "a", "run", run, "last", last)


ONE_SHOT = CALL | {b"zs_owner": b"ann"}
RULES, LATER = [put_recurring(1, "a", data=b"old"), put_recurring(2, "a")], put_recurring(4, "a", data=b"later")
EXTRA, AHEAD = f"a-{T_US // 1000}-r1", f"a-{T_US // 1000 + 3_600_000}-r1"
MANY = ["rows", 2, f"{RUN}-r1", f"0 2 {RUN}", "origin", "sms", "data", "other"]
MANY += [f"{RUN}-r2", f"1 2 {RUN}", "origin", "mail", "data", "call"]
OPEN = open_run(job=TEMPLATE, own=[b"flags", b"s"])
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
    "a restored run: its restore": ([restore(1, OPEN)], RUN, OPEN.job_fields() | {b"zs": b"1s"}),
}  # fmt: skip


@pytest.mark.parametrize(("history", "run", "expected"), FOUND.values(), ids=FOUND)
def test_a_pushed_run_has_an_original(path: Path, history: list[Entry], run: str, expected: dict[bytes, bytes]) -> None:
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
    assert original(path, *history, run=run) is None


def test_a_run_without_arguments_has_an_original_as_long_as_arguments_are_kept(path: Path) -> None:
    assert CALL == fields(original(path, enqueue(1, RUN), keep_args=False))


def test_a_push_without_a_record_is_known_to_have_happened(path: Path) -> None:
    assert [] == original(path, fire(1, RUN))


BEFORE = f"a-{DUE_MS - 1}"
AGAIN = f"{BEFORE}-r2"


def retried(seq: int, *pairs: str) -> Entry:
    texts = pairs or ("origin", "mail", "data", "call")
    return entry(seq, "enqueue", "rows", 1, AGAIN, f"0 {len(texts) // 2} {BEFORE}", *texts)


@pytest.mark.parametrize("schedule", [put(1, "a"), put_recurring(1, "a")], ids=["one-shot", "rule"])
def test_a_retry_keeps_the_schedule_of_its_id_and_opens_the_run(archive: Archive, schedule: Entry) -> None:
    archive.append([schedule])
    before = places(archive)
    archive.append([retried(2)])

    assert before | {AGAIN: "open"} == places(archive)
    [record] = [row for row in state_of(archive) if row.place == "open"]
    assert {b"origin": b"mail", b"data": b"call"} == record.job_fields()


def test_an_enqueued_run_replaces_the_schedule_as_before(archive: Archive) -> None:
    archive.append([put(1, "a"), enqueue(2, BEFORE)])

    assert {BEFORE: "open"} == places(archive)


def test_an_enqueue_of_another_run_counts_as_a_retry_which_touches_only_its_run() -> None:
    [change] = changes(retried(1, "origin", "mail", "data", "call", "zs_owner", "ann")._replace(by=b"bob"))

    assert (What.RETRIED, AGAIN, BEFORE, "bob") == (change.what, change.run_id, change.why, change.by)
    assert [("a", AGAIN[2:])] == [key for key, _ in touches(retried(1), "")]
    assert [("a", ""), ("a", BEFORE[2:])] == [key for key, _ in touches(enqueue(1, BEFORE), "")]


def test_removing_arguments_keeps_the_id_of_the_retried_run(path: Path) -> None:
    archived(path, [retried(1, "origin", "mail", "data", "secret")], keep_args=False)

    [texts] = [unpack(body) for (body,) in rows(path, "SELECT body FROM entry")]
    assert b"secret" not in texts
    assert f"0 2 {BEFORE}".encode() in texts


@pytest.mark.parametrize("size", ["0", "3", "x"])
def test_a_truncated_enqueue_entry_is_not_read(size: str) -> None:
    with pytest.raises(UnknownEntry):
        list(changes(entry(1, "enqueue", "rows", 1, BEFORE, f"0 {size} -", "origin", "mail")))


def test_an_entry_of_many_retries_opens_each_run_with_its_own_record(path: Path) -> None:
    texts = (f"a-{DUE_MS}-r1", f"1 2 a-{DUE_MS}", "origin", "mail", "data", "one", f"b-{DUE_MS}-r1", f"0 2 b-{DUE_MS}",
             "data", "two", "origin", "sms")  # fmt: skip
    many = entry(1, "enqueue", "rows", 2, *texts)
    with closing(Archive(path, "default", keep_args=False)) as archive:
        archive.append([many])

        records = {row.id: row.job_fields() for row in state_of(archive)}

    assert {b"origin": b"mail", b"data": b"one"} == {name: records["a"][name] for name in (b"origin", b"data")}
    assert {b"origin": b"sms", b"data": b"two"} == records["b"]
    assert [f"a-{DUE_MS}", f"b-{DUE_MS}"] == list(EnqueueEntry(many).retries())
