"""
The WSGI application: only rq-dashboard's pages, and RQ's classes that only read for them. ``zsched web`` serves them to
callers who may see everything.

- Only listed paths that show data are allowed, and only by GET. All others are refused, also of a later rq-dashboard.
- rq-dashboard puts texts of jobs into its pages unescaped. They are escaped here, and a Content-Security-Policy allows
  only the pages' own scripts. So markup in a description or a traceback is text, and ``<module>`` is visible.
- rq-dashboard has no setting for RQ's classes: it uses names of its module, and not everywhere with the given
  serializer (its page of workers fails if a worker runs a JSON job). So these names are set, once for the process.
- Any program with write access may have made up a job's contents. Only fields that a page shows are inflated. If RQ
  cannot restore a job, the page shows that, and does not fail.
- Values in jobs are read without running code, whichever serializer wrote them. An object of a class that is not plain
  is shown by its class's name (``storage.unpickling``). So results of a product can be shown although its code is not
  installed here. A value that is too large is replaced by a text that says so.
"""

import binascii
import json
import re
import secrets
from base64 import b64decode
from contextlib import suppress
from functools import partial
from typing import Any, Final

import redis
import rq
import rq.job
import structlog
from flask import Flask, Response, current_app, request
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq.exceptions import NoSuchJobError
from rq.executions import Execution
from rq.results import Result
from rq.utils import as_text
from rq_dashboard import web
from werkzeug.exceptions import HTTPException

from zsched.config.urls import redact
from zsched.core.runs.run_id import RunId
from zsched.core.story.sentences import local_text
from zsched.storage.connection import RESENDS, Link
from zsched.storage.unpickling import MOST_BYTES, PICKLES, NotPlain, excess, inflated, read_shown

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
    web.Job, web.Queue, web.Worker = DashboardJob, Queue, DashboardWorker
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


# -- RQ's classes -------------------------------------------------------------------------------------


_LONGEST_TRACEBACK: Final = 100_000  # characters; a page may have two hundred


class Readable:
    """A serializer for RQ that reads pickle and JSON, and writes nothing."""

    @staticmethod
    def dumps(value: object) -> bytes:
        """Refuse to write: this package must never write back what it shows. Raises TypeError."""
        raise TypeError(f"rq-dashboard writes nothing into Redis, so no {type(value).__name__} either")

    @staticmethod
    def loads(data: bytes) -> Any:
        """Open *data*; if it cannot be shown, return a text with the reason. Raises nothing."""
        try:
            return read_shown(data) if data.startswith(PICKLES) else _json(data)
        except NotPlain as error:
            reason = str(error)
        except Exception as error:  # broken JSON that is deep, or is not text, raises several kinds
            reason = f"neither pickle nor JSON ({type(error).__name__})"
        return f"({len(data):,} bytes that cannot be shown: {reason})"


def presentable(value: Any) -> Any:
    """Return *value*, or a text if JSON has no form for it, or if it is too large or too deep. Raises nothing."""
    if problem := excess(value):
        return f"({type(value).__name__} with {problem})"
    try:
        try:
            json.dumps(value, default=str)
        except (TypeError, ValueError):  # keys that are not texts, a value inside itself
            return str(value)
    except Exception as error:  # a number of more digits than Python writes
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"
    return value


def traceback(packed: bytes) -> str:
    """Return a traceback of RQ's results, only its end if it is long; or the reason why it cannot be shown."""
    try:
        text = inflated(b64decode(packed)).decode(errors="replace")
    except (NotPlain, binascii.Error) as error:
        return f"(a traceback that cannot be shown: {error})"
    cut = len(text) - _LONGEST_TRACEBACK
    return text if cut <= 0 else f"({cut:,} characters are left out)\n{text[-_LONGEST_TRACEBACK:]}"


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise NotPlain(f"more than {MOST_BYTES:,} are not opened")
    return json.loads(data)


# -- RQ's classes -----------------------------------------------------------------------------------


_NEVER_SHOWN = (b"data", b"exc_info")  # fields that RQ would inflate, to any size


