"""The host of a daemon inside a worker: it starts a daemon with a seat, and waits without one."""

import pytest

from zsched.daemon import host as module
from zsched.daemon.child import ChildProcess
from zsched.daemon.host import DaemonHost
from zsched.errors import RedisUnavailable, ZschedError


class SeatsOfTest:
    """Seats that answer as *replies* say, one after the other; ``calls`` are the names of what was asked."""

    def __init__(self, *replies: bool | Exception) -> None:
        self.replies, self.calls = list(replies), list[str]()

    def take(self, daemon: str) -> bool:
        return self._reply("take")

    def is_free(self) -> bool:
        return self._reply("is_free")

    def leave(self, daemon: str) -> None:
        self.calls.append("leave")

    def _reply(self, name: str) -> bool:
        self.calls.append(name)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class ProcessOfTest(ChildProcess):
    """A daemon with an exit code; None: it runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def exit_code(self, within_s: float | None = 0) -> int | None:
        return self.code


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ProcessOfTest]:
    """The daemons that were started."""
    found: list[ProcessOfTest] = []
    monkeypatch.setattr(module, "spawn", lambda *_, **__: len(found))
    monkeypatch.setattr(module, "ChildProcess", lambda pid: found.append(ProcessOfTest(pid)) or found[-1])
    return found


def host_with(monkeypatch: pytest.MonkeyPatch, seats: SeatsOfTest) -> DaemonHost:
    """Return a host whose pauses are noted among the calls of *seats*."""
    host = DaemonHost(seats, {}, "w")  # type: ignore[arg-type]  # all that it calls
    monkeypatch.setattr(host._loop, "pause", lambda for_s: seats.calls.append(f"pause {for_s:g}"))
    return host


def test_a_host_takes_a_free_seat_at_once(monkeypatch: pytest.MonkeyPatch, started: list[ProcessOfTest]) -> None:
    seats = SeatsOfTest(True)
    host = host_with(monkeypatch, seats)

    host._step()
    host._step()

    assert ["take"] == seats.calls
    assert 1 == len(started)


def test_a_host_that_waited_lets_the_daemons_that_had_seats_come_first(
    monkeypatch: pytest.MonkeyPatch, started: list[ProcessOfTest]
) -> None:
    lost = RedisUnavailable("away", "start it")
    seats = SeatsOfTest(False, False, lost, True, False, True, True)
    host = host_with(monkeypatch, seats)

    for _ in range(2):
        host._step()
    with pytest.raises(RedisUnavailable):
        host._step()
    for _ in range(2):
        host._step()

    assert ["take", "is_free", "is_free", "is_free", "pause 5", "take", "is_free", "pause 5", "take"] == seats.calls
    assert 1 == len(started)


@pytest.mark.parametrize(("code", "fails"), [(0, False), (1, True), (2, True), (-9, True)])
def test_the_seat_of_a_daemon_that_ended_is_left_and_a_failure_makes_the_pauses_grow(
    monkeypatch: pytest.MonkeyPatch, started: list[ProcessOfTest], code: int, fails: bool
) -> None:
    seats = SeatsOfTest(True, True)
    host = host_with(monkeypatch, seats)
    host._step()
    first = host._id
    started[0].code = code

    if fails:
        with pytest.raises(ZschedError, match=f"ended with exit code {code}"):
            host._step()
    else:
        host._step()
    host._step()

    assert ["take", "leave", "take"] == seats.calls
    assert 2 == len(started)
    assert first != host._id
