"""
The archivist in a process of its own, which the daemon starts, watches and restarts.

::

    daemon ──fork──► keeper ──fork──► archivist        three processes, one program
       └──────────── messages ───────────┘

What fires and what archives would share Python's interpreter lock in one process. The daemon forks the keeper before it
has threads or connections. The keeper does nothing but start the archivist, again when it dies: a process without
threads may fork at any time. Messages are datagrams, so a process that dies leaves no half of one. They carry pickles,
between processes of one program and one user.

The archivist ends with the daemon, however that ends: the daemon's end of the socket is closed then. It leaves signals
to the daemon, which tells it to stop. While it is away (about a second) the daemon fires, and knows what the archivist
said last. A daemon whose keeper died, too, goes on without an archive, and says so.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

import structlog

from zsched.config import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.daemon.about import facts
from zsched.daemon.archivist import Threads
from zsched.daemon.failures import Failures
from zsched.daemon.loop import Loop
from zsched.daemon.meter import Meter, NoMeter
from zsched.errors import ArchiveFailed, ArchiveInUse, ZschedError
from zsched.storage.connection import Link, link_of
from zsched.storage.lease import Term
from zsched.storage.questions import Knowledge

log = structlog.get_logger(__name__)

_DONE, _ORPHANED, _REFUSED = 0, 3, 4  # exit codes of an archivist: told to stop; its daemon is gone; see its message
_RESTART_S: Final = 1.0  # after an archivist that died
_HEAR_S: Final = 0.5  # wait for a message, between two checks for the stop
_LOOK_S: Final = 1.0  # between two questions for the present master, as in daemon/waker.py
_TELL_S: Final = 1.0  # the longest time without a message to the daemon
_STOP_S: Final = 7.0  # for an archivist to end in order; its archiver alone may take 5
_LOCKED_S: Final = 1.0  # for the archivist of a daemon that was killed to end, and to leave the archive
_MOST: Final = 131_072  # bytes of a message
_LEFT_TO_DAEMON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class _Said:
    """The state of an archivist, which it sends about once in each pass over the log."""

    knowledge: Knowledge | None = None
    has_looked: bool = False
    is_trusted: bool = True  # False: it is in trouble, and nobody need wait for it
    looked_ms: float = 0.0
    failing: dict[str, str] = field(default_factory=dict)
    counts: Any = None  # of the log, by its meter; None: as before


class ArchivistProcess:
    """
    The daemon's side. Make it before there are threads and connections. *daemon*: the id of the daemon; *meter*: in the
    archivist's process, what it counts. ``share`` is called once, before ``open``.
    """

    def __init__(self, settings: Settings, daemon: str, meter: Meter | None = None) -> None:
        self.daemon = daemon
        about = facts(daemon, SystemClock())
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._keeper = os.fork()
        if self._keeper == 0:
            self._socket.close()
            _keep(_Inside(theirs, settings, about, meter or NoMeter()))
        theirs.close()
        self._said, self._failures, self._meter = _Said(), Failures(), meter or NoMeter()
        self._loop = Loop("archivist", self._hear)
        self._opened, self._is_gone = threading.Event(), threading.Event()
        self._refusal: ZschedError | None = None  # to open the archive, the last time
        self._term: Term | None = None
        self._objection: str | None = None
        self._ours: dict[str, str] = {}  # failures that the archivist reports for the daemon
        self._telling = threading.Lock()

    def share(self, failures: Failures, meter: Meter) -> None:
        """Let *failures* have the archivist's, too, and *meter* what it counts."""
        self._failures, self._meter = failures, meter
        self._loop = Loop("archivist", self._hear, failures)

    def open(self) -> None:
        """Let the archivist open its archive, and wait until it has. Raises as ``Archiver.open``."""
        self._loop.start()
        self._opened.wait()
        if self._refusal is not None:
            raise self._refusal
        if self._is_gone.is_set():
            raise ArchiveFailed("the archivist's process ended before it could open the archive; see the log above")

    def start(self) -> None:
        """Nothing: it begins when its archive is open."""

    def stop(self) -> None:
        """Let it archive the log up to now, if that is quick, and end."""
        self._tell("stop", None)
        self._is_gone.wait(_STOP_S)
        self._loop.stop()
        self._socket.close()  # whoever is still there ends now
        with suppress(ChildProcessError):
            os.waitpid(self._keeper, 0 if self._is_gone.is_set() else os.WNOHANG)

    def serve(self, term: Term | None) -> None:
        """Hand the term over."""
        self._term = term
        self._tell("serve", term)

    def objected(self, reason: str | None) -> None:
        """Leave it to the archiver's report."""
        self._objection = reason
        self._tell("object", reason)

    @property
    def gen(self) -> str | None:
        """Return what the archivist said last."""
        knowledge = self._said.knowledge
        return knowledge.gen if knowledge else None

    @property
    def has_looked(self) -> bool:
        """Return what the archivist said last."""
        return self._said.has_looked or self._is_gone.is_set()

    def has_looked_since(self, since_ms: float) -> bool:
        """Return what the archivist said last."""
        return self._said.looked_ms > since_ms or not self._said.is_trusted or self._is_gone.is_set()

    def knowledge(self) -> Knowledge | None:
        """Return what the archivist said last, also while it is away."""
        return self._said.knowledge

    # -- messages -------------------------------------------------------------------------------

    def _tell(self, word: str, about: object) -> None:
        with self._telling, suppress(OSError):  # if it is away, it hears it when it is back
            self._socket.send(pickle.dumps((word, about)))

    def _hear(self) -> None:
        """Wait for messages, until ``stop``."""
        self._socket.settimeout(_HEAR_S)
        while not self._loop.is_stopping:
            try:
                message = self._socket.recv(_MOST)
            except TimeoutError:
                continue
            except OSError:
                message = b""
            if not message:
                self._end()
                return
            self._take(*pickle.loads(message))  # of a process that this one started

    def _take(self, word: str, about: Any) -> None:
        if word == "here":  # for the first time, or again
            for what, known in (("open", None), ("serve", self._term), ("object", self._objection)):
                self._tell(what, known)
            self._ours = {}
        elif word == "opened":
            if self._opened.is_set() and about is not None and str(about) != str(self._refusal):
                log.error("archive_failed", reason=str(about))
            self._refusal = about
            self._opened.set()
        else:
            self._failures.show_others(about.failing)
            self._said = about
            if about.counts is not None:
                self._meter.counted(about.counts)
            if (ours := self._failures.own) != self._ours:
                self._ours = ours
                self._tell("failing", ours)

    def _end(self) -> None:
        """The keeper and its archivist are gone."""
        self._is_gone.set()
        self._opened.set()
        if not self._loop.is_stopping:
            self._loop.stop()


