"""client.retry: with real workers, and with runs that only an archive still has."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import archive_of_its_own, leading_daemon
from tests.builders.leaders import KEYS, Leader
from tests.integration.reruns.ends import TASKS, UNKNOWN, archived, ends, status
from tests.ledger import queued
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client, InvalidSchedule, PayloadGone, RedisRefused, RunNotFound, RunNotOver
from zsched.core.entry import Entry
from zsched.core.log.puts import EnqueueEntry
from zsched.core.occurrences.outcomes import What
from zsched.storage.connection import Link
from zsched.storage.log import Log

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("func", "ends_as"), [("done", "finished"), ("fail", "failed")])
def test_retry_runs_a_finished_run_again(
    client: Client, redis_client: redis.Redis, work: Callable[[], list[str]], func: str, ends_as: str
) -> None:
    run = client.enqueue(f"{TASKS}.{func}", (7, "ü"), id="a").run_id or ""
    work()
    assert ends_as == status(redis_client, run)

    again = client.retry(run)

    assert again.startswith(f"{run}-r")
    assert [f"{one} (7, 'ü') []" for one in (run, again)] == work()
    assert ends_as == status(redis_client, again)


def test_retry_refuses_an_open_run_with_its_status(client: Client, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id or ""

    with pytest.raises(RunNotOver, match=f"'{run}' is queued, .* cancel_run"):
        client.retry(run)
    redis_client.hset(KEYS.rq.job(run), "status", "started")
    with pytest.raises(RunNotOver, match="is running"):
        client.retry(run)
    assert [run] == queued(redis_client)


def test_retry_and_cancel_run_refuse_waiting_and_corrupted_ones(client: Client, redis_client: redis.Redis) -> None:
    waits = client.schedule(f"{TASKS}.done", id="a", after=3600).run_id or ""

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotOver, match="not a run yet: schedule 'a' has not fired; cancel or run_now"):
            act(waits)
    assert ["a"] == [schedule.id for schedule in client.list()]

    redis_client.set(KEYS.rq.job(UNKNOWN), "x")

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RedisRefused, match="changed by another writer; see redis-cli"):
            act(UNKNOWN)


@pytest.mark.usefixtures("daemon")
def test_a_run_unknown_to_rq_and_the_archive_is_not_found(client: Client) -> None:
    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match=f"'{UNKNOWN}'.*no archive knows it"):
            act(UNKNOWN)


def test_an_unknown_run_is_reported_as_not_found_without_an_archive(client: Client) -> None:
    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match=r"no archive reported within 30 s"):
            act(UNKNOWN)


@pytest.mark.parametrize("wrong", ["x", "", "a-1", "a-1700000000000-nmail", "a b-1700000000000"])
def test_an_invalid_run_id_is_not_found_without_asking_redis(wrong: str) -> None:
    client = Client.from_url("unix:///nowhere")

    for act in (client.retry, client.cancel_run):
        with pytest.raises(RunNotFound, match="'default'"):
            act(wrong)
        with pytest.raises(InvalidSchedule, match="run_id"):
            act(7)  # type: ignore[arg-type]


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    "pushed", ["fired", "by a rule", "by a rule that was changed", "run_now", "enqueued", "retried"]
)
def test_retry_takes_a_run_that_rq_deleted_from_the_archive(
    client: Client, redis_client: redis.Redis, redis_url: str, link: Link, work: Callable[[], list[str]], pushed: str
) -> None:
    options: dict[str, Any] = {"args": (1,), "kwargs": {"k": "v"}, "id": "a"}
    options |= {"timeout": 77, "retry": 2, "meta": {"m": 1}}
    if pushed == "fired":
        client.schedule(f"{TASKS}.done", after=0, **options)
    elif pushed == "enqueued" or pushed == "retried":
        client.enqueue(f"{TASKS}.done", **options)
    else:
        client.schedule(f"{TASKS}.done", every=3600 if pushed == "run_now" else 0.2, **options)
    if pushed == "run_now":
        client.run_now("a")
    [first, *_] = eventually(lambda: queued(redis_client))
    if pushed == "by a rule that was changed":
        client.update("a", args=(2,))
    elif pushed == "by a rule":
        client.cancel("a")
    asked = redis_client.hmget(KEYS.rq.job(first), "timeout", "meta", "retries_left", "origin")
    if pushed == "retried":
        redis_client.hset(KEYS.rq.job(first), "status", "failed")
        first = client.retry(first)
    redis_client.delete(KEYS.rq.job(first), f"{RQ}:queue:default")

    again = client.retry(first)

    assert first.partition("-r")[0] == again.partition("-r")[0]
    assert again in queued(redis_client)
    assert asked == redis_client.hmget(KEYS.rq.job(again), "timeout", "meta", "retries_left", "origin")
    client.cancel("a")
    assert f"{again} (1,) [('k', 'v')]" in work()
    change = eventually(lambda: [one for one in client.why("a").changes if one.run_id == again])[0]
    assert (What.RETRIED, first) == (change.what, change.why)


def test_retry_fails_if_the_archive_did_not_keep_the_arguments(client: Client, redis_url: str, link: Link) -> None:
    path = Path(archive_of_its_own())
    with leading_daemon(redis_url, path, keep_args=False), redis.Redis.from_url(redis_url) as redis_client:
        run = client.enqueue(f"{TASKS}.done", id="a").run_id
        assert run is not None
        redis_client.delete(KEYS.rq.job(run))
        archived(link)
        forget(path)

        with pytest.raises(PayloadGone, match="does not have its arguments"):
            client.retry(run)
        assert "already_over" == client.cancel_run(run)


def forget(path: Path) -> None:
    """Delete the arguments, like ``retention`` when no run needs them any more."""
    with contextlib.closing(sqlite3.connect(path, timeout=WITHIN_S)) as db, db:
        db.execute("DELETE FROM argument")


def test_a_retried_run_that_redis_lost_is_restored_as_its_rule_is(client: Client, redis_url: str, link: Link) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, leading_daemon(redis_url):
        client.schedule(f"{TASKS}.done", id="r", every=3600)
        run = client.run_now("r")
        redis_client.hset(KEYS.rq.job(run), "status", "failed")
        again = client.retry(run)
        redis_client.lrem(f"{RQ}:queue:default", 0, run)
        archived(link)
        eventually(lambda: ends(link).get(run))
        archived(link)

        redis_client.flushall()

        eventually(lambda: again in queued(redis_client))
        assert (b"1", b"queued") == tuple(redis_client.hmget(KEYS.rq.job(again), "zs_uncertain", "status"))
        eventually(lambda: [schedule.id for schedule in client.list()] == ["r"])
        assert [again] == queued(redis_client)


def test_a_retry_is_recognisable_in_the_log(client: Client, link: Link, redis_client: redis.Redis) -> None:
    run = client.enqueue(f"{TASKS}.done", id="a").run_id or ""
    redis_client.hset(KEYS.rq.job(run), "status", "finished")
    client.retry(run)

    entries: list[Entry] = list(Log(link, KEYS).entries())

    assert [run] == list(EnqueueEntry(entries[-1]).retries())


def test_a_leader_fires_beside_a_retry_of_the_same_occurrence(client: Client, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as redis_client, contextlib.closing(Leader(redis_url)) as leader:
        client.schedule(f"{TASKS}.done", id="a", after=0)
        eventually(lambda: leader.fire().runs)
        [run] = queued(redis_client)
        redis_client.hset(KEYS.rq.job(run), "status", "failed")
        client.schedule(f"{TASKS}.done", id="a", after=0)

        again = client.retry(run)
        eventually(lambda: leader.fire().runs)

        assert 3 == len({run, again, *queued(redis_client)})
