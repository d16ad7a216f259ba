"""``zsched why`` and ``zsched history``: the story of a schedule, and the outcomes of occurrences."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from zsched.cli.output import Shown, Style, Table, TableRow, printable, with_remedy
from zsched.cli.parameters import completed_ids, facet_filters, moment_at, time_option, zone_option
from zsched.cli.program import DONE, FAILED, INTERRUPTED, NOT_FOUND, Invocation, command, connect
from zsched.client import Client
from zsched.client.past import Past, history_parts
from zsched.core.model import iso
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.occurrences.replacements import Replacement, Replacements
from zsched.core.runs.cells import CELLS, cells, remark, with_short_workers
from zsched.core.runs.run import BAD, RunStatus
from zsched.core.story.sentences import local_text, reason_text
from zsched.core.story.source import Source
from zsched.core.wording import rough_duration, with_name
from zsched.errors import RedisUnavailable
from zsched.storage.history_reader import HistoryPage

_HEADER: Final = ("DECIDED", "SCHEDULE", "STATUS", "OCCURRENCE", "LATE", *CELLS, "RUN", "WHY")
_LIMIT: Final = 20
_WAITING: Final = 5  # ids that are named
_ERASE: Final = "\x1b[K"  # to the end of the line
_OWN_VERBS: Final = ("succeeded", "failed", "expired")  # the others were made so
T = TypeVar("T")
_STATUSES: Final = list(dict.fromkeys(word.value for word in (*OUTCOMES, *RunStatus)))  # cancelled is both
_SHORT: Final = {"late": What.DEADLINE_MISSED.value}
_STATUS: Final = click.Choice([*_STATUSES, *_SHORT])


@command()
@click.argument("id", metavar="ID|RUN_ID", shell_complete=completed_ids)
@click.option("--tz", metavar="ZONE", help="Show times in this zone; default: the schedule's own, or UTC.")
def why(invocation: Invocation, /, id: str, tz: str | None) -> int:
    """
    Tell why schedule ID, or the run of this id (RQ's job id), ran or did not run. The first line is the verdict, with
    what to do; the story follows. stderr names its source (with --json: "source").

    \b
    Examples:
      zsched why reminder-42
      zsched why digest-1785283200000
      zsched why digest --json | jq -r '.story[].text'
    """
    asking = _Asking(invocation)
    [story] = asking.parts(lambda past: [past.why(id, tz)])
    told = (f"{local_text(at_ms, story.tz, has_ms=True)}  {text}" for at_ms, text in story.lines)
    title, verdict = [with_name(id, story.name)] if story.name else [], story.verdict
    style = Style.BAD if verdict.word.is_bad else Style.GOOD if verdict.is_good else Style.HEADING
    first = with_remedy(with_short_workers(f"{verdict.word}: {verdict.text}"), verdict.remedy, style)
    lines = (printable(with_short_workers(line)) for line in told)
    invocation.answer(story.to_dict(), *title, *first, "", *lines, tz=story.tz)
    invocation.tell_source(story.source)
    return DONE if story.is_known else asking.not_found


class _Asking:
    """Asks for the past of the namespace: Redis or, while that does not answer, an archive on this disk."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation, self.settings = invocation, invocation.settings()
        self.client = connect(self.settings, invocation.link(self.settings))
        self._past: Past = self.client

    @property
    def is_by_redis(self) -> bool:
        """True if Redis answers."""
        return self._past is self.client

    @property
    def not_found(self) -> int:
        """The exit code for an unknown id: an archive alone may lack what was put later."""
        return NOT_FOUND if self.is_by_redis else FAILED

    def parts(self, ask: Callable[[Past], Iterable[T]]) -> Iterator[T]:
        """
        Yield what *ask* returns: by Redis, or all of it by an archive.

        Raises:
            RedisUnavailable: Redis failed, and there is no archive, or the first part was yielded. RedisRefused.
        """
        is_first = True
        try:
            for one in ask(self._past):
                is_first = False
                yield one
        except RedisUnavailable as error:
            if not is_first:
                raise
            from zsched.cli.archived import past_without_redis  # reads an archive, which other answers do not need

            self._past = past_without_redis(self.settings, error)
            self._invocation.is_silent = True
            yield from ask(self._past)


@command()
@click.argument("id", required=False, shell_complete=completed_ids)
@click.option("--status", type=_STATUS, help="Only occurrences, or runs, with this outcome; late: deadline_missed.")
@facet_filters("occurrences")
@time_option("--since", "Not before this time, or 2h for two hours ago.", or_span=True)
@time_option("--until", "Before this time.", or_span=True)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"At most N; default {_LIMIT}.")
@click.option("--all", "is_all", is_flag=True, help="All, without a limit; with --json: an object per line.")
@click.option("--after", metavar="CURSOR", help="Continue after the last line of an earlier search.")
@zone_option("Read and show times in this zone.")
def history(invocation: Invocation, /, id: str | None, limit: int | None, is_all: bool, tz: str, **filters: Any) -> int:
    """
    Search the occurrences of schedule ID, or of all, the newest first: their outcomes, and the status, times, error and
    note of their runs. With a status of ended runs, the order, --since and --until are those of the ends. With --json:
    {"source", "occurrences", "after", "reached_at", "stopped"}; an occurrence has its "run", or null, and its "cursor".

    \b
    Examples:
      zsched history --match '*acme*' --since 24h --queue email
      zsched history --status failed --json | jq -r '.occurrences[].run.error'
      zsched history --status failed --since 2h --all --json > failed.jsonl
    """
    if is_all and limit is not None:
        raise click.UsageError("--all and --limit contradict each other; give one of them")
    asking, limit = _Asking(invocation), None if is_all else limit or _LIMIT
    filters |= {name: moment_at(filters[name], name, tz) for name in ("since", "until")}
    filters["status"] = _SHORT.get(filters["status"], filters["status"])
    parts = asking.parts(lambda past: history_parts(past, id, limit=limit, **filters))
    search = _Search(asking, id, parts, tz, has_progress=not invocation.wants_json)
    if invocation.wants_json and is_all:
        for part in search.parts():
            for one in part.occurrences:
                click.echo(json.dumps(search.retries.shown(one)))
        click.echo(json.dumps(search.end()), err=True)
    elif invocation.wants_json:
        occurrences = [search.retries.shown(one) for part in search.parts() for one in part.occurrences]
        click.echo(json.dumps({"source": None, "occurrences": occurrences} | search.end()))
    else:
        invocation.show(search.lines(_nothing(id, filters["status"], is_filtered=any(filters.values()))), tz)
        invocation.remark(*search.remarks())
    if search.source is not None:
        invocation.tell_source(search.source)
    is_nothing = not search.count and not search.is_stopped
    if filters["match"] and is_nothing and asking.is_by_redis:
        _tell_waiting(invocation, asking.client, filters["match"])
    if id is not None and is_nothing:
        [story] = asking.parts(lambda past: [past.why(id)])
        if not story.is_known:
            invocation.remark(f"{id}: {story.verdict.text}")
            return asking.not_found
    return INTERRUPTED if search.is_stopped else DONE


