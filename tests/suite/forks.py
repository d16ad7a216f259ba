"""
Workers that are forks of one collected session: ``pytest --forks 4``.

The parent collects, then forks. It hands out units, the dearest first (``costs``): the tests of a file that share a
fixture, or a short piece of a file whose tests share none. A worker asks for the next unit when it is done, so none
waits while another has a list. Reports travel as with pytest-xdist; the parent alone prints and counts.

Each worker has fixtures of the session of its own (its own Redis), and keeps them over its units. A worker that dies
fails the test that it ran; another one runs the rest of its unit. So does one whose test takes longer than pytest's
``faulthandler_timeout``: it prints where each of its threads is, and ends. Failures are named at once, and SIGTERM ends
the session as Ctrl-C does, so that a log that was cut short still tells them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import pytest
from _pytest.runner import SetupState

from tests.suite.costs import Costs

PIECE_S: Final = 1.0  # of CPU: the size of a unit where a file can be cut
_OF_FILE: Final = {"module", "class", "package"}
_HEAD: Final = struct.Struct("!I")
_END_S: Final = 20.0  # for a worker to tear down its fixtures after Ctrl-C


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("suite").addoption(
        "--forks", type=int, default=0, metavar="N", help="run the tests in N forks of the collected session; 0: here"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if (
        not option.forks
        or option.collectonly
        or option.usepdb
        or (session.testsfailed and not option.continue_on_collection_errors)
    ):
        return None  # pytest's own loop
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    Pool(session).run(option.forks)
    return True


class Channel:
    """Messages between parent and worker, each an event's name and its values."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def send(self, *message: Any) -> None:
        data = pickle.dumps(message)
        self.connection.sendall(_HEAD.pack(len(data)) + data)

    def receive(self) -> tuple[Any, ...] | None:
        """Return the next message; None if the other side is gone."""
        head = self._read(_HEAD.size)
        return pickle.loads(self._read(*_HEAD.unpack(head))) if head else None

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            with contextlib.suppress(ConnectionResetError):
                if more := self.connection.recv(size - len(data)):
                    data += more
                    continue
            return b""
        return data


class Pool:
    """The parent's side."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._config = session, session.config
        self._costs: Costs = session.config.stash[Costs.KEY]
        self._units = deque(sorted(units(session.items, self._costs), key=self._cost_s, reverse=True))
        self._selector = selectors.DefaultSelector()
        self._number = 0
        self._base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self, number: int) -> None:
        """Run all units in *number* workers."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # files mix
        for _ in range(min(number, len(self._units))):
            self._fork()
        try:
            while self._selector.get_map():
                for key, _ in self._selector.select():
                    self._hear(key.data)
                if self._session.shouldfail or self._session.shouldstop:
                    raise self._session.Failed(self._session.shouldfail or self._session.shouldstop)
        finally:
            self._end()

    def _cost_s(self, unit: list[int]) -> float:
        return sum(self._costs.of(self._session.items[index].nodeid) for index in unit)

    def _fork(self) -> None:
        ours, theirs = socket.socketpair()
        self._number += 1
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            for key in self._selector.get_map().values():
                key.data.channel.connection.close()
            ours.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _work(self._session, Channel(theirs), self._base / f"worker-{self._number}")
        theirs.close()
        self._selector.register(ours, selectors.EVENT_READ, Worker(pid, Channel(ours)))

    def _hear(self, worker: Worker) -> None:
        message = worker.channel.receive()
        hook = self._config.hook
        match message:
            case ["next"]:
                worker.unit = self._units.popleft() if self._units else []
                worker.channel.send(worker.unit)
            case ["start", index]:
                worker.running = index
                item = self._session.items[index]
                hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case ["report", data]:
                self._report(hook.pytest_report_from_serializable(config=self._config, data=data))
            case ["finish", index]:
                worker.running = None
                worker.unit.remove(index)
                item = self._session.items[index]
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case ["cost", nodeid, own_s, shared_s]:
                self._costs.add(nodeid, own_s, shared_s)
            case ["problem", text]:
                self._fail("the end of a worker", ("tests", None, "the end of a worker"), text)
            case None:
                self._selector.unregister(worker.channel.connection)
                worker.channel.connection.close()
                _, status = os.waitpid(worker.pid, 0)
                if worker.running is not None or worker.unit:
                    self._lost(worker, os.waitstatus_to_exitcode(status))

    def _lost(self, worker: Worker, code: int) -> None:
        """Report the test during which the worker ended, and give the rest of its unit to another worker."""
        if worker.running is not None:
            item = self._session.items[worker.running]
            self._fail(item.nodeid, item.location, f"the worker ended with {code} while it ran this test")
            worker.unit.remove(worker.running)
        if worker.unit:
            self._units.append(worker.unit)
        if self._units:
            self._fork()

    def _fail(self, nodeid: str, location: Any, text: str) -> None:
        self._report(pytest.TestReport(nodeid, location, {}, "failed", text, "call"))

    def _report(self, report: Any) -> None:
        self._config.hook.pytest_runtest_logreport(report=report)
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"FAILED {report.nodeid}, {report.when}")

    def _end(self) -> None:
        """End the workers that still run: tear down as after Ctrl-C, and kill what then hangs."""
        workers = [key.data for key in self._selector.get_map().values()]
        for worker in workers:
            os.kill(worker.pid, signal.SIGINT)
        for worker in workers:
            death = os.pidfd_open(worker.pid)
            with selectors.DefaultSelector() as waiting:
                waiting.register(death, selectors.EVENT_READ)
                if not waiting.select(_END_S):
                    os.kill(worker.pid, signal.SIGKILL)
            os.close(death)
            os.waitpid(worker.pid, 0)
            worker.channel.connection.close()
        self._selector.close()


