"""``zsched status`` of queues without workers: fired runs are not executed there."""

import re
from collections.abc import Callable

import pytest
import redis
from rq import Queue, Worker
from rq.suspension import resume, suspend

from tests.builders.command_line import Zsched
from tests.builders.entries import add_entry
from tests.integration.standing import KEYS, names, now_ms, status, verdict
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import DONE, UNHEALTHY
from zsched.core.model import iso
from zsched.storage.connection import Link, Wire
from zsched.storage.queues import stalled_queues

pytestmark = pytest.mark.once

HOUR = 3600


def listens(redis_client: redis.Redis, queues: str, name: str = "w1") -> None:
    """Register a worker as RQ does."""
    redis_client.hset(f"{RQ}:worker:{name}", mapping={"version": "2.8.0", "queues": queues})
    for key in (f"{RQ}:workers", *(f"{RQ}:workers:{queue}" for queue in queues.split(","))):
        redis_client.sadd(key, f"{RQ}:worker:{name}")


def waits(redis_client: redis.Redis, job: str, minutes: int) -> None:
    """Make *job* one that was pushed *minutes* ago."""
    redis_client.hset(f"{RQ}:job:{job}", "enqueued_at", ago(redis_client, minutes))


def ago(redis_client: redis.Redis, minutes: int) -> str:
    """Return the time *minutes* ago, as RQ writes it."""
    at = str(iso(now_ms(redis_client) - minutes * 60_000 - 500)).replace("+00:00", "Z")
    return f"{at[:19]}.000000Z"


