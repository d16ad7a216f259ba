"""
``zsched up --demo``: start everything, schedule like a product, show the log, count at the end.

The order at the end makes the count exact: all schedules are paused, so that nothing fires any more; the log is read
until it has the end of each run; then the runs are counted.
"""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final

import click

from zsched.cli.log import LogLines
from zsched.cli.output import Shown, Table, Terminal
from zsched.cli.program import connect
from zsched.client import Client
from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock, from_ms
from zsched.core.log.kinds import changes
from zsched.core.model import seconds
from zsched.core.occurrences.changes import run_that_ended
from zsched.core.occurrences.outcomes import What
from zsched.core.options.table import ScheduleRow
from zsched.core.runs.run import Run, RunStatus
from zsched.core.story.sentences import local_text
from zsched.core.triggers.zones import zone
from zsched.core.wording import plural, some
from zsched.demo import tasks
from zsched.demo.stack import Stack
from zsched.storage.connection import link_of
from zsched.storage.keys import keys_of
from zsched.storage.log import Log
from zsched.storage.queues import stalled_queues

# -- its schedules ----------------------------------------------------------------------------------

QUEUES: Final = ("push", "sms", "email")  # in the order in which the workers serve them
BURST: Final = 1000
CAMPAIGN: Final = "campaign-"  # prefix of the burst's ids

_SEOUL: Final = "Asia/Seoul"
TASKS: Final = "zsched.demo.tasks"


def put_all(client: Client, start_ms: int) -> None:
    """Schedule everything; nothing is due before *start_ms*, the burst is three seconds later."""
    put, start, soon, later = client.schedule, *(from_ms(start_ms + more_ms) for more_ms in (0, 1000, 3000))
    in_seoul = from_ms(start_ms + 1500).astimezone(zone(_SEOUL)).replace(tzinfo=None)

    put(tasks.heartbeat, id="heartbeat", every=2, starts=start, priority="high", queue="push")
    put(tasks.send, id="reminder-seoul", at=in_seoul, tz=_SEOUL, args=("Ji-woo", "your class begins"), queue="push")
    put(tasks.send, id="login-code", at=soon, args=("+1 555 0100", "your code expires soon"), queue="sms")
    # Six fields: seconds first.
    put(tasks.resend_texts, id="resend-texts", cron="*/5 * * * * *", starts=start, args=("Europe",), queue="sms")

    digest, report = ("editors@example.com", "Your digest"), ("board@example.com", "The week in figures")
    put(tasks.send, id="digest-new-york", cron="0 9 * * 1-5", tz="America/New_York", args=digest, queue="email")
    weekly = "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=30"
    put(tasks.send, id="report-weekly", rrule=weekly, tz="Europe/London", args=report, queue="email")

    common: ScheduleRow = {"func": tasks.send, "at": later, "queue": "email", "priority": "low", "owner": "demo"}
    names = ((f"{CAMPAIGN}{n:04}", f"user{n:04}@example.com") for n in range(1, BURST + 1))
    client.schedule_many({**common, "id": id, "args": (user, "Two for one this week")} for id, user in names)


# -- the figures at the end -------------------------------------------------------------------------