class Worker:
    """The parent's knowledge of a worker: its *unit*, and the index of the test that it is *running*."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid, self.channel = pid, channel
        self.unit: list[int] = []
        self.running: int | None = None


class Between:
    """The "next test" between two units: it keeps the session's fixtures, and no other."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        return [self._session]


class Telling:
    """The worker's plugin: everything goes to the parent."""

    def __init__(self, config: pytest.Config, channel: Channel) -> None:
        self._config, self._channel = config, channel

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._channel.send("report", data)


def _work(session: pytest.Session, channel: Channel, folder: Any) -> None:
    """Be a worker: run units until the parent has none left; never return."""
    code = 1
    try:
        _run(session, channel, folder)
        code = 0
    except KeyboardInterrupt:
        code = 2
    except BaseException:
        with contextlib.suppress(OSError):  # the parent is gone
            channel.send("problem", traceback.format_exc())
    finally:
        os._exit(code)


def _run(session: pytest.Session, channel: Channel, folder: Any) -> None:
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():  # its files are the parent's
        capture.stop_global_capturing()
        capture.start_global_capturing()
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Telling(config, channel))
    config.stash[Costs.KEY].add = lambda *cost: channel.send("cost", *cost)
    folder.mkdir()
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    state: SetupState = session._setupstate
    try:
        for unit in _units_of(channel):
            for index, after in zip(unit, [*unit[1:], None], strict=True):
                item, between = session.items[index], Between(session)
                following: Any = between if after is None else session.items[after]
                channel.send("start", index)
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                channel.send("finish", index)
    finally:
        state.teardown_exact(None)


def _units_of(channel: Channel) -> Iterator[list[int]]:
    while True:
        channel.send("next")
        match channel.receive():
            case [[*unit]] if unit:
                yield unit
            case _:
                return


def units(items: list[pytest.Item], costs: Costs) -> Iterator[list[int]]:
    """Return the indexes of *items* in units: a file each, or pieces of a file whose tests share no fixture of it."""
    files: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        files.setdefault(item.location[0], []).append(index)
    for indexes in files.values():
        if any(_shares(items[index]) for index in indexes):
            yield indexes
            continue
        piece, cost_s = list[int](), 0.0
        for index in indexes:
            piece.append(index)
            cost_s += costs.of(items[index].nodeid)
            if cost_s >= PIECE_S:
                yield piece
                piece, cost_s = [], 0.0
        if piece:
            yield piece


def _shares(item: pytest.Item) -> bool:
    """Return True if the test shares a fixture with others of its file, or one of the session with parameters."""
    assert isinstance(item, pytest.Function)
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        scope = definitions[-1].scope
        if scope in _OF_FILE or (scope == "session" and definitions[-1].params):
            return True
    return False
