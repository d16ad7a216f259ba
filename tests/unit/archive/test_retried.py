"""An ``enqueue`` entry that is a retry, and its readers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.archive.ground import DUE_MS, archived, enqueue, entry, places, put, put_recurring, rows
from zsched.archive import Archive
from zsched.core.changes import What
from zsched.core.log import Entry, UnknownEntry, changes, touches
from zsched.core.log.puts import EnqueueEntry

RUN = f"a-{DUE_MS - 1}"
AGAIN = f"{RUN}-r2"


def retried(seq: int, *pairs: str) -> Entry:
    texts = pairs or ("origin", "mail", "data", "call")
    return entry(seq, "enqueue", "rows", 1, AGAIN, f"0 {len(texts) // 2} {RUN}", *texts)


@pytest.mark.parametrize("schedule", [put(1, "a"), put_recurring(1, "a")], ids=["one-shot", "rule"])
def test_a_retry_keeps_the_schedule_of_its_id_and_opens_the_run(archive: Archive, schedule: Entry) -> None:
    archive.append([schedule])
    before = places(archive)
    archive.append([retried(2)])

    assert before | {AGAIN: "open"} == places(archive)
    [record] = [record for row, record in archive.state() if row.place == "open"]
    assert {"origin": b"mail", "data": b"call"} == record.fields


def test_an_enqueued_run_replaces_the_schedule_as_before(archive: Archive) -> None:
    archive.append([put(1, "a"), enqueue(2, RUN)])

    assert {RUN: "open"} == places(archive)


def test_a_retry_touches_only_its_run() -> None:
    assert [("a", AGAIN[2:])] == [touch.key for touch in touches(retried(1), "")]
    assert [("a", ""), ("a", RUN[2:])] == [touch.key for touch in touches(enqueue(1, RUN), "")]


def test_an_enqueue_of_another_run_counts_as_a_retry() -> None:
    [change] = changes(retried(1, "origin", "mail", "data", "call", "zs_created_by", "ann")._replace(by=b"bob"))

    assert (What.RETRIED, AGAIN, RUN, "bob") == (change.what, change.run_id, change.why, change.by)


def test_removing_arguments_keeps_the_id_of_the_retried_run(path: Path) -> None:
    archived(path, [retried(1, "origin", "mail", "data", "secret")], keep_args=False)

    [(body,)] = rows(path, "SELECT body FROM entry")
    assert b"secret" not in body
    assert f"0 2 {RUN}".encode() in body


@pytest.mark.parametrize("size", ["0", "3", "x"])
def test_a_truncated_enqueue_entry_is_not_read(size: str) -> None:
    with pytest.raises(UnknownEntry):
        list(changes(entry(1, "enqueue", "rows", 1, RUN, f"0 {size} -", "origin", "mail")))


def test_an_entry_of_many_retries_opens_each_run_with_its_own_record(path: Path) -> None:
    texts = (f"a-{DUE_MS}-r1", f"1 2 a-{DUE_MS}", "origin", "mail", "data", "one", f"b-{DUE_MS}-r1", f"0 2 b-{DUE_MS}",
             "data", "two", "origin", "sms")  # fmt: skip
    many = entry(1, "enqueue", "rows", 2, *texts)
    with closing(Archive(path, "default", keep_args=False)) as archive:
        archive.append([many])

        records = {row.id: record.fields for row, record in archive.state()}

    assert {"origin": b"mail", "data": b"one"} == {name: records["a"][name] for name in ("origin", "data")}
    assert {"origin": b"sms", "data": b"two"} == records["b"]
    assert [f"a-{DUE_MS}", f"b-{DUE_MS}"] == [run.retry_of for run in EnqueueEntry(many).runs]
