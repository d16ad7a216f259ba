"""All routes that write, as the application has them: each refuses whoever may not use it, and then writes nothing."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.daemons import DaemonProcess
from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import LIMITS, WITHIN, entries_by, is_write, write_routes
from tests.sources import PACKAGE, sources
from tests.waiting import ENDS_S
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.storage.connection import Link
from zsched.web.app import PREFIX

OUTSIDE: dict[str, Any] = {"func": "app.pay.send", "after": 3600, "queue": "pay", "tags": ["other"]}
ROUTES = write_routes()
OF_ONE = [route for route in ROUTES if "id}" in route[1]]
OF_MANY = [route for route in ROUTES if "{" not in route[1]]  # besides those of a calendar
FILTERS: tuple[Any, ...] = ({"queue": "pay"}, {"tag": "other"}, {"match": "*"}, {})
EXAMPLES = 8  # of each operation and mode, besides those that cover each keyword of the document
CONFIG = f"""
hooks = "hooks.py"
seed = 19
warnings = false
[cache]
enabled = false
[generation]
max-examples = {EXAMPLES}
deterministic = true
no-shrink = true
with-security-parameters = false
database = "none"
[checks]
positive_data_acceptance.enabled = false
missing_required_header.expected-statuses = [428]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 410, 412, 413, 422, 428, 503]
[parameters]
"path.id" = "a"
[[operations]]
include-path = "/api/v1/schedules:batch"
checks.negative_data_rejection.enabled = false
"""

# Lines of JSON; and of events the first part, as the rest never ends.
HOOKS = """
import json

import requests
import schemathesis

sent = requests.Session.send


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return json.dumps(value).encode()


def send(self, request, **options):
    answer = sent(self, request, **{**options, "stream": True})
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        answer._content = next(answer.iter_content(None))
        answer.close()
    answer.content
    return answer


