"""The application: routes under /api/v1, their errors as problems, the login, rq-dashboard, and the probes."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import fastapi.routing
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response

import zsched
from zsched.aio.bridge import run
from zsched.aio.client import AsyncClient
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.errors import ConfigError, InvalidSchedule, ZschedError, needing
from zsched.health.status import looking
from zsched.metrics.pages import METRICS_TYPE
from zsched.metrics.web_meter import WebMeter
from zsched.storage.connection import Link, link_of
from zsched.storage.history_reader import HistoryReader
from zsched.storage.keys import keys_of
from zsched.storage.log import Log
from zsched.storage.meta import is_empty
from zsched.storage.reader import Reader
from zsched.web import bulk, events, login, namespace, rq, runs, schedules, schemas
from zsched.web.access import COOKIE, Access, Proxy
from zsched.web.accounts_file import accounts_file
from zsched.web.answers import Files, JsonAnswer, Problem, bad_parameter, docs, html_page, page_problem
from zsched.web.console import edit, now, operations, timeline
from zsched.web.console import runs as runs_page
from zsched.web.console import schedules as schedules_page
from zsched.web.middleware import REQUEST_ID, Deadline, PrintablePaths, Recorded, WithHead

log = structlog.get_logger(__name__)
PREFIX: Final = "/api/v1"
_GZIP_LEVEL: Final = 5  # of 9
_STATIC: Final = Path(__file__).parent / "static"
_NONE: Final = re.compile(r"(?!)")  # matches nothing


def make_api(settings: Settings, link: Link) -> FastAPI:
    """
    Make the application by *settings*, on *link*, an ``AsyncLink``. No connection is made yet.

    Raises:
        ConfigError: [web] names a header of a proxy, and no address of it; or the file of accounts cannot be used.
    """
    keys, clock, proxy = keys_of(settings), SystemClock(), Proxy(settings)
    threads_link = link_of(settings)  # of rq-dashboard, which runs in threads
    client = AsyncClient(link, settings.namespace, **settings.client_options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield
            await app.state.events.close()
        threads_link.pool.disconnect()

    app = _Api(
        title="zsched",
        version=zsched.__version__,
        summary="Schedules of RQ jobs.",
        lifespan=lifespan,
        servers=[{"url": "/", "description": "This server."}],
        generate_unique_id_function=attrgetter("name"),
        redirect_slashes=False,  # the address of a redirection would be of the client's Host header
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    state = app.state
    state.settings, state.link, state.client, state.clock = settings, link, client, clock
    state.accounts = accounts_file(settings)
    state.accounts.read()  # a server begins with good accounts, or with none
    state.access = Access(client, state.accounts, proxy, settings, clock)
    state.is_empty = partial(is_empty, link, keys)
    state.look, state.reader = looking(settings, link), Reader.by_settings(settings, link)
    state.pulse, state.history = now.Pulse(app), HistoryReader(link, keys)
    meter = state.meter = WebMeter()
    state.events, state.run_suffix = events.Events(client, Log(link, keys), keys.run_suffix), keys.run_suffix
    api = (schedules.router, bulk.router, runs.router, runs.occurrences, events.router)
    for router in (*api, namespace.health, namespace.router):
        app.include_router(router, prefix=PREFIX)
    for page in (now, timeline, schedules_page, edit, runs_page, operations, login):
        app.include_router(page.router)
    for path, probe in ("/healthz", healthz), ("/readyz", readyz), ("/metrics", metrics), ("/api/docs", docs):
        app.add_route(path, probe, include_in_schema=False)
    app.mount("/static/swagger", Files(packages=[("fastapi_offline", "static")]))  # nobody else sees who looks
    app.mount("/static", Files(directory=_STATIC))
    rq.add_pages(app, state.access, threads_link)
    app.add_middleware(PrintablePaths)
    app.add_middleware(Deadline, prefix=PREFIX)
    app.add_middleware(Recorded, meter=meter, clock=clock, prefix=PREFIX)
    app.add_middleware(WithHead)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=_GZIP_LEVEL)
    app.add_exception_handler(ZschedError, _on_error)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_bad_parameter)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_failure)
    return app


async def healthz(_: Request) -> Response:
    """Answer as long as this process does."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Answer 200 if Redis answers, else 503."""
    try:
        await run(request.app.state.link.execute, "PING")
    except ZschedError as error:  # its text has the address of Redis, and anybody may ask here
        log.warning("not_ready", reason=str(error))
        return PlainTextResponse("cannot reach Redis\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """Return the measurements in Prometheus' text format."""
    try:
        with needing("ops", "this page"):
            from zsched.metrics.families import exposition
            from zsched.metrics.web_collector import WebCollector
    except ConfigError as error:
        return PlainTextResponse(f"{error}\n", 404)
    return Response(exposition(WebCollector(request.app.state.meter))(), media_type=METRICS_TYPE)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, with our schemas, the token and the session."""
        is_made, document = self.openapi_schema is not None, super().openapi()
        if not is_made:
            parts = document.setdefault("components", {})
            parts["schemas"], parts["responses"] = schemas.components(), schemas.problems()
            session = {"type": "apiKey", "in": "cookie", "name": COOKIE}
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}, "session": session}
            document["security"] = [{"token": []}, {"session": []}]
        return document


async def _on_error(request: Request, error: Any) -> Response:
    is_for_people = login.is_page(request) or "hx-request" in request.headers
    if type(error) is InvalidSchedule and request.method == "GET" and not is_for_people:
        error = bad_parameter(error)  # it has nothing else
    return await _on_problem(request, page_problem(error) if is_for_people else Problem.from_error(error))


async def _on_problem(request: Request, error: Any) -> Response:
    is_page = login.is_page(request)
    if error.status == 401 and is_page:
        return login.to_login(request)
    request.app.state.meter.refused[error.kind] += 1
    answer: JsonAnswer = error.response()
    return html_page("problem.html", error.status, problem=json.loads(bytes(answer.body))) if is_page else answer


async def _on_bad_parameter(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    wrong = InvalidSchedule(str(first["loc"][-1]), first.get("input"), first["msg"], "see /api/docs")
    return await _on_error(request, wrong if login.is_page(request) else bad_parameter(wrong))


async def _on_http_error(request: Request, error: Any) -> Response:
    kind = "not-found" if error.status_code == 404 else "http"
    headers = {"Allow": ", ".join(_methods_of(request))} if error.status_code == 405 else error.headers
    if error.status_code == 405 and request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    problem = Problem(error.status_code, kind, str(error.detail), "see /api/docs for the routes", headers)
    return await _on_problem(request, problem)


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes with the path of *request*: FastAPI names those of the first one only."""
    routes: Any = getattr(fastapi.routing, "iter_route_contexts", iter)(request.app.routes)  # of included routers, too
    matching = (route for route in routes if getattr(route, "path_regex", _NONE).match(request.scope["path"]))
    found = {method for route in matching for method in getattr(route, "methods", None) or ()}
    return sorted(found | {"OPTIONS"} | ({"HEAD"} if "GET" in found else set()))


async def _on_failure(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    answer = await _on_problem(request, Problem.from_error(error))
    answer.headers[REQUEST_ID] = structlog.contextvars.get_contextvars()["request_id"]  # outside of all layers
    return answer
