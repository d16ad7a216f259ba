"""The command: ``python -m tools.model``."""

import sys
import time

import click

from tests.model.rules import Rule
from tests.model.search import Findings, search

PROGRESS_S = 10
RULES = "\n".join(f"  {rule.name:<18}{rule.sentence}" for rule in Rule)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=f"\b\nRules:\n{RULES}"
)
@click.option("--seeds", default=5000, show_default=True, help="How many runs.")
@click.option("--first", default=0, show_default=True, help="The first seed; with --seeds 1, that run alone.")
@click.option("--daemons", default=2, show_default=True, help="How many daemons.")
@click.option("--without", multiple=True, type=click.Choice([rule.name for rule in Rule]), metavar="RULE",
              help="Leave out this rule, as DOUBT; repeatable. Without most of them, something breaks.")  # fmt: skip
def main(seeds: int, first: int, daemons: int, without: tuple[str, ...]) -> None:
    """
    Play random histories on a model of the recovery protocol, and print what broke.

    A run is a list of random events, played on one Redis with its daemons, clients and a worker; then all is quiet
    (everybody back, or one daemon dead for good), and the promises I1 to I6 (tests/model/invariants.py) are checked.
    A list that breaks one is shortened and printed; tests.model.world.read() takes it.

    Exit code 0: every promise was kept; 1: not.
    """
    began = reported = time.monotonic()
    findings = Findings()
    for findings in search(range(first, first + seeds), frozenset(Rule[name] for name in without), daemons):
        if time.monotonic() - reported > PROGRESS_S:
            reported = time.monotonic()
            click.echo(f"{findings.runs} of {seeds} runs, {sum(findings.broken.values())} broken", err=True)
    broken = ", ".join(f"{name} in {count}" for name, count in sorted(findings.broken.items()))
    click.echo(
        f"without {' '.join(without) or 'nothing'}: {findings.runs:,} runs, {findings.steps:,} steps "
        f"({findings.events:,} before quiet), pushed again {findings.pushed_again}, "
        f"of them already received {findings.pushed_in_vain}, {time.monotonic() - began:.0f} s; "
        f"broken: {broken or 'nothing'}"
    )
    for (name, _), (run, what) in sorted(findings.shortest.items(), key=lambda found: found[0]):
        click.echo(f"  {name} {what}  [seed {run.seed}, dead {run.dead or '-'}, retain {run.retain}]\n     {run}")
    sys.exit(1 if findings.broken else 0)


if __name__ == "__main__":
    main()
