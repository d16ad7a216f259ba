"""``retry_many`` and ``cancel_runs``: runs that filters choose; a retry that is killed and repeated."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from tests import ledger
from tests.builders.daemons import DaemonThread
from tests.builders.leaders import KEYS, know
from tests.integration.reruns.ends import archived, ends
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client, InvalidSchedule
from zsched.client.answers import Answers
from zsched.core.log.kinds import changes
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.story.source import Source
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryPage
from zsched.storage.log import Log

FUNC = "tests.integration.reruns.tasks.done"
ROOT = Path(__file__).parents[3]
AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    know(redis_client)
    return Client(link)


@pytest.fixture(autouse=True)
def daemon(client: Client, redis_url: str) -> Iterator[DaemonThread]:
    with DaemonThread(redis_url) as daemon:
        yield daemon


def queued(client: Client, redis_client: redis.Redis, number: int, queue: str = "default", **options: Any) -> list[str]:
    """Return run ids of runs that a daemon has fired, in the order of their queue."""
    rows: list[Any] = [
        {"func": FUNC, "id": f"{queue}-{n:04}", "at": AGO, "allow_past": True, "queue": queue, **options}
        for n in range(number)
    ]
    client.schedule_many(rows)
    key = f"{RQ}:queue:{queue}"
    eventually(lambda: redis_client.llen(key) == number)
    return [run.decode() for run in redis_client.lrange(key, 0, -1)]


def failed(client: Client, redis_client: redis.Redis, number: int, queue: str = "default", **options: Any) -> list[str]:
    """Return run ids of runs that failed in a worker, as soon as an archive has their ends."""
    runs = queued(client, redis_client, number, queue, **options)
    fail(client._link, redis_client, runs, queue)
    return runs


def fail(link: Link, redis_client: redis.Redis, runs: list[str], queue: str = "default") -> None:
    now = datetime.now(UTC)
    with redis_client.pipeline(transaction=False) as pipeline:
        for run in runs:
            fields = {"status": "failed", "ended_at": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            pipeline.hset(KEYS.rq.job(run), mapping=fields)
            pipeline.lrem(f"{RQ}:queue:{queue}", 1, run)
            pipeline.zadd(f"{RQ}:failed:{queue}", {run: int(now.timestamp()) + 86_400})
        pipeline.execute()
    eventually(lambda: set(runs) <= ends(link).keys())
    archived(link)


def retries(link: Link) -> Counter[str]:
    """Return how often the log has each run as retried."""
    told = (change for entry in Log(link, KEYS).entries() for change in changes(entry))
    return Counter(change.why for change in told if change.what is What.RETRIED)


def test_retry_many_repeats_failed_runs_once_in_order(client: Client, redis_client: redis.Redis, link: Link) -> None:
    runs = failed(client, redis_client, 120)
    progress: list[int] = []

    result = client.retry_many("failed", per_second=10_000, on_progress=lambda done, total: progress.append(done))
    again = client.retry_many("failed", per_second=10_000)

    assert (120, 120, 0) == (result.found, result.done, result.refused_count)
    assert (0, 0) == (again.found, again.done)
    assert dict.fromkeys(runs, 1) == retries(link)
    assert sorted(runs) == [run.rpartition("-r")[0] for run in sorted(ledger.queued(redis_client))]
    assert 120 == progress[-1]


def test_a_run_that_was_retried_by_its_id_is_left_out_and_can_be_retried_by_its_id_again(
    client: Client, redis_client: redis.Redis, link: Link
) -> None:
    first, second = failed(client, redis_client, 2)
    client.retry(first)

    result = client.retry_many("failed")
    client.retry(first)

    assert (1, 1) == (result.found, result.done)
    assert {first: 2, second: 1} == retries(link)


@pytest.mark.parametrize(("missing", "found", "skipped"), [("mark", 1, 0), ("history", 3, 2)])
def test_a_retried_run_is_left_out_by_its_mark_or_by_the_history(
    client: Client,
    redis_client: redis.Redis,
    link: Link,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    found: int,
    skipped: int,
) -> None:
    runs = failed(client, redis_client, 3)
    client.retry_many("failed", limit=2)
    marks = redis_client.keys(KEYS.retried_prefix() + "*")
    if missing == "mark":
        redis_client.delete(*marks)
    else:  # it is late
        monkeypatch.setattr(client._bulk, "_retried", lambda *asked: set())

    result = client.retry_many("failed")

    assert (2, found, 1, skipped) == (len(marks), result.found, result.done, result.skipped)
    assert dict.fromkeys(runs, 1) == retries(link)


def test_a_run_whose_retry_may_be_before_the_known_past_is_left_out(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(client, redis_client, 2)
    parts, now_us = Answers.parts, int(datetime.now(UTC).timestamp() * 1e6)
    later = Source(None, now_us // 1000, "9-9", "no archive answers any more")

    def asked(self: Answers, wanted: Wanted, after: object = None) -> Iterator[HistoryPage]:
        for part in parts(self, wanted, after):
            yield part._replace(source=later) if What.RETRIED in wanted.whats else part

    monkeypatch.setattr(Answers, "parts", asked)

    assert 0 == client.retry_many("failed").found


def test_a_retry_that_failed_is_a_new_candidate(client: Client, redis_client: redis.Redis, link: Link) -> None:
    [run] = failed(client, redis_client, 1)
    client.retry_many("failed")
    [again] = ledger.queued(redis_client)
    fail(link, redis_client, [again])

    result = client.retry_many("failed")

    assert (1, (again,)) == (result.found, tuple(result.sample))
    assert {run: 1, again: 1} == retries(link)


@pytest.mark.parametrize(
    "chosen",
    [{"queue": "push"}, {"match": "push-*"}, {"tag": "sale"}, {"owner": "ann"}, {"func": FUNC, "queue": "push"}],
    ids=lambda chosen: " ".join(chosen),
)
def test_runs_are_chosen_by_each_filter(client: Client, redis_client: redis.Redis, chosen: dict[str, Any]) -> None:
    failed(client, redis_client, 2)
    runs = failed(client, redis_client, 3, "push", tags=["sale"], owner="ann")

    result = client.retry_many("failed", dry_run=True, **chosen)

    assert (3, sorted(runs), True) == (result.found, sorted(result.sample), result.is_dry_run)
    assert [] == ledger.queued(redis_client, "push")


def test_the_time_of_an_end_chooses_runs(client: Client, redis_client: redis.Redis) -> None:
    failed(client, redis_client, 2)
    now = datetime.now(UTC)

    found = [
        client.retry_many("failed", dry_run=True, **times).found
        for times in (
            {"since": now - timedelta(hours=1)},
            {"since": now + timedelta(hours=1)},
            {"until": now - timedelta(hours=1)},
        )
    ]

    assert [2, 0, 0] == found


def test_expired_runs_are_retried_with_archived_args(client: Client, redis_client: redis.Redis, link: Link) -> None:
    runs = queued(client, redis_client, 3, expires_after=10**9)
    deadline_ms = int(datetime.now(UTC).timestamp() * 1000)
    at_once = redis_client.pipeline()
    at_once.delete(f"{RQ}:queue:default", *map(KEYS.rq.job, runs))  # as Redis deletes jobs at their deadline
    at_once.zadd(KEYS.deadlines(), dict.fromkeys(runs, deadline_ms))
    at_once.execute()
    eventually(lambda: {run: ["expired"] for run in runs} == ends(link))
    archived(link)

    result = client.retry_many("expired")
    again = client.retry_many("expired")

    assert (3, 0, 0) == (result.done, result.refused_count, again.found)
    assert 3 == len(ledger.queued(redis_client))
    assert dict.fromkeys(runs, 1) == retries(link)


def test_cancel_runs_takes_the_runs_of_a_misspelt_queue_out_of_it(client: Client, redis_client: redis.Redis) -> None:
    other = queued(client, redis_client, 2)
    queued(client, redis_client, 130, "emial")

    result = client.cancel_runs(queue="emial")
    again = client.cancel_runs(queue="emial")

    assert (130, 130, 0) == (result.found, result.done, again.found)
    assert ([], other) == (ledger.queued(redis_client, "emial"), ledger.queued(redis_client))


def test_statuses_and_names_that_a_call_does_not_take_are_refused(client: Client) -> None:
    with pytest.raises(InvalidSchedule, match="give one of failed, cancelled, expired, lost, refused"):
        client.retry_many("succeeded")
    with pytest.raises(InvalidSchedule, match="give one of queued, running"):
        client.cancel_runs("failed", match="*")
    with pytest.raises(InvalidSchedule, match="no filter is given"):
        client.cancel_runs()
    with pytest.raises(TypeError, match="quue: unknown filter of runs"):
        client.retry_many("failed", quue="email")  # type: ignore[call-arg]  # what is tested


RETRYING = """
import sys
from zsched import Client
client = Client.from_url(sys.argv[1])
def told(done, total):
    print(done, flush=True)
    if done >= 200:
        sys.stdin.readline()  # until the test ends this process, or at once
