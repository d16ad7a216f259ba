"""The command: ``python -m tools.mutants``."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import click

from tools.mutants import of_lua, of_python
from tools.mutants.change import Mutant, mutants
from tools.mutants.copy_of_tree import CopyOfTree
from tools.mutants.ledger import Ledger
from tools.mutants.trial import Court, Verdict

LAYERS = ("zsched/core", "zsched/daemon", "zsched/lua")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
ALIVE = (Verdict.SURVIVED, Verdict.UNCLEAR)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--sample", default=200, show_default=True, help="How many mutants, of all that there are.")
@click.option("--seed", default=1, show_default=True, help="The same seed and the same text: the same mutants.")
@click.option("--only", multiple=True, metavar="PATH", help="A layer or file, as zsched/core/policy.py; repeatable.")
@click.option("--since", metavar="COMMIT", help="Only lines that have changed since then.")
@click.option("--list", "is_list", is_flag=True, help="List the sample and end.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep sample and verdicts there, and go on with them.")
@click.option("--again", is_flag=True, help="Of those kept, try again what was not killed.")
@click.option("--part", default="1/1", show_default=True, help="The first half of the sample is 1/2.")
def main(
    sample: int,
    seed: int,
    only: tuple[str, ...],
    since: str | None,
    is_list: bool,
    keep: Path | None,
    again: bool,
    part: str,
) -> None:
    """
    Change one thing at a time in zsched/core, daemon and lua, and run the tests that belong to it.

    Exit code 0: every mutant was killed, or is listed in equivalent.toml; 1: not.
    """
    everyone = [mutant for file in _files(only) for mutant in _of_file(file)]
    equivalent = _equivalent(everyone)
    if since:
        changed = _changed(since)
        everyone = [mutant for mutant in everyone if mutant.number in changed.get(mutant.file, ())]
    ledger = Ledger(keep)
    drawn = ledger.sample(random.Random(seed).sample(everyone, min(sample, len(everyone))), everyone)
    this, parts = map(int, part.split("/"))
    drawn = drawn[len(drawn) * (this - 1) // parts : len(drawn) * this // parts]
    click.echo(f"{len(drawn)} of {len(everyone)} mutants, seed {seed}")
    if is_list:
        for mutant in drawn:
            click.echo(f"{mutant}{'  (equivalent)' if mutant in equivalent else ''}")
        return
    count: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="zsched-mutants-") as folder:
        court = Court(CopyOfTree(Path(folder)))
        for mutant in drawn:
            layer = next(layer for layer in LAYERS if mutant.file.startswith(layer))
            if mutant in equivalent:
                count[layer, "equivalent"] += 1
                continue
            known = ledger.verdict(mutant)
            if known is not None and not (again and known in ALIVE):
                count[layer, known.value] += 1
                continue
            trial = court.judge(mutant)
            ledger.note(trial)
            count[layer, trial.verdict.value] += 1
            click.echo(f"{trial.took_s:5.0f} s  {trial.verdict.value}: {mutant}")
            if trial.witness:
                click.echo(f"    by {trial.witness}")
    click.echo("")
    for (layer, verdict), number in sorted(count.items()):
        click.echo(f"{layer:<14} {number:4}  {verdict}")
    sys.exit(any(count[layer, verdict.value] for layer in LAYERS for verdict in ALIVE))


def _files(only: tuple[str, ...]) -> list[str]:
    found = sorted(str(path) for layer in LAYERS for kind in ("*.py", "*.lua") for path in Path(layer).rglob(kind))
    return [file for file in found if not only or any(file.startswith(path) for path in only)]


def _changed(since: str) -> dict[str, set[int]]:
    """Return the numbers of changed lines since a commit, by file."""
    command = ["git", "diff", "--unified=0", "--no-prefix", since, "--", *LAYERS]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    changed: dict[str, set[int]] = {}
    file = ""
    for line in told.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ ")
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            changed.setdefault(file, set()).update(range(first, first + count))
    return changed


def _of_file(file: str) -> list[Mutant]:
    text = Path(file).read_bytes()
    return mutants(file, text, (of_python if file.endswith(".py") else of_lua).changes(text))


def _equivalent(everyone: list[Mutant]) -> set[Mutant]:
    """Return the mutants of *everyone* that are listed. A listed mutant that no longer exists is an error."""
    found: set[Mutant] = set()
    for one in tomllib.loads(EQUIVALENT.read_text())["equivalent"]:
        if not Path(one["file"]).exists() or not one["reason"]:
            raise click.ClickException(f"{EQUIVALENT.name}: no such file, or no reason: {one}")
        those = {mutant for mutant in everyone if mutant.file == one["file"]}
        if not those:
            continue  # of another layer
        named = {
            mutant
            for mutant in those
            if (mutant.line, mutant.mutated) == (one["line"], one["mutant"])
            and mutant.before == one.get("below", mutant.before)
        }
        if not named:
            raise click.ClickException(f"{EQUIVALENT.name} has a mutant that there is no more: {one}")
        found |= named
    return found


if __name__ == "__main__":
    main()
