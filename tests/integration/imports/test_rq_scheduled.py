"""``zsched import rq-scheduled``: delayed jobs made by RQ itself are moved, each to one side only."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
import rq
from rq import Queue, Repeat, Retry
from rq.job import Job
from rq.registry import ScheduledJobRegistry
from rq.serializers import JSONSerializer

from tests.builders.command_line import Zsched
from tests.builders.namespaces import Fire, Namespace
from tests.builders.workers import work_off
from tests.integration.imports.crontabs import LATER, SOON, summary
from tests.prefix import RQ
from zsched.cli.program import DONE, FAILED
from zsched.client import Client
from zsched.core.occurrences.outcomes import What
from zsched.core.options.forms import RateLimit
from zsched.errors import RedisUnavailable
from zsched.imports import rqjobs
from zsched.imports.moving import Importing
from zsched.imports.rqjobs import not_before

pytestmark = pytest.mark.once


def test_a_job_is_moved_and_given_back(zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + LATER
    job = queue.enqueue_at(
        at, "app.tasks.remind", 42, job_timeout=77, retry=Retry(3, interval=[1, 2]), meta={"a": 1}, description="hi"
    )
    registry = ScheduledJobRegistry(queue=queue)

    result, again = zsched("import", "rq-scheduled"), zsched("import", "rq-scheduled")
    moved, left, keeps_s = client.get(job.id).to_dict(), registry.get_job_ids(), redis_client.ttl(job.key)
    undone = zsched("import", "undo", "rq-scheduled")

    assert "1 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(result)
    assert "0 created, 0 updated, 0 unchanged, 0 removed, 0 refused" == summary(again)
    assert {"func": "app.tasks.remind", "queue": "email", "timeout_s": 77, "retries": 3}.items() <= moved.items()
    assert (at + timedelta(seconds=1), "hi", "rq-scheduled") == (
        datetime.fromisoformat(moved["next_at"]),
        moved["description"],
        moved["owner"],
    )
    assert [] == left
    assert 0 <= (LATER + timedelta(days=7, seconds=1)).total_seconds() - keeps_s < 3600
    assert (DONE, "0 cancelled, 1 given back, 0 kept") == (undone.exit_code, summary(undone))
    assert at + timedelta(seconds=1) == not_before(registry.get_scheduled_time(job.id).timestamp())
    assert at < registry.get_scheduled_time(job.id) < at + timedelta(seconds=1)
    assert ([], -1) == (list(client.list()), redis_client.ttl(job.key))


def test_a_job_moved_several_times_is_never_due_early(zsched: Zsched, client: Client, queue: Queue) -> None:
    at = datetime.now(UTC).replace(microsecond=988_000) + LATER
    job, due = queue.enqueue_at(at, "app.tasks.remind"), []

    for _ in range(3):
        zsched("import", "rq-scheduled")
        due.append(client.get(job.id).next_at)
        zsched("import", "undo", "rq-scheduled")

    assert [at.replace(microsecond=0) + timedelta(seconds=1)] * 3 == due


def test_a_job_keeps_its_milliseconds(zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    score_s = redis_client.zscore(f"{RQ}:scheduled:email", job.id) + 0.1239
    redis_client.zadd(f"{RQ}:scheduled:email", {job.id: score_s})

    zsched("import", "rq-scheduled")

    assert math.floor(score_s) * 1000 + 124 == client.get(job.id).next_ms


def test_jobs_due_soon_or_waiting_for_a_retry_are_not_moved(
    zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis
) -> None:
    soon = queue.enqueue_in(SOON, "app.tasks.remind")
    retried = queue.enqueue("app.gone", retry=Retry(3, interval=3600))
    work_off(queue, redis_client)  # it fails, and waits for its retry
    ours = client.enqueue("app.gone", queue="email", retry=Retry(3, interval=3600)).run_id
    work_off(queue, redis_client)
    registry = ScheduledJobRegistry(queue=queue)
    waiting = set(registry.get_job_ids())

    result = zsched("import", "rq-scheduled")

    assert {soon.id, retried.id, ours} == waiting == set(registry.get_job_ids())
    assert (DONE, []) == (result.exit_code, list(client.list()))
    assert "due within 30 s: 1" in result.stderr
    assert "wait for another attempt: 2" in result.stderr


def test_a_job_that_cannot_be_expressed_is_refused_and_stays(zsched: Zsched, client: Client, queue: Queue) -> None:
    repeated = queue.enqueue_in(LATER, "app.tasks.remind", repeat=Repeat(times=2))
    method = queue.enqueue_in(LATER, _Thing().act)
    gone = queue.enqueue_in(LATER, "app.tasks.remind")
    gone.connection.delete(gone.key)

    told = zsched.json("import", "rq-scheduled")

    problems = {one["place"]: one["problem"] for one in told["refused"]}
    assert {repeated.id, method.id, gone.id} == problems.keys() == set(ScheduledJobRegistry(queue=queue).get_job_ids())
    assert "it repeats itself (rq.Repeat)" in problems[repeated.id]
    assert "the method of an object" in problems[method.id]
    assert "its job is missing" in problems[gone.id]
    assert [] == list(client.list())


@pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")
def test_a_job_keeps_its_rate_limit(zsched: Zsched, client: Client, queue: Queue, redis_client: redis.Redis) -> None:
    limited = queue.enqueue_in(LATER, "app.tasks.remind", rate_limit=rq.RateLimit("mail", 3))
    odd = queue.enqueue_in(LATER, "app.tasks.remind", rate_limit=rq.RateLimit("mail:allowed", 3))
    half = queue.enqueue_in(LATER, "app.tasks.remind")
    redis_client.hset(half.key, "rate_limit_key", "mail")

    result = zsched("import", "rq-scheduled")

    assert "2 created, 0 updated, 0 unchanged, 0 removed, 1 refused" == summary(result)
    assert RateLimit("mail", 3) == client.get(limited.id).rate_limit
    assert client.get(half.id).rate_limit is None
    assert "zsched does not support its rate limit" in result.stdout + result.stderr
    assert odd.id in ScheduledJobRegistry(queue=queue).get_job_ids()


@pytest.mark.parametrize("score", [1.8e12, math.inf])  # milliseconds; what no calendar has
def test_a_job_of_an_invalid_time_is_refused_alone(zsched: Zsched, client: Client, queue: Queue, score: float) -> None:
    good, odd = (queue.enqueue_in(LATER, "app.tasks.remind") for _ in range(2))
    queue.connection.zadd(f"{RQ}:scheduled:email", {odd.id: score})

    result = zsched("import", "rq-scheduled", "--json")

    (refused,) = json.loads(result.stdout)["refused"]
    assert (FAILED, odd.id, [good.id]) == (result.exit_code, refused["place"], [one.id for one in client.list()])
    assert "after 1970, is not valid; set its score to seconds" in refused["problem"]


def test_an_import_reads_only_the_named_queues(zsched: Zsched, client: Client, queue: Queue) -> None:
    wanted = queue.enqueue_in(LATER, "app.tasks.remind")
    Queue("other", connection=queue.connection).enqueue_in(LATER, "app.tasks.remind")

    zsched("import", "rq-scheduled", "--queue", "email")

    assert [wanted.id] == [one.id for one in client.list()]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call *act* right before the first jobs are taken from RQ."""
    take = Importing._take

    def take_after(self: Importing, page: Any) -> Any:
        monkeypatch.setattr(Importing, "_take", take)
        act()
        return take(self, page)

    monkeypatch.setattr(Importing, "_take", take_after)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("RQ queues it", "its status in RQ is queued meanwhile"),
        ("it is deleted", "it was deleted meanwhile; it is cancelled here"),
        ("another import takes it", ""),
    ],
)
def test_a_job_that_changes_during_the_import_is_at_one_side_only(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch, what: str, told: str
) -> None:
    job, registry = queue.enqueue_in(LATER, "app.tasks.remind"), ScheduledJobRegistry(queue=queue)
    acts: dict[str, Callable[[], object]] = {
        "RQ queues it": lambda: (registry.remove(job), queue._enqueue_job(job)),
        "it is deleted": job.delete,
        "another import takes it": lambda: zsched("import", "rq-scheduled"),
    }
    meanwhile(monkeypatch, acts[what])

    result = zsched("import", "rq-scheduled")

    is_ours = what == "another import takes it"
    assert (DONE if is_ours else FAILED, is_ours) == (result.exit_code, [job.id] == [one.id for one in client.list()])
    assert ([job.id] if what == "RQ queues it" else [], []) == (queue.get_job_ids(), registry.get_job_ids())
    assert told in result.stderr
    assert is_ours or [] == list(client.list())


