"""``zsched daemon`` and ``zsched bench``: commands that are programs of their own."""

from __future__ import annotations

import click

from zsched.cli.invocation import Invocation, pass_invocation
from zsched.cli.program import Subcommand


@click.command(cls=Subcommand)
@pass_invocation
def daemon(invocation: Invocation) -> int:
    """
    Run a daemon in the foreground until SIGTERM or Ctrl-C. Start as many as you like: one leads, the others take
    over when it goes. What it tells goes to stderr. SIGHUP reads the settings again.

    \b
    Example:
      zsched daemon --config /etc/zsched/zsched.toml
    """
    from zsched.daemon.process import run_daemon  # other commands need not wait for it

    return run_daemon(invocation.settings)


@click.command(cls=Subcommand)
@click.option("--only", multiple=True, metavar="ROW", help="Measure this row alone; may be repeated.")
@click.option("--all", "heavy", is_flag=True, help="The campaigns too, which take many minutes and much memory.")
@click.option("--quick", is_flag=True, help="Small sizes, once: whether it works, not how fast it is.")
@click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="How often each row is measured.")
@click.option("--list", "listing", is_flag=True, help="Show the rows there are, and end.")
@pass_invocation
def bench(
    invocation: Invocation, only: tuple[str, ...], heavy: bool, quick: bool, repeat: int | None, listing: bool
) -> int:
    """
    Measure zsched beside RQ's own scheduler, rq-scheduler and bare Redis commands, on a private Redis.

    \b
    Example:
      zsched bench --quick --only lateness
    """
    from zsched.bench import main

    flags = {"--all": heavy, "--quick": quick, "--list": listing, "--json": invocation.wants_json}
    arguments = [argument for row in only for argument in ("--only", row)]
    arguments += [flag for flag, is_given in flags.items() if is_given]
    arguments += [] if repeat is None else ["--repeat", str(repeat)]
    return main(arguments)