def finishes(redis_client: redis.Redis, job: str, kind: str, minutes_ago: int) -> None:
    """Make *job* of queue email one that worker w1 ended."""
    told = {"ended_at": ago(redis_client, minutes_ago), "worker_name": "w1"}
    redis_client.hset(f"{RQ}:job:{job}", mapping=told)
    redis_client.zadd(f"{RQ}:{kind}:email", {job: now_ms(redis_client) // 1000 + 500})


def pushed(client: Client, queue: str = "email") -> str:
    """Push a run that waits, and return its id."""
    return str(client.enqueue("app.run", queue=queue).run_id)


def test_runs_waiting_for_minutes_without_a_worker_are_a_problem(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    listens(well, "default,sms")
    first, _, _ = (pushed(client) for _ in range(3))
    waits(well, first, minutes=6)

    result, found = zsched("status"), status(zsched)

    assert UNHEALTHY == result.exit_code
    lines = verdict(result)
    assert "UNHEALTHY: no worker listens to queue email, where 3 jobs wait, the oldest for 6 min" == lines[0]
    assert "rq worker email" in lines[1]
    assert (["unheard"], []) == names(found)
    [one] = found["unheard"]
    assert ("email", 3, True) == (one["queue"], one["waiting"], 360 <= one["waits_s"] < 420)


def test_runs_waiting_shortly_without_a_worker_are_a_warning(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    pushed(client)

    result, found = zsched("status"), status(zsched)

    assert (DONE, ([], ["no_worker"])) == (result.exit_code, names(found))
    assert "warning: no worker listens to queue email, where 1 job waits for " in verdict(result)[1]
    assert 300 > found["unheard"][0]["waits_s"]


def test_a_deleted_job_has_no_age(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    well.delete(f"{RQ}:job:{pushed(client)}")

    found = status(zsched)

    assert ([], ["no_worker"]) == names(found)
    assert [{"queue": "email", "waiting": 1, "waits_s": None, "meant": None}] == found["unheard"]


def test_foreign_jobs_in_a_queue_of_schedules_count(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    waits(well, Queue("email", connection=well).enqueue("app.run").id, minutes=6)

    assert ["no worker listens to queue email, where 1 job waits for 6 min"] == status(zsched)["problems"]


def test_a_queue_without_schedules_is_ignored(zsched: Zsched, well: redis.Redis) -> None:
    waits(well, Queue("theirs", connection=well).enqueue("app.run", job_id="theirs").id, minutes=6)

    result = zsched("status")

    assert (DONE, 1, []) == (result.exit_code, len(verdict(result)), status(zsched)["unheard"])


def test_a_queue_of_waiting_schedules_without_a_worker_is_a_warning(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    client.schedule("app.run", id="rule", every=HOUR, queue="push")

    result = zsched("status")

    assert (DONE, "healthy") == (result.exit_code, verdict(result)[0].partition(":")[0])
    assert "warning: no worker listens to 2 queues (email, push), which schedules use" == verdict(result)[1]
    assert "  → start one: " == verdict(result)[2].partition("RQ_REDIS_URL")[0]
    assert verdict(result)[2].endswith("rq worker email push")


def test_the_remedy_after_a_loss_of_redis_is_also_to_restart_the_workers(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    pushed(client)
    add_entry(well, KEYS.log(), "3-99", "merged", now_ms(well) * 1000, "archive", "x", "rows", 1, "3-1", 5)

    [remedy] = [one["remedy"] for one in status(zsched)["warnings"] if one["name"] == "no_worker"]

    assert remedy.startswith("workers that ran when Redis lost its data are unknown until they take a job: restart")


@pytest.mark.parametrize(("queue", "meant"), [("pussh", "push"), ("emial", "email"), ("sms", None), ("billing", None)])
def test_a_misspelt_queue_is_recognised_by_a_queue_with_workers(
    zsched: Zsched, well: redis.Redis, client: Client, queue: str, meant: str | None
) -> None:
    listens(well, "push,email")
    waits(well, pushed(client, queue), minutes=6)

    [alarm] = status(zsched)["alarms"]

    text = f"no worker listens to queue {queue}, where 1 job waits for 6 min"
    assert alarm["problem"] == (f"{text}: did you mean {meant}?" if meant else text)
    takes_out = f"zsched cancel-run --queue {queue} takes its runs out; else: "
    takes_out = f"zsched set ID --queue {meant} corrects a schedule, and {takes_out}"
    assert alarm["remedy"].startswith(takes_out if meant else "start one: ")
    assert [meant] == [one["meant"] for one in status(zsched)["unheard"]]


def test_many_queues_without_workers_are_one_warning_and_no_typing_mistakes(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    listens(well, "tenant-0")
    client.schedule_many({"func": "app.run", "id": f"s{n}", "after": HOUR, "queue": f"tenant-{n}"} for n in range(40))

    [warning] = status(zsched)["warnings"]

    names = "tenant-1, tenant-10, tenant-11, tenant-12, …"
    assert f"no worker listens to 39 queues ({names}), which schedules use" == warning["problem"]
    assert warning["remedy"].endswith(" rq worker tenant-1 tenant-10 tenant-11 tenant-12")


def test_a_misspelt_queue_without_runs_has_nothing_to_take_out(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    listens(well, "push")
    client.schedule("app.run", id="later", after=HOUR, queue="pussh")

    [warning] = status(zsched)["warnings"]

    assert "no worker listens to queue pussh, which schedules use: did you mean push?" == warning["problem"]
    assert warning["remedy"].startswith("zsched set ID --queue push corrects a schedule; else: ")


def test_a_queue_of_paused_or_ended_schedules_is_ignored(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    for id in ("rule", "broken", "once"):
        client.schedule("app.run", id=id, queue=id, **({"after": HOUR} if id == "once" else {"every": HOUR}))
    client.pause("rule")
    client.pause("once")
    well.hset("zsched:{default}:quarantine", "broken", "normal 1 1 why")
    well.zrem("zsched:{default}:due:normal", "broken")

    assert [] == status(zsched)["unheard"]


def test_status_is_healthy_with_a_worker_for_each_queue(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    client.schedule("app.run", id="later", after=HOUR, queue="email")
    waits(well, pushed(client, "push"), minutes=6)
    listens(well, "email", "w1")
    listens(well, "push", "w2")

    assert (DONE, 1) == (zsched("status").exit_code, len(verdict(zsched("status"))))


def test_a_real_worker_counts_until_it_stops(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    waits(well, pushed(client), minutes=6)
    worker = Worker(["email"], connection=well)

    worker.register_birth()
    assert [] == status(zsched)["unheard"]

    worker.register_death()
    assert ["unheard"] == names(status(zsched))[0]


UNHEARD: dict[str, Callable[[redis.Redis, Client], object]] = {
    "behind a run at the front": lambda well, client: client.enqueue("app.run", queue="email", at_front=True),
    "behind a dozen runs at the front": lambda well, client: [
        client.enqueue("app.run", queue="email", at_front=True) for _ in range(12)
    ],
    "a killed worker's name": lambda well, _: well.sadd(f"{RQ}:workers:email", f"{RQ}:worker:killed"),
    "names of 1,500 killed workers": lambda well, _: well.sadd(
        f"{RQ}:workers:email", *(f"{RQ}:worker:killed-{n}" for n in range(1500))
    ),
    "an execution that lapsed": lambda well, _: well.zadd(f"{RQ}:wip:email", {"job:x": now_ms(well) / 1000 - 90}),
    "a run of an unknown worker": lambda well, _: finishes(well, "done", "finished", minutes_ago=1),
    "an old run": lambda well, _: (finishes(well, "done", "failed", minutes_ago=6), told_of(well)),
    "a run of a worker that stopped in order": lambda well, _: (
        finishes(well, "done", "finished", minutes_ago=1), told_of(well, death="now"),
    ),
}  # fmt: skip
HEARD: dict[str, Callable[[redis.Redis], object]] = {
    "a worker": lambda well: listens(well, "email", "alive"),
    "an unregistered worker at work": lambda well: well.zadd(f"{RQ}:wip:email", {"job:x": now_ms(well) / 1000 + 90}),
    "an unregistered worker that ran a job lately": lambda well: (
        finishes(well, "done", "finished", minutes_ago=1), told_of(well),
    ),
    "an unregistered worker whose job failed lately": lambda well: (
        finishes(well, "done", "failed", minutes_ago=1), told_of(well),
    ),
    "an unregistered worker whose latest of several jobs is new": lambda well: (
        [finishes(well, f"j{minutes}", "finished", minutes) for minutes in (60, 50, 40, 1)], told_of(well),
    ),
}  # fmt: skip


def told_of(well: redis.Redis, **about: str) -> None:
    """Write what is left of worker w1, whose registration was lost."""
    well.hset(f"{RQ}:worker:w1", mapping={"last_heartbeat": "now", **about})


@pytest.mark.parametrize("what", UNHEARD)
def test_a_run_waits_unheard_although_something_looks_like_a_worker(
    zsched: Zsched, well: redis.Redis, client: Client, what: str
) -> None:
    waits(well, pushed(client), minutes=6)

    UNHEARD[what](well, client)

    assert ["unheard"] == names(status(zsched))[0]


@pytest.mark.parametrize("what", HEARD)
def test_a_run_is_heard_although_names_of_killed_workers_are_left(
    zsched: Zsched, well: redis.Redis, client: Client, what: str
) -> None:
    waits(well, pushed(client), minutes=6)
    UNHEARD["names of 1,500 killed workers"](well, client)

    HEARD[what](well)

    assert ([], []) == names(status(zsched))


def test_every_queue_of_a_large_fleet_is_checked(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    client.schedule_many({"func": "app.run", "id": f"s{n}", "every": HOUR, "queue": f"q{n}"} for n in range(50))
    with well.pipeline(transaction=False) as pipeline:
        for n in range(5000):
            listens(pipeline, f"q{n}" if n < 50 else "default", f"w{n}")
        pipeline.execute()

    assert [] == status(zsched)["unheard"]


def test_suspended_workers_are_a_warning_and_a_problem_when_runs_wait_for_minutes(
    zsched: Zsched, well: redis.Redis, client: Client
) -> None:
    listens(well, "email")
    suspend(well)
    assert ([], ["suspended"]) == names(status(zsched))

    waits(well, pushed(client), minutes=6)
    result, found = zsched("status"), status(zsched)
    assert (UNHEALTHY, (["suspended"], [])) == (result.exit_code, names(found))
    assert "UNHEALTHY: RQ's workers are suspended: 1 job waits for 6 min in queue email" == verdict(result)[0]
    assert re.search("resume them: .*RQ_REDIS_URL=.* rq resume$", verdict(result)[1])
    assert (True, []) == (found["suspended"], found["unheard"])

    resume(well)
    assert ([], [], False) == (*names(status(zsched)), status(zsched)["suspended"])


def test_why_says_that_a_queued_run_has_no_worker(well: redis.Redis, client: Client) -> None:
    run = pushed(client)
    well.sadd(f"{RQ}:workers:email", f"{RQ}:worker:killed")
    assert "no RQ worker is registered for queue email" in client.why(run).verdict.text

    listens(well, "email")
    assert "worker" not in client.why(run).verdict.text

    suspend(well)
    verdict = client.why(run).verdict
    assert "RQ's workers are suspended" in verdict.text
    assert re.fullmatch("resume them: .*RQ_REDIS_URL=.* rq resume", verdict.remedy)


def test_status_without_worker_data_shows_everything_else(zsched: Zsched, well: redis.Redis, client: Client) -> None:
    pushed(client)
    well.set(f"{RQ}:queues", "of a wrong type")

    result, found = zsched("status"), status(zsched)

    assert (UNHEALTHY, None, None) == (result.exit_code, found["unheard"], found["suspended"])
    assert (["wrong_type"], ["queues_unknown"]) == names(found)
    assert "zsched-web" in "\n".join(verdict(result))


def test_thousands_of_queues_take_few_round_trips(well: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [f"q{n}" for n in range(5000)]
    well.sadd(f"{RQ}:queues", *(f"{RQ}:queue:{queue}" for queue in queues))
    trips, wait = [], Wire.execute
    monkeypatch.setattr(Wire, "execute", lambda wire, *command: (trips.append(command), wait(wire, *command))[1])

    with Link.adopt(well).wire() as wire:
        assert [] == stalled_queues(wire, KEYS).unheard

    assert len(trips) < 20
