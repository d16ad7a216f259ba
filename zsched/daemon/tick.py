"""
One pass of the leader: fire due one-shots, advance due recurring schedules, launch waiting runs, move RQ's own jobs.

One script moves one-shots from their lane to their RQ queue. It returns due recurring schedules, which are planned
here. Another script commits the plans. It compares version and due time, so a rule that changed in between is left
alone and returns in the next pass. Runs that wait for another run and RQ's own delayed jobs (``daemon/releases.py``)
come last.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from zsched.config.settings import DaemonSettings
from zsched.core.clock import LAST_MS, Clock
from zsched.core.entry import text
from zsched.core.occurrences.outcomes import Outcome, outcome_of
from zsched.core.triggers.spec import NO_CALENDARS, Calendars
from zsched.core.triggers.zones import lack_of
from zsched.daemon.batch import Batch
from zsched.daemon.meter import Meter
from zsched.daemon.planner import Planner
from zsched.daemon.releases import AT_ONCE, Native, WaitingRuns
from zsched.storage.dispatch import Dispatch, DueRecurring, FireResult, PlannedDue, Stopped, Window
from zsched.storage.lease import Term
from zsched.storage.meta import moving_away

log = structlog.get_logger(__name__)

JUMP_MS = 2000  # a difference too large for slewing or a slow network
STEADY_MS = 2000.0  # how long TIME must be steady after a jump before it is believed
_SLEW = 500e-6  # ms per ms


class ServerClock:
    """
    The server's clock, estimated by the daemon's monotonic clock: when to wake up, and whether TIME jumped. Every reply
    with TIME updates it. It is used before sleeping and firing.

    Many replies have TIME, read by the server between our sending and receiving: a fire's reply in microseconds, others
    in whole milliseconds. So each reply bounds the difference of the two clocks from both sides. The tightest lower
    bound is kept, and relaxed slowly (clocks may be slewed by 500 ppm, adjtimex(2)).

    A script that is sent a little before the due time arrives at the due time. How much before is learned from replies
    in microseconds: the shortest way to the server counts, so a script seldom arrives too early. One that does finds
    nothing due, and is sent again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._least: float | None = None  # lower bound of (server's ms − monotonic ms)
        self._least_at = 0.0
        self._arrival: float | None = None  # the least of (TIME at the arrival − monotonic ms at the sending)
        self._arrival_at = 0.0
        self._round_trip_ms = 0.0  # of the last reply
        self._unsteady_since: float | None = None

    def observe(self, now_ms: float, sent_ms: float, grain_ms: float = 1.0) -> int:
        """
        Take TIME from a reply that has just arrived, to a request sent at *sent_ms* (monotonic): it was *now_ms*, or up
        to *grain_ms* later.

        Return the jump of TIME in ms; 0 if TIME is within the bounds, the round trip considered.
        """
        received_ms = self._clock.monotonic_ms()
        self._round_trip_ms = received_ms - sent_ms
        low, high = now_ms - received_ms, now_ms + grain_ms - sent_ms
        known = self._decayed(received_ms)
        jumped = 0
        if known is not None and (low > known + JUMP_MS or high < known - JUMP_MS):
            jumped = round((low if low > known else high) - known)
            self._unsteady_since = received_ms
            known = self._arrival = None
        self._least, self._least_at = low if known is None else max(low, min(known, high)), received_ms
        if grain_ms < 1:
            relaxed = math.inf if self._arrival is None else self._arrival + (sent_ms - self._arrival_at) * _SLEW
            self._arrival, self._arrival_at = min(relaxed, now_ms - sent_ms), sent_ms
        return jumped

    def now_ms(self) -> float:
        """Return the server's time: never ahead of it, and seldom behind by a millisecond."""
        now = self._clock.monotonic_ms()
        known = self._decayed(now)
        return now + known if known is not None else 0.0

    def arrival_offset_ms(self) -> float:
        """Return the server's time when a script that is sent now arrives, less the monotonic clock."""
        return self.now_ms() - self._clock.monotonic_ms() if self._arrival is None else self._arrival

    def window(self) -> Window:
        """Return the window in which TIME must be when a script that is sent now is run."""
        if self._least is None:
            return Window(0, LAST_MS)
        now = self.now_ms()
        return Window(int(now) - JUMP_MS, int(now + self._round_trip_ms) + JUMP_MS)

    def steady_in_ms(self) -> float:
        """Return the ms to wait until TIME is trusted again after a jump; 0 if it is trusted."""
        if self._unsteady_since is None:
            return 0.0
        left = self._unsteady_since + STEADY_MS - self._clock.monotonic_ms()
        if left <= 0:
            self._unsteady_since = None
        return max(left, 0.0)

    def _decayed(self, at_ms: float) -> float | None:
        return None if self._least is None else self._least - (at_ms - self._least_at) * _SLEW


