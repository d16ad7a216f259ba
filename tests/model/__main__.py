"""``python -m tests.model``: play thousands of random histories and print what broke."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time

from tests.model.rules import Rule
from tests.model.search import Findings, search

EPILOG = """\
One run is a list of random events, played on one Redis with its daemons, clients and a worker; then all is quiet
(everybody back, or one daemon dead for good) and the promises I1 to I6 (invariants.py) are checked. A list that
breaks one is shortened, printed, and can be pasted into world.read(). Exit code 1 when something broke.

examples:
  python -m tests.model --seeds 20000                      all rules kept: must find nothing
  python -m tests.model --seeds 5000 --without DOUBT       must find something
  python -m tests.model --seeds 5000 --daemons 3           must find nothing either
  python -m tests.model --seeds 1 --first 4711             one run again

rules:
"""

PROGRESS_S = 10


def main() -> int:
    """Search, print, and return an exit code that says if something broke."""
    options = _parser().parse_args()
    left_out = frozenset(Rule[name] for name in options.without)
    began = reported = time.monotonic()
    findings = Findings()
    for findings in search(range(options.first, options.first + options.seeds), left_out, options.daemons):
        if time.monotonic() - reported > PROGRESS_S:  # timing: a line for people
            reported = time.monotonic()
            sys.stderr.write(f"{findings.runs} of {options.seeds} runs, {sum(findings.broken.values())} broken\n")
    sys.stdout.write(_report(findings, options.without, time.monotonic() - began))
    return 1 if findings.broken else 0


def _parser() -> argparse.ArgumentParser:
    rules = [
        textwrap.fill(f"{rule.name:<18}{rule.sentence}", 115, initial_indent="  ", subsequent_indent=" " * 20)
        for rule in Rule
    ]
    parser = argparse.ArgumentParser(
        prog="python -m tests.model",
        description="A model of the recovery protocol, with faults at random.",
        epilog=EPILOG + "\n".join(rules),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=5000, metavar="N", help="how many runs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed (default: %(default)s)")
    parser.add_argument("--daemons", type=int, default=2, metavar="N", help="how many daemons (default: %(default)s)")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        type=str.upper,
        choices=[rule.name for rule in Rule],
        metavar="RULE",
        help="rules to leave out; see below",
    )
    return parser


def _report(findings: Findings, without: list[str], took_s: float) -> str:
    broken = ", ".join(f"{name} in {count}" for name, count in sorted(findings.broken.items()))
    lines = [
        f"without {' '.join(without) or 'nothing'}: {findings.runs:,} runs, {findings.steps:,} steps "
        f"({findings.events:,} before quiet), pushed again {findings.pushed_again}, "
        f"of them already received {findings.pushed_in_vain}, {took_s:.0f} s; broken: {broken or 'nothing'}"
    ]
    for (name, _), (run, what) in sorted(findings.shortest.items(), key=lambda found: found[0]):
        lines.append(f"  {name} {what}  [seed {run.seed}, dead {run.dead or '-'}, retain {run.retain}]")
        lines.append(f"     {run}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
