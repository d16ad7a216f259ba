"""The command: ``python -m tools.campaign``."""

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from tools.campaign.clocks import movable
from tools.campaign.faults import BY_NAME, FAULTS, chosen
from tools.campaign.run import Campaign, Plan
from tools.campaign.safeguards import SAFEGUARDS, copy_code
from tools.campaign.verdict import judge


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--seconds", default=60.0, show_default=True, help="How long faults strike; start and end add 15 s.")
@click.option("--seed", default=1, show_default=True, help="Of all chance: the same seed, the same faults.")
@click.option("--only", multiple=True, metavar="FAULT", type=click.Choice(list(BY_NAME)), help="This one; repeatable.")
@click.option("--clock", is_flag=True, help="Redis's clock jumps too (needs gcc).")
@click.option("--crowd", default=10_000, show_default=True, help="One-shots of the fault same-millisecond.")
@click.option("--without", type=click.Choice(list(SAFEGUARDS)), help="Daemons without this safeguard: must fail.")
@click.option(
    "--keep", metavar="DIR", type=click.Path(path_type=Path), help="Keep its files there, also if all is well."
)
@click.option("--list", "is_list", is_flag=True, help="List the faults and end.")
def main(
    seconds: float,
    seed: int,
    only: tuple[str, ...],
    clock: bool,
    crowd: int,
    without: str | None,
    keep: Path | None,
    is_list: bool,
) -> None:
    """
    The fault campaign: real Redis, daemons, workers and clients, faults at random, then an audit. The audit compares
    the runs that workers received with the replies that clients got.

    Exit code 0: every promise was kept; 1: not, with examples. Ctrl-C ends the faults; the audit follows.
    """
    if is_list:
        for fault in FAULTS:
            click.echo(f"{fault.name:<22} {fault.what}{' (loses history)' if fault.loses else ''}")
        return
    with ExitStack() as stack:
        folder = keep or Path(tempfile.mkdtemp(prefix="zsched-campaign-"))
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):  # archives of an earlier campaign would put its schedules back
            raise click.BadParameter(f"{folder} is not empty; give another one", param_hint="--keep")
        if clock or any(BY_NAME[name].is_extra for name in only):
            stack.enter_context(movable(folder))
        faults = chosen(only or _named_points(without), clock=clock)
        plan = Plan(seconds, seed, faults, crowd, copy_code(folder, without))
        verdict = judge(Campaign(plan, folder, click.echo).run())
    click.echo("")
    for line in verdict.lines():
        click.echo(line)
    if not verdict.is_ok:
        click.echo(f"calls, receipts, logs and archives: {folder}")
    elif keep is None:
        shutil.rmtree(folder)
    sys.exit(0 if verdict.is_ok else 1)


def _named_points(without: str | None) -> tuple[str, ...]:
    """Return the faults from which the missing safeguard protects, so that few seconds show the failure."""
    return SAFEGUARDS[without].faults if without else ()


if __name__ == "__main__":
    main()
