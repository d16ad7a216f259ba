"""
The trial of a mutant: the tests that belong to its file are run until one fails.

It counts as killed only if that test fails once more with the mutant, and passes without it. A mutant hangs if the
tests take much longer with it than without; that counts as noticed. A test that fails without any mutant is no witness.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

from tools.mutants.belonging import steps
from tools.mutants.change import Mutant
from tools.mutants.copy_of_tree import CopyOfTree, NoWitness, Ran

_SOON_S = 40.0  # most steps are over then; only of others is it asked how long they take without a mutant
_PATIENCE = 4  # times as long as that, and they hang
_LONG_S = 900.0
_DOUBTFUL = 3  # so many witnesses that fail now and then leave a mutant unclear


class Verdict(Enum):
    """The outcome of a mutant."""

    KILLED = "killed"
    HUNG = "killed: the tests did not end"
    NOT_IMPORTED = "killed: it could not be imported"
    SURVIVED = "survived"
    UNCLEAR = "unclear: its witnesses fail now and then"


@dataclass(frozen=True, slots=True)
class Trial:
    """A verdict and its witness."""

    mutant: Mutant
    verdict: Verdict
    witness: str
    took_s: float


class Court:
    """A judge that tries mutants in one copy of the project."""

    def __init__(self, tree: CopyOfTree) -> None:
        self._tree = tree
        self._usual_s: dict[tuple[str, ...], float] = {}
        self._honest: dict[str, bool] = {}

    def judge(self, mutant: Mutant) -> Trial:
        """Try *mutant*; the copy is unchanged afterwards."""
        begun = time.monotonic()
        for step in steps(mutant.file):
            try:
                verdict, witness = self._asked(mutant, step)
            except NoWitness as error:
                verdict, witness = Verdict.UNCLEAR, str(error)
            if verdict is not Verdict.SURVIVED:
                return Trial(mutant, verdict, witness, time.monotonic() - begun)
        return Trial(mutant, Verdict.SURVIVED, "", time.monotonic() - begun)

    def _asked(self, mutant: Mutant, step: tuple[str, ...]) -> tuple[Verdict, str]:
        doubtful: list[str] = []  # witnesses that are not asked again
        while len(doubtful) < _DOUBTFUL:
            ran = self._run(mutant, step, doubtful)
            if not ran.is_over:
                return Verdict.HUNG, " ".join(step)
            if ran.failed is None:
                if not doubtful:
                    self._usual_s[step] = ran.took_s
                    return Verdict.SURVIVED, ""
                break
            if "::" not in ran.failed:
                return Verdict.NOT_IMPORTED, ran.failed
            with self._tree.holding(mutant.file, mutant.text):
                again = self._tree.run([ran.failed], _LONG_S)
            if (again.failed is not None or not again.is_over) and self._is_honest(ran.failed):
                return Verdict.KILLED, ran.failed
            doubtful.append(ran.failed)
        return Verdict.UNCLEAR, " ".join(doubtful)

    def _run(self, mutant: Mutant, step: tuple[str, ...], doubtful: list[str]) -> Ran:
        asked = [*step, *(f"--deselect={test}" for test in doubtful)]
        with self._tree.holding(mutant.file, mutant.text):
            ran = self._tree.run(asked, _SOON_S)
        if ran.is_over:
            return ran
        limit_s = self._limit_s(step)
        with self._tree.holding(mutant.file, mutant.text):
            return self._tree.run(asked, limit_s)

    def _limit_s(self, step: tuple[str, ...]) -> float:
        """Return the time after which *step* counts as hanging. It is run once without a mutant."""
        if step not in self._usual_s:
            self._usual_s[step] = self._tree.run(step, _LONG_S).took_s
        return self._usual_s[step] * _PATIENCE + _SOON_S

    def _is_honest(self, test: str) -> bool:
        if test not in self._honest:
            ran = self._tree.run([test], _LONG_S)
            self._honest[test] = ran.is_over and ran.failed is None
        return self._honest[test]
