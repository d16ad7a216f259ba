"""Conventions of all requests and answers: ids, logs, methods, conditions, parameters, compression, repetitions."""

import asyncio
import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import redis
import structlog
from starlette.requests import Request
from starlette.responses import Response

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.web.raw import refused
from tests.waiting import eventually
from zsched import Client
from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.web.app import make_api

ONCE: dict[str, Any] = {"func": "app.x", "at": "2040-01-01T00:00:00Z"}
RULE: dict[str, Any] = {"func": "app.x", "every": 3600, "tags": ["shop"]}


# -- ids and the log ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["b1e47eaa-b188", "a" * 128])
def test_an_answer_has_the_id_of_its_request(http: httpx.Client, given: str) -> None:
    answers = [
        http.get(path, headers={"X-Request-Id": given}) for path in ("/schedules", "/schedules/none", "/nothing")
    ]

    assert [given] * 3 == [each.headers["x-request-id"] for each in answers]


@pytest.mark.parametrize("given", [None, "", "a" * 129, "a b", "한".encode(), "a\tb"])
def test_a_request_without_a_usable_id_gets_one(http: httpx.Client, given: Any) -> None:
    headers = {} if given is None else {"X-Request-Id": given}

    ids = {http.get("/schedules", headers=headers).headers["x-request-id"] for _ in range(2)}

    assert [32, 32] == [len(each) for each in ids]


def test_a_change_leaves_a_line_in_the_servers_log_and_a_read_does_not(web: Web, http: httpx.Client) -> None:
    http.get("/schedules", headers={"X-Request-Id": "read-1"})
    http.put("/schedules/a", json=ONCE, headers={"X-Request-Id": "put-1"})
    http.patch("/schedules/a", json={"queue": "a\nb"}, headers={"X-Request-Id": "patch-1"})

    told = {each["request_id"]: each for each in web.events("change_answered")}
    assert "read-1" not in told
    assert ("ann", "PUT", "/api/v1/schedules/a", 201) == tuple(
        told["put-1"][name] for name in ("by", "method", "path", "status")
    )
    assert 422 == told["patch-1"]["status"]


def test_a_failure_of_the_server_is_found_in_its_log_by_the_id_of_the_answer() -> None:
    app = make_api(Settings(), cast("AsyncLink", AsyncLink.from_url("redis://127.0.0.1:1", 1)))

    async def fail(_: Request) -> Response:
        raise KeyError("a")

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/fail", headers={"X-Request-Id": "r-1"})

    app.add_route("/fail", fail)
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        answered = asyncio.run(answer())

    assert (500, "r-1") == (answered.status_code, answered.headers["x-request-id"])
    assert ["r-1"] == [each["request_id"] for each in logged if each["event"] == "request_failed"]


def test_the_reader_of_events_logs_nothing_for_the_request_that_began_it(guard: Guard, tmp_path: Path) -> None:
    with EmbeddedRedis() as server:
        web = Web(guard, server.url, tmp_path)
        http = web.client()
        with http.stream("GET", "/events") as stream:
            next(stream.iter_lines())

    told = eventually(lambda: web.events("events_wait_for_redis"))

    http.close()
    assert all("request_id" not in each for each in told)


# -- methods ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/api/v1/schedules", "/api/v1/openapi.json", "/api/v1/events", "/static/zsched.css", "/metrics"],
)
def test_head_answers_as_get_without_a_body(web: Web, path: str) -> None:
    plain = {"Accept-Encoding": "identity"}
    with web.client() as client, client.stream("GET", f"{web.url}{path}", headers=plain) as got:
        head = client.head(f"{web.url}{path}", headers=plain)

        assert (200, b"", got.headers["content-type"]) == (head.status_code, head.content, head.headers["content-type"])
        assert path == "/metrics" or got.headers.get("content-length") == head.headers.get("content-length")


def test_options_names_the_methods_of_a_path(http: httpx.Client, stranger: httpx.Client) -> None:
    answers = [http.options("/schedules"), stranger.options("/api/v1/schedules/a:run"), http.options("/nothing")]

    assert [204, 204, 404] == [each.status_code for each in answers]
    assert ["GET, HEAD, OPTIONS, POST", "OPTIONS, POST"] == [each.headers["allow"] for each in answers[:2]]


# -- conditions -------------------------------------------------------------------------------------------


def test_a_schedule_that_has_not_changed_is_not_sent_again(
    http: httpx.Client, daemon: DaemonThread, client: Client
) -> None:
    http.put("/schedules/a", json=RULE)
    first = http.get("/schedules/a")
    tag = first.headers["etag"]

    for given in (tag, f'W/{tag}, "x"', "*"):
        again = http.get("/schedules/a", headers={"If-None-Match": given})
        assert (304, b"", tag) == (again.status_code, again.content, again.headers["etag"])
    client.run_now("a")  # its version stays, and its last run is another one
    changed = eventually(lambda: (got := http.get("/schedules/a", headers={"If-None-Match": tag})).content and got)
    assert (200, first.json()["version"]) == (changed.status_code, changed.json()["version"])
    assert 200 == http.patch("/schedules/a", json={"queue": "b"}, headers={"If-Match": tag}).status_code


