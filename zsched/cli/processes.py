"""``zsched daemon``, ``zsched up`` and ``zsched dashboard``: commands that run until they are stopped."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from zsched.cli.output import say
from zsched.cli.program import DONE, FAILED, Invocation, command, connect
from zsched.config import Settings
from zsched.config.parsing import listen_address
from zsched.core.arguments import check_queue
from zsched.core.clock import SystemClock
from zsched.errors import ConfigError
from zsched.events import configure
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])

_LOOK_S = 0.2  # between two checks that all children are alive


@command()
def daemon(invocation: Invocation) -> int:
    """
    Run a daemon in the foreground until SIGTERM or Ctrl-C. Start as many as you like: one leads, and another takes over
    when it stops. Its events go to stderr. SIGHUP reads the settings again.

    \b
    Example:
      zsched daemon --config /etc/zsched/zsched.toml
    """
    from zsched.daemon.process import run_daemon  # other commands need not wait for it

    return run_daemon(invocation.settings)


@command()
@click.option("--demo", is_flag=True, help="Put example schedules of a product, and show how they fire.")
@click.option("--for", "seconds", type=click.FloatRange(min=1), metavar="SECONDS", help="End after so many seconds.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue of the worker; may be repeated.")
def up(invocation: Invocation, demo: bool, seconds: float | None, queues: tuple[str, ...]) -> int:
    """
    Run everything on this machine: a private Redis, the daemon and an RQ worker. It ends by Ctrl-C or after --for
    seconds. Then all processes and data are removed, however this command ended. This Redis is a test server: run your
    own Redis in production.

    With --demo it ends with a summary. The exit code is 0 only if the worker executed every fired run.

    \b
    Examples:
      zsched up
      zsched up --demo --for 20
    """
    from zsched.demo.play import play  # it imports much of this package

    if demo and queues:
        raise click.UsageError("--demo uses its own queues; leave --queue out")
    settings = invocation.settings()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not demo:
        return _stay(invocation, settings, [check_queue(queue) for queue in queues or ("default",)], seconds)
    summary = play(settings, seconds, to_stderr=invocation.wants_json)
    invocation.answer(summary.to_dict(), "", *summary.lines())
    return DONE if summary.is_good else FAILED


def _stay(invocation: Invocation, settings: Settings, queues: Sequence[str], seconds: float | None) -> int:
    from zsched.demo.stack import Stack

    clock = SystemClock()
    with Stack(settings, queues) as stack:
        stack.wait_for_leader(connect(stack.settings))
        url = stack.settings.redis.url
        with suppress(KeyboardInterrupt):  # before the first line of output: its reader may stop this process
            invocation.answer(
                {"redis_url": url, "namespace": settings.namespace, "queues": list(queues)},
                f"Redis, the daemon and a worker of {', '.join(queues)} are up. In another terminal:",
                f"  export ZSCHED_REDIS_URL='{url}'",
                "  zsched add hello zsched.demo.tasks.heartbeat --every 5s",
                "  zsched ls",
                f"{stack.server} is a test server here. In production run a Redis of your own.",
                "Ctrl-C ends all of it." if seconds is None else f"All of it ends in {seconds:g} s, or by Ctrl-C.",
            )
            end_ms = None if seconds is None else clock.monotonic_ms() + seconds * 1000
            while end_ms is None or clock.monotonic_ms() < end_ms:
                stack.check()
                time.sleep(_LOOK_S)
    return DONE


def _listen(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else str(listen_address(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def listen_option(section: str, usual: str) -> Callable[[F], F]:
    """Return the option for another address than [*section*] listen, *usual* by default."""
    text = f"The address, instead of [{section}] listen ({usual})."
    return click.option("--listen", metavar="HOST:PORT", callback=_listen, help=text)


@command()
@listen_option("dashboard", "127.0.0.1:9181")
def dashboard(invocation: Invocation, listen: str | None) -> int:
    """
    Show RQ's queues, jobs and workers in the browser, until Ctrl-C or SIGTERM. Needs the extra: pip install
    'zsched[dashboard]'.

    It asks for a user and a password. The user is [dashboard] user. The password is in the file [dashboard]
    password_file, in ZSCHED_DASHBOARD_PASSWORD, or in systemd's credential dashboard-password. Without a password it
    makes one and prints it, but only if it listens on loopback. The dashboard is read-only: use retry, cancel-run and
    pause.

    \b
    Examples:
      zsched dashboard
      zsched dashboard --listen 0.0.0.0:9181 --config /etc/zsched.toml
    """
    from zsched.dashboard.login import is_private, login_for  # other commands need not wait for it

    app = _extra()
    settings = invocation.settings()
    if app.prefix() != (prefix := keys_of(settings).rq.prefix):  # RQ reads it only when it is imported
        os.execve(sys.executable, sys.orig_argv, os.environ | {RQ_PREFIX_VARIABLE: prefix})
    configure(settings.log.level, settings.log.format)
    chosen = settings.dashboard if listen is None else dataclasses.replace(settings.dashboard, listen=listen)
    family, address = app.resolve(chosen.listen)
    login = login_for(chosen, os.environ, address[0])
    link = link_of(settings)
    serving = app.DashboardServer(app.make_app(link, login), family, address)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = {"password": login.password} if login.was_made else {}
    secret = f"password {login.password}, made for this run" if login.was_made else "and the password configured"
    with suppress(KeyboardInterrupt):  # before the first line of output: its reader may stop this process
        if not is_private(address[0]):
            say("passwords go over the network as they are: put a proxy with TLS before it")
        invocation.answer(
            {"url": serving.url, "redis": link.where, "user": login.user, **made},
            f"{link.where} is shown at {serving.url}",
            f"user {login.user}, {secret}. Ctrl-C ends it.",
        )
        serving.run()
    return DONE


def _extra() -> Any:
    """Import the packages of the extra. Raises ConfigError: one is not installed."""
    try:
        from zsched.dashboard import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "zsched":
            raise
        problem = f"the dashboard needs {package}, which is not installed"
        raise ConfigError(f"{problem}: pip install 'zsched[dashboard]'") from error
    return app
