"""
``zsched up --demo``: start everything, schedule like a product, show the events, count at the end.

The order at the end makes the count exact: the daemon stops, so that nothing fires any more; the rest of the log is
read; the workers finish; then the runs are counted.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from typing import Final

from zsched.cli.lines import Table
from zsched.cli.program import connect
from zsched.cli.terminal import Terminal
from zsched.client import Client
from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock, from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.options.table import ScheduleRow
from zsched.core.story.sentences import local_text
from zsched.core.triggers.zones import zone
from zsched.core.wording import plural, some
from zsched.demo import tasks
from zsched.demo.runs import RunReader
from zsched.demo.screen import Screen, Summary
from zsched.demo.stack import Stack
from zsched.storage.connection import Link, link_of
from zsched.storage.keys import Keys, keys_of

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
    put(tasks.push, id="reminder-seoul", at=in_seoul, tz=_SEOUL, args=("Ji-woo", "your class begins"), queue="push")
    put(tasks.text_message, id="login-code", at=soon, args=("+1 555 0100", "your code expires soon"), queue="sms")
    # Six fields: seconds first.
    put(tasks.resend_texts, id="resend-texts", cron="*/5 * * * * *", starts=start, args=("Europe",), queue="sms")
    digest, report = ("editors@example.com", "Your digest"), ("board@example.com", "The week in figures")
    put(tasks.email, id="digest-new-york", cron="0 9 * * 1-5", tz="America/New_York", args=digest, queue="email")
    weekly = "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=30"
    put(tasks.email, id="report-weekly", rrule=weekly, tz="Europe/London", args=report, queue="email")
    common: ScheduleRow = {"func": tasks.email, "at": later, "queue": "email", "priority": "low", "owner": "demo"}
    names = ((f"{CAMPAIGN}{n:04}", f"user{n:04}@example.com") for n in range(1, BURST + 1))
    client.schedule_many({**common, "id": id, "args": (user, "Two for one this week")} for id, user in names)


# -- playing ----------------------------------------------------------------------------------------


_WORKERS = 2
_MARGIN_MS = 700  # between the end of the hold and the first due time: to put the schedules
_TICK_MS = 100  # between two checks of the workers
_NO_CONSOLE = "for the console: pip install 'zsched[web]'"
_DRAIN_MS = 120_000.0  # at most, for the workers to finish the fired runs


class Player:
    """Follows fired runs to their ends, shows and counts them. Raises RedisUnavailable."""

    def __init__(self, link: Link, keys: Keys, screen: Screen) -> None:
        self._reader, self._screen, self.summary = RunReader(link, keys), screen, Summary()
        self._pending: dict[str, int] = {}  # by the id of a run that is not over: when it was fired, in µs

    @property
    def is_idle(self) -> bool:
        """Return True if the workers are done with all fired runs, as far as the log was read."""
        return not self._pending

    def leave_unheard(self) -> None:
        """
        Give up the runs in queues to which no worker listens, and name them. The demo's own workers may not have begun
        yet.
        """
        waiting = self._by_queue()
        for queue in sorted(self._reader.unheard(waiting.keys() - QUEUES)):
            self._screen.say(f"no worker listens to queue {queue}: {_named(waiting[queue])} not executed")
            for run_id in waiting[queue]:
                del self._pending[run_id]

    def name_open(self) -> None:
        """Name the runs that are not over."""
        for queue, run_ids in sorted(self._by_queue().items()):
            self._screen.say(f"not waited for any longer, in queue {queue}: {_named(run_ids)}")

    def _by_queue(self) -> dict[str, list[str]]:
        """Return the ids of the runs that are not over, by queue."""
        found = defaultdict[str, list[str]](list)
        for run in self._reader.runs(self._pending):
            if not run.is_over:
                found[run.queue].append(run.id)
        return found

    def tick(self, wait_ms: int = _TICK_MS) -> bool:
        """Read the log and check the workers. Return False if the log had nothing new."""
        decided = self._reader.decided(wait_ms)
        fired = {one.run_id: one.at_us for one in decided if one.what is What.FIRED and one.run_id is not None}
        self._pending |= fired  # before they are shown: Ctrl-C may end this call at any place
        runs = self._reader.runs(fired)
        self.summary.late_ms += [run.lateness_ms or 0 for run in runs]
        self._screen.fired(runs)
        for one in decided:
            if one.what is not What.FIRED:
                self._screen.not_fired(one)
        for run in self._reader.runs(self._pending):
            if run.is_over:
                del self._pending[run.id]
                self.summary.over.append(run)
                self._screen.over(run, "" if self._screen.is_in_burst(run) else self._reader.said(run.id))
        self._screen.bursts()
        return bool(decided)


def play(settings: Settings, seconds: float | None, *, to_stderr: bool = False, clock: Clock | None = None) -> Summary:
    """
    Run the whole demo, for *seconds* from the first possible due time on, or until Ctrl-C. A second Ctrl-C does
    not wait for the workers.

    Raises:
        ZschedError: a process did not start, or ended unexpectedly.
    """
    clock = clock or SystemClock()
    screen = Screen(clock, to_stderr=to_stderr)
    # JSON: so that results can be shown, and because no pickles are needed here.
    rq = dataclasses.replace(settings.rq, serializer="json", allow_callables=(f"{TASKS}.*",))
    settings = dataclasses.replace(settings, rq=rq)
    screen.say(f"starting a private Redis (a test server), the daemon and {_WORKERS} RQ workers …")
    with Stack(settings, QUEUES, workers=_WORKERS, preload=TASKS, quiet=True) as stack:
        client = connect(stack.settings)
        overview = stack.wait_for_leader(client)
        start_ms = max(overview.hold_ms, overview.now_ms) + _MARGIN_MS
        begin_ms = clock.monotonic_ms() + start_ms - overview.now_ms
        put_all(client, start_ms)
        _introduce(screen, client, stack)
        screen.begin(begin_ms)
        player = Player(link_of(stack.settings), keys_of(stack.settings), screen)
        with contextlib.suppress(KeyboardInterrupt):
            while seconds is None or clock.monotonic_ms() < begin_ms + seconds * 1000:
                player.tick()
                stack.check()
        _drain(player, stack, screen, clock)
    return player.summary


def _drain(player: Player, stack: Stack, screen: Screen, clock: Clock) -> None:
    stack.stop_daemon()
    while player.tick(1):
        pass
    player.leave_unheard()
    if not player.is_idle:
        screen.say("the daemon has stopped; waiting for the workers (Ctrl-C ends it at once) …")
    deadline_ms = clock.monotonic_ms() + _DRAIN_MS
    while not player.is_idle and clock.monotonic_ms() < deadline_ms:
        stack.check()
        player.tick()
    player.name_open()


def _named(run_ids: list[str]) -> str:
    return f"{plural(len(run_ids), 'run')} ({some(run_ids)})"


def _introduce(screen: Screen, client: Client, stack: Stack) -> None:
    url, serializer = stack.settings.redis.url, stack.settings.rq.serializer
    screen.say("for commands in another terminal:")
    screen.say(f"  export ZSCHED_REDIS_URL='{url}' ZSCHED_RQ_SERIALIZER={serializer}\n")
    rows, names = [], {f"{CAMPAIGN}0001": f"{CAMPAIGN}* × {BURST:,}"}  # one line for all of that
    for one in client.list():
        if one.id in names or not one.id.startswith(CAMPAIGN):
            next_at = "-" if one.next_ms is None else local_text(one.next_ms, one.tz)
            rows.append((names.get(one.id, one.id), one.queue, one.rule_text, next_at, one.tz))
    table = Terminal().shown([Table(("SCHEDULE", "QUEUE", "TRIGGER", "NEXT", "ZONE"), rows)])
    screen.say("\n".join([*table, ""]))
    screen.say(f"{stack.start_console() or _NO_CONSOLE}\n")
