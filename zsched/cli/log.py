"""``zsched log``: show the log's entries, a sentence each, and follow the log."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final

import click

from zsched.cli.output import printable
from zsched.cli.parameters import Moment, moment_at, time_option
from zsched.cli.program import Invocation, close_stdout, command, connect
from zsched.client import Client
from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import parse
from zsched.core.log.shown import changes_or_problem, entry_for_json
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import LEFT_OUT, OF_RUNS, PUSHES, What
from zsched.core.options.arguments import check_id
from zsched.core.options.forms import zone_name
from zsched.core.runs.cells import with_short_workers
from zsched.core.runs.run import RunStatus
from zsched.core.story.sentences import local_text, sentence, told_together
from zsched.core.wording import plural, some
from zsched.errors import RedisUnavailable
from zsched.storage.keys import keys_of

_LIMIT: Final = 50  # lines, without --since and --limit
_LOOKED_AT: Final = 10_000  # entries, in search of one schedule's entries
_BEGINNING: Final = Position(0, 0, 0)  # before any entry
_RETRY_S: Final = 1.0  # before trying again to reach Redis
_NEW_HISTORY: Final = "a new history begins: Redis lost the entries above, or the last of them"


@command()
@click.option("-f", "--follow", is_flag=True, help="Show new entries as they come, until Ctrl-C.")
@time_option("--since", "From this time (local in --tz, or with an offset or Z), or 1h for an hour ago.", or_span=True)
@click.option("--id", metavar="ID", help="Only changes of this schedule, a line per change.")
@click.option(
    "--limit",
    type=click.IntRange(1, 50_000),
    metavar="N",
    help=f"At most this many lines: the newest, or the first ones since --since; default {_LIMIT} without --since.",
)
@click.option("--tz", metavar="ZONE", help="Read and show times in this zone instead of UTC.")
def log(
    invocation: Invocation, /, follow: bool, since: Moment | None, id: str | None, limit: int | None, tz: str | None
) -> None:
    """
    Show the log of all changes, in order: time, id, kind and summary of each entry. One entry may cover many schedules.
    Arguments are never shown. --json prints JSON lines with "entry", "at", "kind" and "changes", and "problem" if this
    version cannot read the entry.

    \b
    Examples:
      zsched log --since 1h
      zsched log --follow --id digest --tz Asia/Seoul
      zsched log --since 2026-12-24T00:00Z --json | jq -r .kind | sort | uniq -c
    """
    settings = invocation.settings()
    teller = LogLines(
        keys_of(settings).run_suffix, id and check_id(id), zone_name(tz) or "UTC", wants_json=invocation.wants_json
    )
    since_at = moment_at(since, "since", tz)
    if since_at is None and limit is None:
        limit = _LIMIT
    client = connect(settings, link := invocation.link(settings))
    found, source = client.log(since_at, limit=limit if limit is not None and id is None else _LOOKED_AT)
    if invocation.wants_json:
        click.echo(json.dumps({"source": source.to_dict()}), err=True)
    invocation.tell_source(source)
    rendered = (line for entry in found for line in teller.lines(entry))
    try:
        lines = islice(rendered, limit) if since_at is not None else deque(rendered, limit)
        invocation.show(
            (part for line in lines for part in line.split("\n")), None if follow else zone_name(tz) or "UTC"
        )
        if follow:
            invocation.tell_if_empty(link, settings)
            _follow(invocation, client, teller, Position.parse(f"{source.as_of} 0") if source.as_of else _BEGINNING)
    except (KeyboardInterrupt, BrokenPipeError):  # Ctrl-C, or the reader of the output has gone
        if not follow:
            raise
        close_stdout()  # it has no other end, so this is no error


def _follow(invocation: Invocation, client: Client, teller: LogLines, as_of: Position) -> None:
    """Show entries after the last shown one, or after *as_of*, without end. Each loss of Redis is reported once."""
    is_lost, after = False, teller.last or as_of
    while True:
        try:
            for entry in client.follow_log(after):
                after, is_lost = entry.position, False
                for line in teller.lines(entry):
                    invocation.show(line.split("\n"))
        except RedisUnavailable as error:
            if not is_lost:
                invocation.tell_error(f"{error}; trying again until Ctrl-C", error)
            is_lost = True
            time.sleep(_RETRY_S)


class LogLines:
    """Formats entries as lines: text or JSON, for all schedules or only for *id*."""

    def __init__(self, run_suffix: str, id: str | None, tz: str, *, wants_json: bool) -> None:
        self._run_suffix, self._id, self._tz, self._wants_json = run_suffix, id, tz, wants_json
        self.last: Position | None = None  # of the last entry
        self._has_begun_anew = False  # a new history began since the last line

    def lines(self, entry: Entry) -> Iterator[str]:
        """Yield the lines for *entry*; none if it does not concern the requested schedule."""
        # In one history they rise.
        self._has_begun_anew |= self.last is not None and entry.position.seq <= self.last.seq
        self.last = entry.position
        found, problem = changes_or_problem(entry, self._run_suffix)
        if self._id is not None:
            found = [change for change in found if change.id == self._id]
            if not found:
                return
        if self._wants_json:
            yield json.dumps(entry_for_json(entry, found, problem))
        elif self._id is None:
            yield self._line(entry, problem or summary(entry, found, self._tz))
        else:
            yield from (self._line(entry, sentence(change, self._tz)) for change in told_together(found))

    def _line(self, entry: Entry, text: str) -> str:
        at = local_text(entry.position.t_us // 1000, self._tz, has_ms=True)
        line = printable(with_short_workers(f"{at}  {entry.position.id}  {entry.kind or '?'}  {text}"))
        mark, self._has_begun_anew = f"… {_NEW_HISTORY} …\n" * self._has_begun_anew, False
        return mark + line


# -- an entry in one line ---------------------------------------------------------------------------


_NAMED: Final = 3  # schedules or runs named per line
# Texts for an entry of several changes; {} is their number with the noun. All others begin with the word itself.
_TEXTS: Final = {
    What.FOUND: "found {} in Redis",
    What.REPLANNED: "replanned {}, as the rules of their zones changed",
    What.SKIP_ASKED: "will skip {}",
    What.SKIP_TAKEN_BACK: "will not skip {}",
    What.ENDED: "ended {}, as their rules give no more occurrences",
    What.RESTORED: "restored {} that Redis had lost",
    What.WITHDRAWN: "removed {} that are over",
    What.EXPIRED: "let {} expire",
    What.COALESCED: "left out {} in favour of later ones",
    What.EXCLUDED: "left out {} at excluded times",
    What.UNKNOWN: "decided {} in an unknown way",
    What.DEADLINE_MISSED: "{} missed their deadlines",
    What.DUPLICATE: "did not push {} again that were there already",
    What.RUN_AGAIN: "pushed {} again after their workers died",
    What.STOPPING: "asked the workers of {} to stop them",
    What.RELEASED: "put {} into their queues that had waited for others",
    What.PUSHED_AGAIN: "pushed {} again that Redis had lost, marked uncertain",
    What.HELD: "found {} in RQ that Redis had lost, not pushed again",
    What.RAN_AGAIN: "found {} that ran again after they were over",
    What.RUN_ENDED: "{} ended",
}
_OF_OCCURRENCES: Final = frozenset({*LEFT_OUT, What.EXCLUDED, What.SKIP_ASKED, What.SKIP_TAKEN_BACK, What.UNKNOWN})
_WITH_RUNS: Final = PUSHES | OF_RUNS | {What.DUPLICATE}
_ENDS: Final = {
    RunStatus.SUCCEEDED.value: "{} succeeded",
    RunStatus.FAILED.value: "{} failed",
    RunStatus.CANCELLED.value: "{} were cancelled",
    RunStatus.EXPIRED.value: "{} expired in their queues",
    RunStatus.LOST.value: "{} are lost",
    RunStatus.REFUSED.value: "{} were refused by their workers",
}


def summary(entry: Entry, found: list[Change], tz: str) -> str:
    """Summarise *entry* by *found*, its changes; local times in *tz*."""
    if not found:
        return parse(entry).sentence()
    if len({change.id for change in found}) == 1:
        return _in_words(found, tz)
    by_what = sorted(found, key=lambda change: (list(What).index(change.what), _end_of(change)))
    kinds = groupby(by_what, lambda change: (change.what, _end_of(change)))
    return "; ".join(_counted(what, end, list(some), tz) for (what, end), some in kinds)


def _in_words(changes: list[Change], tz: str) -> str:
    """Describe the changes of one schedule."""
    return f"{changes[0].id}: " + "; ".join(sentence(change, tz) for change in told_together(changes))


def _counted(what: What, end: str, changes: list[Change], tz: str) -> str:
    if len(changes) == 1:
        return _in_words(changes, tz)
    noun = "occurrence" if what in _OF_OCCURRENCES else "run" if what in _WITH_RUNS else "schedule"
    text = _TEXTS.get(what, f"{what.value} {{}}")
    names = [one.run_id or one.id if noun == "run" else one.id for one in changes]
    number = plural(sum(one.count for one in changes) if noun == "occurrence" else len(changes), noun)
    by = f" by {changes[0].by}" if changes[0].by else ""
    return f"{_ENDS.get(end, text).format(number)}{by}: {some(list(dict.fromkeys(names)), _NAMED)}"


def _end_of(change: Change) -> str:
    """Return the status with which the run of *change* ended."""
    return change.why if change.what is What.RUN_ENDED else ""
