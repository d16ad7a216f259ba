"""
Sentences for single changes, runs and failed attempts, without their history.

A line of ``zsched log`` is such a sentence. A line of a story is one with context from the history
(``core.story.story``). The log has attempts only in the end of their run; a story has each at its own time, by the
worker's clock.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from zsched.core.clock import clamped_ms
from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, RUN_OVER, Change, run_that_ended
from zsched.core.occurrences.outcomes import WAITS_FOR, Outcome, What
from zsched.core.runs.attempts import Attempt
from zsched.core.runs.run import Run, RunStatus
from zsched.core.triggers.zones import has_zone, local_time, shown_zone
from zsched.core.wording import rough_duration

CREATED: Final = "created"  # the context of a put
CHANGED: Final = "changed"
_LONGEST: Final = 200  # characters of an error or of a note's value


def sentence(change: Change, tz: str, context: str = "") -> str:
    """
    Return a sentence on *change*; times are local in *tz*. *context*: CREATED or CHANGED for a put, or the reason of a
    lateness.
    """
    told = _BY_REASON.get(change.what, {}).get(change.why) or _SENTENCES[change.what]
    return told(change, tz, context) if callable(told) else told.format(change, **_parts(change, tz, context))


def told_together(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield *changes*, with consecutive changes of a schedule's backfill merged into one."""
    for backfilled, some in groupby(changes, _backfilled):
        first, *others = some
        times = [one.nominal_ms for one in (first, *others) if one.nominal_ms is not None]
        if backfilled is None or not others or not times:
            yield from (first, *others)
        else:
            yield replace(first, run_id=None, first_ms=min(times), last_ms=max(times), count=len(times))


def state_text(run: Run, tz: str) -> str:
    """Return the state of a run: ``is running since … on worker w``, ``succeeded after 1.2 s, …``."""
    if run.status is RunStatus.QUEUED:
        since = "" if run.queued_ms is None else f" since {_at(run.queued_ms, tz)}"
        waits = f"; it waits for a slot of RQ's limit {shortened(run.limit)}" if run.limit else ""
        return f"is queued{since}{_attempt(run)}{waits}"
    if run.status is RunStatus.RUNNING:
        since = "" if run.started_ms is None else f" since {_at(run.started_ms, tz)}"
        return f"is running{since}{f' on worker {run.worker}' if run.worker else ''}{_attempt(run)}"
    error = f": {shortened(run.error)}" if run.error else ""
    if run.status is RunStatus.REFUSED:
        return f"{_ENDS[run.status]}{f' by worker {run.worker}' if run.worker else ''}{error}"
    if run.status is RunStatus.LOST:
        return f"is lost{_attempt(run)}{error}{_noted(run.note)}"
    took = "" if run.duration_ms is None else f" after {rough_duration(run.duration_ms)}"
    wait_ms = run.queue_wait_ms
    waited = "" if wait_ms is None else f", having waited {rough_duration(wait_ms)} for a worker"
    by = f", by worker {run.worker}" if run.worker and run.started_ms is not None else ""
    at = f" at {_at(run.ended_ms, tz)}" if run.status is RunStatus.EXPIRED and run.ended_ms is not None else ""
    return f"{_ENDS[run.status]}{at}{took}{waited}{_attempt(run)}{by}{error}{_noted(run.note)}"


def reason_text(change: Change) -> str:
    """Return the reason of an outcome in a few words, also if the log has none because the outcome says it."""
    return _REASONS.get((change.what, change.why)) or change.why


def local_text(ms: int, tz: str, *, has_ms: bool = False) -> str:
    """
    Return ``2026-12-24 18:00:00+09:00``; with milliseconds if there are any, or *has_ms*; in UTC if this machine lacks
    the zone, and the text says so. Values out of range, which only another writer leaves, are limited to the years
    1970 to 9999.
    """
    at = local_time(clamped_ms(ms), shown_zone(tz))
    text = at.isoformat(sep=" ", timespec="milliseconds" if has_ms or ms % 1000 else "seconds")
    return text if has_zone(tz) else f"{text} (zone unknown here)"


def note_text(note: Mapping[str, Any]) -> str:
    """Write a task's note: ``sent=123, city="Seoul"``."""
    return ", ".join(f"{name}={shortened(json.dumps(value, ensure_ascii=False))}" for name, value in note.items())


