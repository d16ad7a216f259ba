"""The command: ``python -m tools.compatibility``, or ``make matrix``."""

import sys

import click

from tools.compatibility.differences import ask, ask_rq
from tools.compatibility.page import PAGE, page
from tools.compatibility.runs import Extent, keep, keep_answers, python_with, run
from tools.compatibility.servers import servers

SERIES = ("newest", "2.12", "2.8")  # of RQ; the whole suite runs with the first two, the contract with the last
CONTRACT_ONLY = ("2.8",)
EXTENTS = {"whole": Extent.WHOLE, "server": Extent.SERVER, "contract": Extent.CONTRACT}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--server", "named", multiple=True, metavar="TEXT", help="Only servers with that in their name; repeatable."
)
@click.option("--rq", "series", multiple=True, default=SERIES, show_default=True, help="A series of RQ; repeatable.")
@click.option("--python", "pythons", multiple=True, default=(sys.executable,), help="A Python; repeatable.")
@click.option(
    "--tests", "asked", default="whole", show_default=True, type=click.Choice([*EXTENTS]), help="Which tests."
)
@click.option("--page", "is_page", is_flag=True, help="No run: ask the servers, and write the page anew.")
@click.option("--forks", "workers", default="4", show_default=True, help="Processes that run tests.")
@click.argument("options", nargs=-1)
def main(
    named: tuple[str, ...],
    series: tuple[str, ...],
    pythons: tuple[str, ...],
    asked: str,
    is_page: bool,
    workers: str,
    options: tuple[str, ...],
) -> None:
    """
    Run the suite with each server, RQ and Python, and write docs/reference/compatibility.md. OPTIONS go to pytest.

    A run takes a quarter of an hour. Its result is stored when it ends (results.json). Exit code 1: a test failed.
    """
    here = [server for server in servers() if not named or any(part in str(server) for part in named)]
    keep_answers("servers", {str(server): ask(server) for server in here})
    failed = 0
    for python in pythons:
        for one in series:
            chosen = python_with(None if one == "newest" else one, python)
            answers = ask_rq(chosen)
            keep_answers("rqs", {answers.pop("version"): answers})
            PAGE.write_text(page())  # a test compares it with what is kept
            extent = Extent.CONTRACT if one in CONTRACT_ONLY else EXTENTS[asked]
            for server in () if is_page else here:
                click.echo(f"{extent}: {server}, RQ {one}, {python}")
                done = run(chosen, server, extent, ["--forks", workers, *options])
                keep([done])
                failed += len(done.failed)
    PAGE.write_text(page())
    click.echo(f"written: {PAGE}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
