"""``zsched up``: everything on this machine, for a first look and for trying things out."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence

import click

from zsched.cli.exits import DONE, FAILED
from zsched.cli.invocation import Invocation, connect, pass_invocation
from zsched.cli.program import Subcommand
from zsched.config import Settings
from zsched.core.arguments import check_queue
from zsched.core.clock import SystemClock

_LOOK_S = 0.2  # between two looks whether all children are alive


@click.command(cls=Subcommand)
@click.option("--demo", is_flag=True, help="Schedule what a product would, and show it firing.")
@click.option("--for", "seconds", type=click.FloatRange(min=1), metavar="SECONDS", help="End by itself.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="What the worker serves; may be repeated.")
@pass_invocation
def up(invocation: Invocation, demo: bool, seconds: float | None, queues: tuple[str, ...]) -> int:
    """
    Run everything on this machine: a private Redis, the daemon and an RQ worker. It ends by Ctrl-C or after --for
    seconds, and then all of it is gone, data included, however this command ended. This Redis is a test server: run
    one of your own in production.

    With --demo it ends with a summary, and with exit code 0 only if the worker executed every run that fired.

    \b
    Examples:
      zsched up
      zsched up --demo --for 20
    """
    from zsched.demo.play import play  # it imports this package's tables

    if demo and queues:
        raise click.UsageError("--demo has queues of its own; leave --queue out")
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
        with contextlib.suppress(KeyboardInterrupt):  # from before its first line on: who has read that may stop it
            invocation.answer(
                {"redis_url": url, "namespace": settings.namespace, "queues": list(queues)},
                f"Redis, the daemon and a worker of {', '.join(queues)} are up. In another terminal:",
                f"  export ZSCHED_REDIS_URL='{url}'",
                "  zsched add hello zsched.demo.tasks.heartbeat --every 5s",
                "  zsched ls",
                f"Redis {stack.redis_version} is a test server here. In production run a Redis of your own.",
                "Ctrl-C ends all of it." if seconds is None else f"All of it ends in {seconds:g} s, or by Ctrl-C.",
            )
            end_ms = None if seconds is None else clock.monotonic_ms() + seconds * 1000
            while end_ms is None or clock.monotonic_ms() < end_ms:
                stack.check()
                time.sleep(_LOOK_S)
    return DONE