def _keep(inside: _Inside) -> NoReturn:
    """Be the keeper: start an archivist, and another one when it dies."""
    for each in _LEFT_TO_DAEMON:
        signal.signal(each, signal.SIG_IGN)
    while True:
        archivist = os.fork()
        if archivist == 0:
            inside.run()
        _, status = os.waitpid(archivist, 0)
        code = os.waitstatus_to_exitcode(status)
        if code in (_DONE, _ORPHANED):
            os._exit(0)
        if code != _REFUSED:
            log.error("archivist_died", exit_code=code, restart_s=_RESTART_S)
        threading.Event().wait(_RESTART_S)


class _Inside:
    """The archivist's side."""

    def __init__(self, here: socket.socket, settings: Settings, about: dict[str, Any], meter: Meter) -> None:
        self._socket, self._settings, self._about, self._meter = here, settings, about, meter
        self._clock: Clock = SystemClock()
        self._told_ms, self._told = 0.0, _Said()
        self._telling = threading.Lock()

    def run(self) -> NoReturn:
        """Do it, until the daemon says that it is enough, or is gone."""
        try:
            os._exit(self._work())
        except BaseException:
            log.exception("archivist_crashed")
            os._exit(1)

    def _work(self) -> int:
        link = link_of(self._settings)
        self._failures = Failures()
        daemon, on_pass = self._about["daemon"], partial(self._say, is_counted=True)
        place = (self._settings, link, self._clock, daemon, self._meter, self._failures)
        self._threads = Threads(*place, self._about, on_pass)
        if link.finds_master:
            Loop("lookout", partial(_look_for_master, link), self._failures).start()
        self._send("here", None)
        self._socket.settimeout(_TELL_S)
        while True:
            try:
                message = self._socket.recv(_MOST)
            except TimeoutError:
                self._say()
                continue
            if not message:
                return _ORPHANED
            word, about = pickle.loads(message)  # of the process that started this one
            if word == "open":
                error = self._open()
                self._send("opened", error)
                if error is not None:
                    return _REFUSED
                self._threads.start()
            elif word == "serve":
                self._meter.began(about.epoch) if about is not None else None
                self._threads.serve(about)
            elif word == "object":
                self._threads.objected(about)
            elif word == "failing":
                self._failures.show_others(about)
            elif word == "stop":
                self._threads.stop()
                self._say()
                return _DONE

    def _open(self) -> ZschedError | None:
        until_ms = self._clock.monotonic_ms() + _LOCKED_S * 1000
        while True:
            try:
                self._threads.open()
            except ArchiveInUse as error:
                if self._clock.monotonic_ms() >= until_ms:
                    return error
                threading.Event().wait(0.02)
            except ZschedError as error:
                return error
            else:
                return None

    def _say(self, *, is_counted: bool = False) -> None:
        """Say what is known now, unless it was said. With *is_counted* nothing counts meanwhile."""
        archiver, now_ms = self._threads.archiver, self._clock.monotonic_ms()
        with self._telling:
            is_time = now_ms - self._told_ms >= _TELL_S * 1000
            said = _Said(
                archiver.knowledge(),
                archiver.has_looked,
                archiver.is_trusted,
                archiver.looked_ms,
                self._failures.own,
                self._meter.counts() if is_time and is_counted else None,
            )
            if is_time or said != self._told:
                self._send("said", said)
                self._told = said
                self._told_ms = now_ms if is_time else self._told_ms

    def _send(self, word: str, about: object) -> None:
        flags = socket.MSG_DONTWAIT if word == "said" else 0  # a daemon that was stopped hears the next one
        with suppress(BlockingIOError, BrokenPipeError, ConnectionError):
            self._socket.send(pickle.dumps((word, about)), flags)


def _look_for_master(link: Link) -> float:
    link.look_for_master()
    return _LOOK_S
