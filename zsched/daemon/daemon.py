"""
The daemon: connect, lead or stand by, and fire due schedules until it is stopped.

One thread does all of it. A background thread (``daemon.waker``) wakes it. Another process archives, answers questions
and does a leader's chores (``daemon.child``). Every pass ends with a sleep until the next event: a due time, the
renewal of the lease, the end of a hold, or the end of another daemon's lease. A lost Redis is a state like the others:
logged once, and tried again with growing pauses.
"""

import uuid
from collections.abc import Callable
from contextlib import closing

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.core.triggers.zones import lack_of
from zsched.daemon.data_set import AWAITED_MS, LOOK_EVERY_MS, Namer
from zsched.daemon.elector import Elector
from zsched.daemon.loop import Failures
from zsched.daemon.meter import Meter
from zsched.daemon.releases import Native, WaitingRuns
from zsched.daemon.replan import CalendarReplanner, Replanner, Replanning
from zsched.daemon.supervisor import Supervisor
from zsched.daemon.tick import Tick, Ticker
from zsched.daemon.upkeep import Trimmer
from zsched.daemon.waker import Waker
from zsched.errors import OlderFormat, OtherPrefix, RedisRefused, RedisUnavailable, ServerChanged, Stale
from zsched.health.facts import DaemonHealth
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link, Wire
from zsched.storage.dispatch import Dispatch, NativeJobs
from zsched.storage.keys import keys_of
from zsched.storage.lease import Lease, Term
from zsched.storage.log import Log
from zsched.storage.server import Server
from zsched.zone_rules import ZoneRules, installed

log = structlog.get_logger(__name__)

_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 50, 2000  # between attempts to reach Redis
_REFUSED_PAUSE_MS = 500  # before another attempt after a refusal by Redis
_OBJECTION_PAUSE_MS = 5000  # between checks of a server on which this daemon may not lead
_NEW_MASTER_PAUSE_MS = 500  # the longest pause of both if Sentinels may choose another server
_STANDBY_LOOK_MS = 3000.0  # between looks for a daemon that may have a zone which this machine lacks
_STAND_BACK_MS = 1000.0  # for that daemon to take the lease


class Session:
    """The objects of the daemon called *id* that use *wire*, one connection to one server."""

    def __init__(self, wire: Wire, settings: Settings, clock: Clock, id: str, rules: ZoneRules, meter: Meter) -> None:
        keys, self.server = keys_of(settings), Server.of(wire)
        lease, dispatch = Lease(wire, keys, self.server, clock, id, settings.daemon.lease_ms), Dispatch(wire, keys)
        self.elector, self.archivers = Elector(lease, clock, settings.daemon.renew_ms), Archivers(wire, keys)
        self.calendars = CalendarReplanner(wire, keys, clock)
        replanner = Replanner(wire, keys, rules, clock, self.calendars.present)
        self.replanners: tuple[Replanning, ...] = replanner, self.calendars
        native, waiting = Native(NativeJobs(wire, keys), settings.rq.native, clock), WaitingRuns(dispatch, clock)
        limits, keep_back, present = settings.runs_per_second, replanner.keep_back, self.calendars.present
        self.ticker = Ticker(dispatch, native, settings.daemon, clock, limits, meter, keep_back, waiting, present)
        self.trimmer = Trimmer(dispatch, Log(wire, keys), settings.archive, clock)