_RETRY_JUMPED_MS = 1.0  # the reply with TIME was only late: try again at once
_RETRY_STUCK_MS = 20.0  # all schedules were changed meanwhile
_STAYED = (Outcome.CHANGED, Outcome.UNKNOWN)  # of an unknown word, nobody knows whether the schedule moved
_ADVANCE_SHARE = 0.5  # of a fire's batch: advancing costs two to three times as much per schedule


class Tick(NamedTuple):
    """
    The next step after a pass: continue at once (``has_more``), wait ``wait_ms``, or sleep until ``next_ms`` of
    the server's clock (None: nothing waits). For a script that is sent then, that is the monotonic clock plus
    ``server_offset_ms``.
    """

    has_more: bool = False
    wait_ms: float | None = None
    next_ms: int | None = None
    server_offset_ms: float = 0.0


class Ticker:
    """Makes the passes of one connection's terms; keeps batch sizes, plans and the server's clock."""

    def __init__(
        self,
        dispatch: Dispatch,
        native: Native,
        settings: DaemonSettings,
        clock: Clock,
        limits: Mapping[str, float] | None = None,
        meter: Meter | None = None,
        keep_back: Callable[[Term, FireResult], FireResult] = lambda term, fired: fired,
        waiting: WaitingRuns | None = None,
        calendars: Callable[[Sequence[str]], Calendars] = lambda names: NO_CALENDARS,
    ) -> None:
        """
        Make a ticker. *limits*: by queue, the most runs per second. *keep_back*: removes, from the due recurring
        schedules, those that must not fire yet. *waiting*: None, another caller launches the runs that wait.
        *calendars*: those that rules name.
        """
        self._dispatch, self._native, self._clock = dispatch, native, clock
        self._waiting = waiting
        self._meter = meter or Meter()
        self._limits, self._is_limited = limits or {}, False  # whether Redis has them, in this term
        self._patience_ms = settings.overlap_patience_s * 1000
        self._fire_batch = Batch(settings.batch_max, settings.script_target_ms)
        self._advance_batch = Batch(max(int(settings.batch_max * _ADVANCE_SHARE), 1), settings.script_target_ms)
        self._planner, self._server_clock = Planner(calendars), ServerClock(clock)
        self._is_held, self._keep_back = False, keep_back
        self._wrong = set[str]()  # RQ's keys of a wrong type that were logged in this term
        self.lacking = set[str]()  # zones of due schedules that this machine lacks

    def begin(self, term: Term) -> None:
        """Begin a term: its reply has the first TIME of the server's clock."""
        self.observe(term.now_ms, term.trusted_until_ms - term.lease_ms)
        self._native.begin()
        if self._waiting is not None:
            self._waiting.begin()
        self._is_limited = False
        self._wrong.clear()

    def limit(self, runs_per_second: Mapping[str, float]) -> None:
        """Set the limits by queue, from the next pass on."""
        self._limits, self._is_limited = runs_per_second, False

    def end(self, term: Term) -> None:
        """Release RQ's locks, as the daemon stops during its term. Raises RedisUnavailable."""
        self._native.end(term)

    def observe(self, now_ms: int, sent_ms: float) -> bool:
        """
        Update the server's clock by TIME in whole milliseconds from a reply to a request sent at *sent_ms*. Return True
        if it jumped.
        """
        return self._note_jump(self._server_clock.observe(now_ms, sent_ms))

    def server_now_ms(self) -> int:
        """Return the server's time, as far as it is known."""
        return int(self._server_clock.now_ms())

    def _note_jump(self, jumped_ms: int) -> bool:
        if jumped_ms:
            self._meter.jumped(jumped_ms)
            log.error("clock_jumped", by_ms=jumped_ms, remedy="fire is held until the Redis server's clock is steady")
        return bool(jumped_ms)

    def tick(self, term: Term) -> Tick:
        """Make one pass. Raises Stale, ServerChanged, RedisUnavailable, RedisRefused."""
        if unsteady_ms := self._server_clock.steady_in_ms():
            return Tick(wait_ms=unsteady_ms)
        if not self._is_limited:
            self._dispatch.limit(term, self._limits)
            self._is_limited = True
        sent_ms = self._clock.monotonic_ms()
        fired = self._dispatch.fire(term, self._server_clock.window(), self._fire_batch.size, self.lacking)
        if isinstance(fired, Stopped):
            self.observe(fired.now_ms, sent_ms)
            return self._stopped(term, fired)
        self._note_jump(self._server_clock.observe(fired.now_us / 1000, sent_ms, grain_ms=0.001))
        took_ms = self._clock.monotonic_ms() - sent_ms
        self._fire_batch.learn(took_ms, fired.looked)
        self._meter.ran("fire", took_ms, fired.runs)
        self._tell_fired(fired)
        fired = self._keep_back(term, fired)
        moved = self._advance(term, fired.recurring, fired.now_ms) if fired.recurring else False
        if isinstance(moved, Stopped):
            return self._stopped(term, moved)
        is_stuck = bool(fired.recurring) and not moved
        has_more = not is_stuck and (moved or (fired.next_ms is not None and fired.next_ms <= fired.now_ms))
        looks = [self._native.look_if_due(term, fired.now_ms, is_busy=has_more)]
        if self._waiting is not None:
            looks.append(self._waiting.look_if_due(term, self._server_clock.window(), fired.now_ms, is_busy=has_more))
        # A recurring schedule's next time may be earlier than fire's answer.
        if has_more or AT_ONCE in looks:
            return Tick(has_more=True)
        if is_stuck:
            return Tick(wait_ms=_RETRY_STUCK_MS)
        next_ms = min((at_ms for at_ms in (fired.next_ms, *looks) if at_ms is not None), default=None)
        return Tick(next_ms=next_ms, server_offset_ms=self._server_clock.arrival_offset_ms())

    def hold(self, term: Term, for_ms: float, look_ms: float) -> Tick:
        """
        Make a pass without firing, because this leader may not fire for another *for_ms*. The next pass is in
        *look_ms*. Raises as ``tick``.
        """
        now_ms = self.server_now_ms()
        tick = self._stopped(term, Stopped("HELD", now_ms, now_ms + math.ceil(for_ms)))
        return tick if tick.wait_ms is None else tick._replace(wait_ms=min(tick.wait_ms, look_ms))

    def _advance(self, term: Term, due: list[DueRecurring], now_ms: int) -> Stopped | bool:
        """Plan and advance the *due* schedules. Return False if none of them changed."""
        planned = self._planner.plan(due, now_ms)
        has_moved = False
        if planned.lacking:
            has_moved = self._dispatch.set_aside(term, planned.lacking) > 0
            for zone in {zone for _, zone in planned.lacking} - self.lacking:
                log.error("zone_unknown", reason=lack_of(zone), remedy="install tzdata, then restart this daemon")
                self.lacking.add(zone)
        if planned.bad and self._dispatch.quarantine(term, planned.bad):
            has_moved = True
            for one, reason in planned.bad:
                _tell(Outcome.QUARANTINED, schedule_id=text(one.id), reason=text(reason))
        rest = planned.good
        while rest:
            part, rest = rest[: self._advance_batch.size], rest[self._advance_batch.size :]
            sent_ms = self._clock.monotonic_ms()
            words = self._dispatch.advance(term, self._server_clock.window(), self._patience_ms, part)
            if isinstance(words, Stopped):
                return words
            took_ms = self._clock.monotonic_ms() - sent_ms
            self._advance_batch.learn(took_ms, len(part))
            counts = Counter(words)
            if self._waiting is not None and any(written.has_chain for _, written in part):
                self._waiting.expect()
            pushed = sum(number for word, number in counts.items() if outcome_of(word).is_pushed)
            self._meter.ran("advance", took_ms, pushed)
            silent = {word for word in counts if not outcome_of(word).event}
            for planned_due, word in zip(part, words, strict=True):
                if word not in silent or planned_due[1].plan.passed:
                    _tell_advanced(planned_due, word)
            log.debug("schedules_advanced", **{outcome_of(word).word: number for word, number in counts.items()})
            has_moved = has_moved or any(outcome_of(word) not in _STAYED for word in counts)
        return has_moved

    def _stopped(self, term: Term, stopped: Stopped) -> Tick:
        """Serve RQ's own jobs during a hold, which concerns only zsched's data, but not after a clock jump."""
        if stopped.word == "HELD" and stopped.until_ms is not None:
            if not self._is_held:
                log.info(
                    "fire_held", for_ms=stopped.until_ms - stopped.now_ms, reason="this Redis is new, or restarted"
                )
            self._is_held = True
            next_ms = self._native.look_if_due(term, stopped.now_ms, is_busy=False)
            if next_ms == AT_ONCE:
                return Tick(has_more=True)
            return Tick(wait_ms=float(max(min(stopped.until_ms, next_ms or stopped.until_ms) - stopped.now_ms, 1)))
        return Tick(wait_ms=_RETRY_JUMPED_MS)

    def _tell_fired(self, fired: FireResult) -> None:
        if self._is_held:
            log.info("hold_ended")
            self._is_held = False
        for key in fired.wrong:
            if key not in self._wrong:
                self._wrong.add(key)
                first, *command = moving_away(key)
                remedy = f"schedules that do not need it still fire; {first}: {' '.join(command)}"
                log.error("key_of_wrong_type", key=key, remedy=remedy)
        if fired.runs:
            log.debug("runs_fired", count=fired.runs)
        if fired.uncertain:
            log.warning("runs_uncertain", count=fired.uncertain)
        for outcome, runs in ((Outcome.SKIPPED, fired.skipped), (Outcome.EXPIRED, fired.expired)):
            for run in runs:
                _tell(outcome, run_id=run, reason=outcome.reason or outcome.text)
        for line in fired.cancelled:
            run, _, status = line.partition("=")
            _tell(Outcome.CANCELLED, run_id=run, reason=f"its status in RQ is {status}".replace("_", " "))
        for id, reason in fired.quarantined:
            _tell(Outcome.QUARANTINED, schedule_id=id, reason=reason)


def _tell_advanced(planned: PlannedDue, word: str) -> None:
    """Log the outcome of a plan, by its *word*, and those of the occurrences that it left out."""
    (due, written), outcome = planned, outcome_of(word)
    id, plan = text(due.id), written.plan
    _tell(outcome, schedule_id=id, nominal_ms=plan.fire_ms, reason=outcome.reason or outcome.text or word)
    for passed in plan.passed:
        _tell(outcome_of(passed.why), schedule_id=id, count=passed.number)


def _tell(outcome: Outcome, **fields: Any) -> None:
    """Log an event of *outcome*, if it has one."""
    if outcome.event:
        getattr(log, outcome.level)(outcome.event, **fields)
