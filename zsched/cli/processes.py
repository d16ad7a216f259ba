"""``zsched daemon``, ``zsched archive keep`` and ``zsched up``: commands that run until they are stopped."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import click

from zsched.cli.program import DONE, FAILED, Invocation, LazyCommand, command, connect, group
from zsched.config.settings import Settings
from zsched.core.clock import SystemClock
from zsched.core.options.arguments import check_queue

_LOOK_S = 0.2  # between two checks that all children are alive


@command()
@click.option("--host", type=(int, str, str), hidden=True, help="Its worker's pid, its own id, and its worker's name.")
def daemon(invocation: Invocation, host: tuple[int, str, str] | None) -> int:
    """
    Run a daemon in the foreground until SIGTERM or Ctrl-C. Of several, one leads, and another takes over when it stops.
    Events go to stderr. SIGHUP reads the settings again.

    \b
    Example:
      zsched daemon --config /etc/zsched/zsched.toml
    """
    import_structlog()
    from zsched.daemon.child import end_with  # other commands need not wait for it
    from zsched.daemon.host import Hosted
    from zsched.daemon.process import run_daemon

    hosted = None if host is None else Hosted(*host)
    if hosted is not None:
        end_with(hosted.pid)
    return run_daemon(invocation.settings, invocation.environment, hosted)


@group("archive")
def archive() -> None:
    """
    Keep one more archive, or restore from one what Redis lost.

    \b
    Examples:
      zsched archive recover --dry-run
      zsched archive recover --from /backup/archive.db
      zsched archive keep --config /etc/zsched/zsched.toml
    """


_KEEP, _RECOVER = "Keep one more archive, without a daemon.", "Restore from an archive what Redis lost."
archive.add_command(LazyCommand("keep", "zsched.cli.processes.archivist", _KEEP))
archive.add_command(LazyCommand("recover", "zsched.cli.recovering.command.recover", _RECOVER))


@command()
@click.option("--child", is_flag=True, hidden=True, help="It was started by a daemon.")
def archivist(invocation: Invocation, child: bool) -> int:
    """
    Keep an archive, in the foreground, until SIGTERM or Ctrl-C, on a machine without a daemon: each daemon starts one
    by itself. It never fires: it follows the log, answers questions, and restores what Redis lost. Give it an archive
    of its own.

    \b
    Example:
      zsched archive keep --config /etc/zsched/zsched.toml
    """
    import_structlog()
    from zsched.daemon.archivist import run_archivist, run_child

    return run_child(invocation.settings) if child else run_archivist(invocation.settings)


def import_structlog() -> None:
    """Import structlog without rich, which its tracebacks could use and ours do not: 4 MB of each process."""
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # `import rich` fails
        import structlog  # noqa: F401

        del sys.modules["rich"]


@command()
@click.option("--demo", is_flag=True, help="Put example schedules of a product, and show how they fire.")
@click.option("--for", "seconds", type=click.FloatRange(min=1), metavar="SECONDS", help="End after so many seconds.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue of the worker; may be repeated.")
def up(invocation: Invocation, demo: bool, seconds: float | None, queues: tuple[str, ...]) -> int:
    """
    Run a private Redis, a daemon and an RQ worker, until Ctrl-C or for --for seconds; then all is removed. It is for
    trials. With --demo it ends with a summary, and the exit code is 0 only if the worker executed every fired run.

    \b
    Examples:
      zsched up
      zsched up --demo --for 20
    """
    from zsched.demo.play import play  # it imports much of this package

    if demo and queues:
        raise click.UsageError("--demo uses its own queues; leave --queue out")
    settings = invocation.settings()
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
                f"{stack.redis.server} is a test server here. In production run a Redis of your own.",
                "Ctrl-C ends all of it." if seconds is None else f"All of it ends in {seconds:g} s, or by Ctrl-C.",
            )
            end_ms = None if seconds is None else clock.monotonic_ms() + seconds * 1000
            while end_ms is None or clock.monotonic_ms() < end_ms:
                stack.check()
                time.sleep(_LOOK_S)
    return DONE