def described(job_id: str, description: str | None) -> str | None:
    """
    Return ``reminder-42 · 2026-12-24 09:00:00+00:00 · app.tasks.remind``: schedule, nominal time, and the job's
    *description*. For a job that is not our run, return only the description.
    """
    if (parts := RunId.ours(job_id)) is None:
        return description
    shown = [parts.schedule_id, local_text(parts.nominal_ms, "UTC")]
    shown += [f"namespace {parts.namespace}"] if parts.namespace != "default" else []
    shown += [f"extra run {parts.rerun}"] if parts.rerun else []
    return " · ".join([*shown, description or ""]).removesuffix(" · ")


class DashboardJob(rq.job.Job):
    """A job. ``Readable`` reads its values, whatever serializer was given."""

    def __init__(self, id: str | None = None, connection: Any = None, serializer: Any = None) -> None:
        super().__init__(id, connection, Readable)

    def restore(self, raw_data: Any) -> Any:
        """Restore the job as RQ does, and describe it; if RQ cannot read it, describe the problem."""
        try:
            super().restore({name: b"" if name in _NEVER_SHOWN else value for name, value in raw_data.items()})
        except (NoSuchJobError, redis.RedisError):
            raise
        except Exception as error:  # made-up fields: RQ's parsers may raise anything
            self.origin = raw_data.get(b"origin", b"").decode(errors="replace")
            self.description = f"(fields that RQ cannot read: {type(error).__name__})"
        self.description = described(self.id, self.description)

    def latest_result(self, timeout: int = 0) -> Result | None:
        """Return the result as RQ does; if it cannot be read, return a failure with that reason."""
        try:
            return _ReadableResult.fetch_latest(self, Readable, timeout)
        except redis.RedisError:
            raise
        except Exception as error:  # as above
            problem = f"(a result that RQ cannot read: {type(error).__name__})"
            # Without an id, there would be none.
            return Result(self.id, Result.Type.FAILED, self.connection, id="0-0", exc_string=problem)

    def return_value(self, refresh: bool = False) -> Any:
        """Return the value as RQ does, in a form that a page can show."""
        return presentable(super().return_value(refresh))

    def get_meta(self, refresh: bool = True) -> Any:
        """Return the value as RQ does, in a form that a page can show."""
        return presentable(super().get_meta(refresh))

    def get_call_string(self) -> str | None:
        """Return the description. RQ's own text has the arguments, which a page of workers must not show."""
        return self.description


class _ReadableResult(Result):
    @classmethod
    def restore(cls, job_id: str, result_id: str, payload: Any, connection: Any, serializer: Any = None) -> Result:
        packed = payload.get(b"exc_string")
        read = super().restore(job_id, result_id, {**payload, b"exc_string": b""}, connection, serializer)
        read.exc_string = traceback(packed) if packed else None
        return read


class Queue(rq.Queue):
    """A queue that reading does not change."""

    job_class = DashboardJob

    def fetch_job(self, job_id: str) -> DashboardJob | None:
        """Return the job, if it is in this queue. RQ's own method removes the id of a missing job from the queue."""
        with suppress(NoSuchJobError, ValueError):  # RQ raises it for an id that no job can have
            job = DashboardJob.fetch(job_id, connection=self.connection)
            if isinstance(job, DashboardJob) and job.origin == self.name:
                return job
        return None


class DashboardWorker(rq.Worker):
    """A worker of another process."""

    job_class = DashboardJob
    queue_class = Queue

    def get_current_job(self) -> rq.job.Job | None:
        """Return the job as RQ does; but None if the job is gone, when RQ raises."""
        with suppress(NoSuchJobError):
            return super().get_current_job()
        return None

    def get_current_executions(self, refresh: bool = False) -> list[Execution]:
        """Return its executions, for RQ 3. RQ's own method removes lapsed ones, which needs write rights."""
        found, members = [], self.connection.smembers(f"{self.key}:executions")
        for member in sorted(map(as_text, members)):
            execution = Execution.from_composite_key(member, self.connection)
            with suppress(KeyError, ValueError):  # it lapsed, or another program wrote it
                execution.refresh()  # type: ignore[no-untyped-call]  # RQ's
                found.append(execution)
        return found

    @classmethod
    def find_by_key(cls, worker_key: str, connection: Any, *classes: Any, **more: Any) -> rq.worker.BaseWorker | None:
        """Return the worker, or None if it is gone. RQ's own method then removes it, which needs write rights."""
        if not connection.exists(worker_key):
            return None
        return super().find_by_key(worker_key, connection, *classes, **more)
