"""
The WSGI application: only rq-dashboard's pages. ``zsched web`` serves them to callers who may see everything.

- Only listed paths that show data are allowed, and only by GET. All others are refused, also of a later rq-dashboard.
- rq-dashboard puts texts of jobs into its pages unescaped. They are escaped here, and a Content-Security-Policy allows
  only the pages' own scripts. So markup in a description or a traceback is text, and ``<module>`` is visible.
"""

from __future__ import annotations

import json
import re
import secrets
from functools import partial
from typing import Any, Final

import redis
import structlog
from flask import Flask, Response, current_app, request
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq.exceptions import NoSuchJobError
from rq_dashboard import web
from werkzeug.exceptions import HTTPException

from zsched.config.urls import redact
from zsched.dashboard import jobs
from zsched.storage.connection import RESENDS, Link

log = structlog.get_logger(__name__)

_PAGES: Final = frozenset({"queues_overview", "jobs_overview", "job_view", "workers_overview", "favicon", "static"})
# Paths that the pages load, and whose texts they treat as markup; the texts of `list_jobs` they escape themselves.
_TAKEN_FOR_MARKUP: Final = frozenset({"list_queues", "list_workers", "job_info"})
SHOWN: Final = frozenset({"static", *(f"rq_dashboard.{name}" for name in _PAGES | _TAKEN_FOR_MARKUP | {"list_jobs"})})

_ONLY_SHOWS = (
    "This dashboard only shows. `zsched retry RUN` runs a job again, `zsched cancel-run RUN` takes one out of its "
    "queue, `zsched pause ID` stops a schedule."
)
# rq-dashboard's pages use Underscore, which compiles its templates: hence unsafe-eval.
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_UNNAMED = re.compile(r'title="(Queue name|Registry name|Job Sort Order|Jobs per page)"|id="rq-instances"')  # fields
_ESCAPED_BY_JSON = re.compile(r"\\(.)")
_CONNECTION = "zsched.redis"  # a name in Flask's extensions


class _AsText(json.JSONEncoder):
    """JSON for the metadata: values without a form in JSON become text."""

    def default(self, value: Any) -> Any:
        return str(value)


def make_pages(link: Link) -> Flask:
    """
    Make the application that shows the Redis of *link*, to everybody. No connection is made yet.

    It reads with a redis-py client, because RQ needs one, and not with ``Link.execute``. Reading twice does no harm, so
    a lost reply is asked for again.
    """
    web.Job, web.Queue, web.Worker = jobs.DashboardJob, jobs.Queue, jobs.DashboardWorker
    web.from_url = lambda *_url, **_options: ("", current_app.extensions[_CONNECTION])
    client = redis.Redis(connection_pool=link.client_pool())
    client.set_retry(Retry(NoBackoff(), RESENDS))

    # Any: rq-dashboard sets its connection as an attribute of it. Its files are under the application's own path.
    app: Any = Flask("zsched.dashboard", static_folder=web.blueprint.static_folder)
    app.redis_conn = app.extensions[_CONNECTION] = client
    app.config["RQ_DASHBOARD_REDIS_URL"] = (link.where,)  # it is only shown, never connected to
    app.config["RQ_DASHBOARD_DISABLE_DELETE"] = True
    app.config["RQ_DASHBOARD_JSON_ENCODER"] = _AsText
    app.json.default, app.json.sort_keys = str, False
    app.before_request(_refuse_changes)
    app.after_request(_harden)
    app.register_error_handler(Exception, partial(_error_page, link.where))
    app.register_blueprint(web.blueprint)
    made: Flask = app
    return made


def _refuse_changes() -> Response | None:
    """Return None if the request only looks."""
    if request.endpoint is not None and (request.endpoint not in SHOWN or request.method not in ("GET", "HEAD")):
        return Response(_ONLY_SHOWS + "\n", 403, mimetype="text/plain")
    return None


def _harden(response: Response) -> Response:
    nonce = secrets.token_urlsafe(16)
    response.headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    if response.mimetype == "text/html":  # Jinja escapes values, so every tag in it is the template's own
        page = response.get_data(as_text=True)
        page = _UNNAMED.sub(lambda found: f'{found[0]} aria-label="{found[1] or "Redis"}"', page)
        page = page.replace('<div class="container">', '<div class="container" role="main">')
        response.set_data(page.replace("<script", f'<script nonce="{nonce}"'))
    elif (request.endpoint or "").removeprefix("rq_dashboard.") in _TAKEN_FOR_MARKUP:
        response.set_data(_escaped(response.get_data(as_text=True)))
    return response


def _escaped(text: str) -> str:
    """Make the texts in JSON safe as markup and in attributes. Except quotes, these characters occur only in texts."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;")
    return _ESCAPED_BY_JSON.sub(lambda pair: "&quot;" if pair[1] == '"' else pair[0], text)


def _error_page(where: str, error: Exception) -> Response | HTTPException:
    """Answer an error with one line, and log an event for the operator."""
    if isinstance(error, HTTPException):
        return error
    is_of_job = "job_id" in (request.view_args or {})
    if is_of_job and isinstance(error, NoSuchJobError | ValueError):  # RQ raises it for an id that no job can have
        return _line(404, "RQ has no such job any more; `zsched why ID` shows what became of a run.")
    if isinstance(error, redis.RedisError):
        reason = redact(str(error)) or type(error).__name__
        return _line(503, f"Redis at {where} does not answer, or refuses: {reason}")  # no event: pages repeat it
    log.error("page_failed", path=request.path, exc_info=error)
    return _line(500, f"This page failed ({type(error).__name__}); this server's events say why.")


def _line(status: int, text: str) -> Response:
    return Response(text + "\n", status, mimetype="text/plain")
