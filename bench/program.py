"""The command: which rows, which sizes, which form of report."""

import click

from bench import report
from bench.arena import Arena
from bench.catalogue import ROWS, Row
from bench.results import Broken, Result
from bench.yardstick import speed
from zsched.cli.program import DONE, FAILED, INTERRUPTED, USAGE
from zsched.core.clock import SystemClock
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.events import configure

_REPEAT = 3


def main(args: list[str]) -> int:
    """
    Run the benchmark with *args* of the command line; returns the exit code.

    A goal that is missed is told and is no failure; a row whose runs were lost, doubled or early is.
    """
    try:
        code = command.main(args, prog_name="python -m bench", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return USAGE
    except ZschedError as error:
        click.echo(f"bench: {error}", err=True)
        return FAILED
    return code if isinstance(code, int) else DONE


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(ROWS)), metavar="ROW", help="This row; repeatable."
)
@click.option(
    "--all",
    "wants_all",
    is_flag=True,
    help="The campaigns, why-10m and search-10m too: 35 minutes more, 10 GB of memory.",
)
@click.option("--quick", is_flag=True, help="Small sizes, once: whether it works, not how fast it is.")
@click.option("--repeat", type=click.IntRange(1), help=f"Repetitions, contestants in turn (default {_REPEAT}).")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@click.option("--list", "wants_list", is_flag=True, help="What there is to measure.")
def command(
    names: tuple[str, ...], wants_all: bool, quick: bool, repeat: int | None, as_json: bool, wants_list: bool
) -> int:
    """
    Measure zsched beside the bare Redis commands and other schedulers, on private servers of its own.

    Everything takes about an hour on a slow machine. A row is printed when it ends, so Ctrl-C loses no finished row.

    BullMQ takes part where node is on PATH and NODE_PATH or ZSCHED_BENCH_NODE_MODULES names a folder with bullmq and
    ioredis; rq-scheduler where it is installed, as it is in the virtual environment of `make`.
    """
    if wants_list:
        _tell_rows()
        return DONE
    rows = [row for row in ROWS.values() if row.name in names or (not names and (wants_all or not row.is_heavy))]
    repetitions = repeat or (1 if quick else _REPEAT)
    about = report.environment(is_quick=quick, repeat=repetitions)
    with (report.json_report if as_json else report.table_report)(about, click.echo) as add:
        is_broken = _run(rows, quick, repetitions, add)
    return FAILED if is_broken else DONE


def _run(rows: list[Row], is_quick: bool, repeat: int, add: report.Add) -> bool:
    """Measure *rows*, and *add* each when it ends. Return True if one of them is broken."""
    configure("warning")  # stdout is for the report
    clock = SystemClock()
    started_ms = clock.monotonic_ms()

    def say(text: str) -> None:
        click.echo(f"{(clock.monotonic_ms() - started_ms) / 1000:6.1f} s  {text}", err=True)

    is_broken = False
    with Guard() as guard:
        arena = Arena(guard, say, is_quick=is_quick, repeat=repeat, clock=clock)
        with arena.redis() as ground:
            before = speed(arena, ground)
            for row in rows:
                try:
                    result = row.run(arena)
                except Broken as error:
                    result = Result(row.name, row.about, broken=[str(error)])
                after = speed(arena, ground)
                result.speed, before = (before + after) / 2, after
                add(result)
                is_broken = is_broken or bool(result.broken)
        say("done")
    return is_broken


def _tell_rows() -> None:
    for row in ROWS.values():
        click.echo(f"{row.name:19}{row.about}{' (only with --all or --only)' if row.is_heavy else ''}")