class Daemon:
    """One daemon of one namespace. ``run`` blocks; ``stop`` and ``reload`` are for any thread."""

    def __init__(
        self,
        settings: Settings,
        link: Link,
        clock: Clock | None = None,
        supervisor: Supervisor | None = None,
        meter: Meter | None = None,
        health: DaemonHealth | None = None,
        reload: Callable[[Settings], Settings] | None = None,
        on_pass: Callable[[], None] = lambda: None,
        id: str = "",
    ) -> None:
        """
        Make a daemon. *reload* returns the new settings after SIGHUP, given the old ones. *on_pass* is called after
        each pass, and when *health* has a new reason not to lead. *id*: its own, a new one by default.
        """
        self.id = id or uuid.uuid4().hex
        self._settings, self._link, self._clock = settings, link, clock or SystemClock()
        self._supervisor, self._meter = supervisor or Supervisor(self._clock), meter or Meter()
        self._health = health or DaemonHealth(self._clock)
        self._reload, self._must_reload, self._on_pass = reload, False, on_pass
        self._keys = keys_of(settings)
        self._zone_rules = installed()  # read at the start: a process keeps the zones that it has read
        self._waker = Waker(link, self._keys, self._clock, Failures(self._health.failing))
        self._namer = Namer(self._keys, self.id, self._clock)
        self._is_stopping = False
        self._logged: str | None = None  # the logged problem, until it is over
        self._yielded_for, self._next_look_ms = set[str](), 0.0  # zones that this machine lacks
        self._pause_ms = _FIRST_PAUSE_MS
        self._longest_pause_ms = _NEW_MASTER_PAUSE_MS if link.finds_master else _LONGEST_PAUSE_MS
        self._objection_pause_ms = _NEW_MASTER_PAUSE_MS if link.finds_master else _OBJECTION_PAUSE_MS

    def stop(self) -> None:
        """Finish the script in flight, release the lease, return from ``run``."""
        self._is_stopping = True
        self._waker.wake()

    def wake(self) -> None:
        """End the present pass of the main loop early."""
        self._waker.wake()

    def reload(self) -> None:
        """Read the settings again, at the end of this pass."""
        self._must_reload = True
        self._waker.wake()

    def run(self) -> None:
        """
        Lead or stand by until stopped.

        Raises:
            RedisRefused: this Redis is unusable (cluster mode, OlderFormat), or refuses our password.
        """
        log.info("daemon_started", daemon=self.id, namespace=self._settings.namespace, redis=self._link.where)
        self._waker.start()
        try:
            while not self._is_stopping:
                try:
                    with closing(self._link.open()) as wire:
                        session = Session(wire, self._settings, self._clock, self.id, self._zone_rules, self._meter)
                        self._supervisor.ready()
                        self._namer.over(wire)
                        self._serve(session)
                except RedisUnavailable as error:
                    self._health.trouble = str(error)
                    self._say_once("redis_lost", str(error))
                    self._pause(self._pause_ms)
                    self._pause_ms = min(2 * self._pause_ms, self._longest_pause_ms)
                self._end_pass()
        finally:
            self._supervisor.stopping()
            self._waker.stop()
            log.info("daemon_stopped", daemon=self.id)

    def _serve(self, session: Session) -> None:
        """Lead whenever possible, until stopped or until the connection is lost."""
        try:
            while not self._is_stopping:
                if objection := session.server.objection(self._settings.daemon.allow_eviction):
                    self._may_not_lead("leading_refused", objection)
                    self._pause(self._objection_pause_ms)
                    return  # and check again over a new connection
                try:
                    busy = session.elector.campaign()
                    self._say_well()
                    if busy:  # a jump of TIME may end the other daemon's lease: notice it first
                        session.ticker.observe(busy.now_ms, busy.sent_ms)
                        self._pause(busy.retry_ms)
                    else:
                        self._health.leads = True
                        try:
                            self._lead(session)
                        finally:
                            self._health.leads = False
                        if session.elector.term is None:  # it stepped down
                            self._stand_back()
                except (Stale, ServerChanged) as error:
                    session.elector.lose(error)
                except (OlderFormat, OtherPrefix):
                    raise
                except RedisRefused as error:  # refused attempt to lead: out of memory, no permission
                    self._may_not_lead("redis_refused", str(error))
                    self._pause(_REFUSED_PAUSE_MS)
                    return  # the next connection identifies the server again
                self._end_pass(session.ticker)
        finally:
            if self._is_stopping:
                if session.elector.term is not None:
                    session.ticker.end(session.elector.term)
                session.elector.leave()

    def _lead(self, session: Session) -> None:
        elector, ticker = session.elector, session.ticker
        assert elector.term is not None  # the campaign was won
        self._meter.began(elector.term.epoch)
        ticker.begin(elector.term)
        session.calendars.look()
        first = elector.term
        is_named, has_looked = first.gen is not None, first.hold_ms <= first.now_ms
        self._namer.remember(first.gen)
        while not self._is_stopping:
            self._renew(session)
            try:
                if not is_named and (naming_ms := self._namer.step(elector.term)) is not None:
                    tick, has_moved = ticker.hold(elector.term, naming_ms, LOOK_EVERY_MS), False
                elif not has_looked and (looking_ms := self._looking_ms(session, first)) is not None:
                    tick, has_moved = ticker.hold(elector.term, looking_ms, LOOK_EVERY_MS), False
                else:
                    is_named = has_looked = True
                    tick = ticker.tick(elector.term)
                    has_moved = any(one.step_if_free(elector.term, tick) for one in session.replanners)
            except RedisRefused as error:  # out of memory, or a wrong type of key: keep leading, it may be repaired
                self._health.trouble = str(error)
                self._say_once("redis_refused", str(error))
                tick, has_moved = Tick(wait_ms=_REFUSED_PAUSE_MS), False
            else:
                self._say_well()
            if self._must_step_down(session):
                elector.leave()
                return
            if not has_moved:
                self._rest(session, tick)
            self._end_pass(ticker)

    def _must_step_down(self, session: Session) -> bool:
        """
        Return True if this machine lacks the zone of a due schedule, and a daemon stands by, which may have it; once
        for each zone.
        """
        zones, now_ms = session.ticker.lacking - self._yielded_for, self._clock.monotonic_ms()
        if not zones or now_ms < self._next_look_ms:
            return False
        self._next_look_ms = now_ms + _STANDBY_LOOK_MS
        others = [one for one in session.archivers.reports() if one.daemon not in (None, self.id)]
        server_ms = session.ticker.server_now_ms()
        if not any(one.is_present(server_ms) and not one.about.get("may_not_lead") for one in others):
            return False
        self._yielded_for |= zones
        log.warning("stepped_down", reason=f"{lack_of(', '.join(sorted(zones)))}; another daemon may have it")
        return True

    def _stand_back(self) -> None:
        """Let a daemon that stands by lead."""
        until_ms = self._clock.monotonic_ms() + _STAND_BACK_MS
        while not self._is_stopping and (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            self._pause(left_ms)
            self._end_pass()

    def _renew(self, session: Session) -> bool:
        """Renew the lease if it is time. Return True if the server's clock was found to have jumped."""
        elector, sent_ms = session.elector, self._clock.monotonic_ms()
        renewed_at_ms = elector.renew_if_due()
        if renewed_at_ms is None or elector.term is None:
            return False
        self._meter.renewed(self._clock.monotonic_ms() - sent_ms)
        has_jumped = session.ticker.observe(renewed_at_ms, sent_ms)
        session.trimmer.trim_if_due(elector.term, renewed_at_ms)
        return has_jumped

    def _looking_ms(self, session: Session, term: Term) -> float | None:
        """
        Return the ms to wait for the own archive, or None once it has followed the log into *term*, which began on a
        new or restarted Redis. The hold of ``acquire`` lasts for a lease; on a busy machine the archive may need longer
        to find that an older state came back.
        """
        if session.archivers.has_followed(self.id, term):
            return None
        left_ms = term.trusted_until_ms - self._clock.monotonic_ms()  # of the hold
        if left_ms <= 0:
            left_ms += AWAITED_MS
        return left_ms if left_ms > 0 else None

    def _rest(self, session: Session, tick: Tick) -> None:
        """Sleep until the next pass. A renewal of the lease in between does not cause one."""
        until_ms = self._clock.monotonic_ms() + self._settings.daemon.idle_ms
        while self._sleeps_on(tick, until_ms, session.elector.ms_until_renewal()) and not self._is_stopping:
            self._end_pass()
            if self._renew(session):
                return

    def _sleeps_on(self, tick: Tick, until_ms: float, renewal_ms: float) -> bool:
        """Sleep until the next pass, *until_ms* at most, or until the renewal. Return True if no pass is due."""
        if tick.wait_ms is not None:
            self._pause(min(tick.wait_ms, renewal_ms))
        elif not tick.has_more:
            due_ms = float("inf") if tick.next_ms is None else float(tick.next_ms)
            left_ms = until_ms - self._clock.monotonic_ms()
            most_ms = min(renewal_ms, left_ms, self._supervisor.longest_sleep_ms)
            return not self._waker.wait_until_due(due_ms, tick.server_offset_ms, most_ms) and left_ms > most_ms
        return False

    def _pause(self, for_ms: float) -> None:
        """Sleep until woken, *for_ms* at most."""
        self._waker.wait(min(for_ms, self._supervisor.longest_sleep_ms))

    def _end_pass(self, ticker: Ticker | None = None) -> None:
        """Report a finished pass to the watchdog. If a reload was requested, *ticker* gets the new settings."""
        self._health.last_pass_ms = self._clock.monotonic_ms()
        self._supervisor.beat()
        self._on_pass()
        if self._must_reload and self._reload is not None:
            self._must_reload = False
            with self._supervisor.reloading():
                self._settings = self._reload(self._settings)
                if ticker is not None:
                    ticker.limit(self._settings.runs_per_second)

    def _may_not_lead(self, event: str, reason: str) -> None:
        self._health.trouble = f"may not lead: {reason}"
        self._object(reason)
        self._say_once(event, reason)

    def _say_once(self, event: str, reason: str) -> None:
        if self._logged != event:
            log.warning(event, redis=self._link.where, reason=reason)
        self._logged = event

    def _say_well(self) -> None:
        if self._logged is not None:
            log.info("redis_back", redis=self._link.where, after=self._logged)
        self._logged = self._health.trouble = None
        self._object(None)
        self._pause_ms = _FIRST_PAUSE_MS

    def _object(self, reason: str | None) -> None:
        if reason != self._health.may_not_lead:
            self._health.may_not_lead = reason
            self._on_pass()
