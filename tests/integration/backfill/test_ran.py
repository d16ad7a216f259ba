"""Executed occurrences are not backfilled: with real daemons, archives and workers, and without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import leading_daemon
from tests.builders.workers import RqWorkers
from tests.integration.backfill.hours import HOUR, KEYS, backfill, now, run
from tests.integration.reruns.ends import archived
from tests.ledger import queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.archive import lookups
from zsched.core.clock import to_ms
from zsched.core.runs.run import RunStatus
from zsched.embedded.guard import Guard
from zsched.errors import ArchiveError
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryReader
from zsched.storage.log import Log
from zsched.storage.questions import Inbox

pytestmark = pytest.mark.redis


@pytest.fixture
def work(redis_client: redis.Redis, redis_url: str, guard: Guard, tmp_path: Path) -> Callable[[], list[str]]:
    """A function that lets a worker empty the queue and returns the ids in the receipts until then."""

    def until_done() -> list[str]:
        RqWorkers(guard, redis_url, tmp_path).work()
        return [receipt.decode().split(" ")[0] for receipt in redis_client.lrange("receipts", 0, -1)]

    return until_done


def forget(redis_client: redis.Redis, link: Link) -> None:
    """Delete all of RQ's jobs, and the log except for its last entry."""
    last = archived(link)
    redis_client.delete(f"{RQ}:queue:default", *redis_client.keys(f"{RQ}:job:*"))
    redis_client.xtrim(KEYS.log(), minid=last.id, approximate=False)


@pytest.mark.usefixtures("daemon")
def test_workers_run_each_missing_occurrence_once_and_in_order(client: Client, work: Callable[[], list[str]]) -> None:
    first = backfill(client, 5, 2)
    work()
    eventually(lambda: [one.status for one in client.runs("r")] == [RunStatus.SUCCEEDED] * 3)
    second = backfill(client, 6, 1)

    assert [run(5), run(4), run(3)] == first.run_ids
    assert ([run(6), run(2)], 3) == (second.run_ids, second.ran)
    assert [run(5), run(4), run(3), run(6), run(2)] == work()
    assert second.source.archive is not None


@pytest.mark.usefixtures("daemon")
def test_a_run_that_an_archive_knows_is_not_repeated(client: Client, redis_client: redis.Redis, link: Link) -> None:
    backfill(client, 5, 3)
    forget(redis_client, link)

    done = backfill(client, 6, 2)

    assert ([run(6), run(3)], 2) == (done.run_ids, done.ran)
    assert [run(6), run(3)] == queued(redis_client)


@pytest.mark.usefixtures("daemon")
def test_an_archive_answers_in_several_parts(
    client: Client, redis_client: redis.Redis, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in range(10, 4, -1):
        backfill(client, hours, hours - 1)
    forget(redis_client, link)
    monkeypatch.setattr(lookups, "_RAN_MS", 0.0)  # an entry each

    done = backfill(client, 12, 3)

    assert ([run(12), run(11), run(4)], 6) == (done.run_ids, done.ran)


@pytest.mark.usefixtures("daemon")
def test_again_adds_an_extra_run_of_finished_occurrences(client: Client, redis_client: redis.Redis) -> None:
    backfill(client, 5, 3)
    redis_client.hset(KEYS.rq.job(run(5)), "status", "finished")

    foreseen = backfill(client, 6, 3, again=True, dry_run=True)
    done = backfill(client, 6, 3, again=True)

    assert [run(6), None] == [one.run_id for one in foreseen.runs]
    plain, extra = done.run_ids
    assert (run(6), f"{run(5)}-r") == (plain, extra.rstrip("0123456789"))
    assert 1 == done.ran  # that one is queued still
    assert [run(5), run(4), plain, extra] == queued(redis_client)


def test_a_backfill_without_an_archive_uses_the_log_and_rqs_jobs(client: Client, redis_client: redis.Redis) -> None:
    backfill(client, 5, 4)
    redis_client.hset(KEYS.rq.job(run(3)), mapping={"status": "finished"})  # by a Redis before this one
    redis_client.delete(KEYS.rq.job(run(5)))

    done = backfill(client, 6, 2)

    assert ([run(6), run(4)], 2) == (done.run_ids, done.ran)
    assert (None, True) == (done.source.archive, done.source.is_untrimmed)


def test_the_log_answers_in_several_parts_without_an_archive(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    backfill(client, 9, 7)
    backfill(client, 5, 4)
    monkeypatch.setattr(lookups, "_RAN_MS", 0.0)  # an entry each

    done = backfill(client, 10, 3)

    assert ([run(10), run(7), run(6), run(4)], 3) == (done.run_ids, done.ran)


def test_an_unknown_past_is_not_filled(client: Client, redis_client: redis.Redis, redis_url: str, link: Link) -> None:
    client.run_now("r")
    last = Log(link, KEYS).last()
    assert last is not None
    redis_client.xtrim(KEYS.log(), minid=last.position.id, approximate=False)
    before = queued(redis_client)

    with pytest.raises(
        ArchiveError, match=r"what ran before .* is not known \(no archive reported within .*the option again"
    ):
        backfill(client, 5, 3)
    with pytest.raises(ArchiveError):
        backfill(client, 5, 3, dry_run=True)
    with leading_daemon(redis_url), pytest.raises(ArchiveError, match="the archive goes back no further"):
        backfill(client, 5, 3)
    assert before == queued(redis_client)

    assert [run(5), run(4)] == backfill(client, 5, 3, again=True).run_ids


class Answering(threading.Thread):
    """A thread that answers every question with *told*, from the log entry *as_of*, inside the block."""

    def __init__(self, link: Link, as_of: str, **told: Any) -> None:
        super().__init__(daemon=True)
        source = {"archive": "host:/a.db", "complete_since": "start", "as_of": as_of}
        self._link, self._answer, self._stopping = link, {"source": source, "by": "a"} | told, threading.Event()

    def __enter__(self) -> Answering:
        Archivers(self._link, KEYS).report("a", None, ArchiveState.FOLLOWING, {})
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        with self._link.wire() as wire:
            inbox = Inbox(wire, KEYS)
            while not self._stopping.is_set():
                question = inbox.receive(0.1)
                if question is not None:
                    inbox.answer(question, self._answer)


def test_entries_not_yet_in_the_archive_are_read_from_the_log(client: Client, link: Link) -> None:
    before = Log(link, KEYS).last()
    assert before is not None
    client._store.backfill("r", client.get("r").version or "", [(to_ms(now() - 5 * HOUR), "once")])

    with Answering(link, before.position.id, ran=[to_ms(now() - 4 * HOUR)], read_to=None):
        ran, source = HistoryReader(link, KEYS).ran("r", to_ms(now() - 9 * HOUR), to_ms(now()))

    assert {to_ms(now() - 5 * HOUR), to_ms(now() - 4 * HOUR)} == ran
    assert "host:/a.db" == source.archive


def test_an_archive_without_progress_raises_an_error(client: Client, link: Link) -> None:
    with Answering(link, "0-1", ran=[], read_to=5), pytest.raises(ArchiveError, match="makes no progress"):
        backfill(client, 5, 3)