client.retry_many("failed", on_progress=told)
"""


@pytest.fixture
def retrying(guard: Guard, redis_url: str) -> Callable[..., subprocess.Popen[bytes]]:
    """Return a function that starts a process which retries all failed runs."""

    def start(stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", RETRYING, redis_url]
        return guard.spawn(command, cwd=ROOT, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    return start


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_bulk_retry_that_is_interrupted_and_repeated_retries_no_run_twice(
    client: Client,
    redis_client: redis.Redis,
    link: Link,
    retrying: Callable[..., subprocess.Popen[bytes]],
    how: signal.Signals,
) -> None:
    runs = failed(client, redis_client, 600)
    with retrying(subprocess.PIPE) as first:
        assert first.stdout is not None
        while int(first.stdout.readline()) < 200:
            pass
        first.send_signal(how)
    done = len(ledger.queued(redis_client))

    with retrying() as second:
        second.communicate(timeout=ENDS_S)

    assert 0 == second.returncode
    assert 200 <= done < 600
    assert dict.fromkeys(runs, 1) == retries(link)
    assert 600 == len(set(ledger.queued(redis_client))) == redis_client.llen(f"{RQ}:queue:default")


def test_two_bulk_retries_at_the_same_time_retry_no_run_twice(
    client: Client, redis_client: redis.Redis, link: Link, retrying: Callable[[], subprocess.Popen[bytes]]
) -> None:
    runs = failed(client, redis_client, 400)

    with retrying() as one, retrying() as other:
        for each in (one, other):
            each.communicate(timeout=ENDS_S)

    assert [0, 0] == [one.returncode, other.returncode]
    assert dict.fromkeys(runs, 1) == retries(link)
