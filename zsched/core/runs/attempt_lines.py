"""
Lines about failed attempts, without tracebacks, and their place among the other lines of a story.

The log has attempts only in the end of their run; a story has each at its own time, by the worker's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import run_that_ended
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.run import Run
from zsched.core.story.sentences import local_text, shortened
from zsched.core.wording import rough_duration


def attempt_text(attempt: Attempt, tz: str) -> str:
    """Return the outcome of an attempt: ``attempt 1 failed after 0.2 s on worker w: ValueError: no; next try at …``."""
    took = "" if attempt.duration_ms is None else f" after {rough_duration(attempt.duration_ms)}"
    by = f" on worker {attempt.worker}" if attempt.worker else ""
    error = f": {shortened(attempt.error)}" if attempt.error else ""
    ended = "failed" if attempt.ended_ms is not None else "was lost"
    next_ms = attempt.next_ms
    if next_ms is None:
        then = ""
    elif attempt.ended_ms is None or next_ms <= attempt.ended_ms:
        then = "; tried again at once"
    else:
        then = f"; next try at {local_text(next_ms, tz)}"
    return f"attempt {attempt.number} {ended}{took}{by}{error}{then}"


def attempt_lines(changes: Iterable[Change], runs: Iterable[Run], tz: str) -> Iterator[tuple[int, str]]:
    """Yield a line per attempt that failed and was followed by another one, of the ended and the open *runs*."""
    told: set[tuple[str | None, int]] = set()  # attempts with another line
    known: dict[str | None, Run] = {}
    for change in changes:
        if change.what is What.RUN_AGAIN:
            told.add((change.run_id, change.count - 1))
        elif change.what is What.RUN_ENDED:
            known[change.run_id] = ended = run_that_ended(change)
            told.add((change.run_id, ended.attempt))
    for run in (known | {run.id: run for run in runs}).values():
        for one in run.attempts:
            at_ms = one.ended_ms or one.next_ms
            is_last = run.is_over and one.number >= run.attempt
            if at_ms is not None and not is_last and (run.id, one.number) not in told:
                yield at_ms, f"run {run.id}: {attempt_text(one, tz)}"


def in_order(lines: Iterable[tuple[int, str]], attempts: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return *lines* in their order, with the *attempts* between them by time."""
    latest_ms, keyed = 0, []
    for at_ms, line in lines:
        latest_ms = max(latest_ms, at_ms)
        keyed.append((latest_ms, at_ms, line))
    keyed += [(at_ms, at_ms, line) for at_ms, line in attempts]
    return [(at_ms, line) for _, at_ms, line in sorted(keyed, key=itemgetter(0))]
