"""``zsched web``: the console, the HTTP API, and rq-dashboard if it is installed."""

import dataclasses
import os
import signal
import sys
from contextlib import suppress
from typing import Final

import click

from zsched.cli.output import say
from zsched.cli.program import Invocation, command
from zsched.config.parsing import listen_address
from zsched.core.clock import SystemClock
from zsched.daemon.supervisor import Supervisor
from zsched.errors import ZschedError, needing
from zsched.events import configure
from zsched.storage.keys import keys_of
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE, prefix_of_environment

_LISTEN_HELP: Final = "The address, instead of [web] listen (127.0.0.1:9180)."


def _listen(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else str(listen_address(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@command()
@click.option("--listen", metavar="HOST:PORT", callback=_listen, help=_LISTEN_HELP)
def web(invocation: Invocation, listen: str | None) -> None:
    """
    Serve the console and the HTTP API, until Ctrl-C or SIGTERM. Needs the extra: pip install 'zsched[web]'. A request
    needs a token, which `zsched tokens add` makes; people log in by it. While [rq] allow_callables is *, it only reads.
    It listens on loopback; put a proxy with TLS in front of it.

    \b
    Examples:
      zsched web
      zsched web --listen 127.0.0.1:8080 --config /etc/zsched/zsched.toml
    """
    supervisor = Supervisor.from_environment(os.environ, SystemClock())
    try:
        _serve(invocation, listen, supervisor)
    except ZschedError as error:
        supervisor.failed(str(error))
        raise


def _serve(invocation: Invocation, listen: str | None, supervisor: Supervisor) -> None:
    """Serve. Raises ConfigError: a package of the extra is not installed, or a setting is wrong."""
    with needing("web", "zsched web"):
        from zsched.aio.link import AsyncLink
        from zsched.web import app, rq, serving
    settings = invocation.settings()
    if prefix_of_environment() != (prefix := keys_of(settings).rq.prefix):  # RQ reads it only when it is imported
        os.execve(sys.executable, sys.orig_argv, os.environ | {RQ_PREFIX_VARIABLE: prefix})
    configure(settings.log.level, settings.log.format)
    if listen is not None:
        settings = dataclasses.replace(settings, web=dataclasses.replace(settings.web, listen=listen))
    given = settings.redis
    link = AsyncLink.from_url(given.url, given.timeout_s, given.read_password(), keys_of(settings))
    made, bound = app.make_api(settings, link), serving.bound(settings)
    url = serving.url_of(bound)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # uvicorn ends cleanly by either signal, and raises it again
        if "*" in settings.rq.allow_callables:
            say('it only reads: [rq] allow_callables is *; name the functions, such as ["app.tasks.*"]')
        said = f"the HTTP API of {link.where} is at {url}/api/v1, and described at {url}/api/docs"
        jobs = f", and RQ's queues, jobs and workers are at {url}/rq/" if rq.IS_INSTALLED else ""
        people = f"the console is at {url}/{jobs}. Ctrl-C ends it."
        invocation.answer({"url": url, "redis": link.where}, said, people)
        supervisor.status(said)
        serving.serve(made, bound, supervisor, settings.web.timeout_s)
