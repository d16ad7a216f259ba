"""Malformed changes of a schedule that is there, and values that other programs wrote into Redis."""

import json
from typing import Any

import httpx
import pytest
import redis

from tests.builders.progress import change_progress
from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.raw import connected, refused, status_of
from tests.prefix import RQ
from zsched import Client

LONG = "x" * 500_000
RULE = {"func": "app.x", "every": 3600}
DAY = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}


@pytest.fixture
def http(web: Web, http: httpx.Client) -> httpx.Client:
    """A client, and schedule "a"."""
    assert 201 == http.put("/schedules/a", json=RULE).status_code
    return http


ACTIONS: dict[str, tuple[str, Any, str]] = {
    "a note with a header": (":pause", {"note": "a\r\nX-Evil: 1"}, "note"),
    "a note with a NUL": (":pause", {"note": "a\0"}, "note"),
    "a long note": (":pause", {"note": LONG}, "note"),
    "a number for a note": (":pause", {"note": 5}, "note"),
    "null for a note": (":pause", {"note": None}, "note"),
    "another member": (":pause", {"nota": "x"}, "nota"),
    "a long member": (":pause", {LONG: "x"}, "x" * 200),
    "a number for missed": (":resume", {"missed": 1}, "missed"),
    "a number for a start": (":backfill", {**DAY, "start": 5}, "start"),
    "no start": (":backfill", {}, "start"),
    "a text for a flag": (":backfill", {**DAY, "again": "x"}, "again"),
    "a start before the first year": (":backfill", {**DAY, "start": "0001-01-01T00:00:00+14:00"}, "start"),
    "an argument of a run": (":run", {"args": [1]}, "args"),
}


@pytest.mark.parametrize("case", ACTIONS)
def test_a_bad_action_is_refused(http: httpx.Client, redis_client: redis.Redis, case: str) -> None:
    verb, body, option = ACTIONS[case]
    before = redis_client.xlen(KEYS.log())

    problem = refused(http.post(f"/schedules/a{verb}", json=body), 422)

    assert (option, before) == (problem["option"], redis_client.xlen(KEYS.log()))


ROWS = [{LONG: 1}, {**RULE, "id": LONG}, {**RULE, "func": f"app.{LONG}"}, {**RULE, "queue": LONG}, {**RULE, "self": 1}]


def test_refused_rows_of_a_batch_have_short_results(http: httpx.Client, redis_client: redis.Redis) -> None:
    before = redis_client.xlen(KEYS.log())
    lines = [*map(json.dumps, ROWS), "[" * 100_000, '{"a": NaN}', "\0"]

    answer = http.post("/schedules:batch", content="\n".join(lines))

    results = [json.loads(line) for line in answer.text.splitlines()]
    assert [*range(len(lines))] == [each["row"] for each in results if each["error"]["type"]]
    assert len(answer.content) < 20_000
    assert before == redis_client.xlen(KEYS.log())


@pytest.mark.parametrize("path", ["/schedules/a:pause%0A", "/schedules/a:pause/", "/schedules/a/", "/schedules/%2E/a"])
def test_a_path_that_is_not_exact_changes_nothing(http: httpx.Client, path: str) -> None:
    answers = [http.post(path, json={}), http.request("DELETE", path), http.get(path)]

    assert {404, 405} >= {each.status_code for each in answers}
    assert "active" == http.get("/schedules/a").json()["state"]


def test_a_host_of_the_clients_choice_is_in_no_header(web: Web, http: httpx.Client) -> None:
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}

    answers = [http.get(path, headers=headers) for path in ("/schedules/", "/schedules", "/nothing")]

    assert not any("evil" in text for each in answers for text in each.headers.values())


@pytest.mark.parametrize("version", ["x", '"', '""', 'W/"1"', '"a b"', '"' + "x" * 10_000 + '"'])
def test_a_malformed_condition_is_refused(http: httpx.Client, redis_client: redis.Redis, version: str) -> None:
    before = redis_client.xlen(KEYS.log())
    headers = {"If-Match": version}

    answers = [
        http.put("/schedules/a", json=RULE, headers=headers),
        http.patch("/schedules/a", json={"queue": "x"}, headers=headers),
        http.delete("/schedules/a", headers=headers), http.post("/schedules/a:pause", headers=headers),
    ]  # fmt: skip

    assert {400, 422} >= {each.status_code for each in answers}
    assert before == redis_client.xlen(KEYS.log())


@pytest.mark.parametrize("condition", ["", '"x"', "**", "x"])
def test_a_put_that_only_creates_takes_no_other_condition(http: httpx.Client, condition: str) -> None:
    answer = http.put("/schedules/b", json=RULE, headers={"If-None-Match": condition})

    assert "urn:zsched:error:bad-condition" == refused(answer, 400)["type"]


def test_methods_and_handshakes_that_a_path_does_not_have_are_refused(http: httpx.Client, web: Web) -> None:
    answers = [http.request("POST", "/schedules/a"), http.get("/schedules/a:pause"), http.head("/schedules/a:pause")]

    assert [405] * 2 == [each.status_code for each in answers[:2] if refused(each, 405)]
    assert (405, "") == (answers[2].status_code, answers[2].text)
    allowed = [each.headers["allow"] for each in answers]
    assert ["DELETE, GET, HEAD, OPTIONS, PATCH, PUT", "OPTIONS, POST", "OPTIONS, POST"] == allowed

    lines = ["GET /api/v1/schedules HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]  # fmt: skip
    with connected(web) as one:
        one.sendall("\r\n".join([*lines, "", ""]).encode())
        assert 401 == status_of(one)


def test_a_version_that_another_program_wrote_is_in_no_header(http: httpx.Client, redis_client: redis.Redis) -> None:
    for version in ("a\r\nX-Evil: 1", "한", 'a"b', "a\0", "v" * 100_000):
        change_progress(redis_client, KEYS, "a", version=version)
        answer = http.get("/schedules/a")

        assert (200, False, False) == (answer.status_code, "x-evil" in answer.headers, "etag" in answer.headers)


def test_arguments_that_json_cannot_have_are_shown_as_texts(
    start_web: Any, redis_client: redis.Redis, redis_url: str
) -> None:
    web, deep = start_web(ZSCHED_RQ_SERIALIZER="json"), json.loads("[" * 400 + "]" * 400)
    made = Client.from_url(redis_url, serializer="json").schedule("app.x", id="a", after=60)
    redis_client.hset(f"{RQ}:job:{made.run_id}", "data", json.dumps(["app.x", None, ["\ud800", deep], {}]))
    with web.client("eve", "viewer", sees_arguments=True) as client:
        answers = [client.get(path) for path in ("/schedules/a", "/schedules", "/schedules/a/story")]

    assert [200, 200, 200] == [each.status_code for each in answers]
    assert "\\ud800" == answers[0].json()["args"][0]


def test_a_schedule_at_the_end_of_time_can_be_read(http: httpx.Client) -> None:
    body = {"func": "app.x", "at": "9999-12-31T23:59:59Z", "tz": "Pacific/Kiritimati"}

    answers = [
        http.put("/schedules/a", json=body), http.get("/schedules/a"), http.get("/schedules"),
        http.get("/schedules/a/story"), http.post("/preview", json={"id": "a"}),
        http.patch("/schedules/a", json={"queue": "x"}),
    ]  # fmt: skip

    assert {200, 201, 422} >= {each.status_code for each in answers}, [each.text for each in answers]