def test_an_asterisk_in_if_match_changes_only_what_is_there(http: httpx.Client) -> None:
    anything = {"If-Match": "*"}
    none = http.put("/schedules/a", json=RULE, headers=anything)
    absent = http.get("/schedules/a")
    http.put("/schedules/a", json=RULE)
    answers = [
        http.put("/schedules/a", json={**RULE, "queue": "b"}, headers=anything),
        http.patch("/schedules/a", json={"queue": "c"}, headers=anything),
        http.post("/schedules/a:pause", headers=anything),
        http.delete("/schedules/a", headers=anything),
    ]

    assert (412, 404) == (none.status_code, absent.status_code)
    assert "urn:zsched:error:version-conflict" == none.json()["type"]
    assert [200] * 4 == [each.status_code for each in answers]


# -- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "name", "remedy"),
    [
        ("GET", "/schedules?tags=zzz", "tags", "did you mean tag?"),
        ("GET", "/runs?statu=failed", "statu", "did you mean status?"),
        ("GET", "/schedules/a?x=1", "x", "give none"),
        ("GET", "/log?sinc=1", "sinc", "did you mean since?"),
        ("PUT", "/schedules/a?dry_run=true", "dry_run", "give none"),
        ("PATCH", "/schedules/a?dryrun=true", "dryrun", "did you mean dry_run?"),
        ("DELETE", "/schedules/a?if_version=1", "if_version", "give none"),
        ("POST", "/schedules:batch?dry_run=1", "dry_run", "give none"),
        ("POST", "/schedules:cancel?match=a", "match", "give none"),
    ],
)
def test_an_unknown_parameter_is_refused_with_a_near_one(
    http: httpx.Client, web: Web, method: str, path: str, name: str, remedy: str
) -> None:
    http.put("/schedules/a", json=RULE)

    problem = refused(http.request(method, path, json=RULE if method == "PUT" else {}), 422)

    assert ("urn:zsched:error:invalid-parameter", name, remedy) == tuple(
        problem[each] for each in ("type", "option", "remedy")
    )
    assert 401 == web.request(method, f"/api/v1{path}").status_code  # a stranger is told nothing
    assert 200 == http.get("/schedules/a").status_code


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/schedules?page_size=0", "page_size"),
        ("/schedules?page_token=x", "page_token"),
        ("/schedules?state=x", "state"),
        ("/log?limit=x", "limit"),
        ("/log?since=x", "since"),
        ("/runs?page_token=x", "page_token"),
        ("/occurrences?from=x&to=y&bucket=1m", "from"),
    ],
)
def test_a_bad_parameter_is_a_problem_of_a_parameter(http: httpx.Client, path: str, option: str) -> None:
    problem = refused(http.get(path), 422)

    assert ("urn:zsched:error:invalid-parameter", option) == (problem["type"], problem["option"])


def test_a_bad_event_id_is_a_problem_of_a_parameter(http: httpx.Client) -> None:
    problem = refused(http.get("/events", headers={"Last-Event-ID": "x"}), 422)

    assert ("urn:zsched:error:invalid-parameter", "Last-Event-ID") == (problem["type"], problem["option"])


# -- encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/schedules/a", "/schedules:batch"])
def test_a_compressed_body_is_refused(http: httpx.Client, path: str) -> None:
    body, headers = gzip.compress(json.dumps(RULE).encode()), {"Content-Encoding": "gzip"}

    answer = http.request("PUT" if path.endswith("a") else "POST", path, content=body, headers=headers)

    text = answer.text
    assert "urn:zsched:error:unsupported-encoding" in text
    assert "send it unchanged" in text
    assert path.endswith("batch") or (415, "identity") == (answer.status_code, answer.headers["accept-encoding"])