def test_an_interrupted_import_is_finished_by_the_next_import(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_connection(self: Importing, page: Any) -> None:
        raise RedisUnavailable("the connection was lost")

    job = queue.enqueue_in(LATER, "app.tasks.remind")
    with monkeypatch.context() as broken:
        broken.setattr(Importing, "_take", lose_the_connection)
        assert FAILED == zsched("import", "rq-scheduled").exit_code
    between = [one.id for one in client.list()], ScheduledJobRegistry(queue=queue).get_job_ids()

    result = zsched("import", "rq-scheduled")

    assert ([job.id], [job.id]) == between
    assert "0 created, 0 updated, 1 unchanged, 0 removed, 0 refused" == summary(result)
    assert ([job.id], []) == ([one.id for one in client.list()], ScheduledJobRegistry(queue=queue).get_job_ids())


def test_a_job_whose_id_exists_in_zsched_is_refused_and_stays(zsched: Zsched, client: Client, queue: Queue) -> None:
    job = queue.enqueue_in(LATER, "app.tasks.remind")
    client.schedule("app.theirs", id=job.id, after=3600, owner="terraform")

    result = zsched("import", "rq-scheduled")

    assert (FAILED, "app.theirs") == (result.exit_code, client.get(job.id).func)
    assert "is owned by terraform; cancel that one first" in result.stderr
    assert [job.id] == ScheduledJobRegistry(queue=queue).get_job_ids()


def test_a_job_that_becomes_due_soon_during_the_import_is_not_moved(
    zsched: Zsched, client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rqjobs, "SOON_S", -3600)
    job = queue.enqueue_in(timedelta(seconds=4), "app.tasks.remind")

    result = zsched("import", "rq-scheduled")

    assert (FAILED, []) == (result.exit_code, list(client.list()))
    assert "it is due within 5 s; it is left to RQ, or the daemon" in result.stderr
    assert [job.id] == ScheduledJobRegistry(queue=queue).get_job_ids()


def test_jobs_of_another_serializer_are_refused(zsched: Zsched, client: Client, redis_client: redis.Redis) -> None:
    Queue(connection=redis_client).enqueue_in(LATER, "app.tasks.remind", 1)
    wanted = Queue(connection=redis_client, serializer=JSONSerializer).enqueue_in(LATER, "app.tasks.remind", 2)
    zsched.env["ZSCHED_RQ_SERIALIZER"] = "json"

    result = zsched("import", "rq-scheduled")

    assert (FAILED, [wanted.id]) == (result.exit_code, [one.id for one in client.list()])
    assert "its arguments cannot be read here (" in result.stderr


class _Thing:
    def act(self) -> None: ...


# -- RQ's job of the old id ---------------------------------------------------------------------------


def delete(job: Job, queue: Queue) -> None:
    job.delete()


def cancel(job: Job, queue: Queue) -> None:
    job.cancel()


def move(job: Job, queue: Queue) -> None:
    job.delete()
    queue.enqueue_at(datetime.now(UTC) + 2 * LATER, "app.tasks.remind", job_id=job.id)


def postpone(job: Job, queue: Queue) -> None:
    ScheduledJobRegistry(queue=queue).schedule(job, datetime.now(UTC) + 2 * LATER)


def run_at_once(job: Job, queue: Queue) -> None:
    job.delete()
    queue.enqueue("app.tasks.remind", job_id=job.id)


def nothing(job: Job, queue: Queue) -> None:
    return


def forget(job: Job, queue: Queue) -> None:
    """Lose what a restore from an archive does not bring back."""
    job.delete()
    job.connection.delete("zsched:{default}:moved:" + job.id)


def fired(led: Namespace) -> Fire:
    led.pass_time(2 * LATER // timedelta(milliseconds=1))
    return led.fire()


@pytest.fixture
def led(redis_client: redis.Redis, redis_url: str) -> Iterator[Namespace]:
    """A leader by hand, without doubt."""
    with closing(Namespace(redis_client, redis_url)) as ns:
        ns.lead()
        yield ns


@pytest.mark.parametrize(
    ("does", "word", "why"),
    [
        (delete, "deleted", "RQ's job, from which it was imported, was deleted"),
        (cancel, "canceled", "its status in RQ is canceled"),
        (move, "scheduled_again", "RQ's job, from which it was imported, was scheduled again in RQ"),
        (postpone, "scheduled_again", "RQ's job, from which it was imported, was scheduled again in RQ"),
        (run_at_once, "queued", "its status in RQ is queued"),
    ],
)
def test_a_moved_job_that_a_service_cancels_or_moves_by_its_old_id_does_not_fire(
    zsched: Zsched,
    client: Client,
    queue: Queue,
    led: Namespace,
    does: Callable[[Job, Queue], None],
    word: str,
    why: str,
) -> None:
    job = queue.enqueue_at(datetime.now(UTC) + LATER, "app.tasks.remind", 42)
    zsched("import", "rq-scheduled")
    waiting = queue.get_job_ids()

    does(job, queue)
    result = fired(led)

    assert ([word], 0) == ([line.partition("=")[2] for line in result.cancelled], result.runs)
    assert (job.id in queue.get_job_ids()) == (does is run_at_once)
    assert [] == waiting
    assert 0 == len(led.redis.keys(led.keys.rq.job(f"{job.id}-*")))
    assert [why] == [change.why for change in client.why(job.id).changes if change.what is What.CANCELLED]


@pytest.mark.parametrize(("does", "uncertain"), [(nothing, 0), (forget, 1)])
def test_a_moved_job_fires_if_nothing_shows_that_it_is_not_wanted(
    zsched: Zsched, queue: Queue, led: Namespace, does: Callable[[Job, Queue], None], uncertain: int
) -> None:
    job = queue.enqueue_at(datetime.now(UTC) + LATER, "app.tasks.remind", 42)
    zsched("import", "rq-scheduled")

    does(job, queue)
    result = fired(led)

    assert (1, uncertain, []) == (result.runs, result.uncertain, result.cancelled)


def test_a_moved_job_that_redis_may_have_evicted_fires(zsched: Zsched, queue: Queue, led: Namespace) -> None:
    job = queue.enqueue_at(datetime.now(UTC) + LATER, "app.tasks.remind", 42)
    zsched("import", "rq-scheduled")
    led.redis.config_set("maxmemory-policy", "volatile-lru")

    job.delete()
    try:
        result = fired(led)
    finally:
        led.redis.config_set("maxmemory-policy", "noeviction")

    assert (1, 1) == (result.runs, result.uncertain)


def test_the_mark_of_a_moved_job_lapses_before_the_job(zsched: Zsched, queue: Queue, redis_client: redis.Redis) -> None:
    job = queue.enqueue_at(datetime.now(UTC) + LATER, "app.tasks.remind", 42)

    zsched("import", "rq-scheduled")

    left_ms = [redis_client.pttl(key) for key in (job.key, f"zsched:{{default}}:moved:{job.id}")]
    assert 3_600_000 == pytest.approx(left_ms[0] - left_ms[1], abs=60_000)  # read one after the other


def test_a_job_whose_id_begins_with_a_dash_is_refused_with_a_remedy_and_stays(
    zsched: Zsched, client: Client, queue: Queue
) -> None:
    queue.enqueue_in(LATER, "app.tasks.remind", job_id="--help")
    queue.enqueue_in(LATER, "app.tasks.remind", job_id="other")

    result = zsched("import", "rq-scheduled")

    assert "1 created, 0 updated, 0 unchanged, 0 removed, 1 refused" == summary(result)
    assert "id='--help': not a schedule id; give 1 to 128 of A-Z, a-z, 0-9, _ and -, not beginning" in result.stderr
    assert ["--help"] == ScheduledJobRegistry(queue=queue).get_job_ids()
    assert ["other"] == [one.id for one in client.list()]
