"""A sample and its trials in a file, so that a run continues where another one ended."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.mutants.change import Mutant
from tools.mutants.trial import Trial, Verdict

_Told = tuple[str, str, str, str]  # a mutant by what it changes: other lines of the text may change meanwhile


class Ledger:
    """The file at *path*: a line of JSON for each mutant of the sample, and for each trial. The last trial counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[_Told, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            told = json.loads(line)
            self._lines[told["file"], told["before"], told["line"], told["mutated"]] = told

    def sample(self, drawn: list[Mutant], everyone: Iterable[Mutant]) -> list[Mutant]:
        """Return the file's mutants that still exist in the text. If the file has none, store and return *drawn*."""
        if not self._lines:
            for mutant in drawn:
                self._write(mutant, {})
        known = {_of(mutant): mutant for mutant in everyone}
        return [known[told] for told in self._lines if told in known]

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """Return the verdict of the last trial; None if there was none."""
        told = self._lines[_of(mutant)].get("verdict")
        return Verdict(told) if told else None

    def note(self, trial: Trial) -> None:
        """Store a trial."""
        self._write(
            trial.mutant,
            {
                "verdict": trial.verdict.value,
                "witnesses": trial.witnesses,
                "asked": trial.asked,
                "left": trial.left,
                "took_s": round(trial.took_s, 1),
                "cpu_s": round(trial.cpu_s, 1),
            },
        )

    def _write(self, mutant: Mutant, more: dict[str, Any]) -> None:
        told = dict(zip(("file", "before", "line", "mutated"), _of(mutant), strict=True)) | more
        self._lines[_of(mutant)] = told
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


def _of(mutant: Mutant) -> _Told:
    return mutant.file, mutant.before, mutant.line, mutant.mutated
