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
    return entry(seq, "enqueue", "run", AGAIN, "front", 0, "fields", len(texts) // 2, *texts, "of", RUN)


@pytest.mark.parametrize("schedule", [put(1, "a"), put_recurring(1, "a")], ids=["one-shot", "rule"])
def test_a_retry_keeps_the_schedule_of_its_id_and_opens_the_run(tmp_path: Path, schedule: Entry) -> None:
    with closing(Archive(tmp_path / "archive.db", "default")) as archive:
        archive.append([schedule])
        before = places(archive)
        archive.append([retried(2)])

        assert before | {AGAIN: "open"} == places(archive)
        [record] = [record for row, record in archive.state() if row.place == "open"]
        assert {"origin": b"mail", "data": b"call"} == record.fields


def test_an_enqueued_run_replaces_the_schedule_as_before(tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "archive.db", "default")) as archive:
        archive.append([put(1, "a"), enqueue(2, RUN)])

        assert {RUN: "open"} == places(archive)


def test_a_retry_touches_only_its_run() -> None:
    assert [("a", AGAIN[2:])] == [touch.key for touch in touches(retried(1), "")]
    assert [("a", ""), ("a", RUN[2:])] == [touch.key for touch in touches(enqueue(1, RUN), "")]


def test_an_enqueue_of_another_run_counts_as_a_retry() -> None:
    [change] = changes(retried(1, "origin", "mail", "data", "call", "zs_created_by", "ann")._replace(by=b"bob"))

    assert (What.ENQUEUED, AGAIN, f"retry of {RUN}", "bob") == (change.what, change.run_id, change.why, change.by)


def test_removing_arguments_keeps_the_id_of_the_retried_run(tmp_path: Path) -> None:
    path = archived(tmp_path / "archive.db", [retried(1, "origin", "of", "data", "secret")], keep_args=False)

    [(body,)] = rows(path, "SELECT body FROM entry")
    assert b"secret" not in body
    assert body.endswith(b"of" + RUN.encode())


@pytest.mark.parametrize("size", ["3", "x"])
def test_a_truncated_enqueue_entry_is_not_read(size: str) -> None:
    with pytest.raises(UnknownEntry):
        list(changes(entry(1, "enqueue", "run", RUN, "front", 0, "fields", size, "origin", "mail")))


def test_a_retry_entry_with_pairs_of_a_later_version_is_read() -> None:
    later = entry(1, "enqueue", "run", AGAIN, "front", 0, "fields", 1, "origin", "mail", "why", "asked", "of", RUN)

    assert RUN == EnqueueEntry(later).run.retry_of
