"""``zsched why`` and ``zsched history``: the story of a schedule, and the outcomes of occurrences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from zsched.cli.completion import completed_ids
from zsched.cli.formats import CELLS, cells, remark, with_short_workers
from zsched.cli.lines import Shown, Style, StyledLine, Table, TableRow
from zsched.cli.output import printable
from zsched.cli.program import DONE, NOT_FOUND, Invocation, command, connect
from zsched.core.arguments import zone_name
from zsched.core.changes import OUTCOMES, Change
from zsched.core.lookback import Occurrence
from zsched.core.runs import BAD, RunStatus
from zsched.core.sentences import local_text
from zsched.core.verdict import StoryVerdict
from zsched.core.wording import rough_duration
from zsched.health.verdict import Shell
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of

_HEADER: Final = ("DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "RUN", *CELLS, "WHY")
_OWN_VERBS: Final = ("succeeded", "failed", "expired")  # the others were made so
_STATUSES: Final = list(dict.fromkeys(word.value for word in (*OUTCOMES, *RunStatus)))  # cancelled is both


@command()
@click.argument("id", metavar="ID|RUN_ID", shell_complete=completed_ids)
@click.option("--tz", metavar="ZONE", help="Show times in this zone; default: the schedule's own, or UTC.")
def why(invocation: Invocation, /, id: str, tz: str | None) -> int:
    """
    Tell why schedule ID ran, or did not run. The first line is the verdict, with what to do. The story follows:
    created, changed, fired (how late, and why), skipped, quarantined, cancelled, and the end of each run. With a run id
    (RQ's job id), tell the story of that run. The exit code is 3 when the id is unknown.

    The story comes from a daemon's archive, which is asked through Redis, or from the log that Redis still has. stderr
    names the source and since when it is complete (with --json: "source").

    \b
    Examples:
      zsched why reminder-42
      zsched why digest --tz Asia/Seoul
      zsched why digest-1785283200000
      zsched why digest --json | jq -r '.story[].text'
    """
    settings = invocation.settings()
    link = link_of(settings)
    story = connect(settings, link).why(id, tz)
    told = (f"{local_text(at_ms, story.tz, has_ms=True)}  {text}" for at_ms, text in story.lines)
    verdict = story.verdict.completed(Shell(link, settings.rq.serializer, keys_of(settings).rq.prefix).written)
    lines = [*_verdict_lines(verdict), *(printable(with_short_workers(line)) for line in told)]
    invocation.answer(story.to_dict() | {"verdict": verdict.to_dict()}, *lines, tz=story.tz)
    invocation.tell_source(story.source)
    return DONE if story.is_known else NOT_FOUND


def _verdict_lines(verdict: StoryVerdict) -> Iterator[Shown]:
    """Yield the verdict, its remedy and an empty line."""
    style = Style.BAD if verdict.word.is_bad else Style.GOOD if verdict.word.is_good else Style.HEADING
    yield StyledLine(printable(with_short_workers(f"{verdict.word}: {verdict.text}")), style)
    if verdict.remedy:
        yield printable(f"  → {verdict.remedy}")
    yield ""


@command()
@click.argument("id", required=False, shell_complete=completed_ids)
@click.option("--status", type=click.Choice(_STATUSES), help="Only occurrences, or runs, with this outcome.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="At most so many, up to 1000.",
)
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Show times in this zone.")
def history(invocation: Invocation, /, id: str | None, status: str | None, limit: int, tz: str) -> None:
    """
    Show the latest occurrences of schedule ID, or of all schedules, the newest first.

    Each has its time and outcome: fired (and how late), enqueued on request, skipped, coalesced into a later one, a
    duplicate, cancelled or quarantined. A pushed run has its status: queued, running, succeeded, failed, cancelled,
    expired or lost. It also has the attempt, the waiting time, the duration, the error and the task's note. --status
    cancelled shows both cancelled occurrences and cancelled runs.

    The data comes from a daemon's archive or from Redis, as stderr says; the status of open runs comes from RQ. With
    --json: {"source", "occurrences"}; each occurrence has its "run", or null.

    \b
    Examples:
      zsched history --limit 50 --tz Asia/Seoul
      zsched history digest --status skipped
      zsched history --status failed --json | jq -r '.occurrences[].run.error'
      zsched history --status quarantined --json | jq -r '.occurrences[].why'
    """
    zone_name(tz)
    found, source = invocation.client().history(id, status=status, limit=limit)
    table: Shown = Table(_HEADER, [_row(one, tz) for one in found]) if found else _nothing(id, status)
    occurrences = [one.shown() for one in found]
    invocation.answer({"source": source.to_dict(), "occurrences": occurrences}, table, tz=tz)
    invocation.tell_source(source)


def _row(one: Occurrence, tz: str) -> TableRow:
    late_ms = one.late_ms
    why = "" if one.run is not None and one.why == one.run.status.value else one.why
    by = f"by {one.by}" if one.by else ""
    shown = (
        local_text(one.at_us // 1000, tz, has_ms=True),
        one.id,
        one.what.value,
        _occurrence(one, tz),
        "" if late_ms is None else rough_duration(max(late_ms, 0.0)),
        one.run_id or "",
        *cells(one.run),
        "; ".join(dict.fromkeys(text for text in (why, by, remark(one.run)) if text)),
    )
    return TableRow(shown, Style.BAD if one.run is not None and one.run.status in BAD else Style.PLAIN)


def _occurrence(change: Change, tz: str) -> str:
    """Return the nominal time, or the range of nominal times."""
    if change.first_ms is None or change.last_ms is None:
        return "-" if change.nominal_ms is None else local_text(change.nominal_ms, tz)
    if change.count == 1:
        return local_text(change.first_ms, tz)
    return f"{change.count:,}: {local_text(change.first_ms, tz)} to {local_text(change.last_ms, tz)}"


def _nothing(id: str | None, status: str | None) -> str:
    what = (
        "no occurrence has an outcome yet"
        if status is None
        else f"nothing {'' if status in _OWN_VERBS else 'was '}{status}"
    )
    return what + ("" if id is None else f", of schedule {id}")