def shortened(text: str, width: int = _LONGEST) -> str:
    """Return *text*, cut to *width* characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


# -- a change each ------------------------------------------------------------------------------------


def _put(change: Change, tz: str, context: str) -> str:
    when = _at(change.nominal_ms, tz) if change.nominal_ms is not None else "no time: it has ended"
    paused = "; it stays paused" if change.why else ""
    if context == CHANGED:
        now = [] if any(one.startswith("at: ") for one in change.changed) else [f"now for {when}"]
        return f"changed{_by(change)}: {'; '.join([*change.changed, *now])}{paused}"
    return f"{context or 'put'}{_by(change)} for {when}{paused}"


def _resumed(change: Change, tz: str, _: str) -> str:
    has_passed = change.nominal_ms is not None and change.nominal_ms * 1000 <= change.at_us
    asked = f", as {change.why} had asked" if change.why else _by(change)
    return f"resumed{asked}; {'it was due' if has_passed else 'next'} {_at(change.nominal_ms, tz)}"


def _fired(change: Change, tz: str, context: str) -> str:
    late_ms, mark = max(change.late_ms or 0.0, 0.0), ""
    if change.why.startswith(WAITS_FOR):
        mark = f"; it {change.why}"
    if change.why == Outcome.UNCERTAIN.reason:
        mark = "; uncertain: a lost Redis may have pushed this run already"
    for_when = "" if change.nominal_ms is None else f" for {_at(change.nominal_ms, tz)}"
    if change.jitter_ms:
        for_when += f" (due {_at(change.due_ms, tz)}, by its jitter)"
    reason = f": {context}" if context else ""
    return f"fired{for_when}, {rough_duration(late_ms)} late{reason}; run {change.run_id}{mark}"


def _backfilled(change: Change) -> str | None:
    """Return the schedule of a backfilled occurrence; None for any other change."""
    return change.id if change.what is What.ENQUEUED and change.why == BACKFILL else None


def _backfill(change: Change, tz: str, _: str) -> str:
    asked = f"{_by(change)}:" if change.by else ""
    return f"backfilled{asked} {_which(change, tz)}" + (f"; run {change.run_id}" if change.run_id else "")


def _skipped(change: Change, tz: str, context: str) -> str:
    which = _at(change.nominal_ms, tz) if change.first_ms is None else _range(change, tz).rstrip(",")
    reason = f": {context}" if context else ""
    without = f", and was resumed without it{_by(change)}" if change.by and change.why == Outcome.PAUSED.reason else ""
    return f"skipped {which}: {reason_text(change)}{without}{reason}"


def _duplicate(change: Change, tz: str, context: str) -> str:
    if context:
        return f"not pushed for {_at(change.nominal_ms, tz)}: {context}"
    return f"not pushed again for {_at(change.nominal_ms, tz)}: run {change.run_id} was there already"


def _cancelled(change: Change, tz: str, _: str) -> str:
    due = "" if change.nominal_ms is None else f"; it was for {_at(change.nominal_ms, tz)}"
    return f"cancelled{_by(change)}{f' ({change.why})' if change.why else ''}{due}"


def _run_ended(change: Change, tz: str, _: str) -> str:
    asked = f"; asked{_by(change)}" if change.by else ""
    return f"run {change.run_id} {state_text(run_that_ended(change), tz)}{asked}"


# The sentence on a change, {0}, with its ``_parts``; or the function that makes it.
_Told = str | Callable[[Change, str, str], str]
_SENTENCES: Final[dict[What, _Told]] = {
    What.PUT: _put,
    What.FOUND: "found in Redis ({place}{due}): earlier history is not in this archive",
    What.PAUSED: "paused{by}{until}{noted}",
    What.RESUMED: _resumed,
    What.SKIP_ASKED: "will skip {nominal}, asked{by}{noted}",
    What.SKIP_TAKEN_BACK: "will not skip {nominal}, asked{by}{noted}",
    What.REPLANNED: "its zone's rules changed ({0.why}): next {next} instead of {nominal}",
    What.FIRED: _fired,
    What.ENQUEUED: "enqueued{by}; run {0.run_id}",
    What.RETRIED: "retry of {0.why}{asked}; run {0.run_id}",
    What.SKIPPED: _skipped,
    What.EXPIRED: "expired: {which} was {late} late, more than expires_after allows{because}",
    What.COALESCED: "left out {range} in favour of {nominal}: {passed}",
    What.EXCLUDED: "excluded {range} {0.why}",
    What.DUPLICATE: _duplicate,
    What.DEADLINE_MISSED: "missed its deadline {next}: {which} {0.why}",
    What.CANCELLED: _cancelled,
    What.QUARANTINED: "quarantined: {0.why}",
    What.ENDED: "ended: its rule gives no more occurrences",
    What.RUN_ENDED: _run_ended,
    What.RUN_AGAIN: "run {0.run_id}: {0.why}: pushed again, attempt {0.count}",
    What.STOPPING: "run {0.run_id}: its worker was asked to stop it{by}",
    What.RELEASED: "run {0.run_id} was released to its queue: {0.why}",
    What.RESTORED: "restored{by}{due}: Redis had lost it",
    What.PUSHED_AGAIN: "pushed again{by}; run {0.run_id}; uncertain: Redis lost it before it was over,"
    " so it may have run, or be run twice",
    What.HELD: "found in RQ: run {0.run_id}, which Redis had lost before it was over; uncertain:"
    " it may have run, so it was not pushed again",
    What.RAN_AGAIN: "run {0.run_id} ran again; Redis had gone back to a time before it was over:"
    " its entry came back, and it ran again, or will",
    What.WITHDRAWN: "removed again{by}: Redis had gone back to a time before it fired or was cancelled",
    What.UNKNOWN: "{0.why}: {which} had this outcome, which this zsched does not know",
}
# The same for some of its reasons.
_BY_REASON: Final[dict[What, dict[str, _Told]]] = {
    What.FOUND: {"open": "found in Redis: run {0.run_id} was not over; earlier history is not in this archive"},
    What.ENQUEUED: {BACKFILL: _backfill, RUN_NOW: "{0.why}{asked}; run {0.run_id}"},
    What.REPLANNED: {"calendars": "a calendar changed: next {next} instead of {nominal}"},
    What.RUN_AGAIN: {"": "run {0.run_id}: its worker died: pushed again, attempt {0.count}"},
    What.RESTORED: {
        "audit": "restored{due}: it was missing from Redis, and the log has no reason",
        "corrected": "restored{due}: an archive had restored an older state, and another one knows a later change",
    },
    What.WITHDRAWN: {
        RUN_OVER: "run {0.run_id} was removed from RQ: it was over, and Redis had gone back to a time before that",
        "audit": "removed: RQ has its run already",
        "corrected": "removed again: an archive that did not know that it fired or was cancelled had restored it",
    },
}
_PLACES: Final = {"due": "active", "quarantine": "quarantined"}  # as shown to users
# By change and reason, for outcomes with the same text each time.
_REASONS: Final = {(outcome.what, outcome.reason): outcome.text for outcome in Outcome if "{}" not in outcome.text}
_ENDS: Final = {
    RunStatus.SUCCEEDED: "succeeded",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "was cancelled",
    RunStatus.EXPIRED: "expired in its queue",
    RunStatus.REFUSED: "was refused",
}


# -- parts of a line ----------------------------------------------------------------------------------


def _parts(change: Change, tz: str, context: str) -> dict[str, str]:
    """Return the parts of *change* that a sentence may have besides its attributes."""
    return {
        "by": _by(change),
        "asked": f", asked{_by(change)}" if change.by else ", on request",
        "nominal": _at(change.nominal_ms, tz),
        "due": "" if change.nominal_ms is None else f", due {_at(change.nominal_ms, tz)}",
        "next": _at(change.next_ms, tz),
        "until": "" if change.next_ms is None else f" until {_at(change.next_ms, tz)}",
        "noted": f': "{change.why}"' if change.why else "",
        "place": _PLACES.get(change.why, change.why),
        "late": rough_duration(max(change.late_ms or 0.0, 0.0)),
        "because": f": {context}" if context else "",
        "passed": context or "all had passed by then",
        "which": _which(change, tz),
        "range": _range(change, tz),
    }


def _attempt(run: Run) -> str:
    return f", attempt {run.attempt}" if run.attempt > 1 else ""


def _noted(note: Mapping[str, Any]) -> str:
    return f"; it noted {note_text(note)}" if note else ""


def _which(change: Change, tz: str) -> str:
    """Return ``the occurrence of …``, or the number of occurrences and their range."""
    one = f"the occurrence of {_at(change.nominal_ms, tz)}"
    return one if change.first_ms is None else _range(change, tz).rstrip(",")


def _range(change: Change, tz: str) -> str:
    first, last = _at(change.first_ms, tz), _at(change.last_ms, tz)
    if change.count == 1:
        return f"the occurrence of {first}"
    return f"{change.count:,} occurrences, {first} to {last},"


def _by(change: Change) -> str:
    return f" by {change.by}" if change.by else ""


def _at(ms: int | None, tz: str) -> str:
    return "an unknown time" if ms is None else local_text(ms, tz)


# -- attempts -----------------------------------------------------------------------------------------


def attempt_text(attempt: Attempt, tz: str, state: str = "") -> str:
    """
    Return the outcome of an attempt: ``attempt 1 failed after 0.2 s on worker w: ValueError: no; next try at …``; or
    its *state*, that of the run.
    """
    took = "" if attempt.duration_ms is None else f" after {rough_duration(attempt.duration_ms)}"
    by = f" on worker {attempt.worker}" if attempt.worker else ""
    error = f": {shortened(attempt.error)}" if attempt.error else ""
    ended = state or ("failed" if attempt.ended_ms is not None else "was lost")
    if (next_ms := attempt.next_ms) is None:
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
