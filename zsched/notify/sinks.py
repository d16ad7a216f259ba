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
"""

from __future__ import annotations

import base64
import hmac
import json
import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from fnmatch import fnmatchcase
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from zsched.config.bounds import FILTERS
from zsched.config.reading import read_password_file
from zsched.core.clock import SystemClock, from_ms
from zsched.core.facets import Facets
from zsched.core.wording import in_a_line
from zsched.errors import ConfigError, ZschedError
from zsched.notify.message import UNHEALTHY, USUAL, Message

if TYPE_CHECKING:
    import httpx

_EVERY_S: Final = 60.0
_WAIT_S: Final = 10.0  # for a connection, and for each part of an answer
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class SinkFailed(ZschedError):
    """A receiver did not take a message, or cannot be reached."""


class Sink:
    """
    The sink called *name* by its table of the settings, *given*. ``on``: the kinds of messages that it gets.
    ``every_s``: for so long equal events are gathered, or between two pings.
    ``address``: its URL without path, user and query, which may be secrets. ``secret``: the content of its secret file.
    ``of_kind``: the classes of all kinds.

    Raises:
        ConfigError: a file cannot be read, or the URL is none of its kind.
    """

    kind: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ("https", "http")
    of_kind: Final = dict[str, "type[Sink]"]()

    def __init_subclass__(cls, kind: str = "") -> None:
        cls.kind = kind
        cls.of_kind[kind] = cls

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        self.name, self.namespace, self.given = name, namespace, given
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

    def close(self) -> None:
        """Close what is open."""


class HttpSink(Sink):
    """A sink that sends over HTTP. Redirections count as failures: a POST would become a GET."""

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, given, namespace)
        try:
            import httpx  # of the extra notify
        except ModuleNotFoundError as error:
            remedy = "install it: pip install 'zsched[notify]'"
            raise ConfigError(f"[notify.{name}]: httpx is not installed; {remedy}") from error
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


class Webhook(HttpSink, kind="webhook"):
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


class Slack(HttpSink, kind="slack"):
    """The text is escaped as Slack wants it: ``&``, ``<`` and ``>``."""

    def send(self, message: Message) -> None:
        text = escape("\n".join(message.lines), quote=False)
        self.ask("POST", self._url, json.dumps({"text": text}).encode(), Content_Type="application/json")


class Email(Sink, kind="email"):
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


class Sentry(HttpSink, kind="sentry"):
    """*url* is the project's DSN. A message is an event, grouped by kind, function and reason."""

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
        self.envelope("event", event, message.id)

    def envelope(self, kind: str, item: Mapping[str, Any], id: str) -> None:
        """Send an envelope with one *item*. Raises SinkFailed."""
        body, at = json.dumps(item).encode(), from_ms(SystemClock().now_ms()).isoformat().replace("+00:00", "Z")
        head = {"event_id": id, "sent_at": at}
        lines = json.dumps(head).encode(), json.dumps({"type": kind, "length": len(body)}).encode(), body, b""
        key = f"Sentry sentry_version=7, sentry_client=zsched/0, sentry_key={self._parts.username}"
        self.ask(
            "POST", self._envelopes, b"\n".join(lines), Content_Type="application/x-sentry-envelope", X_Sentry_Auth=key
        )


class Ping(HttpSink, kind="ping"):
    """A dead-man's switch of healthchecks.io, or of another program that expects a request each minute."""

    def __init__(self, name: str, given: Mapping[str, Any], namespace: str) -> None:
        super().__init__(name, {**given, "on": ()}, namespace)

    def send(self, message: Message) -> None:
        self.ping()

    def ping(self) -> None:
        """Tell that all is well. Raises SinkFailed."""
        self.ask("GET", self._url)


def sinks_of(tables: Mapping[str, Mapping[str, Any]], namespace: str) -> list[Sink]:
    """Return the sinks of the settings' *tables*, by name. Raises ConfigError."""
    return [Sink.of_kind[table["kind"]](name, table, namespace) for name, table in tables.items()]
