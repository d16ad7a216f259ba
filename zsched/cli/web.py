"""``zsched web``: the HTTP API."""

from __future__ import annotations

import dataclasses
import signal
from contextlib import suppress
from typing import Any

from zsched.cli.output import say
from zsched.cli.processes import listen_option
from zsched.cli.program import DONE, Invocation, command
from zsched.config import Settings
from zsched.errors import ConfigError
from zsched.events import configure
from zsched.storage.keys import keys_of


@command()
@listen_option("web", "127.0.0.1:9180")
def web(invocation: Invocation, listen: str | None) -> int:
    """
    Serve the HTTP API, until Ctrl-C or SIGTERM. Needs the extra: pip install 'zsched[web]'.

    The API is under /api/v1, its description at /api/docs. A request needs a token, which `zsched tokens add` makes.
    While [rq] allow_callables is *, it only reads: else a token could name any function. It listens on loopback; put a
    proxy with TLS in front of it.

    \b
    Examples:
      zsched web
      zsched web --listen 127.0.0.1:8080 --config /etc/zsched/zsched.toml
    """
    serving, app, links = _extra()
    settings = invocation.settings()
    configure(settings.log.level, settings.log.format)
    if listen is not None:
        settings = dataclasses.replace(settings, web=dataclasses.replace(settings.web, listen=listen))
    bound, link = serving.bound(settings), _link_of(settings, links)
    url = serving.url_of(bound)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # uvicorn ends cleanly by either signal, and raises it again
        if "*" in settings.rq.allow_callables:
            say('it only reads: [rq] allow_callables is *; name the functions, such as ["app.tasks.*"]')
        invocation.answer(
            {"url": url, "redis": link.where},
            f"the HTTP API of {link.where} is at {url}/api/v1, and described at {url}/api/docs. Ctrl-C ends it.",
        )
        serving.serve(app.make_api(settings, link), bound)
    return DONE


def _link_of(settings: Settings, links: Any) -> Any:
    given = settings.redis
    return links.AsyncLink.from_url(given.url, given.timeout_s, given.read_password(), keys_of(settings))


def _extra() -> tuple[Any, Any, Any]:
    """Import the packages of the extra. Raises ConfigError: one is not installed."""
    try:
        from zsched.aio import link
        from zsched.web import app, serving
    except ImportError as error:
        package = (error.name or "greenlet").partition(".")[0]
        if package == "zsched":
            raise
        raise ConfigError(f"zsched web needs {package}, which is not installed: pip install 'zsched[web]'") from error
    return serving, app, link
