"""
The table of rights: which request is refused to whom, and how; tried on every route that the application has.

``docs/http.md`` has the same table for its readers.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import fastapi.routing
import httpx
import pytest

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.documents import PROJECT
from tests.integration.web.routes import LIMITS
from zsched import Client
from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.core.options.choices import ScheduleState
from zsched.web.app import PREFIX, make_api

YES, READ_ONLY, OUTSIDE, HIDDEN, NOBODY = (
    "yes",
    "403 read-only",
    "403 outside-limits",
    "403 arguments-hidden",
    "401 no-token",
)
MISSING, UNKNOWN, LEFT_OUT, WITHOUT = "404", "as an unknown id", "left out", "without arguments"


class Row(NamedTuple):
    """
    Routes below /api/v1 and pages that are refused alike, by caller. ``beyond`` and ``own`` are those of a scheduler
    with limits, by the schedule.
    """

    api: str
    pages: str
    viewer: str
    beyond: str
    own: str
    plain: str  # a scheduler without --arguments
    nobody: str = NOBODY


ROWS = [
    Row("GET /schedules/{id}", "GET /schedules/{id}", YES, MISSING, YES, WITHOUT),
    Row(
        "GET /schedules/{id}/story, /schedules/{id}/occurrences, /runs/{run_id}; POST /preview",
        "GET /schedules/{id}/backfill, /schedules/{id}/preview, /runs/{run_id}", YES, MISSING, YES, YES,
    ),
    Row("PUT /schedules/{id}; POST /schedules, /schedules:batch", "", READ_ONLY, OUTSIDE, YES, YES),
    Row(
        "PATCH /schedules/{id}; DELETE /schedules/{id}; POST /schedules/{id}:run, /schedules/{id}:backfill,"
        " /runs/{run_id}:retry, /runs/{run_id}:cancel",
        "POST /schedules/{id}:{action}, /runs/{run_id}:{action}", READ_ONLY, MISSING, YES, YES,
    ),
    Row(
        "POST /schedules/{id}:pause, /schedules/{id}:resume, /schedules/{id}:release, /schedules/{id}:skip,"
        " /schedules/{id}:unskip",
        "GET /schedules/{id}/edit; POST /schedules/{id}/edit", READ_ONLY, MISSING, YES, WITHOUT,
    ),
    Row("GET /schedules", "", YES, LEFT_OUT, YES, WITHOUT),
    Row(
        "POST /schedules:pause, /schedules:resume, /schedules:release, /schedules:cancel",
        "GET /schedules:{action}; POST /schedules:{action}", READ_ONLY, LEFT_OUT, YES, YES,
    ),
    Row("GET /queues, /forecast", "GET /schedules, /queues, /forecast, /", YES, LEFT_OUT, YES, YES),
    Row("GET /daemons, /calendars, /calendars/{name}", "GET /calendars", YES, YES, YES, YES),
    Row(
        "PUT /calendars/{name}; POST /known-failures; DELETE /calendars/{name}, /known-failures/{name}",
        "POST /runs:ack, /daemons:test",
        READ_ONLY, OUTSIDE, OUTSIDE, YES,
    ),
    Row(
        "GET /runs, /occurrences, /log, /events, /status, /known-failures",
        "GET /runs, /log, /news, /doctor, /timeline, /changes, /workers, /daemons", YES, OUTSIDE, OUTSIDE, YES,
    ),
    Row("", "GET /new; POST /new", READ_ONLY, YES, YES, YES),
    Row("", "GET /new/preview", YES, YES, YES, YES),
    Row("", "GET /outcomes, /find", YES, UNKNOWN, YES, YES),
    Row("", "GET /runs:retry; POST /runs:retry", READ_ONLY, OUTSIDE, OUTSIDE, YES),
    Row("", "GET /accounts; POST /accounts, /accounts:expire, /accounts:revoke", OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE),
    Row("", "GET /rq/{path}", HIDDEN, OUTSIDE, OUTSIDE, HIDDEN),
    Row(
        "GET /openapi.json",
        "GET /login, /healthz, /readyz, /metrics, /rq, /api/docs, /static/{path}, /static/swagger/{path};"
        " POST /login, /logout", YES, YES, YES, YES, YES,
    ),
]  # fmt: skip
SECRET, THEIRS = "top-secret", {"func": "app.pay.send", "queue": "pay", "tags": ["other"], "name": "salaries"}
MINE: dict[str, Any] = {"func": "app.mail.send", "queue": "mail", "tags": ["shop"], "every": 3600}
BEYOND = re.compile(r"app\.pay|salaries|\bpay\b")
REFUSED = re.compile('"urn:zsched:error:(no-token|[a-z]*-not-found|read-only|outside-limits|arguments-hidden)"')
SPAN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "bucket": "1h"}
SPANS = {f"{PREFIX}/occurrences": SPAN, f"{PREFIX}/forecast": {"to": "24h"}, "/forecast": {"by": "queue"}}
FILES = {"/static/{path}": "docs.js", "/static/swagger/{path}": "swagger-ui.css", "/rq/{path}": ""}


def routes_of(text: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield method and path of the routes that a cell of the table names."""
    for part in text.split("; ") if text else ():
        method, _, paths = part.partition(" ")
        yield from ((method, prefix + path) for path in paths.split(", "))


