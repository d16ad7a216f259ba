"""``zsched worker``: one of RQ's workers with the classes of ``zsched.rq``, by zsched's settings."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click
import redis

from zsched.cli.functions import importing
from zsched.cli.output import say
from zsched.cli.program import DONE, Invocation, command
from zsched.config.settings import FILE_VARIABLE
from zsched.core.arguments import check_queue
from zsched.storage.connection import Wire, link_of
from zsched.storage.keys import keys_of
from zsched.storage.rqkeys import RQ_PREFIX_VARIABLE, prefix_of_environment

if TYPE_CHECKING:
    from zsched.rq.guard import JobGuard

_TAKEN: Final = (
    "a worker named {0!r} works, or was killed in the last eight minutes; give another name, or none for a random one"
)


@command()
@click.argument("queues", nargs=-1)
@click.option("--simple", is_flag=True, help="Run tasks in the worker's own process, one after the other.")
@click.option("--burst", is_flag=True, help="End when the queues are empty.")
@click.option("--name", metavar="NAME", help="Its name in RQ; default: a random one.")
def worker(invocation: Invocation, queues: tuple[str, ...], simple: bool, burst: bool, name: str | None) -> int:
    """
    Run a worker of RQ for QUEUES, in this order; default: the queue default. It is `rq worker` with the worker and job
    classes of zsched.rq, and by zsched's settings: Redis, serializer, prefix, and the guard of [worker]. So it records
    each attempt, and runs only signed jobs if [worker] guard is enforce.

    Start it where the functions can be imported. Ctrl-C or SIGTERM ends it after the task that runs; a second one ends
    that task, too.

    \b
    Examples:
      zsched worker email push
      zsched worker --config /etc/zsched/worker.toml --simple email
    """
    if file := invocation.given.get("config"):
        os.environ[FILE_VARIABLE] = os.path.abspath(file)  # for the classes of zsched.rq, which RQ makes
    settings = invocation.settings()
    rq = keys_of(settings).rq
    if rq.prefix != prefix_of_environment():  # RQ reads it only when it is imported
        os.execve(sys.executable, sys.orig_argv, os.environ | {RQ_PREFIX_VARIABLE: rq.prefix})
    names = [check_queue(queue) for queue in queues or ("default",)]
    with importing():
        from zsched.rq import SimpleWorker, Worker  # other commands need not wait for RQ
        from zsched.rq.plain import SERIALIZERS

        link = link_of(settings)
        with closing(link.open()) as wire:  # RQ would show a traceback
            if name and _is_taken(wire, rq.worker(name)):
                raise click.BadParameter(_TAKEN.format(name), param_hint="--name")
        client = redis.Redis(connection_pool=link.client_pool())
        kind = SimpleWorker if simple else Worker
        made = kind(names, name=name, connection=client, serializer=SERIALIZERS[settings.rq.serializer])
    say(_guard_text(made.guard))
    made.work(burst=burst, logging_level=settings.log.level.upper())
    return DONE


def _is_taken(wire: Wire, key: str) -> bool:
    """Return whether the worker at *key* lives, for RQ; it keeps a killed one for a time."""
    return bool(wire.execute("EXISTS", key) and not wire.execute("HEXISTS", key, "death"))


def _guard_text(guard: JobGuard) -> str:
    if not guard.is_on:
        return "guard: off; every job runs, as with RQ ([worker] guard)"
    return f"guard: {guard.mode.value}; {guard.allowed_text()}"
