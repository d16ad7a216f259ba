"""
The keeper, a process that starts the archivist, and another one when it dies; and the archivist in its process.

``archivist_process`` has the daemon's side, and the rules for the end of each process.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon.archivist import Threads
from zsched.daemon.archivist_messages import Datagrams, Orders, State
from zsched.daemon.failures import Failures
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter
from zsched.errors import ArchiveError, ArchiveInUse, ZschedError
from zsched.events import configure
from zsched.storage.connection import Link, link_of

log = structlog.get_logger(__name__)

_LEFT_TO_DAEMON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_RESTART_S: Final = 1.0  # after an archivist that died
_TELL_S: Final = 1.0  # the longest time without a message to the daemon
_LOOK_S: Final = 1.0  # between two questions for the present master, as in daemon/waker.py
_LOCKED_S: Final = 1.0  # for the archivist of a daemon that was killed to leave the archive
_LOOK_AGAIN_S: Final = 0.02  # between two attempts meanwhile


def keep(datagrams: Datagrams, settings: Settings, about: dict[str, Any], meter: Meter) -> NoReturn:
    """Be the keeper. *about*: the facts of the daemon. Ends with the daemon, or with an archivist that was stopped."""
    try:
        _keep(datagrams, settings, about, meter)
    except BaseException:  # for example, no other process can be started
        log.exception("keeper_crashed")
    os._exit(1)


def _keep(datagrams: Datagrams, settings: Settings, about: dict[str, Any], meter: Meter) -> NoReturn:
    for each in _LEFT_TO_DAEMON:
        signal.signal(each, signal.SIG_IGN)
    _be_called("zsched-keeper")
    events = select.poll()
    events.register(datagrams, 0)  # only for the daemon's end, which poll always reports
    while True:
        archivist = os.fork()
        if archivist == 0:
            _be_called("zsched-archive")
            _run(datagrams, settings, about, meter)
        death = os.pidfd_open(archivist)
        events.register(death, select.POLLIN)
        happened = {event for event, _ in events.poll()}
        if death not in happened:  # the daemon has ended, and its archivist may hang
            os.kill(archivist, signal.SIGKILL)
            os._exit(0)
        events.unregister(death)
        os.close(death)
        code = os.waitstatus_to_exitcode(os.waitpid(archivist, 0)[1])
        if code == 0:
            os._exit(0)
        log.error("archivist_died", exit_code=code, restart_s=_RESTART_S)
        if events.poll(_RESTART_S * 1000):
            os._exit(0)


def _be_called(name: str) -> None:
    """Give this process the *name*, of 15 characters at most, for ps and top."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def _run(datagrams: Datagrams, settings: Settings, about: dict[str, Any], meter: Meter) -> NoReturn:
    """Be the archivist."""
    try:
        _Inside(datagrams, settings, about, meter).run()
        os._exit(0)
    except BaseException:
        log.exception("archivist_crashed")
        os._exit(1)


class _Inside:
    """The archivist in its process: it follows its orders, and sends its state to the daemon."""

    def __init__(self, datagrams: Datagrams, settings: Settings, about: dict[str, Any], meter: Meter) -> None:
        self._datagrams, self._meter, self._clock = datagrams, meter, SystemClock()
        self._failures = Failures()
        link = link_of(settings)
        place = (settings, link, self._clock, about["daemon"], meter, self._failures)
        self._threads = Threads(*place, about, partial(self._say, is_counting=True))
        self._lookout = Loop("lookout", partial(_look_for_master, link), self._failures) if link.finds_master else None
        self._orders = Orders(0, settings.log)
        self._told, self._telling = State(os.getpid()), threading.Lock()
        self._told_ms = self._counted_ms = 0.0
        self._was_opened = False
        self._refusal: ZschedError | None = None

    def run(self) -> None:
        """Run until the orders end it, or until the daemon or the keeper is gone."""
        keeper = os.getppid()
        if self._lookout is not None:
            self._lookout.start()
        self._datagrams.send(self._told)
        while os.getppid() == keeper and not self._orders.is_stopping:
            try:
                orders = self._datagrams.receive(_TELL_S)
            except EOFError:
                return
            if orders is not None:
                self._obey(orders)
            self._say()

    def _obey(self, orders: Orders) -> None:
        before, self._orders = self._orders, orders
        if orders.log != before.log:
            configure(orders.log.level, orders.log.format)
        if not self._was_opened:
            self._refusal, self._was_opened = _opened(self._threads, self._clock), True
        self._failures.show_others(orders.failing)
        self._threads.objected(orders.objection)
        if orders.term != before.term:
            if orders.term is not None:
                self._meter.began(orders.term.epoch)
            self._threads.serve(orders.term)
        if orders.is_started and not before.is_started:
            self._threads.start()
        if orders.is_stopping:
            self._threads.stop()

    def _say(self, *, is_counting: bool = False) -> None:
        """Send the state if it is new, or a second old. *is_counting*: this is the thread that counts."""
        archiver, now_ms = self._threads.archiver, self._clock.monotonic_ms()
        with self._telling:
            state = State(
                pid=self._told.pid,
                heard=self._orders.number,
                was_opened=self._was_opened,
                refusal=self._refusal,
                knowledge=archiver.knowledge(),
                failing=self._failures.own,
            )
            if self._orders.is_started:  # until then a leader waits for it
                state = replace(
                    state, has_looked=archiver.has_looked, is_trusted=archiver.is_trusted, looked_ms=archiver.looked_ms
                )
            has_counts = is_counting and now_ms - self._counted_ms >= _TELL_S * 1000
            if has_counts or state != self._told or now_ms - self._told_ms >= _TELL_S * 1000:
                counted = replace(state, counts=self._meter.counts()) if has_counts else state
                if self._datagrams.send(counted):
                    self._told, self._told_ms = state, now_ms
                    self._counted_ms = now_ms if has_counts else self._counted_ms


def _opened(threads: Threads, clock: Clock) -> ZschedError | None:
    """Open the archive. Return the error if it is refused."""
    until_ms = clock.monotonic_ms() + _LOCKED_S * 1000
    while True:
        try:
            threads.open()
        except ZschedError as error:
            if not isinstance(error, ArchiveInUse) or clock.monotonic_ms() >= until_ms:
                return error
            threading.Event().wait(_LOOK_AGAIN_S)
        except Exception as error:  # also an answer: an archivist that dies of it would be started again and again
            log.exception("archivist_crashed")
            return ArchiveError(f"archive cannot be opened: {type(error).__name__}: {error}")
        else:
            return None


def _look_for_master(link: Link) -> float:
    link.look_for_master()
    return _LOOK_S
