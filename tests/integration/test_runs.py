"""Runs as shown to people and programs: a daemon, real workers, the client and the command line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.workers import RqWorkers
from tests.waiting import eventually
from zsched import Client, InvalidSchedule, Run, RunStatus
from zsched.cli.program import USAGE
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once
KEYS = Keys("default")
TASKS = """
from rq import get_current_job

def run():
    pass

def note():
    get_current_job().connection.hset(get_current_job().key, "zs_note", '{"sent": 123}')

def fail():
    raise ZeroDivisionError("division\\nby zero")

def wait():
    get_current_job().connection.blpop("go on", 60)
"""


def statuses(runs: list[Run]) -> dict[str, str]:
    return {run.schedule_id: run.status.value for run in runs}


def only(runs: list[Run]) -> Run:
    [run] = runs
    return run


class Stage:
    """One run of every kind: ended runs did so in RQ a moment ago, or are recorded."""

    def __init__(self, client: Client, url: str, redis_client: redis.Redis, guard: Guard, folder: Path) -> None:
        self.client, self.zsched = client, Zsched(url)
        for id, func, queue in (
            ("good", "tasks.note", "default"),
            ("bad", "tasks.fail", "default"),
            ("waits", "tasks.run", "nobody"),
            ("runs", "tasks.wait", "slow"),
            ("gone", "tasks.run", "nobody"),
        ):
            client.enqueue(func, id=id, queue=queue)
        redis_client.delete(KEYS.rq.job(only(client.runs("gone")).id))
        workers = RqWorkers(guard, url, folder, TASKS)
        workers.start("--burst", "--name", "w-slow", "slow")
        workers.work("--name", "w-default")
        eventually(lambda: RunStatus.RUNNING is only(client.runs("runs")).status)

    def recorded(self) -> None:
        """Wait until the log has the ends."""
        story = self.client.why
        eventually(lambda: all("run_ended" == story(id).changes[-1].what.value for id in ("good", "bad", "gone")))


@pytest.fixture
def stage(
    daemon: DaemonThread, client: Client, redis_url: str, redis_client: redis.Redis, guard: Guard, tmp_path: Path
) -> Iterator[Stage]:
    yield Stage(client, redis_url, redis_client, guard, tmp_path)
    redis_client.rpush("go on", "1")


def test_runs_have_their_status_before_and_after_it_is_recorded(stage: Stage) -> None:
    expected = {"good": "succeeded", "bad": "failed", "waits": "queued", "runs": "running", "gone": "lost"}

    just_now = stage.client.runs()
    by_status = {status: stage.client.runs(status=status) for status in expected.values()}
    by_both = {status: stage.client.runs(id, RunStatus(status)) for id, status in expected.items()}
    stage.recorded()
    later = stage.client.runs()

    assert expected == statuses(just_now) == statuses(later)
    for id, status in expected.items():
        found = (by_status[status], by_both[status], stage.client.runs(status=status))
        assert [[id]] * 3 == [[run.schedule_id for run in runs] for runs in found]
        assert [] == stage.client.runs("nobody", status)
    assert ["gone", "runs", "waits", "bad", "good"] == [run.schedule_id for run in later]
    assert later.source.archive is not None
    good, bad = only(stage.client.runs("good")), only(stage.client.runs("bad"))
    assert (1, {"sent": 123}, "w-default", "") == (good.attempt, good.note, good.worker, good.error)
    assert good.duration_ms is not None
    assert good.queue_wait_ms is not None
    assert "ZeroDivisionError: division" == bad.error
    json.dumps([run.to_dict() for run in later])


def test_runs_returns_the_most_recently_pushed_runs(client: Client, daemon: DaemonThread) -> None:
    pushed = [client.enqueue("tasks.run", id=f"s{number}").run_id for number in range(30)]

    assert pushed[:-21:-1] == [run.id for run in client.runs()]
    assert pushed[:-4:-1] == [run.id for run in client.runs(status="queued", limit=3)]


def test_runs_come_from_redis_own_log_if_no_archive_answers(
    client: Client, redis_url: str, redis_client: redis.Redis, guard: Guard, tmp_path: Path
) -> None:
    client.enqueue("tasks.note", id="good")
    client.enqueue("tasks.run", id="waits", queue="nobody")
    RqWorkers(guard, redis_url, tmp_path, TASKS).work()

    runs = client.runs()

    assert {"good": "succeeded", "waits": "queued"} == statuses(runs)
    assert (None, "no archive reported within 30 s") == (runs.source.archive, runs.source.problem)
    assert ["good"] == [run.schedule_id for run in client.runs(status="succeeded")]
    assert runs.source.complete_since_ms == client.runs(limit=1).source.complete_since_ms  # the log has them all


@pytest.mark.parametrize(
    "wrong", [{"status": "finished"}, {"status": 7}, {"limit": 0}, {"limit": 1001}, {"limit": True}, {"id": "a b"}]
)
def test_runs_refuses_invalid_filters(wrong: dict[str, Any]) -> None:
    choices = "queued, running, succeeded, failed, cancelled, expired, lost, refused" if "status" in wrong else "="
    with pytest.raises(InvalidSchedule, match=choices):
        Client.from_url("redis://localhost:1").runs(**wrong)


def test_history_shows_the_runs_of_occurrences_and_filters_by_their_status(stage: Stage) -> None:
    stage.recorded()

    table = {line.split()[2]: line for line in stage.zsched("history").stdout.splitlines()[1:]}
    told = {one["id"]: one for one in stage.zsched.json("history")["occurrences"]}

    assert re.search(r"  succeeded  +[\d.]+ m?s  +[\d.]+ m?s  +good-\S+  +by \S+; sent=123$", table["good"])
    assert re.search(r"  failed  +[\d.]+ m?s  +[\d.]+ m?s  +.*ZeroDivisionError: division$", table["bad"])
    assert re.search(r"  queued +waits-\S+ +by \S+$", table["waits"])
    assert re.search(r"  running +[\d.]+ m?s +runs-\S+ +by \S+$", table["runs"])
    assert re.search(r"  lost .*RQ's job is missing", table["gone"])
    run = told["good"]["run"]
    assert ("enqueued", "succeeded", {"sent": 123}) == (told["good"]["what"], run["status"], run["note"])
    for status, id in (("failed", "bad"), ("running", "runs"), ("lost", "gone")):
        [one] = stage.zsched.json("history", "--status", status)["occurrences"]
        assert (id, "enqueued", status) == (one["id"], one["what"], one["run"]["status"])


def test_history_of_cancelled_includes_occurrences_and_runs(
    client: Client, daemon: DaemonThread, zsched: Zsched, redis_client: redis.Redis
) -> None:
    client.schedule("tasks.run", id="never", after=3600)
    client.cancel("never")
    run = client.enqueue("tasks.run", id="stopped").run_id
    redis_client.hset(KEYS.rq.job(run), "status", "canceled")

    told = zsched.json("history", "--status", "cancelled")["occurrences"]

    assert [("stopped", "enqueued", "cancelled"), ("never", "cancelled", None)] == [
        (one["id"], one["what"], one["run"] and one["run"]["status"]) for one in told
    ]


def test_history_without_results_says_so_and_an_unknown_status_is_refused(daemon: DaemonThread, zsched: Zsched) -> None:
    assert "nothing failed\n" == zsched("history", "--status", "failed").stdout
    assert "nothing was lost, of schedule a\n" == zsched("history", "a", "--status", "lost").stdout
    assert USAGE == zsched("history", "--status", "finished").exit_code


def test_show_lists_the_next_times_and_the_last_runs(
    client: Client, daemon: DaemonThread, zsched: Zsched, redis_client: redis.Redis
) -> None:
    client.schedule("tasks.run", id="r", cron="0 9 * * *", tz="Asia/Seoul")
    runs = [client.run_now("r") for _ in range(7)]

    told = zsched.json("show", "r")
    shown = zsched("show", "r")

    assert runs[:-6:-1] == [run["id"] for run in told["runs"]]
    assert ["queued"] * 5 == [run["status"] for run in told["runs"]]
    assert 5 == len(told["next"])
    assert all(re.fullmatch(r"\S+T00:00:00Z", one["utc"]) for one in told["next"])
    assert all(re.fullmatch(r"\S+T09:00:00\+09:00", one["local"]) for one in told["next"])
    assert (told["next_at"][:19] + "Z", "r") == (told["next"][0]["utc"], told["id"])
    assert told["source"]["archive"] is not None
    assert 5 == shown.stdout.partition("next times:")[2].count("09:00:00+09:00 (in ")
    assert runs[-1] in shown.stdout
    assert "" == shown.stderr


def test_show_works_without_an_archive_and_says_so(client: Client, zsched: Zsched) -> None:
    client.schedule("tasks.run", id="once", after=3600)
    client.schedule("tasks.run", id="paused", every=60)
    client.pause("paused")

    shown = zsched("show", "once")
    told = zsched.json("show", "once")
    paused = zsched.json("show", "paused")

    assert "no run yet" in shown.stdout
    assert "from Redis alone" in shown.stderr
    assert (1, [], "no archive reported within 30 s") == (len(told["next"]), told["runs"], told["source"]["problem"])
    assert [] == paused["next"]


def test_why_includes_the_end_of_each_run(stage: Stage) -> None:
    stage.recorded()

    stories = {id: stage.zsched.json("why", id) for id in ("good", "bad", "waits", "runs", "gone")}

    last = {id: story["story"][-1]["text"] for id, story in stories.items()}
    took = r"after [\d.]+ m?s, having waited [\d.]+ m?s for a worker, by worker w-default"
    assert re.fullmatch(rf"run good-\d+ succeeded {took}; it noted sent=123", last["good"])
    assert re.match(rf"run bad-\d+ failed {took}: ZeroDivisionError: division$", last["bad"])
    assert re.match(r"run gone-\d+ is lost: RQ's job is missing", last["gone"])
    words = {"good": "RAN", "bad": "FAILED", "waits": "NOT RUN", "runs": "RUNNING", "gone": "LOST"}
    assert words == {id: story["verdict"]["word"] for id, story in stories.items()}
    texts = {id: story["verdict"]["text"] for id, story in stories.items()}
    assert re.fullmatch(rf"run good-\d+ succeeded {took}; it noted sent=123", texts["good"])
    assert re.match(r"run waits-\d+ is queued since \S+ \S+; no RQ worker is registered", texts["waits"])
    assert re.fullmatch(r"run runs-\d+ is running since \S+ \S+ on worker w-slow", texts["runs"])
