"""A sample and its verdicts in a file, so that a run continues where another one ended, or two share a sample."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tools.mutants.change import Mutant
from tools.mutants.trial import Trial, Verdict

_Told = tuple[str, str, str, str]  # a mutant by what it changes: other lines of the text may change meanwhile


class Ledger:
    """
    The file at *path*: a line of JSON for each mutant of the sample, and one for each trial. The last trial counts.

    Each line is appended with one write, so two processes may share a file. Without a path nothing is stored.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._verdicts: dict[_Told, Verdict | None] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else []:
            *told, verdict = json.loads(line)
            self._verdicts[_told(told)] = Verdict(verdict) if verdict else self._verdicts.get(_told(told))

    def sample(self, drawn: list[Mutant], everyone: Iterable[Mutant]) -> list[Mutant]:
        """Return the file's mutants that still exist in the text. If the file has none, store and return *drawn*."""
        if not self._verdicts:
            for mutant in drawn:
                self._verdicts[_of(mutant)] = None
                self._write(mutant, None)
        known = {_of(mutant): mutant for mutant in everyone}
        return [known[told] for told in self._verdicts if told in known]

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """Return the verdict of the last trial; None if there was none."""
        return self._verdicts.get(_of(mutant))

    def note(self, trial: Trial) -> None:
        """Store a verdict."""
        self._verdicts[_of(trial.mutant)] = trial.verdict
        self._write(trial.mutant, trial.verdict)

    def _write(self, mutant: Mutant, verdict: Verdict | None) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([*_of(mutant), verdict.value if verdict else ""]) + "\n")


def _of(mutant: Mutant) -> _Told:
    return mutant.file, mutant.before, mutant.line, mutant.mutated


def _told(parts: list[str]) -> _Told:
    file, before, line, mutated = parts
    return file, before, line, mutated
