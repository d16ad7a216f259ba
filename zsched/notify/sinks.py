"""
Sinks: where messages go, ``[notify.<name>]`` in the daemon's settings. A class per kind:

=======  =====================================================================================
webhook  POST of the message as JSON, signed as Standard Webhooks says (standardwebhooks.com)
slack    POST to an incoming webhook of Slack, or of another program that takes its form
email    one mail per message (RFC 5322, 3207)
sentry   an event per message, in an envelope (develop.sentry.dev/sdk/data-model/envelopes)
ping     GET of a URL each minute while the daemons are healthy: a dead-man's switch
=======  =====================================================================================

A sink sends at least once: its ``send`` raises SinkFailed unless the receiver took the message. The message's id goes
with it, so that the receiver can leave out repeats.

Sentry and ping also keep monitors: one per recurring schedule, made from its trigger and zone, and removed with it.
They notice what zsched cannot tell: that no daemon, or no Redis, is there to do it. A rule that they do not understand
(``rrule``, seconds, less than a minute) has none.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import smtplib
import ssl
from collections.abc import Mapping
from datetime import timedelta
from email.message import EmailMessage
from fnmatch import fnmatchcase
from hashlib import blake2b
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from zsched.config.bounds import FILTERS
from zsched.config.reading import read_password_file
from zsched.core.clock import SystemClock, from_ms
from zsched.core.facets import Facets
from zsched.core.model import Schedule
from zsched.core.runs.run import Run, RunStatus
from zsched.core.wording import in_a_line
from zsched.errors import ConfigError, ZschedError, needing
from zsched.notify.message import UNHEALTHY, USUAL, Message

if TYPE_CHECKING:
    import httpx

_EVERY_S: Final = 60.0
_WAIT_S: Final = 10.0  # for a connection, and for each part of an answer
_SLUG: Final = 50  # characters of a monitor's name, at most, at Sentry
_MARGIN_S: Final = 300  # a monitored run may be so late
_LONGEST_S: Final = 1800  # the same for its duration, without a timeout
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class SinkFailed(ZschedError):
    """A receiver did not take a message, or cannot be reached."""


class Monitor(NamedTuple):
    """A monitor: *id* of its schedule, its name there, and when the next run is expected: *cron* or *every_s*."""

    id: str
    slug: str
    cron: str
    every_s: int
    tz: str
    longest_s: int


class Sink:
    """
    The sink called *name* by its table of the settings, *given*. ``on``: the kinds of messages that it gets.
    ``every_s``: for so long equal events are gathered, or between two pings.
    ``address``: its URL without path, user and query, which may be secrets. ``secret``: the content of its secret file.

    Raises:
        ConfigError: a file cannot be read, or the URL is none of its kind.
    """

    schemes: ClassVar[tuple[str, ...]] = ("https", "http")

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        self.name, self.kind, self.namespace, self.given = name, given["kind"], namespace, given
        self.on: tuple[str, ...] = given.get("on", USUAL)
        self.every_s: float = given.get("every_s", _EVERY_S)
        self._url = given.get("url") or self._from_file("url_file") or ""
        try:
            self._parts = parts = urlsplit(self._url)
            if parts.scheme not in self.schemes or not parts.hostname:
                raise ValueError
            self.address = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        except ValueError:  # also for a port that is none
            forms = " or ".join(f"{scheme}://host/…" for scheme in self.schemes)
            raise ConfigError(f"[notify.{name}] url: not a URL for {self.kind}; write {forms}") from None
        self.secret = self._from_file("secret_file")

    def _from_file(self, key: str) -> str | None:
        file = self.given.get(key)
        what = f"the {key.removesuffix('_file')}"
        return None if file is None else read_password_file(file, f"[notify.{self.name}] {key}", what)

    def wants(self, facets: Facets) -> bool:
        """Return True if its filters let events of a schedule with *facets* through."""
        values = ((facets.func,), (facets.queue,), (facets.owner,), facets.tags)
        return all(
            any(fnmatchcase(value, glob) for value in mine for glob in self.given[key])
            for key, mine in zip(FILTERS, values, strict=True)
            if key in self.given
        )

    def send(self, message: Message) -> None:
        """Send *message*. Raises SinkFailed."""
        raise NotImplementedError

    def put_monitor(self, monitor: Monitor) -> None:
        """Make *monitor*, or change it. Raises SinkFailed."""

    def check_in(self, monitor: Monitor, run: Run) -> None:
        """Tell *monitor* the end of *run*. Raises SinkFailed."""

    def remove_monitor(self, id: str) -> None:
        """Remove the monitor of schedule *id*. Raises SinkFailed."""

    def close(self) -> None:
        """Close what is open."""


class HttpSink(Sink):
    """A sink that sends over HTTP. Redirections count as failures: a POST would become a GET."""

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, given, namespace)
        with needing("notify", f"[notify.{name}]"):
            import httpx
        self._http = httpx.Client(timeout=_WAIT_S, headers={"User-Agent": "zsched"})
        self._errors = httpx.HTTPError, httpx.InvalidURL, UnicodeError, RuntimeError  # the last: it was closed

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, url: str, content: bytes | None = None, **headers: str) -> httpx.Response:
        """
        Return the answer to a request. What is to be deleted may be gone. Raises SinkFailed: there is none, or it
        reports a failure.
        """
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        try:
            answer = self._http.request(method, url, content=content, headers=named)
        except self._errors as error:
            raise SinkFailed(f"{self.address}: {in_a_line(str(error)) or type(error).__name__}") from error
        if not answer.is_success and (method, answer.status_code) != ("DELETE", 404):
            said = in_a_line(answer.text[:200]).strip()
            raise SinkFailed(f"{self.address} answered {answer.status_code}" + (f": {said}" if said else ""))
        return answer


class Webhook(HttpSink):
    """Signed as Standard Webhooks 1.0 says, if there is a secret: ``whsec_`` and Base64, or any text."""

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, given, namespace)
        try:
            secret = self.secret or ""
            coded = secret.removeprefix("whsec_")
            self._key = secret.encode() if coded == secret else base64.b64decode(coded, validate=True)
        except ValueError:
            raise ConfigError(f"[notify.{name}] secret_file: no Base64 after whsec_; write whsec_ and Base64") from None

    def send(self, message: Message) -> None:
        body, at = json.dumps(message.to_dict()).encode(), str(SystemClock().now_ms() // 1000)
        headers = {"webhook_id": message.id, "webhook_timestamp": at, "Content_Type": "application/json"}
        if self._key:
            signed = hmac.digest(self._key, f"{message.id}.{at}.".encode() + body, "sha256")
            headers["webhook_signature"] = f"v1,{base64.b64encode(signed).decode()}"
        self.ask("POST", self._url, body, **headers)


class Slack(HttpSink):
    """The text is escaped as Slack wants it: ``&``, ``<`` and ``>``."""

    def send(self, message: Message) -> None:
        text = escape("\n".join(message.lines), quote=False)
        self.ask("POST", self._url, json.dumps({"text": text}).encode(), Content_Type="application/json")


class Email(Sink):
    """
    ``smtp://user@host:587`` with STARTTLS, or ``smtps://user@host``; the password is the secret. A repeated message has
    the same Message-ID.
    """

    schemes = ("smtp", "smtps")

    def send(self, message: Message) -> None:
        mail = EmailMessage()
        mail["From"] = self.given.get("from", f"zsched@{self._parts.hostname}")
        mail["To"] = ", ".join(self.given["to"])
        mail["Subject"] = in_a_line(message.text)
        mail["Date"] = from_ms(SystemClock().now_ms())
        mail["Message-ID"] = f"<{message.id}@zsched>"
        mail.set_content("\n".join([*message.lines, "", f"id {message.id}", ""]))
        try:
            with self._connected() as server:
                server.send_message(mail)
        except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
            raise SinkFailed(f"{self.address}: {in_a_line(str(error)) or type(error).__name__}") from error

    def _connected(self) -> smtplib.SMTP:
        host, port, context = self._parts.hostname or "", self._parts.port or 0, ssl.create_default_context()
        if self._parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_WAIT_S, context=context)
        else:
            server = smtplib.SMTP(host, port or 587, timeout=_WAIT_S)
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=context)
            elif self.secret is not None and host not in _LOCAL:
                server.close()
                raise SinkFailed(f"{self.address} offers no STARTTLS, and the password must not be sent openly")
        if self.secret is not None:
            server.login(unquote(self._parts.username or ""), self.secret)
        return server


class Sentry(HttpSink):
    """
    *url* is the project's DSN. A message is an event, grouped by kind, function and reason. A check-in makes its
    monitor (docs.sentry.io, crons, "upserting"). ``monitors`` is the organization in Sentry's API, for removing; that
    needs a token, the secret.
    """

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, given, namespace)
        place, _, self._project = self._parts.path.strip("/").rpartition("/")
        self._envelopes = "/".join(filter(None, (self.address, place, "api", self._project, "envelope/")))
        if not (self._parts.username and self._project.isalnum()):
            raise ConfigError(f"[notify.{name}] url: not a DSN of Sentry; copy it from the project's client keys")

    def send(self, message: Message) -> None:
        event = {
            "event_id": message.id,
            "timestamp": message.until,
            "platform": "python",
            "level": "info" if message.kind == UNHEALTHY and not message.details else "error",
            "logger": "zsched",
            "logentry": {"formatted": "\n".join(message.lines)},
            "transaction": message.func or None,
            "fingerprint": ["zsched", message.kind, message.func, message.reason],
            "tags": {"zsched.kind": message.kind, "zsched.namespace": message.namespace},
            "extra": {"count": message.count, "events": message.events},
        }
        self._envelope("event", event, message.id)

    def check_in(self, monitor: Monitor, run: Run) -> None:
        schedule: dict[str, Any] = {"type": "crontab", "value": monitor.cron}
        if not monitor.cron:
            schedule = {"type": "interval", "value": monitor.every_s // 60, "unit": "minute"}
        id = blake2b(run.id.encode(), digest_size=16).hexdigest()
        config = {"schedule": schedule, "timezone": monitor.tz, "checkin_margin": _MARGIN_S // 60}
        item = {
            "check_in_id": id,
            "monitor_slug": monitor.slug,
            "status": "ok" if run.status is RunStatus.SUCCEEDED else "error",
            "duration": None if run.duration_ms is None else run.duration_ms / 1000,
            "monitor_config": {**config, "max_runtime": max(monitor.longest_s // 60, 1)},
        }
        self._envelope("check_in", item, id)

    def remove_monitor(self, id: str) -> None:
        url = f"{self.given['monitors'].rstrip('/')}/monitors/{slug_of(self.namespace, id)}/"
        if self.secret is not None:
            self.ask("DELETE", url, Authorization=f"Bearer {self.secret}")

    def _envelope(self, kind: str, item: Mapping[str, Any], id: str) -> None:
        """Send an envelope with one *item*. Raises SinkFailed."""
        body, at = json.dumps(item).encode(), from_ms(SystemClock().now_ms()).isoformat().replace("+00:00", "Z")
        head = {"event_id": id, "sent_at": at}
        lines = json.dumps(head).encode(), json.dumps({"type": kind, "length": len(body)}).encode(), body, b""
        key = f"Sentry sentry_version=7, sentry_client=zsched/0, sentry_key={self._parts.username}"
        self.ask(
            "POST", self._envelopes, b"\n".join(lines), Content_Type="application/x-sentry-envelope", X_Sentry_Auth=key
        )


class Ping(HttpSink):
    """
    A dead-man's switch of healthchecks.io, or of another program that expects a request each minute. ``monitors`` is
    the address of healthchecks, with its API, version 3; the API's key is the secret.
    """

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, {**given, "on": ()}, namespace)
        self._made = dict[str, tuple[Monitor, str]]()  # by schedule: the last one that was put, and where it is pinged

    def send(self, message: Message) -> None:
        self.ping()

    def ping(self) -> None:
        """Tell that all is well. Raises SinkFailed."""
        self.ask("GET", self._url)

    def put_monitor(self, monitor: Monitor) -> None:
        if monitor.id in self._made and self._made[monitor.id][0] == monitor:
            return
        when = {"schedule": monitor.cron, "tz": monitor.tz} if monitor.cron else {"timeout": monitor.every_s}
        more = {"grace": _MARGIN_S + monitor.longest_s, "tags": "zsched", "unique": ["slug"]}
        made = self._ask_api("POST", "", {"name": monitor.id, "slug": monitor.slug, **when, **more})
        self._made[monitor.id] = monitor, str(made.json()["ping_url"])

    def check_in(self, monitor: Monitor, run: Run) -> None:
        url = self._made[monitor.id][1] + ("" if run.status is RunStatus.SUCCEEDED else "/fail")
        self.ask("POST", url, run.error.encode())

    def remove_monitor(self, id: str) -> None:
        self._made.pop(id, None)
        for check in self._ask_api("GET", f"?slug={slug_of(self.namespace, id)}").json()["checks"]:
            self._ask_api("DELETE", str(check["ping_url"]).rpartition("/")[2])

    def _ask_api(self, method: str, path: str, value: Mapping[str, Any] | None = None) -> httpx.Response:
        url = f"{self.given['monitors'].rstrip('/')}/api/v3/checks/{path}"
        body = None if value is None else json.dumps(value).encode()
        return self.ask(method, url, body, X_Api_Key=self.secret or "")


_OF_KIND: Final = {"webhook": Webhook, "slack": Slack, "email": Email, "sentry": Sentry, "ping": Ping}


def sinks_of(tables: Mapping[str, Mapping[str, Any]], namespace: str) -> list[Sink]:
    """Return the sinks of the settings' *tables*, by name. Raises ConfigError."""
    return [_OF_KIND[table["kind"]](name, table, namespace) for name, table in tables.items()]


# -- monitors -------------------------------------------------------------------------------------


def monitor_of(schedule: Schedule, namespace: str) -> Monitor | None:
    """Return the monitor of a *schedule*; None if its rule cannot be monitored."""
    spec = schedule.trigger
    if spec is None:
        return None
    value = spec.kind.to_option(spec.expr)
    cron = value if isinstance(value, str) else ""
    every_s = int(value.total_seconds()) if isinstance(value, timedelta) else 0
    if len(cron.split()) != 5 and every_s < 60:  # also an rrule
        return None
    return Monitor(
        schedule.id, slug_of(namespace, schedule.id), cron, every_s, spec.tz, schedule.timeout_s or _LONGEST_S
    )


def slug_of(namespace: str, id: str) -> str:
    """Return the name of the monitor of schedule *id*: a-z, 0-9, _ and -; two ids have two names."""
    whole = f"{namespace}-{id}"
    slug = re.sub(r"[^a-z0-9_-]", "-", whole.lower())
    if slug == whole and len(slug) <= _SLUG:
        return slug
    return f"{slug[: _SLUG - 9]}-{blake2b(whole.encode(errors='replace'), digest_size=4).hexdigest()}"
