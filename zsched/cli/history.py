"""``zsched why`` and ``zsched history``: what happened to a schedule, and what became of occurrences."""

from __future__ import annotations

from typing import Final

import click

from zsched.cli.output import CELLS, aligned, cells, printable, remark, with_short_workers
from zsched.cli.program import DONE, NOT_FOUND, Invocation, command
from zsched.core.arguments import zone_name
from zsched.core.changes import OUTCOMES, Change
from zsched.core.lookback import Occurrence
from zsched.core.runs import RunStatus
from zsched.core.sentences import local_text
from zsched.core.wording import rough_duration

_HEADER: Final = ("DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "RUN", *CELLS, "WHY")
_OWN_VERBS: Final = ("succeeded", "failed", "expired")  # the others were made so
_STATUSES: Final = list(dict.fromkeys(word.value for word in (*OUTCOMES, *RunStatus)))  # cancelled is both


@command()
@click.argument("id", metavar="ID|RUN_ID")
@click.option("--tz", metavar="ZONE", help="Show times in this zone; default: the schedule's own, or UTC.")
def why(invocation: Invocation, /, id: str, tz: str | None) -> int:
    """
    Tell the story of schedule ID: created, changed, fired and how late and why, skipped, left out, quarantined,
    cancelled; how its runs ended, and on which attempt; and where it and its last run stand now. With the id of a run
    (RQ's job id) what concerns that run. Exit code 3 when nothing is known of it.

    The story comes from the archive of a daemon, which is asked through Redis, or from what Redis itself still
    holds; which of them, and since when nothing is missing in it, is said on stderr (with --json: "source").

    \b
    Examples:
      zsched why reminder-42
      zsched why digest --tz Asia/Seoul
      zsched why digest-1785283200000
      zsched why digest --json | jq -r '.story[].text'
    """
    story = invocation.client().why(id, tz)
    told = [f"{local_text(at_ms, story.tz, has_ms=True)}  {text}" for at_ms, text in story.lines]
    told.append(f"now: {story.now}" if story.is_known else f"{id}: {story.now}")
    invocation.answer(story.to_dict(), *(printable(with_short_workers(line)) for line in told))
    invocation.tell_source(story.source)
    return DONE if story.is_known else NOT_FOUND


@command()
@click.argument("id", required=False)
@click.option("--status", type=click.Choice(_STATUSES), help="Those alone, or whose runs, became so.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="At most so many."
)
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
def history(invocation: Invocation, /, id: str | None, status: str | None, limit: int, tz: str) -> None:
    """
    Show what became of the latest occurrences, of schedule ID or of all, the newest first: when it was decided,
    and whether it was fired (and how late), enqueued on request, skipped, coalesced into a later one, a duplicate,
    cancelled or quarantined. Of those that were pushed, what their runs do or became: queued, running, succeeded,
    failed, cancelled, expired or lost; the attempt, how long it waited for a worker, how long it took, its error
    and what it noted. --status cancelled shows both: occurrences and runs that were cancelled.

    It comes from a daemon's archive or from Redis, as stderr says, and of runs that are not over from RQ at this
    moment. With --json {"source", "occurrences"}; each occurrence has its "run", or null.

    \b
    Examples:
      zsched history --limit 50 --tz Asia/Seoul
      zsched history digest --status skipped
      zsched history --status failed --json | jq -r '.occurrences[].run.error'
      zsched history --status quarantined --json | jq -r '.occurrences[].why'
    """
    zone_name(tz)
    found, source = invocation.client().history(id, status=status, limit=limit)
    table = aligned(_HEADER, (_row(one, tz) for one in found)) if found else [_nothing(id, status)]
    occurrences = [one.shown() for one in found]
    invocation.answer({"source": source.to_dict(), "occurrences": occurrences}, *table)
    invocation.tell_source(source)


def _row(one: Occurrence, tz: str) -> tuple[str, ...]:
    late_ms = one.late_ms
    why = "" if one.run is not None and one.why == one.run.status.value else one.why
    return (
        local_text(one.at_us // 1000, tz, has_ms=True),
        one.id,
        one.what.value,
        _occurrence(one, tz),
        "" if late_ms is None else rough_duration(max(late_ms, 0.0)),
        one.run_id or "",
        *cells(one.run),
        "; ".join(dict.fromkeys(text for text in (why, remark(one.run)) if text)),
    )


def _occurrence(change: Change, tz: str) -> str:
    """For which time it was, or for which ones."""
    if change.first_ms is None or change.last_ms is None:
        return "-" if change.nominal_ms is None else local_text(change.nominal_ms, tz)
    if change.count == 1:
        return local_text(change.first_ms, tz)
    return f"{change.count:,}: {local_text(change.first_ms, tz)} to {local_text(change.last_ms, tz)}"


def _nothing(id: str | None, status: str | None) -> str:
    what = (
        "nothing became of an occurrence yet"
        if status is None
        else f"nothing {'' if status in _OWN_VERBS else 'was '}{status}"
    )
    return what + ("" if id is None else f", of schedule {id}")
