"""
Run the riskiest tests many times on a busy machine: ``python -m tools.rounds``, or ``make rounds``.

``tests/risky.txt`` has a test or a file in each line: what once lost a race, and what depends on clocks, leases and
processes most. A failure here is a failure some day in CI.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click

from zsched.embedded.guard import Guard

PROJECT = Path(__file__).parents[1]
RISKY = PROJECT / "tests" / "risky.txt"
OUTPUT = PROJECT / "build" / "rounds"
_COUNT = re.compile(r"(\d+) (passed|failed|error)s?\b")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", re.MULTILINE)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=30, show_default=True, help="How many times.")
@click.option("--busy", default=4, show_default=True, help="Processes that only take the processor's time.")
@click.option("--forks", default=4, show_default=True, help="Processes that run tests.")
@click.option("--tier", default="usual", show_default=True, help="all: also the heavy tests.")
@click.argument("tests", nargs=-1)
def main(rounds: int, busy: int, forks: int, tier: str, tests: tuple[str, ...]) -> None:
    """Run TESTS, by default those of tests/risky.txt, many times beside busy processes. Exit code 1 after a failure."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        f"--tier={tier}",
        "--forks",
        str(forks),
        *(tests or [f"@{RISKY}"]),
    ]
    ended: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with Guard() as guard:  # they end with this program, however that ends
        for _ in range(busy):
            guard.spawn([sys.executable, "-c", "while True: pass"])
        for number in range(1, rounds + 1):
            run = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            (OUTPUT / f"{number}.txt").write_text(run.stdout)
            counts = counts_of(run.stdout)
            if run.returncode not in (0, 1) or not counts:
                raise click.ClickException(f"pytest ended with {run.returncode}; see {OUTPUT / f'{number}.txt'}")
            ended += counts
            failed.update(_FAILED.findall(run.stdout))
            click.echo(f"round {number} of {rounds}: {', '.join(f'{count} {how}' for how, count in counts.items())}")
    for name, times in failed.most_common():
        click.echo(f"failed {times} times: {name}")
    click.echo(f"{rounds} rounds, {busy} busy processes: {ended.total():,} runs of tests, {failed.total()} failures")
    sys.exit(1 if failed or ended.total() > ended["passed"] else 0)


def counts_of(output: str) -> Counter[str]:
    """Return the numbers of tests in the last line of pytest, by how they ended: passed, failed, error."""
    lines = [line for line in output.splitlines() if " in " in line and _COUNT.search(line)]
    return Counter({how: int(count) for count, how in _COUNT.findall(lines[-1] if lines else "")})


if __name__ == "__main__":
    main()
