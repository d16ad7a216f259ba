"""``zsched log``: the log's entries, and following it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import click

from zsched.cli.entries import summary, unknown_entry_text
from zsched.cli.history import echo_source
from zsched.cli.invocation import Invocation, connect, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.runs import with_short_workers
from zsched.cli.texts import printable
from zsched.cli.values import duration, instant
from zsched.client import Client
from zsched.core.arguments import check_id, instant_ms, zone_name
from zsched.core.changes import Change
from zsched.core.clock import LAST_MS, SystemClock, from_ms
from zsched.core.log import Entry, Position, UnknownEntry, changes
from zsched.core.model import iso
from zsched.core.sentences import local_text, sentence, told_together
from zsched.errors import RedisUnavailable
from zsched.storage.keys import Keys

_LIMIT: Final = 50  # lines, when neither --since nor --limit says which
_LOOKED_AT: Final = 10_000  # entries, in search of those of one schedule
_BEGINNING: Final = Position(0, 0, 0)  # before any entry
_RETRY_S: Final = 1.0  # before trying again to reach Redis
_NEW_HISTORY: Final = "a new history begins: Redis lost what is above, or its end"


def _since(text: str) -> datetime | timedelta:
    """A duration back from now, or a time. Raises click.BadParameter."""
    with suppress(click.BadParameter):
        return duration(text)
    with suppress(click.BadParameter):
        return instant(text)
    raise click.BadParameter(f"{text!r} is neither a duration nor a time; give 90s, 1h30m or 2026-12-24T18:00Z")


@click.command(cls=Subcommand)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option(
    "--since",
    type=_since,
    metavar="TIME|DURATION",
    help="Since a time (local in --tz, or with an offset or Z), or 1h ago.",
)
@click.option("--id", metavar="ID", help="Only what happened to this schedule, a line per change.")
@click.option(
    "--limit",
    type=click.IntRange(1, 50_000),
    metavar="N",
    help=f"At most so many lines: the newest, or the first ones since --since; without both {_LIMIT}.",
)
@click.option("--tz", metavar="ZONE", help="Read and show times in this zone instead of UTC.")
@pass_invocation
def log(
    invocation: Invocation,
    /,
    follow: bool,
    since: datetime | timedelta | None,
    id: str | None,
    limit: int | None,
    tz: str | None,
) -> None:
    """
    Show the log, in order: whatever was done, an entry a line, with its time, id, kind and what it says. One entry
    may be of many schedules; those of --id are told one by one. Arguments are never shown.

    It comes from a daemon's archive, which has also what Redis lost or dropped, or from Redis where none answers, as
    stderr says. Where Redis lost something, a new history begins, whose entries have ids of the old one again. --json
    gives JSON lines, not an array, because it can be endless: {"entry", "at", "kind", "changes": […]} each, and
    "problem" where an entry cannot be read by this version.

    \b
    Examples:
      zsched log --since 1h
      zsched log --follow --id digest --tz Asia/Seoul
      zsched log --since 2026-12-24T00:00Z --json | jq -r .kind | sort | uniq -c
    """
    settings = invocation.settings()
    teller = _LogLines(Keys(settings.namespace).run_suffix, id and check_id(id), zone_name(tz) or "UTC", invocation)
    since_at = _instant(since, tz)
    if since_at is None and limit is None:
        limit = _LIMIT
    client = connect(settings)
    found, source = client.log(since_at, limit=limit if limit is not None and id is None else _LOOKED_AT)
    echo_source(invocation, source)
    read = _Read(found, Position.parse(f"{source.as_of} 0") if source.as_of else _BEGINNING)
    told = (line for entry in read for line in teller.lines(entry))
    with _ending_well() if follow else nullcontext():
        for line in islice(told, limit) if since_at is not None else deque(told, limit):
            click.echo(line)
        if follow:
            _follow(client, teller, read.last)


def _follow(client: Client, teller: _LogLines, after: Position) -> None:
    """Print what happens behind *after*, without end. Say once each time that Redis is gone."""
    is_lost = False
    while True:
        try:
            for entry in client.follow_log(after):
                after, is_lost = entry.position, False
                for line in teller.lines(entry):
                    click.echo(line)
        except RedisUnavailable as error:
            if not is_lost:
                click.echo(teller.problem(f"{error}; trying again until Ctrl-C"), err=True)
            is_lost = True
            threading.Event().wait(_RETRY_S)


@contextmanager
def _ending_well() -> Iterator[None]:
    """Ctrl-C inside the block ends it well, and so does a reader that goes: there is no other end."""
    try:
        yield
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # what is still buffered goes nowhere, or the interpreter would complain at its end
        with suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, sys.stdout.fileno())
            os.close(devnull)


class _Read:
    """*entries* on their way; ``last`` is the position of the last one taken, or *before*."""

    def __init__(self, entries: Iterable[Entry], before: Position) -> None:
        self._entries, self.last = entries, before

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            self.last = entry.position
            yield entry


class _LogLines:
    """Lines for entries: for people or as JSON, of all schedules or of *id* alone."""

    def __init__(self, run_suffix: str, id: str | None, tz: str, invocation: Invocation) -> None:
        self._run_suffix, self._id, self._tz, self._wants_json = run_suffix, id, tz, invocation.wants_json
        self._last = _BEGINNING
        self._has_begun_anew = False  # since the last line

    def lines(self, entry: Entry) -> Iterator[str]:
        """Yield the lines for *entry*; none when it is not of the schedule that is asked for."""
        self._has_begun_anew |= entry.position.seq <= self._last.seq  # in one history they rise
        self._last = entry.position
        try:
            found, problem = list(changes(entry, self._run_suffix)), ""
        except UnknownEntry:
            found, problem = [], unknown_entry_text(entry)
        if self._id is not None:
            found = [change for change in found if change.id == self._id]
            if not found:
                return
        if self._wants_json:
            yield json.dumps(_to_dict(entry, found, problem))
        elif self._id is None:
            yield self._line(entry, problem or summary(entry, found, self._tz))
        else:
            yield from (self._line(entry, sentence(change, self._tz)) for change in told_together(found))

    def problem(self, text: str) -> str:
        """Return a problem as stderr shows it."""
        return json.dumps({"error": text, "type": "RedisUnavailable"}) if self._wants_json else f"zsched: {text}"

    def _line(self, entry: Entry, text: str) -> str:
        at = local_text(entry.position.t_us // 1000, self._tz, has_ms=True)
        line = printable(with_short_workers(f"{at}  {entry.position.id}  {entry.kind or '?'}  {text}"))
        mark, self._has_begun_anew = f"… {_NEW_HISTORY} …\n" * self._has_begun_anew, False
        return mark + line


def _to_dict(entry: Entry, found: list[Change], problem: str) -> dict[str, Any]:
    at = iso(min(entry.position.t_us // 1000, LAST_MS))
    told = {"entry": entry.position.id, "at": at, "kind": entry.kind, "changes": [change.shown() for change in found]}
    return told | ({"problem": problem} if problem else {})


def _instant(since: datetime | timedelta | None, tz: str | None) -> datetime | None:
    if isinstance(since, timedelta):
        return from_ms(max(SystemClock().now_ms() - since // timedelta(milliseconds=1), 0))
    return None if since is None else from_ms(instant_ms("since", since, tz))