requests.Session.send = send
"""


@pytest.fixture
def run_id(web: Web, http: httpx.Client) -> str:
    """The run of schedule "theirs", which is outside of the limits and still there."""
    assert 201 == http.put("/schedules/theirs", json={**OUTSIDE, "after": None, "every": 3600}).status_code
    return str(http.post("/schedules/theirs:run").json()["run_id"])


def ask(client: httpx.Client, route: tuple[str, str], run_id: str, body: Any = OUTSIDE) -> httpx.Response:
    method, path = route
    names = {"id": "theirs", "run_id": run_id, "name": "kr"}
    path = re.sub(r"{(\w+)}", lambda found: names[found[1]], path)
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    return client.request(method, path, content=json.dumps(body), headers=headers)


def size_of(redis_client: redis.Redis) -> tuple[int, int]:
    """Return the number of entries in the log, and of keys."""
    return redis_client.xlen(KEYS.log()), redis_client.dbsize()


def test_the_routes_that_write_are_known(web: Web) -> None:
    document = web.get(f"{PREFIX}/openapi.json").json()

    described = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, methods in document["paths"].items()
        for method in methods
        if is_write(method, path.removeprefix(PREFIX))
    }
    assert set(ROUTES) == described
    assert {("PUT", "/schedules/{id}"), ("POST", "/schedules"), ("POST", "/runs/{run_id}:retry")} <= described


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_writes_need_a_writing_token(web: Web, run_id: str, redis_client: redis.Redis, route: tuple[str, str]) -> None:
    viewer = web.client("viewer", "viewer")
    before = size_of(redis_client)

    with web.stranger(PREFIX) as stranger, viewer:
        answers = [ask(stranger, route, run_id), ask(viewer, route, run_id), ask(viewer, route, run_id, {})]

    assert [401, 403, 403] == [each.status_code for each in answers]
    assert ["no-token", "read-only", "read-only"] == [each.json()["type"].rpartition(":")[2] for each in answers]
    assert before == size_of(redis_client)


@pytest.mark.parametrize("route", OF_ONE, ids=" ".join)
def test_a_write_to_a_schedule_outside_of_the_limits_is_refused_as_if_there_were_none(
    web: Web, run_id: str, redis_client: redis.Redis, route: tuple[str, str]
) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        before = size_of(redis_client)
        bodies: tuple[Any, ...] = (OUTSIDE, WITHIN) if route[0] == "PUT" else ({},)
        answers = [ask(shop, route, run_id, body) for body in bodies]

    refused = {"PUT": (403, "outside-limits")}.get(
        route[0], (404, f"{'run' if 'run_id' in route[1] else 'schedule'}-not-found")
    )
    assert {refused} == {(each.status_code, each.json()["type"].rpartition(":")[2]) for each in answers}
    assert before == size_of(redis_client)


def test_an_id_that_a_token_takes_over_gives_no_right_to_its_former_runs(
    guard: Guard, web: Web, http: httpx.Client, run_id: str, redis_url: str, link: Link
) -> None:
    DaemonProcess(guard, redis_url).wait_for("archive_begins")  # without one, a look at the past takes 2 s
    http.delete("/schedules/theirs")
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 201 == shop.put("/schedules/theirs", json={**WITHIN, "after": None, "every": 3600}).status_code
        before = entries_by("shop", link)
        answers = [ask(shop, route, run_id, {}) for route in OF_ONE if "{run_id}" in route[1]]
        answers.append(shop.get(f"/runs/{run_id}"))
        after = entries_by("shop", link)
        own = shop.post("/schedules/theirs:run").json()["run_id"]

        assert {404} == {each.status_code for each in answers}
        assert (["put_recurring"], ["put_recurring"], 200) == (before, after, shop.get(f"/runs/{own}").status_code)


@pytest.mark.parametrize("route", OF_MANY, ids=" ".join)
def test_a_write_to_many_schedules_leaves_those_outside_of_the_limits_alone(
    web: Web, run_id: str, redis_client: redis.Redis, redis_url: str, route: tuple[str, str]
) -> None:
    before = Client.from_url(redis_url).get("theirs")
    with web.client("shop", "scheduler", **LIMITS) as shop:
        entries = redis_client.xlen(KEYS.log())
        filters = [{"filter": one} for one in FILTERS]
        answers = [ask(shop, route, run_id, body) for body in (*filters, {}, OUTSIDE, {**OUTSIDE, "id": "theirs"})]

    assert {200, 202, 207, 400, 403, 422} >= {each.status_code for each in answers}
    assert (before, entries) == (Client.from_url(redis_url).get("theirs"), redis_client.xlen(KEYS.log()))


def test_writes_are_refused_while_any_function_is_allowed(
    start_web: Callable[..., Web], redis_url: str, redis_client: redis.Redis
) -> None:
    web, run_id = start_web(ZSCHED_RQ_ALLOW_CALLABLES="*"), "theirs-1795650943297"
    Client.from_url(redis_url).schedule("app.pay.send", id="theirs", every=3600, queue="pay")
    with web.client() as operator:
        before = size_of(redis_client)
        answers = {route: ask(operator, route, run_id) for route in ROUTES}

        assert dict.fromkeys(ROUTES, 403) == {route: each.status_code for route, each in answers.items()}
        assert {"urn:zsched:error:writes-refused"} == {each.json()["type"] for each in answers.values()}
        assert all("allow_callables" in each.json()["remedy"] for each in answers.values())
        assert (before, 200) == (size_of(redis_client), operator.get("/schedules").status_code)


def test_responses_are_made_in_one_place() -> None:
    found = sources((PACKAGE / "web").rglob("*.py"))
    users = [name for name, source in found.items() if any("JSONResponse" in each for each in source.imports)]

    assert ["answers.py"] == [name.rpartition("/")[2] for name in users]


@pytest.mark.once
def test_the_api_is_as_its_document_describes_it(
    guard: Guard, start_web: Callable[..., Web], redis_url: str, tmp_path: Path
) -> None:
    """
    Schemathesis sends requests that the OpenAPI document allows and others. It checks statuses, bodies, and that what
    the document forbids is refused. Its plugin of pytest would slow down the start of all tests, so it is a process.

    Not checked: that all that the document allows is accepted. It cannot say that a schedule has exactly one trigger,
    and much else. Nor that a batch is refused: only its bad rows are. Not varied: the id of a schedule, so that there
    is one; test_malformed.py has bad ids.
    """
    DaemonProcess(guard, redis_url).wait_for("archive_begins")  # without one, a look at the past takes 2 s
    web, config = start_web(ZSCHED_RQ_ALLOW_CALLABLES="*.*,*.*.*"), tmp_path / "schemathesis.toml"
    Client.from_url(redis_url).schedule("app.x", id="a", every=3600)
    config.write_text(CONFIG)
    (tmp_path / "hooks.py").write_text(HOOKS)
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{web.url}/api/v1/openapi.json",
        "--phases", "examples,coverage,fuzzing", "-H", f"Authorization: Bearer {web.token('ann')}",    ]  # fmt: skip

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_S, check=False)

    assert 0 == done.returncode, done.stdout[-20_000:] + done.stderr[-2000:]
    assert "request_failed" not in web.log.read_text()