def test_an_answer_is_compressed_from_1_kib_on_and_a_stream_is_not(http: httpx.Client, web: Web) -> None:
    rows = [{**RULE, "id": f"row-{number}"} for number in range(20)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    batch = http.post("/schedules:batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    large, small, plain = (
        http.get("/schedules", params={"page_size": size}, headers={"Accept-Encoding": encoding})
        for size, encoding in ((20, "gzip"), (1, "gzip"), (20, "identity"))
    )
    with http.stream("GET", "/events") as events:
        told = [each.headers.get("content-encoding") for each in (large, small, plain, batch, events)]

    assert ["gzip", "gzip", None, "identity", "identity"] == told
    assert large.json() == plain.json()
    assert len(large.content) > 5 * int(large.headers["content-length"])
    assert "gzip" == web.get("/static/htmx.min.js").headers["content-encoding"]


def test_a_static_file_is_asked_for_again_and_sent_once(web: Web) -> None:
    first = web.get("/static/zsched.css")
    again = web.get("/static/zsched.css", headers={"If-None-Match": first.headers["etag"]})

    assert (200, "no-cache", 304) == (first.status_code, first.headers["cache-control"], again.status_code)


# -- repetitions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [ONCE, RULE])
def test_a_run_with_the_same_key_is_pushed_once(http: httpx.Client, client: Client, body: dict[str, Any]) -> None:
    http.put("/schedules/a", json=body)
    first, again = (http.post("/schedules/a:run", headers={"Idempotency-Key": "k"}) for _ in range(2))

    assert (200, 200) == (first.status_code, again.status_code), again.text
    assert first.json() == again.json()
    assert (None, "true") == tuple(each.headers.get("idempotency-replayed") for each in (first, again))
    assert 1 == len(list(client.log()[0])) - 1


def test_runs_with_other_keys_callers_or_schedules_are_pushed(web: Web, http: httpx.Client) -> None:
    for id in ("a", "b"):
        http.put(f"/schedules/{id}", json=RULE)
    with web.client("bob") as bob:
        answers = [
            one.post(f"/schedules/{id}:run", headers={"Idempotency-Key": key})
            for one, id, key in ((http, "a", "k"), (http, "a", "l"), (http, "b", "k"), (bob, "a", "k"))
        ]

    assert 4 == len({each.json()["run_id"] for each in answers})
    assert [None] * 4 == [each.headers.get("idempotency-replayed") for each in answers]


def test_a_limited_callers_key_does_nothing_for_a_schedule_that_went_beyond_its_limits(
    web: Web, http: httpx.Client, redis_client: redis.Redis
) -> None:
    http.put("/schedules/a", json={**RULE, "queue": "mail"})
    with web.client("shop", "scheduler", queues=("mail",)) as shop:
        first = shop.post("/schedules/a:run", headers={"Idempotency-Key": "k"})
        http.patch("/schedules/a", json={"queue": "pay"})
        again, other = (shop.post("/schedules/a:run", headers={"Idempotency-Key": key}) for key in ("k", "l"))

    assert (200, first.json(), 404) == (again.status_code, again.json(), other.status_code)
    assert 0 == redis_client.llen("rq:queue:pay")


def test_a_retry_with_the_same_key_is_pushed_once(http: httpx.Client, client: Client) -> None:
    run_id = client.enqueue("app.x", id="a").run_id or ""
    http.post(f"/runs/{run_id}:cancel")
    first, again, other = (
        http.post(f"/runs/{run_id}:retry", headers={"Idempotency-Key": key}) for key in ("k", "k", "l")
    )

    assert first.json() == again.json() != other.json()
    assert "true" == again.headers["idempotency-replayed"]


def test_a_repeated_put_and_post_are_marked(http: httpx.Client) -> None:
    key, body = {"Idempotency-Key": "k"}, {**RULE, "after": None}
    puts = [http.put("/schedules/a", json={"func": "app.x", "after": 60}, headers=key) for _ in range(2)]
    posts = [http.post("/schedules", json=body, headers={"Idempotency-Key": "l"}) for _ in range(2)]

    assert [None, "true"] * 2 == [each.headers.get("idempotency-replayed") for each in (*puts, *posts)]


# -- batches ------------------------------------------------------------------------------------------------


def test_an_array_of_rows_gets_an_array_of_results(http: httpx.Client) -> None:
    rows = [{**RULE, "id": "a"}, {"func": "app.x", "every": 0, "id": "b"}, 7, {**RULE, "id": "a"}]

    told = http.post("/schedules:batch", json=rows)
    bad = [
        http.post("/schedules:batch", content=text, headers={"Content-Type": "application/json"}) for text in ("", "7")
    ]

    assert (200, "application/json") == (told.status_code, told.headers["content-type"])
    assert ["created", None, None, "unchanged"] == [one.get("outcome") for one in told.json()]
    assert [0, 1, 2, 3] == [one["row"] for one in told.json()]
    assert ("every", "urn:zsched:error:not-json") == (
        told.json()[1]["error"]["option"],
        told.json()[2]["error"]["type"],
    )
    assert [400, 400] == [each.status_code for each in bad]


# -- durability ---------------------------------------------------------------------------------------------


def test_a_put_that_only_redis_has_yet_is_answered_as_a_schedule(http: httpx.Client, web: Web, link: Link) -> None:
    Archivers(link, Keys("default")).report("stuck", None, ArchiveState.FOLLOWING, {})  # it never continues
    body, key = {**RULE, "durable": True}, {"Idempotency-Key": "k"}

    with ThreadPoolExecutor(2) as pool:
        put = pool.submit(http.put, "/schedules/a", json=body)
        post = pool.submit(http.post, "/schedules", json=body, headers=key)
        answers = [put.result(), post.result()]

    assert [202, 202] == [each.status_code for each in answers], answers[0].text
    assert [("created", False)] * 2 == [(each.json()["outcome"], each.json()["archived"]) for each in answers]
    assert [one.json()["next_at"] for one in answers] == [
        http.get(f"/schedules/{each.json()['id']}").json()["next_at"] for each in answers
    ]
