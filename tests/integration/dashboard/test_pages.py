"""rq-dashboard's pages under ``/rq``: access, contents, and the refusal of every change."""

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from html import escape, unescape
from typing import Any

import pytest
import redis

pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")

import httpx
from rq import Queue, SimpleWorker
from rq.job import Job, JobStatus

from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.integration.dashboard import tasks
from tests.integration.dashboard.runs import DONE, FAILED, NOMINAL, WAITS, job, listed
from tests.prefix import RQ
from zsched.dashboard.app import SHOWN, make_pages
from zsched.storage.connection import Link

pytestmark = pytest.mark.once

PAGES = ["/", "/0/view/queues", "/0/view/jobs", "/0/view/workers", "/0/data/queues.json", "/0/data/workers.json"]


def everything(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Return all of Redis, for a comparison."""
    return {key: client.dump(key) for key in client.keys("*")}


@pytest.mark.parametrize("path", [*PAGES, "/rq_dashboard/static/css/main.css", "/static/css/main.css", "/nothing"])
@pytest.mark.parametrize("authorization", [None, "Bearer open sesame", "Basic YWxpY2U6d3Jvbmc="])
def test_every_page_is_refused_without_a_login(web: Web, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}

    answer = web.get(f"/rq{path}", headers=headers)

    assert (401, "Bearer") == (answer.status_code, answer.headers["www-authenticate"])
    assert {"type", "title", "status", "detail", "remedy"} == answer.json().keys()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_leads_to_the_login_and_back(web: Web, filled: redis.Redis, path: str) -> None:
    token = web.token("ann", sees_arguments=True)
    with web.stranger() as browser:
        asked = browser.get(f"/rq{path}?a=b%20c", headers={"Accept": "text/html"})
        form = browser.get(asked.headers["location"])
        [wanted] = re.findall(r'name="next" value="([^"]+)"', form.text)
        entered = browser.post("/login", data={"token": token, "next": unescape(wanted)})
        shown = browser.get(entered.headers["location"], follow_redirects=True)

    assert (303, 200, 303, 200) == (asked.status_code, form.status_code, entered.status_code, shown.status_code)
    assert f"/rq{path}?a=b%20c" == entered.headers["location"]


WITHOUT_THE_RIGHT: list[dict[str, Any]] = [
    {},
    {"sees_arguments": True, "queues": ("email",)},
    {"sees_arguments": True, "funcs": ("app.*",)},
    {"sees_arguments": True, "tags": ("shop",)},
]


@pytest.mark.parametrize("given", WITHOUT_THE_RIGHT)
def test_callers_without_the_right_see_nothing(web: Web, given: dict[str, Any]) -> None:
    with web.browser(at="/rq", **given) as browser, web.stranger("/rq") as program:
        program.headers["Authorization"] = f"Bearer {web.token('t', **given)}"
        answers = [client.get(path) for client in (browser, program) for path in [*PAGES, "/static/css/main.css"]]

    assert {403} == {answer.status_code for answer in answers}
    assert {"urn:zsched:error:arguments-hidden", "urn:zsched:error:outside-limits"} >= {
        answer.json()["type"] for answer in answers
    }


def test_a_token_with_the_right_sees_the_pages(web: Web) -> None:
    token = web.token("viewer", "viewer", sees_arguments=True)

    answer = web.get("/rq/0/view/workers", headers={"Authorization": f"Bearer {token}"})

    assert 200 == answer.status_code


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_shown_after_a_login(browser: httpx.Client, filled: redis.Redis, path: str) -> None:
    assert 200 == browser.get(path, follow_redirects=True).status_code


@pytest.mark.parametrize("path", ["/", "/0/view/jobs", "/0/view/workers", f"/0/view/job/{DONE}"])
def test_every_part_of_a_page_is_served(web: Web, browser: httpx.Client, filled: redis.Redis, path: str) -> None:
    page = browser.get(path).text

    parts = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    parts += re.findall(r'"(/rq/)"', page)  # the scripts' own

    statuses = {part: browser.get(f"{web.url}{part}", follow_redirects=True).status_code for part in parts}
    assert 6 < len(parts)
    refused = {"empty", "compact", "requeue"}  # of buttons that are not shown
    assert {200} == {status for part, status in statuses.items() if not refused & set(part.split("/"))}
    assert {"/login"} == {part for part in parts if not part.startswith("/rq/")}


def test_every_address_in_the_data_is_below_rq(web: Web, browser: httpx.Client, filled: redis.Redis) -> None:
    queues = browser.get("/0/data/queues.json").json()["queues"]
    pagination = browser.get("/0/data/jobs/email/queued/8/asc/1.json").json()["pagination"]

    found = [value for queue in queues for name, value in queue.items() if name.endswith("_url")]
    found += [pagination["first_page"]["url"], *(page["url"] for page in pagination["pages_in_window"])]

    assert 15 < len(found)
    assert {200} == {browser.get(f"{web.url}{url}").status_code for url in found if url.startswith("/rq/0/view/")}
    assert [] == [url for url in found if not url.startswith("/rq/0/view/")]


@pytest.mark.parametrize("filled", ["pickle", "json"], indirect=True)
def test_a_run_shows_its_schedule_and_time(browser: httpx.Client, filled: redis.Redis) -> None:
    remind = f"{tasks.__name__}.remind"

    [waiting] = listed(browser, "email", "queued")
    [done], [failed] = listed(browser, "default", "finished"), listed(browser, "default", "failed")

    assert (WAITS, f"reminder-42 · {NOMINAL} · {remind}") == (waiting["id"], waiting["description"])
    assert (DONE, f"digest · {NOMINAL} · {remind}") == (done["id"], done["description"])
    assert (FAILED, f"report · {NOMINAL} · <b>The</b> report") == (failed["id"], failed["description"])
    assert "ValueError" in failed["exc_info"]


@pytest.mark.parametrize("filled", ["pickle", "json"], indirect=True)
def test_a_jobs_page_has_result_and_trace(browser: httpx.Client, filled: redis.Redis) -> None:
    done, failed = job(browser, DONE), job(browser, FAILED)

    assert "secret-user" == done["result"]["user"]
    assert {"trace"} == json.loads(unescape(done["metadata"])).keys()
    assert ("finished", "failed") == (done["status"], failed["status"])
    assert "in fail" in failed["exc_info"]
    assert 200 == browser.get(f"/0/view/job/{DONE}").status_code


def test_lists_of_jobs_show_no_arguments_and_texts_are_escaped(browser: httpx.Client, filled: redis.Redis) -> None:
    pages = [browser.get(path, follow_redirects=True).text for path in PAGES]
    pages += [browser.get(f"/0/data/jobs/email/{which}/8/asc/1.json").text for which in ("queued", "failed")]

    assert WAITS in "".join(pages)
    assert "secret-user" not in "".join(pages)

    Queue("<b>q</b>", connection=filled).enqueue(tasks.third)

    escaped = [browser.get(f"/0/data/job/{run}.json").text for run in (DONE, FAILED)]
    escaped.append(browser.get("/0/data/queues.json").text)

    assert not [text for text in escaped if "<" in text or ">" in text]
    assert escape(tasks.MARKUP) == job(browser, DONE)["result"]["text"].replace("&#39;", "&#x27;")


@pytest.mark.parametrize(("task", "shown"), [(tasks.third, "&lt;fractions.Fraction&gt;"), (tasks.pairs, "{(1, 2): 3}")])
def test_a_result_without_a_json_form_is_shown_as_text(
    browser: httpx.Client, redis_client: redis.Redis, task: Callable[[], object], shown: str
) -> None:
    queue = Queue(connection=redis_client)
    made = queue.enqueue(task)
    work_off(queue, redis_client)

    assert shown == job(browser, made.id)["result"]


def works_at(worker: SimpleWorker, run_id: str) -> None:
    """Write what *worker* executes, as RQ 2 and as RQ 3 does, and an execution that lapsed."""
    redis_client, at = worker.connection, str(time.time())
    redis_client.hset(worker.key, "current_job", run_id)
    redis_client.sadd(f"{worker.key}:executions", f"{run_id}:1", f"{run_id}:0")
    execution = {"job_id": run_id, "id": "1", "created_at": at, "last_heartbeat": at, "worker_name": worker.name}
    redis_client.hset(f"{RQ}:execution:{run_id}:1", mapping=execution)


@pytest.mark.parametrize("filled", ["pickle", "json"], indirect=True)
def test_a_busy_worker_shows_its_run(browser: httpx.Client, filled: redis.Redis) -> None:
    worker = SimpleWorker(["email"], "box.1", connection=filled)
    worker.register_birth()
    works_at(worker, WAITS)

    [told] = browser.get("/0/data/workers.json").json()["workers"]
    worker.register_death()

    assert ("box.1", ["email"]) == (told["name"], told["queues"])
    assert told["current_job"]["call_string"].startswith(f"reminder-42 · {NOMINAL}")


def test_a_worker_whose_job_was_deleted_is_shown_as_idle(browser: httpx.Client, redis_client: redis.Redis) -> None:
    worker = SimpleWorker(["email"], "box.1", connection=redis_client)
    worker.register_birth()
    works_at(worker, "gone")

    [told] = browser.get("/0/data/workers.json").json()["workers"]
    worker.register_death()

    assert "idle" == told["current_job"]


@pytest.mark.parametrize("run_id", ["gone-1798102800000", "no:such"])
@pytest.mark.parametrize("path", ["/0/view/job/{}", "/0/data/job/{}.json"])
def test_the_page_of_a_deleted_job_is_not_found(browser: httpx.Client, run_id: str, path: str) -> None:
    answer = browser.get(path.format(run_id))

    assert 404 == answer.status_code
    assert "zsched why" in answer.text


def test_the_content_policy_allows_only_the_pages_own_scripts(browser: httpx.Client, filled: redis.Redis) -> None:
    answers = [browser.get("/") for _ in range(2)]

    policies = [answer.headers["Content-Security-Policy"] for answer in answers]
    assert policies[0] != policies[1]
    for answer, policy in zip(answers, policies, strict=True):
        nonce = policy.partition("'nonce-")[2].partition("'")[0]
        assert answer.text.count("<script") == answer.text.count(f'<script nonce="{nonce}"') > 4
        assert "frame-ancestors 'none'" in policy


def test_every_unlisted_view_is_refused() -> None:
    pages = make_pages(Link.from_url("redis://127.0.0.1:1/0", 1.0))
    names = {rule.endpoint for rule in pages.url_map.iter_rules()}

    refused = names - SHOWN

    assert SHOWN < names
    assert {"delete_job_view", "requeue_job_view", "requeue_all", "empty_queue", "compact_queue"} == {
        name.removeprefix("rq_dashboard.") for name in refused
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/requeue/default"),  # puts all failed jobs of the queue into it again
        ("HEAD", "/requeue/default"),
        ("POST", "/requeue/default"),
        ("POST", f"/job/{FAILED}/requeue"),
        ("POST", f"/job/{WAITS}/delete"),
        ("POST", "/queue/email/queued/empty"),
        ("POST", "/queue/default/failed/empty"),
        ("POST", "/queue/email/compact"),
        ("OPTIONS", "/"),
        ("GET", "/requeue%2fdefault"),
        ("GET", "/%72equeue/default"),
    ],
)
def test_dashboards_refuse_any_change(browser: httpx.Client, filled: redis.Redis, method: str, path: str) -> None:
    before = everything(filled)

    answer = browser.request(method, path)

    assert 403 == answer.status_code
    assert method == "HEAD" or "zsched retry" in answer.text
    assert before == everything(filled)


def test_viewing_pages_changes_nothing_in_redis(browser: httpx.Client, filled: redis.Redis) -> None:
    filled.rpush(f"{RQ}:queue:email", "gone-1798102800000")
    before = everything(filled)

    answers = [browser.get(path, follow_redirects=True).status_code for path in PAGES]
    for registry in ("queued", "scheduled", "deferred", "started", "finished", "failed", "canceled"):
        answers += [
            browser.get(f"/0/view/jobs/{queue}/{registry}/8/asc/1").status_code for queue in ("email", "default")
        ]
        listed(browser, "email", registry)
        listed(browser, "default", registry)
    answers += [browser.get(f"/0/view/job/{run}").status_code for run in (WAITS, DONE, FAILED)]
    assert "unserialized" not in json.dumps([job(browser, run) for run in (WAITS, DONE, FAILED)])

    assert {200} == set(answers)
    assert before == everything(filled)


def test_an_unreachable_redis_is_shown_without_its_password() -> None:
    browser = make_pages(Link.from_url("redis://user:hidden@127.0.0.1:1/0", 1.0)).test_client()

    page, data = browser.get("/0/view/workers"), browser.get("/0/data/queues.json")

    assert (503, 503) == (page.status_code, data.status_code)
    assert "Redis at redis://user:***@127.0.0.1:1/0 does not answer" in page.text
    assert "hidden" not in page.text + data.text


def test_a_plain_rq_job_is_shown_and_another_redis_refused(browser: httpx.Client, redis_client: redis.Redis) -> None:
    assert 500 == browser.get("/1/view/workers").status_code

    made = Queue(connection=redis_client).enqueue_in(timedelta(hours=1), tasks.remind, "u1", description="by hand")

    assert ["by hand"] == [one["description"] for one in listed(browser, "default", "scheduled")]
    assert JobStatus.SCHEDULED == Job.fetch(made.id, connection=redis_client).get_status()
