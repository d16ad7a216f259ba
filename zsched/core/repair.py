"""Repairs in bulk: the outcome for each schedule or run, their sum, and the usual rates of changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zsched.core.model import json_of
from zsched.errors import ZschedError

if TYPE_CHECKING:
    from zsched.core.story.source import Source

SAMPLED: Final = 10  # ids of a result, the first ones
AT_ONCE: Final = 100  # changes in one script: about 2 ms of the server
PUSHED_PER_SECOND: Final = 200  # changes that push runs: a few workers keep up
CHANGED_PER_SECOND: Final = 5000  # other changes: a tenth of the server's time
_REASONS: Final = 1000  # refused ids of a result, each with its reason; more are only counted
_DONE: Final = frozenset({"retried", "cancelled", "stopping", "paused", "resumed", "skipped", "signed"})


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
    are paused, cancelled, over or succeeded already. ``refused``: the first 1,000 refused ids with the reason;
    ``refused_count`` counts all. ``sample``: the first candidates. ``source``: the archive or log that knew the runs;
    None for schedules.
    """

    found: int
    sample: Sequence[str]
    done: int = 0
    skipped: int = 0
    refused: Sequence[tuple[str, str]] = ()
    refused_count: int = 0
    source: Source | None = None
    is_dry_run: bool = False

    @property
    def number(self) -> int:
        """The number of candidates with an outcome."""
        return self.done + self.skipped + self.refused_count

    def with_outcomes(self, outcomes: Mapping[str, IdOutcome]) -> Repaired:
        """Return the result with the *outcomes* of some more candidates."""
        refused = [(id, str(outcome.error)) for id, outcome in outcomes.items() if outcome.error is not None]
        done = sum(outcome.error is None and outcome.word in _DONE for outcome in outcomes.values())
        return replace(
            self,
            done=self.done + done,
            skipped=self.skipped + len(outcomes) - len(refused) - done,
            refused=(*self.refused, *refused)[:_REASONS],
            refused_count=self.refused_count + len(refused),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON; the keys are stable."""
        refused = [{"id": id, "reason": reason} for id, reason in self.refused]
        names = "found", "done", "skipped", "refused", "refused_count", "sample", "source", "dry_run"
        return json_of(self, *names, refused=refused, dry_run=self.is_dry_run)
