"""Repairs in bulk: the outcome for each schedule or run, and their sum. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zsched.errors import ZschedError

SAMPLED: Final = 10  # ids of a result, the first ones
_REASONS: Final = 1000  # refused ids of a result, each with its reason; more are only counted
_DONE: Final = frozenset({"retried", "cancelled", "stopping", "paused", "resumed", "skipped"})


class IdOutcome(NamedTuple):
    """The outcome for one schedule or run: a word, such as cancelled; or why it was refused."""

    word: str
    detail: str = ""  # of a retried run: the new run's id
    error: ZschedError | None = None

    def demand(self) -> IdOutcome:
        """Return it. Raises the error of a refused one."""
        if self.error is not None:
            raise self.error
        return self


@dataclass(frozen=True, slots=True)
class Repaired:
    """
    Result of a repair in bulk; with ``is_dry_run`` its plan.

    ``found``: number of candidates. ``done`` were changed. ``skipped`` needed no change: they were retried before, or
    are paused, cancelled or over already. ``refused``: ids with the reason. ``refused_count`` counts all of them.
    ``sample``: the first candidates.
    """

    found: int
    sample: Sequence[str]
    done: int = 0
    skipped: int = 0
    refused: Sequence[tuple[str, str]] = ()
    refused_count: int = 0
    is_dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON; the keys are stable."""
        return {
            "found": self.found,
            "done": self.done,
            "skipped": self.skipped,
            "refused": [{"id": id, "reason": reason} for id, reason in self.refused],
            "refused_count": self.refused_count,
            "sample": list(self.sample),
            "dry_run": self.is_dry_run,
        }


class Tally:
    """The outcomes for *candidates* so far."""

    def __init__(self, candidates: Sequence[str]) -> None:
        self._candidates = candidates
        self._counts = Counter[str]()
        self._refused: list[tuple[str, str]] = []

    def add(self, outcomes: Mapping[str, IdOutcome]) -> None:
        """Count the outcomes of some candidates."""
        for id, outcome in outcomes.items():
            if outcome.error is None:
                self._counts["done" if outcome.word in _DONE else "skipped"] += 1
                continue
            self._counts["refused"] += 1
            if len(self._refused) < _REASONS:
                self._refused.append((id, str(outcome.error)))

    @property
    def number(self) -> int:
        """The number of candidates with an outcome."""
        return self._counts.total()

    def result(self, *, is_dry_run: bool = False) -> Repaired:
        """Return the sum."""
        done, skipped, refused = (self._counts[word] for word in ("done", "skipped", "refused"))
        candidates = self._candidates
        sums = (len(candidates), tuple(candidates[:SAMPLED]), done, skipped, tuple(self._refused), refused)
        return Repaired(*sums, is_dry_run=is_dry_run)


def fixed(ids: Iterable[str], limit: int | None) -> list[str]:
    """Return distinct *ids*, the first *limit*: the candidates of a repair."""
    distinct = dict.fromkeys(ids)
    return list(distinct)[:limit]
