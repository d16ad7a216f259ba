"""A second way to count outcomes, with which counters are compared."""

from collections import Counter
from collections.abc import Iterable

from zsched.core.entry import Entry
from zsched.core.log.kinds import parse
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.metrics.meter import LABELS


def outcomes_of(entries: Iterable[Entry], run_suffix: str = "") -> dict[str, int]:
    """Count the outcomes in *entries*, taken from the changes that `zsched why` would show."""
    found = Counter[str]()
    for each in entries:
        for change in parse(each, run_suffix).outcomes():
            found[_outcome(change)] += change.count
    return {outcome: found[outcome] for outcome in LABELS}


def _outcome(change: Change) -> str:
    if change.what is What.FIRED:
        return "uncertain" if change.why == "uncertain" else "fired"
    if change.what is What.SKIPPED:
        return "skipped_overlap" if change.why.startswith("overlap") else f"skipped_{change.why}"
    return change.what.value