TABLE = {route: row for row in ROWS for route in (*routes_of(row.api, PREFIX), *routes_of(row.pages))}


def routes_there() -> Iterator[tuple[str, str]]:
    """Yield method and path of every route of the application; a mounted one counts as GET."""
    app = make_api(Settings(), AsyncLink.from_url("redis://127.0.0.1:1", 1))
    routes: Any = getattr(fastapi.routing, "iter_route_contexts", iter)(app.routes)  # included routers
    for route in routes:
        path = route.path_format.replace("{path:path}", "{path}")
        yield from ((method, path) for method in (route.methods or {"GET"}) - {"HEAD"})


def test_the_table_of_rights_has_every_route() -> None:
    assert set(routes_there()) == set(TABLE)


def test_the_page_has_the_table_of_rights() -> None:
    text = (PROJECT / "docs/http.md").read_text()

    for row in ROWS:
        routes = [re.sub(r"((?:[A-Z]+ )?/[^\s,;]*)", r"`\1`", cell) or "–" for cell in (row.api, row.pages)]
        limits = row.beyond if row.own == YES else f"always {row.own}"
        cells = [*routes, *(cell.replace("403 ", "") for cell in (row.viewer, limits, row.plain))]
        assert f"| {' | '.join(cells)} |\n" in text, cells


class Stage:
    """
    A server with a schedule that is beyond the limits, one within, and a run of each; and callers of each kind.
    ``ask`` puts the schedules as they were.
    """

    def __init__(self, web: Web, client: Client, stack: ExitStack) -> None:
        self.web, self._client = web, client
        callers = {
            "viewer": web.client("eve", "viewer"), "limited": web.client("shop", "scheduler", **LIMITS),
            "plain": web.client("pat", "scheduler"), "nobody": web.stranger(),
            "seeing": web.client("ann", sees_arguments=True),
        }  # fmt: skip
        self._callers = {name: stack.enter_context(each) for name, each in callers.items()}
        self._put()
        self._runs = {id: client.run_now(id) for id in ("theirs", "mine")}
        self._runs["nobody"] = self._runs["theirs"].replace("theirs", "nobody")

    def _put(self) -> None:
        self._client.schedule(id="theirs", every=3600, args=(SECRET,), enabled=True, **THEIRS)
        self._client.schedule(id="mine", args=(SECRET,), enabled=True, **MINE)
        self._client.put_calendar("kr", dates=["12-25"])

    def ask(self, caller: str, method: str, path: str, id: str) -> httpx.Response:
        """Return the answer to *caller* about schedule *id*, or about a definition as that has."""
        self._put()
        action = "cancel" if "run_id" in path else "pause"
        file = FILES.get(path, "")
        where = path.format(id=id, run_id=self._runs[id], action=action, path=file, name="kr")
        queries = {"/find": {"q": id}, "/outcomes": {"id": id}, "/schedules:{action}": {"match": "*"}}
        given: dict[str, Any] = {"params": (queries | SPANS).get(path, {})}
        if method != "GET":
            given |= self._body(method, path, id) if path.startswith(PREFIX) else {"data": {"match": "*"}}
        headers = {"Origin": self.web.url, "Idempotency-Key": uuid.uuid4().hex}
        client = self._callers[caller]
        request = client.build_request(method, f"{self.web.url}{where}", headers=headers, **given)
        answer = client.send(request, stream=True)
        if "event-stream" not in answer.headers.get("content-type", ""):
            answer.read()
        answer.close()
        return answer

    def _body(self, method: str, path: str, id: str) -> dict[str, Any]:
        if method == "PUT":
            return {"json": {"dates": ["12-25"]} if "/calendars/" in path else MINE}
        if path == f"{PREFIX}/schedules":
            return {"json": MINE if id == "mine" else {**MINE, "queue": "cash"}}
        if path.endswith(":batch"):
            return {"content": json.dumps({**MINE, "id": id})}
        if path.endswith("/preview"):
            return {"json": {"id": id}}
        return {"json": {"filter": {"match": "*", "state": "active"}} if "/schedules:" in path else {}}

    @property
    def is_paused(self) -> bool:
        """True if the last request has paused the schedule that is beyond the limits."""
        return self._client.get("theirs").state is ScheduleState.PAUSED


