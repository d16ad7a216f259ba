"""``zsched why`` and ``zsched history``: the story of a schedule, and the outcomes of occurrences."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import click

from zsched.cli.formats import CELLS, cells, remark, with_short_workers
from zsched.cli.output import Table, printable
from zsched.cli.program import DONE, INTERRUPTED, NOT_FOUND, Invocation, command
from zsched.cli.values import Moment, moment, moment_at
from zsched.core.arguments import zone_name
from zsched.core.changes import OUTCOMES, Change
from zsched.core.lookback import Occurrence
from zsched.core.model import iso
from zsched.core.runs import RunStatus
from zsched.core.sentences import local_text, reason_text
from zsched.core.wording import rough_duration
from zsched.storage.inquiry import Looked

_HEADER: Final = ("DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", "RUN", *CELLS, "WHY")
_LIMIT: Final = 20
_ERASE: Final = "\x1b[K"  # to the end of the line
_OWN_VERBS: Final = ("succeeded", "failed", "expired")  # the others were made so
_STATUSES: Final = list(dict.fromkeys(word.value for word in (*OUTCOMES, *RunStatus)))  # cancelled is both


@command()
@click.argument("id", metavar="ID|RUN_ID")
@click.option("--tz", metavar="ZONE", help="Show times in this zone; default: the schedule's own, or UTC.")
def why(invocation: Invocation, /, id: str, tz: str | None) -> int:
    """
    Tell the story of schedule ID: created, changed, fired (how late, and why), skipped, quarantined, cancelled. It
    includes the end of each run, with its attempt, and the present state of the schedule and its last run. With a run
    id (RQ's job id), tell the story of that run. The exit code is 3 when the id is unknown.

    The story comes from a daemon's archive, which is asked through Redis, or from the log that Redis still has. stderr
    names the source and since when it is complete (with --json: "source").

    \b
    Examples:
      zsched why reminder-42
      zsched why digest --tz Asia/Seoul
      zsched why digest-1785283200000
      zsched why digest --json | jq -r '.story[].text'
    """
    story = invocation.client().why(id, tz)
    printed = [f"{local_text(at_ms, story.tz, has_ms=True)}  {text}" for at_ms, text in story.lines]
    printed.append(f"now: {story.now}" if story.is_known else f"{id}: {story.now}")
    invocation.answer(story.to_dict(), *(printable(with_short_workers(line)) for line in printed))
    invocation.tell_source(story.source)
    return DONE if story.is_known else NOT_FOUND


@command()
@click.argument("id", required=False)
@click.option("--status", type=click.Choice(_STATUSES), help="Only occurrences, or runs, with this outcome.")
@click.option("--match", metavar="GLOB", help="Only schedules with such an id, such as '*acme*'.")
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option("--func", metavar="FUNC", help="Only of this function (dotted path).")
@click.option("--tag", metavar="TEXT", help="Only with this tag.")
@click.option("--owner", metavar="TEXT", help="Only of schedules created by this author (created_by).")
@click.option("--since", type=moment, metavar="TIME|DURATION", help="Not before this time, or 2h for two hours ago.")
@click.option("--until", type=moment, metavar="TIME|DURATION", help="Before this time.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"At most so many; default {_LIMIT}.")
@click.option("--all", "is_all", is_flag=True, help="All, without a limit; with --json: an object per line.")
@click.option("--after", metavar="CURSOR", help="Continue after the last line of an earlier search.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="Read and show times in this zone.")
def history(
    invocation: Invocation,
    /,
    id: str | None,
    limit: int | None,
    is_all: bool,
    since: Moment | None,
    until: Moment | None,
    tz: str,
    **filters: Any,
) -> int:
    """
    Search the occurrences of schedule ID, or of all schedules, the newest first.

    Each has its time and outcome: fired (and how late), enqueued on request, skipped, coalesced into a later one, a
    duplicate, cancelled or quarantined. A pushed run has its status: queued, running, succeeded, failed, cancelled,
    expired or lost. It also has the attempt, the waiting time, the duration, the error and the task's note. --status
    cancelled shows both cancelled occurrences and cancelled runs. Runs that did not succeed are in the order of their
    ends; --since and --until are then about the end.

    The search goes on until it has enough, or has read the whole history; lines are printed as they are found. Ctrl-C
    ends it. The data comes from a daemon's archive or from Redis, as stderr says; the status of open runs comes from
    RQ. With --json: {"source", "occurrences", "after", "reached_at"}; each occurrence has its "run", or null, and its
    "cursor". The exit code is 3 when ID is unknown.

    \b
    Examples:
      zsched history --match '*acme*' --since 24h --queue email
      zsched history digest --status skipped
      zsched history --status failed --json | jq -r '.occurrences[].run.error'
      zsched history --status failed --since 2h --all --json > failed.jsonl
    """
    if is_all and limit is not None:
        raise click.UsageError("--all and --limit contradict each other; give one of them")
    zone_name(tz)
    client, search = invocation.client(), _Search(invocation, tz, is_lines=is_all and invocation.wants_json)
    filters |= {"since": moment_at(since, "since", tz), "until": moment_at(until, "until", tz)}
    with search:
        found = client.iter_history(id, limit=None if is_all else limit or _LIMIT, on_part=search.begin, **filters)
        for occurrence in found:
            search.add(occurrence)
    search.end(_nothing(id, filters["status"]))
    if id is not None and not search.count and not search.is_stopped and not (story := client.why(id)).is_known:
        invocation.remark(f"{id}: {story.now}")
        return NOT_FOUND
    return INTERRUPTED if search.is_stopped else DONE


class _Search:
    """
    Shows a search while it runs: lines as they come, and on a terminal its progress. Ctrl-C in its block stops it.
    """

    def __init__(self, invocation: Invocation, tz: str, *, is_lines: bool) -> None:
        """*is_lines*: one JSON object a line, for export."""
        self._invocation, self._tz, self._is_lines = invocation, tz, is_lines
        self._table = Table()
        self._rows: list[tuple[str, ...]] = []
        self._shown: list[Occurrence] = []
        self._part: Looked | None = None
        self._last: str | None = None  # the cursor of the last result
        self.count, self.is_stopped = 0, False
        self._has_progress = sys.stderr.isatty() and not invocation.wants_json

    def __enter__(self) -> _Search:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> bool:
        self._flush()
        self.is_stopped = kind is KeyboardInterrupt
        return self.is_stopped

    def begin(self, part: Looked) -> None:
        """Show what was found before *part*, and how far the search came."""
        self._flush()
        self._part = part
        if self._has_progress and not part.occurrences and part.reached_us is not None:
            click.echo(f"\r{_ERASE}searched back to {self._time(part.reached_us)} …", nl=False, err=True)

    def add(self, occurrence: Occurrence) -> None:
        """Add a result."""
        self.count, self._last = self.count + 1, occurrence.cursor
        if self._is_lines:
            click.echo(json.dumps(occurrence.shown()))
        elif self._invocation.wants_json:
            self._shown.append(occurrence)
        else:
            self._rows += [_row(occurrence, self._tz)] if self.count > 1 else [_HEADER, _row(occurrence, self._tz)]

    def end(self, nothing: str) -> None:
        """Show the end of the search, and how far it came; *nothing*: what to say without a result."""
        part = self._part
        source = None if part is None else part.source
        if self._invocation.wants_json:
            about = {"source": None if source is None else source.to_dict(), **self._reached()}
            if self._is_lines:
                click.echo(json.dumps(about), err=True)
            else:
                click.echo(json.dumps({"occurrences": [one.shown() for one in self._shown], **about}))
            return
        if self.is_stopped:
            reached = "" if part is None or part.reached_us is None else f" at {self._time(part.reached_us)}"
            goes_on = f"; zsched history … --after {self._after()} goes on" if self._after() else ""
            click.echo(f"stopped{reached}{goes_on}")
        elif not self.count:
            since_ms = None if source is None else source.complete_since_ms
            click.echo(nothing + ("" if since_ms is None else f", since {local_text(since_ms, self._tz)}"))
        if source is None:
            return
        if source.archive is None and not source.is_untrimmed:
            click.echo(printable(f"searched only the log in Redis: {source.problem}"))
        if part is not None and part.after is not None and not self.is_stopped:
            click.echo(f"there are more: zsched history … --after {part.after}", err=True)
        self._invocation.tell_source(source)

    def _flush(self) -> None:
        if self._has_progress:
            click.echo(f"\r{_ERASE}", nl=False, err=True)
        for line in self._table.lines(self._rows):
            click.echo(line)
        self._rows.clear()

    def _after(self) -> str | None:
        """The cursor to continue from."""
        if self.is_stopped and self._part is not None and self._part.occurrences:
            return self._last
        return None if self._part is None else self._part.after

    def _reached(self) -> dict[str, Any]:
        reached_us = None if self._part is None else self._part.reached_us
        reached_at = None if reached_us is None else iso(reached_us // 1000)
        return {"after": self._after(), "reached_at": reached_at, "stopped": self.is_stopped}

    def _time(self, t_us: int) -> str:
        return local_text(t_us // 1000, self._tz)


def _row(one: Occurrence, tz: str) -> tuple[str, ...]:
    late_ms = one.late_ms
    why = "" if one.run is not None and one.why == one.run.status.value else reason_text(one)
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
