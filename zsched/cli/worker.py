"""``zsched worker``: one of RQ's workers with the classes of ``zsched.rq``, by zsched's settings."""

from __future__ import annotations

import os
import sys
from contextlib import closing, nullcontext, suppress
from typing import TYPE_CHECKING, Final

import click
import redis

from zsched.cli.functions import importing
from zsched.cli.output import say
from zsched.cli.processes import import_structlog
from zsched.cli.program import Invocation, command
from zsched.config.settings import FILE_VARIABLE, Settings, load_settings, variable_of
from zsched.core.clock import SystemClock
from zsched.core.options.arguments import check_queue
from zsched.errors import RedisRefused
from zsched.storage.connection import Link, Wire, link_of
from zsched.storage.keys import keys_of
from zsched.storage.puts import PutScripts
from zsched.storage.rqjob import Encoder
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE, prefix_of_environment

if TYPE_CHECKING:
    from zsched.daemon.host import DaemonHost
    from zsched.rq.guard import JobGuard

_TAKEN: Final = "a worker named {0!r} is running; give another name, or none for a random one"
_AWAITED: Final = "a worker named {0!r} was killed, or is running: this one starts if the other is silent for {1:.0f} s"
_TTL_S: Final = 30  # an idle worker gives a sign of life every 15 s, and RQ forgets it 90 s after the last one
_LOOK_S: Final = 1.0  # between two looks at a worker of the same name


@command()
@click.argument("queues", nargs=-1)
@click.option("--simple", is_flag=True, help="Run tasks in the worker's own process, one after the other.")
@click.option("--burst", is_flag=True, help="End when the queues are empty.")
@click.option("--name", metavar="NAME", help="Its name in RQ, which no other has; default: a random one.")
@click.option("--with-daemon", is_flag=True, help="Run a daemon inside, unless two workers have one.")
@click.option("--daemon-config", metavar="FILE", help="The same, with settings of its own: another user of Redis.")
@click.option("--with-scheduler", is_flag=True, hidden=True, help="RQ's own; refused.")
def worker(
    invocation: Invocation,
    queues: tuple[str, ...],
    simple: bool,
    burst: bool,
    name: str | None,
    with_daemon: bool,
    daemon_config: str | None,
    with_scheduler: bool,
) -> None:
    """
    Run a worker of RQ for QUEUES, in this order; default: the queue default. It is `rq worker` by zsched's settings:
    Redis, serializer, prefix and guard. It records each attempt. Start it where the functions can be imported. Ctrl-C
    or SIGTERM ends it after the task that runs; a second one ends that task, too.

    \b
    Examples:
      zsched worker email push
      zsched worker --with-daemon email
    """
    if with_scheduler:
        raise click.UsageError("RQ's scheduler is not needed: a daemon moves RQ's delayed jobs; give --with-daemon")
    has_daemon = with_daemon or daemon_config is not None
    if has_daemon and burst:
        raise click.UsageError("--burst ends the worker, and a daemon must stay: leave one of them out")
    if file := invocation.given.get("config"):
        os.environ[FILE_VARIABLE] = os.path.abspath(file)  # for the classes of zsched.rq, which RQ makes
    settings = invocation.settings()
    keys = keys_of(settings)
    rq = keys.rq
    if rq.prefix != prefix_of_environment():  # RQ reads it only when it is imported
        os.execve(sys.executable, sys.orig_argv, os.environ | {RQ_PREFIX_VARIABLE: rq.prefix})
    names = [check_queue(queue) for queue in queues or ("default",)]
    with importing():
        from zsched.rq import SimpleWorker, Worker  # other commands need not wait for RQ
        from zsched.rq.plain import SERIALIZERS

        link = link_of(settings)
        with suppress(RedisRefused):  # a worker's user need not read zsched's keys
            PutScripts(link, keys, Encoder(settings.rq.serializer)).check_serializer()
        with closing(link.open()) as wire:  # RQ would show a traceback
            if name is not None:
                await_name(link, wire, rq.worker(check_queue(name, "worker")), name)
        client = redis.Redis(connection_pool=link.client_pool())
        kind = SimpleWorker if simple else Worker
        serializer = SERIALIZERS[settings.rq.serializer]
        made = kind(names, name=name, connection=client, serializer=serializer, worker_ttl=_TTL_S)
    say(_guard_text(made.guard))
    with host_of(invocation, settings, daemon_config, made.name) if has_daemon else nullcontext():
        made.work(burst=burst, logging_level=settings.log.level.upper())


def host_of(invocation: Invocation, settings: Settings, file: str | None, name: str) -> DaemonHost:
    """
    Return the host of a daemon inside the worker called *name*. *settings*: the worker's, which the daemon has, too,
    unless *file* has its own; the namespace is the worker's.

    Raises:
        ConfigError: the settings in *file* are invalid.
        RedisRefused: the daemon's user of Redis has not the rights of a daemon.
    """
    import_structlog()
    from zsched.daemon.host import DaemonHost  # other workers need not wait for it
    from zsched.events import configure
    from zsched.health.checks_rights import check_rights
    from zsched.health.facts import Probe, Severity
    from zsched.storage.lease import Seats
    from zsched.storage.server import Server

    env = os.environ | invocation.environment | {variable_of(("", "namespace")): settings.namespace}
    if file is not None:
        of_redis = variable_of(("redis", ""))  # the worker's own user may stand in variables
        env = {name: value for name, value in env.items() if not name.startswith(of_redis)}
        env[FILE_VARIABLE] = os.path.abspath(os.path.expanduser(file))
        settings = load_settings(env=env)
    link, keys = link_of(settings), keys_of(settings)
    with closing(link.open()) as wire:
        found = check_rights.findings(Probe(settings, link, wire, keys, SystemClock(), Server.of(wire)))
        if lacking := next((each for each in found if each.severity is Severity.PROBLEM), None):
            remedy = "name a settings file with the daemon's own user: --daemon-config FILE"
            raise RedisRefused(f"--with-daemon: {lacking.text}; {remedy}")
    configure(settings.log.level, settings.log.format)
    return DaemonHost(Seats(link, keys), env, name)


def await_name(link: Link, wire: Wire, key: str, name: str) -> None:
    """
    Wait until RQ has forgotten the worker at *key*, if it was killed. A worker in a container keeps its name, and must
    start again without help.

    Raises:
        BadParameter: the other one works.
    """
    last_sign = None
    while wire.execute("EXISTS", key) and not wire.execute("HEXISTS", key, "death"):
        sign, left_ms = wire.execute("HGET", key, "last_heartbeat"), wire.execute("PTTL", key)
        if left_ms == -1 or (sign is not None and last_sign not in (None, sign)):  # None: RQ forgot it just now
            raise click.BadParameter(_TAKEN.format(name), param_hint="--name")
        if last_sign is None:
            say(_AWAITED.format(name, left_ms / 1000))
        last_sign = sign
        link.pause(min(max(left_ms, 0) / 1000, _LOOK_S))


def _guard_text(guard: JobGuard) -> str:
    if not guard.is_on:
        return "guard: off; every job runs, as with RQ ([worker] guard)"
    return f"guard: {guard.mode.value}; {guard.allowed_text()}"
