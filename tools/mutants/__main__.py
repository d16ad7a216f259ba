"""The command: ``python -m tools.mutants``."""

import json
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType

import click

from tools.mutants import of_lua, of_python
from tools.mutants.change import Mutant, mutants
from tools.mutants.covered import Known, Recording
from tools.mutants.crew import record_all
from tools.mutants.ledger import Ledger
from tools.mutants.tree import Tree
from tools.mutants.trial import Court, Trial, Verdict
from tools.mutants.witnesses import Witnesses

LAYERS = ("zsched/core", "zsched/daemon", "zsched/lua", "zsched/storage")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
BUILD = Path("build/mutants")
COSTS = Path("tests/costs.json")
DEAR_S = 1.0  # CPU seconds of a test that `make test` leaves to `make test-all`
ALIVE = (Verdict.SURVIVED, Verdict.UNCLEAR)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--sample", default=200, show_default=True, help="How many mutants, of all that there are.")
@click.option("--seed", default=1, show_default=True, help="The same seed and the same text: the same mutants.")
@click.option(
    "--only", multiple=True, metavar="PATH", help="A layer or file, as zsched/core/occurrences/policy.py; repeatable."
)
@click.option("--since", metavar="COMMIT", help="Only lines that have changed since then.")
@click.option("--tier", default="all", type=click.Choice(["test", "all"]), help="Only tests of make test, or all.")
@click.option("--budget", default=60.0, show_default=True, help="CPU seconds of tests for a mutant; dearer ones wait.")
@click.option("--matrix", "is_matrix", is_flag=True, help="Find all tests that kill a mutant.")
@click.option("--again", is_flag=True, help="Try again what was not killed.")
@click.option("--no-record", is_flag=True, help="Take the recording as it is, however old.")
@click.option("--list", "is_list", is_flag=True, help="List the sample and end.")
@click.option("--at-once", default=2, show_default=True, help="Mutants at a time.")
def main(
    sample: int,
    seed: int,
    only: tuple[str, ...],
    since: str | None,
    tier: str,
    budget: float,
    is_matrix: bool,
    again: bool,
    no_record: bool,
    is_list: bool,
    at_once: int,
) -> None:
    """
    Change one thing at a time in zsched/core, daemon, lua and storage, and run the tests that execute it.

    The first run records which test executes what, for half an hour; later ones only changed files of tests. Verdicts
    are kept, too: after Ctrl-C, the same command goes on. All is below build/mutants.

    Exit code 0: every mutant was killed, or is listed in equivalent.toml; 1: not.
    """
    everyone = [mutant for file in _files(only) for mutant in _of_file(file)]
    equivalent = _equivalent(everyone)
    if since:
        changed = _changed(since)
        everyone = [mutant for mutant in everyone if mutant.number in changed.get(mutant.file, ())]
    shuffled = random.Random(seed).sample(everyone, len(everyone))
    drawn = list(islice((mutant for mutant in shuffled if _language(mutant.file).compiles(mutant.text)), sample))
    named = [str(seed), str(sample), tier, *(["matrix"] if is_matrix else []), *only, *filter(None, [since])]
    ledger = Ledger(BUILD / f"{'-'.join(named).replace('/', '.')}.jsonl")
    drawn = ledger.sample(drawn, everyone)
    click.echo(f"{len(drawn)} of {len(everyone)} mutants, seed {seed}")
    if is_list:
        for mutant in drawn:
            click.echo(f"{mutant}{'  (equivalent)' if mutant in equivalent else ''}")
        return
    wanted = queue.SimpleQueue[Mutant]()
    for mutant in drawn:
        known = ledger.verdict(mutant)
        if mutant not in equivalent and (known is None or (again and known in ALIVE)):
            wanted.put(mutant)
    with tempfile.TemporaryDirectory(prefix="zsched-mutants-") as folder:
        trees = [Tree(Path(folder) / str(number)) for number in range(at_once)]
        recording = Recording(BUILD / "recording.sqlite")
        if not no_record:
            record_all(trees, recording, click.echo)
        recording.load()
        witnesses = Witnesses(recording, _tier(tier))
        trials = queue.SimpleQueue[Trial | BaseException]()
        with ExitStack() as stack:
            for tree in trees:
                court = stack.enter_context(closing(Court(tree, recording.at_import, has_all=tier == "all")))
                work = partial(_work, court, wanted, witnesses, budget, is_matrix, trials)
                threading.Thread(target=work, daemon=True).start()
            for number in range(rest := wanted.qsize()):
                trial = trials.get()
                if isinstance(trial, BaseException):
                    raise trial
                ledger.note(trial)
                _tell(trial, f"{number + 1}/{rest}")
    sys.exit(_sum_up(drawn, equivalent, ledger))


def _work(
    court: Court,
    wanted: queue.SimpleQueue[Mutant],
    witnesses: Witnesses,
    budget_s: float,
    is_matrix: bool,
    trials: queue.SimpleQueue[Trial | BaseException],
) -> None:
    """Try mutants until none is left, in a thread."""
    try:
        while True:
            mutant = wanted.get_nowait()
            tests = witnesses.of(mutant)
            asked = _affordable(tests, budget_s)
            trial = court.judge(mutant, asked, len(tests) - len(asked), is_matrix=is_matrix)
            if trial.verdict is Verdict.KILLED:
                witnesses.note(mutant.file, trial.witnesses[0])
            trials.put(trial)
    except queue.Empty:
        pass
    except BaseException as error:
        trials.put(error)


def _affordable(tests: Sequence[Known], budget_s: float) -> list[Known]:
    """Return the tests that take *budget_s* together; a dear one gives way to the cheaper ones behind it."""
    found = []
    for test in tests:
        if test.cpu_s <= budget_s:
            budget_s -= test.cpu_s
            found.append(test)
    return found


def _tier(name: str) -> Callable[[str, float], bool]:
    """Return a predicate of tests by id and recorded CPU seconds; what is measured for make test takes precedence."""
    costs: dict[str, float] = json.loads(COSTS.read_text()) if COSTS.exists() else {}
    return lambda id, cpu_s: name == "all" or costs.get(id, 0.0 if costs else cpu_s) < DEAR_S


def _tell(trial: Trial, progress: str) -> None:
    left = f", {trial.left} not asked" if trial.left else ""
    took = f"{trial.took_s:.0f} s, {trial.cpu_s:.1f} CPU-s, {trial.asked} tests{left}"
    click.echo(f"{progress} {trial.verdict.value}: {trial.mutant}\n    {took}")
    for test in trial.witnesses:
        click.echo(f"    by {test}")


def _sum_up(drawn: Sequence[Mutant], equivalent: set[Mutant], ledger: Ledger) -> int:
    """Print the verdicts of each layer and all survivors; return the exit code."""
    count: Counter[tuple[str, str]] = Counter()
    alive = 0
    click.echo("")
    for mutant in drawn:
        verdict = None if mutant in equivalent else ledger.verdict(mutant)
        layer = next(layer for layer in LAYERS if mutant.file.startswith(layer))
        count[layer, verdict.value if verdict else "equivalent"] += 1
        if verdict in ALIVE:
            alive += 1
            click.echo(f"{verdict.value}: {mutant}")
    for (layer, told), number in sorted(count.items()):
        click.echo(f"{layer:<16} {number:4}  {told}")
    judged = sum(number for (_, told), number in count.items() if told != "equivalent")
    click.echo(f"{judged - alive} of {judged} killed")
    return 1 if alive else 0


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
    return mutants(file, text, _language(file).changes(text))


def _language(file: str) -> ModuleType:
    return of_python if file.endswith(".py") else of_lua


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