@dataclass
class Summary:
    """Latenesses and ends of the seen runs. A run counts as executed when a worker has finished it."""

    late_ms: list[float] = field(default_factory=list)  # one per run that fired
    over: list[Run] = field(default_factory=list)

    @property
    def executed(self) -> int:
        return sum(run.status is RunStatus.SUCCEEDED for run in self.over)

    @property
    def is_good(self) -> bool:
        """Return True if the workers executed all fired runs."""
        return len(self.late_ms) == self.executed

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON; durations in seconds, None if nothing fired."""
        late = {name: seconds(ms) for name, ms in zip_longest(("p50", "p99", "max"), _figures(self.late_ms))}
        failed = len(self.over) - self.executed
        return {"fired": len(self.late_ms), "executed": self.executed, "failed": failed, "late_s": late}

    def lines(self) -> Iterator[str]:
        """Yield the summary as lines for people."""
        yield "{fired:,} runs fired, {executed:,} executed, {failed:,} failed".format(**self.to_dict())
        waited_ms = [run.queue_wait_ms for run in self.over if run.queue_wait_ms is not None]
        for title, values in (("late, due to queued", self.late_ms), ("queued to started", waited_ms)):
            if figures := _figures(values):
                yield "{}: p50 {:,.1f} ms, p99 {:,.1f} ms, max {:,.1f} ms".format(title, *figures)


def _figures(values: Sequence[float]) -> list[float]:
    """Return the smallest of *values* that half of them do not exceed, that 99 % do not, and the largest."""
    return [sorted(values)[math.ceil(share * len(values)) - 1] for share in (0.5, 0.99, 1)] if values else []


# -- playing ----------------------------------------------------------------------------------------

Say = Callable[..., None]  # shows lines

_WORKERS = 2
_MARGIN_MS = 700  # between the end of the hold and the first due time: to put the schedules
_TICK_MS = 100  # between two checks of the workers
_PAGE: Final = 100  # log entries per read; one may hold 500 run ids
_SHOWN: Final = frozenset({What.FIRED, What.RUN_ENDED, What.SKIPPED, What.EXPIRED, What.DUPLICATE})
_NO_CONSOLE = "for the console: pip install 'zsched[web]'"
_DRAIN_MS = 120_000.0  # at most, for the workers to finish the fired runs


class Player:
    """Follows the log from its beginning: shows what fired and ended, and counts it. Raises RedisUnavailable."""

    def __init__(self, settings: Settings, client: Client, say: Say) -> None:
        self._link, self._keys = link_of(settings), (keys := keys_of(settings))
        self._client, self._say, self._suffix = client, say, keys.run_suffix
        self._log, self._last = Log(self._link, keys), "0-0"
        self._lines = LogLines(keys.run_suffix, None, "UTC", wants_json=False)
        self.summary, self.open = Summary(), set[str]()  # ids of runs that are not over

    def tick(self, wait_ms: int = _TICK_MS) -> bool:
        """Read what is new in the log, and wait for it. Return False if there is nothing."""
        if not self._log.wait(self._last, wait_ms):
            return False
        for entry in self._log.read(f"({self._last}", _PAGE):
            self._last = entry.position.id
            found = [change for change in changes(entry, self._suffix) if change.what in _SHOWN]
            for change in found:
                if change.what is What.FIRED and change.run_id is not None:
                    self.open.add(change.run_id)
                    self.summary.late_ms.append(change.late_ms or 0.0)
                elif change.what is What.RUN_ENDED and change.run_id in self.open:
                    self.open.discard(change.run_id)
                    self.summary.over.append(run_that_ended(change))
            self._say(*(self._lines.lines(entry) if found else ()))
        return True

    def leave_unheard(self) -> None:
        """
        Give up the runs in queues to which no worker listens, and name them. The demo's own workers may not have begun
        yet.
        """
        with self._link.wire() as wire:
            unheard = {one.queue for one in stalled_queues(wire, self._keys).unheard}.difference(QUEUES)
        for queue in sorted(unheard):
            queued = self._client.iter_runs(queue=queue, status=RunStatus.QUEUED)
            if run_ids := [run.id for run in queued if run.id in self.open]:
                self._say(f"no worker listens to queue {queue}: {_named(run_ids)} not executed")
                self.open.difference_update(run_ids)


def play(settings: Settings, for_s: float | None, *, to_stderr: bool = False, clock: Clock | None = None) -> Summary:
    """
    Run the whole demo, for *for_s* seconds from the first possible due time on, or until Ctrl-C. A second Ctrl-C does
    not wait for the workers.

    Raises:
        ZschedError: a process did not start, or ended unexpectedly.
    """
    clock, terminal = clock or SystemClock(), Terminal.of(sys.stderr if to_stderr else sys.stdout, os.environ)

    def say(*lines: Shown) -> None:
        for line in terminal.shown(lines):
            click.echo(line, err=to_stderr)

    # JSON, because no pickles are needed here.
    settings = replace(settings, rq=replace(settings.rq, serializer="json", allow_callables=(f"{TASKS}.*",)))
    say(f"starting a private Redis (a test server), the daemon and {_WORKERS} RQ workers …")
    with Stack(settings, QUEUES, workers=_WORKERS, quiet=True) as stack:
        client = connect(stack.settings)
        overview = stack.wait_for_leader(client)
        start_ms = max(overview.hold_ms, overview.now_ms) + _MARGIN_MS
        begin_ms = clock.monotonic_ms() + start_ms - overview.now_ms
        put_all(client, start_ms)
        _introduce(say, client, stack)

        player = Player(stack.settings, client, say)
        with contextlib.suppress(KeyboardInterrupt):
            while for_s is None or clock.monotonic_ms() < begin_ms + for_s * 1000:
                player.tick()
                stack.check()
        client.pause_many(match="*")
        _drain(player, stack, say, clock)
    return player.summary


def _drain(player: Player, stack: Stack, say: Say, clock: Clock) -> None:
    """Read the log until all fired runs are over, or have no worker."""
    while player.tick(1):
        pass
    player.leave_unheard()
    if player.open:
        say("firing has ended; waiting for the workers (Ctrl-C ends at once) …")
    deadline_ms = clock.monotonic_ms() + _DRAIN_MS
    while player.open and clock.monotonic_ms() < deadline_ms:
        stack.check()
        player.tick()
    if player.open:
        say(f"no longer waiting for: {_named(sorted(player.open))}")


def _named(run_ids: list[str]) -> str:
    return f"{plural(len(run_ids), 'run')} ({some(run_ids)})"


def _introduce(say: Say, client: Client, stack: Stack) -> None:
    url, serializer = stack.settings.redis.url, stack.settings.rq.serializer
    say("for commands in another terminal:", f"  export ZSCHED_REDIS_URL='{url}' ZSCHED_RQ_SERIALIZER={serializer}", "")
    rows, names = [], {f"{CAMPAIGN}0001": f"{CAMPAIGN}* × {BURST:,}"}  # one line for all of that
    for one in client.list():
        if one.id in names or not one.id.startswith(CAMPAIGN):
            next_at = "-" if one.next_ms is None else local_text(one.next_ms, one.tz)
            rows.append((names.get(one.id, one.id), one.queue, one.rule_text, next_at, one.tz))
    say(Table(("SCHEDULE", "QUEUE", "TRIGGER", "NEXT", "ZONE"), rows), "", stack.start_console() or _NO_CONSOLE, "")