@pytest.fixture
def stage(start_web: Callable[..., Web], redis_url: str) -> Iterator[Stage]:
    web, client = start_web(ZSCHED_RQ_SERIALIZER="json"), Client.from_url(redis_url, serializer="json")
    with DaemonThread(redis_url) as daemon, ExitStack() as stack:
        daemon.wait_for("archive_begins")
        yield Stage(web, client, stack)


def text_of(answer: httpx.Response) -> str:
    """Return what an answer tells, without its times; a stream tells nothing here."""
    if answer.is_stream_consumed:
        return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+", "", answer.text + answer.headers.get("location", ""))
    return ""


def refusal(answer: httpx.Response) -> str:
    """Return how an answer refuses, or YES. A refused row of a batch is a refusal."""
    found = REFUSED.search(text_of(answer))
    if found is None:
        return YES
    return MISSING if found[1].endswith("not-found") else f"{401 if found[1] == 'no-token' else 403} {found[1]}"


def beyond(stage: Stage, method: str, path: str) -> str:
    """Return how a scheduler with limits is refused what is about a schedule beyond them."""
    answer = stage.ask("limited", method, path, "theirs")
    word, told = refusal(answer), text_of(answer)
    assert not BEYOND.search(told), (method, path)
    if word in (OUTSIDE, READ_ONLY):
        return word
    if "theirs" in f"{answer.request.url}{answer.request.content!r}":
        assert told.replace("theirs", "nobody") == text_of(stage.ask("limited", method, path, "nobody")), (method, path)
        return UNKNOWN if word == YES else word
    assert "theirs" not in told, (method, path)
    assert not stage.is_paused, (method, path)
    is_there = re.search(r"theirs|\bpay\b", text_of(stage.ask("seeing", method, path, "theirs")))
    return LEFT_OUT if is_there or stage.is_paused else word


def plain(stage: Stage, method: str, path: str) -> str:
    """Return how a scheduler without the right to see arguments is refused, or what they miss."""
    answer = stage.ask("plain", method, path, "theirs")
    assert SECRET not in text_of(answer), (method, path)
    is_missing = refusal(answer) == YES and SECRET in text_of(stage.ask("seeing", method, path, "theirs"))
    return WITHOUT if is_missing else refusal(answer)


def test_every_route_refuses_as_the_table_says(stage: Stage) -> None:
    found = {}
    for (method, path), row in TABLE.items():
        found[method, path] = Row(
            row.api,
            row.pages,
            refusal(stage.ask("viewer", method, path, "theirs")),
            beyond(stage, method, path),
            refusal(stage.ask("limited", method, path, "mine")),
            plain(stage, method, path),
            refusal(stage.ask("nobody", method, path, "theirs")),
        )

    wrong = [f"{route}: {found[route][2:]}, not {row[2:]}" for route, row in TABLE.items() if row != found[route]]
    assert not wrong, "\n".join(wrong)
