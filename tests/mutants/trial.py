"""
The trial of a mutant: the tests that belong to its file are run until one fails.

It counts as killed only if that test fails once more with the mutant, and passes without it. If the tests take much
longer than they do without it, it hangs, which is noticed too. A test that fails without any mutant is no witness.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

from tests.mutants.belonging import steps
from tests.mutants.change import Mutant
from tests.mutants.copy_of_tree import CopyOfTree

_PATIENCE = 5  # times as long as the tests take without a mutant, and
_PATIENCE_S = 30


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    HUNG = "killed: the tests did not end"
    NOT_IMPORTED = "killed: it could not be imported"
    SURVIVED = "survived"
    UNCLEAR = "unclear: its witness fails now and then"


@dataclass(frozen=True, slots=True)
class Trial:
    """A verdict and its witness."""

    mutant: Mutant
    verdict: Verdict
    witness: str
    took_s: float


class Court:
    """Tries mutants in one copy of the project."""

    def __init__(self, tree: CopyOfTree) -> None:
        self._tree = tree
        self._usual_s: dict[tuple[str, ...], float] = {}
        self._honest: dict[str, bool] = {}

    def judge(self, mutant: Mutant) -> Trial:
        """Try *mutant*; the copy is as it was afterwards."""
        begun = time.monotonic()
        for step in steps(mutant.file):
            verdict, witness = self._asked(mutant, step)
            if verdict is not Verdict.SURVIVED:
                return Trial(mutant, verdict, witness, time.monotonic() - begun)
        return Trial(mutant, Verdict.SURVIVED, "", time.monotonic() - begun)

    def _asked(self, mutant: Mutant, step: tuple[str, ...]) -> tuple[Verdict, str]:
        limit_s = self._limit_s(step)
        with self._tree.holding(mutant.file, mutant.text):
            ran = self._tree.run(step, limit_s)
            if not ran.is_over:
                return Verdict.HUNG, " ".join(step)
            if ran.failed is None:
                return Verdict.SURVIVED, ""
            if "::" not in ran.failed:
                return Verdict.NOT_IMPORTED, ran.failed
            again = self._tree.run([ran.failed], limit_s)
        if (again.is_over and again.failed is None) or not self._is_honest(ran.failed, limit_s):
            return Verdict.UNCLEAR, ran.failed
        return Verdict.KILLED, ran.failed

    def _limit_s(self, step: tuple[str, ...]) -> float:
        """Runs *step* without a mutant, once, for its time."""
        if step not in self._usual_s:
            begun = time.monotonic()
            ran = self._tree.run(step, 1200)
            if ran.failed:
                raise RuntimeError(f"{ran.failed} fails without any mutant")
            self._usual_s[step] = time.monotonic() - begun
        return self._usual_s[step] * _PATIENCE + _PATIENCE_S

    def _is_honest(self, test: str, limit_s: float) -> bool:
        if test not in self._honest:
            self._honest[test] = self._tree.run([test], limit_s).failed is None
        return self._honest[test]
