"""``zsched dashboard``: rq-dashboard with a login, for looking only."""

from __future__ import annotations

import dataclasses
import os
import signal
from contextlib import suppress
from typing import Any

import click

from zsched.cli.exits import DONE
from zsched.cli.invocation import Invocation, pass_invocation, say
from zsched.cli.program import Subcommand
from zsched.config.parsing import listen_address
from zsched.errors import ConfigError
from zsched.events import configure
from zsched.storage.connection import Link


def _listen(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else str(listen_address(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=Subcommand)
@click.option("--listen", metavar="HOST:PORT", callback=_listen, help="Instead of [dashboard] listen, 127.0.0.1:9181.")
@pass_invocation
def dashboard(invocation: Invocation, listen: str | None) -> int:
    """
    Show RQ's queues, jobs and workers in the browser, until Ctrl-C or SIGTERM. Needs the extra: pip install
    'zsched[dashboard]'.

    It asks for user and password: [dashboard] user, and what [dashboard] password_file names, or
    ZSCHED_DASHBOARD_PASSWORD, or the credential dashboard-password of systemd. Without any it makes a password and
    tells it, if it listens for this machine only. Nothing can be changed in it: see retry, cancel-run and pause.

    \b
    Examples:
      zsched dashboard
      zsched dashboard --listen 0.0.0.0:9181 --config /etc/zsched.toml
    """
    from zsched.dashboard.login import is_private, login_for  # other commands need not wait for it

    make_app, server = _extra()
    settings = invocation.settings()
    configure(settings.log.level, settings.log.format)
    chosen = settings.dashboard if listen is None else dataclasses.replace(settings.dashboard, listen=listen)
    family, address = server.resolve(chosen.listen)
    login = login_for(chosen, os.environ, address[0])
    link = Link.from_url(settings.redis.url, settings.redis.timeout_s, settings.redis.read_password())
    serving = server.DashboardServer(make_app(link, login), family, address)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = {"password": login.password} if login.was_made else {}
    told = f"password {login.password}, made for this run" if login.was_made else "and the password configured"
    with suppress(KeyboardInterrupt):  # from before its first line on: who has read that may stop it
        if not is_private(address[0]):
            say("passwords go over the network as they are: put a proxy with TLS before it")
        invocation.answer(
            {"url": serving.url, "redis": link.where, "user": login.user, **made},
            f"{link.where} is shown at {serving.url}",
            f"user {login.user}, {told}. Ctrl-C ends it.",
        )
        serving.run()
    return DONE


def _extra() -> tuple[Any, Any]:
    """What needs the extra. Raises ConfigError: it is not installed."""
    try:
        from zsched.dashboard import app, server
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "zsched":
            raise
        problem = f"the dashboard needs {package}, which is not installed"
        raise ConfigError(f"{problem}: pip install 'zsched[dashboard]'") from error
    return app.make_app, server