def _tell_waiting(invocation: Invocation, client: Client, match: str) -> None:
    """Name schedules with such ids that have no outcome yet: they wait, or are paused."""
    if waiting := [schedule.id for schedule in client.list(match=match, limit=_WAITING)]:
        invocation.remark(f"scheduled, without an outcome yet: {', '.join(waiting)}; see zsched why {waiting[0]}")


class _Search:
    """
    Follows the search *parts*, of schedule *id* or of any, until it ends or Ctrl-C stops it; shows its progress on a
    terminal. ``retries``: of the found runs.
    """

    def __init__(
        self, asking: _Asking, id: str | None, parts: Iterator[HistoryPage], tz: str, *, has_progress: bool
    ) -> None:
        self._asking, self._id, self._parts, self._tz = asking, id, parts, tz
        self.retries = Replacements()
        self._has_progress = has_progress and sys.stderr.isatty()
        self.source: Source | None = None  # of the last part, as are its cursor and its time
        self._after: str | None = None
        self._reached_us: int | None = None
        self.count, self.is_stopped = 0, False

    def parts(self) -> Iterator[HistoryPage]:
        """Yield the parts, as they come."""
        try:
            for part in self._parts:
                self.source, self._after, self._reached_us = part.source, part.after, part.reached_us
                self.count += len(part.occurrences)
                self._read_retries(part.occurrences)
                self._show_progress("" if part.occurrences or part.after is None else self._reached())
                yield part
        except KeyboardInterrupt:
            self.is_stopped = True
        self._show_progress("")

    def lines(self, nothing: str) -> Iterator[Shown]:
        """Yield a table of what is found, part by part; at the end how far it came. *nothing*: without a result."""
        is_first = True
        for part in self.parts():
            if part.occurrences:
                rows = [_row(one, self.retries.of(one), self._tz) for one in part.occurrences]
                yield Table(_HEADER, rows, goes_on=not is_first)
                is_first = False
        if self.is_stopped:
            goes_on = "" if self.source is None else f"; continue with --after {self._after}"
            yield f"stopped: {self._reached()}{goes_on}"
        elif is_first:
            since_ms = None if self.source is None else self.source.complete_since_ms
            yield nothing + ("" if since_ms is None else f" since {local_text(since_ms, self._tz)}")
        if self.source is not None and self.source.shortfall:
            yield f"searched {self.source.shortfall}"
        elif self.source is not None and self.source.archive is None and self.source.problem:
            yield printable(f"only the log in Redis was searched: {self.source.problem}")

    def remarks(self) -> Iterator[str]:
        """Yield how to continue, if there is more."""
        if self._after is not None and not self.is_stopped:
            yield f"there are more: zsched history … --after {self._after}"

    def end(self) -> dict[str, Any]:
        """Return the source of the data, and how far the search came, for JSON."""
        reached_at = None if self._reached_us is None else iso(self._reached_us // 1000)
        source = None if self.source is None else self.source.to_dict()
        return {"source": source, "after": self._after, "reached_at": reached_at, "stopped": self.is_stopped}

    def _read_retries(self, found: Sequence[Change]) -> None:
        """Read those of the runs in *found*. Raises as ``Past.history``."""
        if (search := self.retries.search_retries(one.run for one in found)) is not None:
            for retry in self._asking.parts(lambda past: past.iter_history(self._id, **search)):
                self.retries.add(retry)

    def _reached(self) -> str:
        if self._reached_us is None:
            return "nothing was searched" if self.source is None else "all was searched"
        return f"searched back to {local_text(self._reached_us // 1000, self._tz)}"

    def _show_progress(self, text: str) -> None:
        if self._has_progress:
            click.echo(f"\r{_ERASE}{text}", nl=False, err=True)


def _row(one: Change, retry: Replacement | None, tz: str) -> TableRow:
    late_ms = one.late_ms
    why = "" if one.run is not None and one.why == one.run.status.value else reason_text(one)
    by = f"by {one.by}" if one.by else ""
    shown = (
        local_text(one.at_us // 1000, tz, has_ms=True),
        with_name(one.id, one.facets and one.facets.name),
        one.what.value,
        _occurrence(one, tz),
        "" if late_ms is None else rough_duration(max(late_ms, 0.0)),
        *cells(one.run),
        one.run_id or "",
        "; ".join(dict.fromkeys(text for text in (retry and retry.words, why, by, remark(one.run)) if text)),
    )
    return TableRow(shown, Style.BAD if one.run is not None and one.run.status in BAD else Style.PLAIN)


def _occurrence(change: Change, tz: str) -> str:
    """Return the nominal time, or the range of nominal times."""
    if change.first_ms is None or change.last_ms is None:
        return "-" if change.nominal_ms is None else local_text(change.nominal_ms, tz)
    if change.count == 1:
        return local_text(change.first_ms, tz)
    return f"{change.count:,}: {local_text(change.first_ms, tz)} to {local_text(change.last_ms, tz)}"


def _nothing(id: str | None, status: str | None, *, is_filtered: bool) -> str:
    if status is not None:
        what = f"nothing {'' if status in _OWN_VERBS else 'was '}{status}"
    else:
        what = "nothing was found" if is_filtered else "no occurrence has an outcome yet"
    return what + ("" if id is None else f", of schedule {id}")
