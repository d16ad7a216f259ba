"""
The trial of a mutant: the tests that execute it run, in a fork that has the mutant, until one fails.

It counts as killed only if that test fails once more with the mutant, and passes without it. A test that takes many
times as long as usual notices the mutant, too. A change that only an import would execute is tried with the tests
collected anew, and so is a survivor whose function an import calls.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from tools.mutants.change import Mutant
from tools.mutants.covered import Known
from tools.mutants.crew import Crew
from tools.mutants.swap import Unswappable, changed_functions
from tools.mutants.tree import Tree
from tools.mutants.witnesses import keys

_DOUBTFUL = 4  # so many witnesses that fail now and then leave a mutant unclear
_STEPS = (25, 200)  # tests of the first and second collection; the third has all others


class Verdict(Enum):
    """The outcome of a mutant."""

    KILLED = "killed"
    HUNG = "killed: a test did not end"
    NOT_IMPORTED = "killed: it could not be imported"
    SURVIVED = "survived"
    UNCLEAR = "unclear: its witnesses fail now and then"


@dataclass(frozen=True, slots=True)
class Trial:
    """A verdict, its witnesses, and what it cost; ``left`` tests were too dear to be asked."""

    mutant: Mutant
    verdict: Verdict
    witnesses: tuple[str, ...]
    asked: int
    left: int
    took_s: float
    cpu_s: float


class _Broken(Exception):
    """Pytest failed as a whole."""


class Court:
    """A tree with the processes that try mutants in it, one at a time. *at_import* are sites that imports execute."""

    def __init__(self, tree: Tree, at_import: frozenset[str], *, has_all: bool = True) -> None:
        self._tree, self._at_import = tree, at_import
        self._collected = Crew(tree, "collected", has_all=has_all)
        self._bare = Crew(tree, "bare", has_all=has_all)
        self._honest: dict[str, bool] = {}

    def judge(self, mutant: Mutant, tests: Sequence[Known], left: int, *, is_matrix: bool) -> Trial:
        """Try *mutant* by *tests*; the tree is unchanged afterwards. *is_matrix*: find all of its witnesses."""
        self._collected.start()  # before the tree has a mutant
        begun, before_s = time.monotonic(), self._cpu_s
        verdict, witnesses = Verdict.SURVIVED, list[str]()
        for way in self._ways(mutant):
            try:
                verdict, witnesses = self._tried(mutant, list(tests), way, is_matrix)
            except Unswappable:
                verdict, witnesses = self._tried(mutant, list(tests), _Way(self._bare, None), is_matrix)
            except _Broken as error:
                verdict, witnesses = Verdict.UNCLEAR, [str(error)]
            if verdict is not Verdict.SURVIVED:
                break
        took_s, cpu_s = time.monotonic() - begun, self._cpu_s - before_s
        return Trial(mutant, verdict, tuple(witnesses), len(tests), left, took_s, cpu_s)

    def close(self) -> None:
        """End the processes."""
        self._collected.close()
        self._bare.close()

    @property
    def _cpu_s(self) -> float:
        return self._collected.cpu_s + self._bare.cpu_s

    def _ways(self, mutant: Mutant) -> list[_Way]:
        if mutant.file.endswith(".lua"):
            return [_Way(self._collected, None)]
        before, after = self._tree.read(mutant.file), mutant.text.decode()
        try:
            changed_functions(before, after)
        except Unswappable:
            return [_Way(self._bare, None)]
        module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        forked = _Way(self._collected, (module, before, after))
        return [forked, _Way(self._bare, None)] if self._at_import.intersection(keys(mutant)) else [forked]

    def _tried(self, mutant: Mutant, tests: list[Known], way: _Way, is_matrix: bool) -> tuple[Verdict, list[str]]:
        kills, doubtful, verdict = list[str](), list[str](), Verdict.SURVIVED
        while tests and len(doubtful) < _DOUBTFUL and not (kills and not is_matrix):
            with self._tree.holding(mutant.file, mutant.text):
                failed = way.first_failure(tests)
                if failed is None:
                    break
                test, how = failed
                if how is Verdict.NOT_IMPORTED:
                    return how, [test.id]
                is_again = how is Verdict.HUNG or way.first_failure([test]) is not None
            tests = tests[tests.index(test) + 1 :]
            if is_again and self._is_honest(test):
                verdict = verdict if kills else how
                kills.append(test.id)
            else:
                doubtful.append(test.id)
        return (verdict, kills) if kills or not doubtful else (Verdict.UNCLEAR, doubtful)

    def _is_honest(self, test: Known) -> bool:
        if test.id not in self._honest:
            self._honest[test.id] = _Way(self._collected, None).first_failure([test]) is None
        return self._honest[test.id]


@dataclass(frozen=True, slots=True)
class _Way:
    """A process that runs tests, and what is put into its fork."""

    crew: Crew
    swap: tuple[str, str, str] | None

    def first_failure(self, tests: Sequence[Known]) -> tuple[Known, Verdict] | None:
        """Return the first of *tests* that fails, and how."""
        for step in [tests] if self.crew.mode == "collected" else _steps(tests):
            by_id, ran = {test.id: test for test in step}, list[str]()
            for told in list(self.crew.run([(test.id, test.cpu_s) for test in step], swap=self.swap)):
                if "uncollected" in told:
                    return Known(told["uncollected"], 0, 0), Verdict.NOT_IMPORTED
                if "unswappable" in told:
                    raise Unswappable(told["unswappable"])
                if "broken" in told:
                    raise _Broken(told["broken"])
                if told.get("failed"):
                    return by_id[told["test"]], Verdict.KILLED
                if told.get("end") == "timeout":
                    return next(test for test in step if test.id not in ran), Verdict.HUNG
                ran.append(told.get("test", ""))
        return None


def _steps(tests: Sequence[Known]) -> list[Sequence[Known]]:
    ends = (0, *_STEPS, len(tests))
    return [tests[begin:end] for begin, end in pairwise(ends) if tests[begin:end]]
