"""The pages that show workers and daemons: what each does, and which of them need a look. Without a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from rq import Queue, Worker

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.builders.workers import RqWorkers
from tests.integration.standing import report
from tests.waiting import eventually
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once
JOBS = "tests.integration.console.jobs"


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator."""
    with web.browser("ann") as client:
        yield client


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of a table, without marks, by the id of their first cell."""
    rows = re.findall(r'(<tr[^>]*>\s*<th[^>]* id="([^"]+)".*?)</tr>', page, re.DOTALL)
    return {id: " ".join(re.sub("<[^>]*>", " ", row).split()) for row, id in rows}


def alarming(page: str) -> list[str]:
    return re.findall(r'<tr class="alarming">\s*<th[^>]* id="([^"]+)"', page)


def registered(redis_client: redis.Redis, name: str, queue: str) -> Worker:
    worker = Worker([Queue(queue, connection=redis_client)], name=name, connection=redis_client)
    worker.register_birth()
    return worker


def takes(worker: Worker, job_id: str, redis_client: redis.Redis) -> None:
    """Record that *worker* has a job in its hand, as its version of RQ does."""
    if hasattr(worker, "executions_key"):
        redis_client.sadd(worker.executions_key, f"{job_id}:1")
    else:
        worker.set_current_job_id(job_id)


def test_workers_and_runs_show_who_runs_what_and_since_when(
    ann: httpx.Client, client: Client, daemon: DaemonThread, redis_url: str, tmp_path: Path, rq_python: str
) -> None:
    with Guard() as guard:
        RqWorkers(guard, redis_url, tmp_path, python=rq_python).start("--name", "mailer", "mail", "slow")
        run_id = client.enqueue(f"{JOBS}.hang", id="hung", queue="mail", timeout="2h").run_id or ""
        eventually(lambda: run_id in ann.get("/workers").text)
        page = ann.get("/workers").text
        running, run = ann.get("/runs?status=running").text, ann.get(f"/runs/{run_id}").text

    row = rows_of(page)["mailer"]
    assert re.search(rf", \d+ mail, slow {run_id} [\d.]+ m?s of 2h .* 0 0$", row), row
    assert [] == alarming(page)
    assert re.search('data-label="took">[^<]*running for', running)
    assert re.search(r"running for .* of at most 2h", re.sub("<[^>]*>", "", run))
    assert re.search(r"mailer .*, pid \d+; heartbeat", re.sub("<[^>]*>", "", run))
    assert [True, True] == ['href="/workers#mailer"' in each for each in (running, run)]


def test_a_worker_that_needs_a_look_stands_out_and_first(ann: httpx.Client, redis_client: redis.Redis) -> None:
    registered(redis_client, "a-good-one", "mail")
    registered(redis_client, "late", "mail").heartbeat(30)  # its registration ends half a minute after the next one
    over = registered(redis_client, "over", "reports")
    job = Queue("reports", connection=redis_client).enqueue(f"{JOBS}.hang", job_timeout=60)
    redis_client.hset(job.key, mapping={"status": "started", "started_at": "2026-01-01T00:00:00.000000Z"})
    takes(over, job.id, redis_client)

    page = ann.get("/workers").text
    of_queue = ann.get("/workers?queue=reports").text

    assert ["over", "late", "a-good-one"] == list(rows_of(page))
    assert ["over", "late"] == alarming(page)
    assert ("limit 1m" in rows_of(page)["over"], " late " in rows_of(page)["late"]) == (True, True)
    assert job.id in rows_of(page)["over"]
    assert f"/runs/{job.id}" not in page, "another program's job is no run"
    assert ["over"] == list(rows_of(of_queue))


def test_queues_lead_to_their_workers_and_a_queue_without_any_says_so(
    ann: httpx.Client, client: Client, redis_client: redis.Redis
) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600, queue="silent")
    registered(redis_client, "mailer", "mail")

    page, none = ann.get("/queues").text, ann.get("/workers?queue=silent").text

    assert '<a href="/workers?queue=mail">1 worker</a>' in page
    assert "none listens" in page
    assert "No worker is registered for queue silent. Start one: <code>rq worker silent</code>" in none


def facts_of(page: str) -> dict[str, list[str]]:
    """Return the rows of the page of daemons: the texts of a row's cells, by its head."""
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', page, re.DOTALL)
    cells = {head: re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for head, row in rows}
    return {
        re.sub("<[^>]*>", "", head): [re.sub("<[^>]*>", "", cell).strip() for cell in cells[head]] for head in cells
    }


def test_daemons_are_compared_by_what_each_reports(ann: httpx.Client, daemon: DaemonThread) -> None:
    eventually(lambda: facts_of(ann.get("/daemons").text).get("clock") == ["as Redis"])

    facts = facts_of(ann.get("/daemons").text)

    assert re.fullmatch(r"[1-9]\d* MB", facts["memory"][0])
    assert ["following, up to date"] == facts["archive"]
    assert facts["its file"][0].endswith(".db")
    assert 'href="/daemons"' in ann.get("/").text


def test_versions_that_differ_between_running_daemons_are_marked(ann: httpx.Client, led: redis.Redis) -> None:
    at = {"host": "here", "path": "/one.db", "rq": "3.0.0"}
    report(led, "one", daemon="somebody", version="0.2.0", ahead_ms=-3400, memory=90_000_000, **at)
    report(led, "two", daemon="d2", version="0.1.0", may_not_lead="eviction", **at | {"path": "/two.db"})

    eventually(lambda: "0.2.0" in ann.get("/daemons").text)  # a state is shared by all viewers for a moment
    page = ann.get("/daemons").text
    facts = facts_of(page)

    assert ["0.2.0", "0.1.0"] == facts["version ≠"]
    assert ["3.0.0", "3.0.0"] == facts["RQ"]
    assert (["3.4 s behind", "?"], ["90 MB", "?"]) == (facts["clock"], facts["memory"])
    assert ["none", "may not lead: eviction"] == facts["troubles"]
    assert ["leader", "barred"] == re.findall(r'<th scope="col"><span[^>]*>(\w+)<', page)
