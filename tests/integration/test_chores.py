"""A leader's chores: the conditions to do them, their server, and the events when one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.leaders import Leader, know
from tests.waiting import WITHIN_S, eventually
from zsched.core.clock import ManualClock, SystemClock
from zsched.daemon import chores as module
from zsched.daemon import loop
from zsched.daemon.chores import ChoreThread
from zsched.errors import ArchiveFailed, RedisUnavailable, ServerChanged, Stale
from zsched.storage.connection import Link, Wire
from zsched.storage.lease import Term

T = TypeVar("T", bound=ChoreThread)


class Archiver:
    """An archiver in the form that a ``ChoreThread`` uses."""

    is_healthy = True


class Chore:
    """A chore that records its term and wire, and raises each of the given errors once."""

    name = "chore"

    def __init__(self) -> None:
        self.every_ms = 5.0
        self.done: list[tuple[Wire, Term]] = []
        self.raises: list[Exception] = []
        self.has_more = False

    def over(self, wire: Wire) -> Chore:
        self.wire = wire
        return self

    def step(self, term: Term) -> bool:
        if self.raises:
            raise self.raises.pop(0)
        self.done.append((self.wire, term))
        return self.has_more

    def is_done_again(self) -> Callable[[], bool]:
        number = len(self.done)
        return lambda: len(self.done) > number + 1  # one may have been in the middle


class Observed(ChoreThread):
    """A thread that records each of its waits: milliseconds, or None for another term."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.waits: list[float | None] = []

    def _wait(self, ms: float | None) -> None:
        self.waits.append(ms)
        super()._wait(ms)

    def rests(self) -> bool:
        """Return whether the thread waits for another term."""
        return self.waits[-1:] == [None]

    def has_looked_again(self) -> Callable[[], bool]:
        number = len(self.waits)
        return lambda: len(self.waits) > number + 2  # it may have been about to wait


@contextmanager
def serving(thread: ChoreThread, term: Term) -> Iterator[None]:
    """Serve *term* during the block."""
    thread.serve(term)
    try:
        yield
    finally:
        thread.serve(None)


@contextmanager
def running(thread: T) -> Iterator[T]:
    """Start *thread*, and stop it at the end of the block."""
    thread.start()
    yield thread
    thread.stop()
    assert thread.join(WITHIN_S)


@pytest.fixture
def chore() -> Chore:
    return Chore()


@pytest.fixture
def term(redis_url: str, redis_client: redis.Redis) -> Iterator[Term]:
    know(redis_client)
    with closing(Leader(redis_url)) as leader:
        yield leader.term


@pytest.fixture
def thread(link: Link, chore: Chore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observed]:
    monkeypatch.setattr(module, "_RETRY_MS", 20.0)
    monkeypatch.setattr(module, "_HEALTH_MS", 10.0)
    with running(Observed(link, Archiver(), SystemClock(), [chore.over])) as thread:
        yield thread


def test_chores_are_done_while_the_daemon_leads_over_a_wire_of_each_term(
    thread: Observed, chore: Chore, term: Term
) -> None:
    eventually(thread.rests)
    assert [] == chore.done

    with serving(thread, term):
        eventually(chore.is_done_again())
    eventually(thread.rests)
    assert {term} == {term for _, term in chore.done}
    with serving(thread, replace(term, token="another")):
        eventually(chore.is_done_again())

    assert ["another", term.token] == sorted({each.token for _, each in chore.done}, key=len)
    assert chore.done[0][0] is not chore.done[-1][0]


def test_a_chore_that_needs_no_archive_runs_without_one(
    link: Link, chore: Chore, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEALTH_MS", 10.0)
    needing, archiver = Chore(), Archiver()
    archiver.is_healthy = False
    thread = ChoreThread(link, archiver, SystemClock(), [needing.over], without_archive=[chore.over])  # type: ignore[arg-type]
    with running(thread), serving(thread, term):
        eventually(chore.is_done_again())
        eventually(chore.is_done_again())
        assert [] == needing.done

        archiver.is_healthy = True
        eventually(needing.is_done_again())
        eventually(chore.is_done_again())


def test_chores_that_are_due_soon_after_each_other_are_done_at_one_wake_up(
    link: Link, chore: Chore, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, clock = Chore(), ManualClock()
    chore.every_ms, other.every_ms = 30.0, 30.0 + module._TOGETHER_MS / 2
    thread = Observed(link, Archiver(), clock, [chore.over, other.over])  # type: ignore[arg-type]
    monkeypatch.setattr(thread, "_wait", lambda ms, wait=thread._wait: (wait(ms), clock.advance(ms or 0)))
    with running(thread), serving(thread, term):
        eventually(lambda: len(chore.done) > 20)

    assert len(thread.waits) < 1.5 * len(chore.done)  # one for both, and not one for each


def test_a_chore_does_not_run_on_another_server_than_its_terms(thread: Observed, chore: Chore, term: Term) -> None:
    with serving(thread, replace(term, server_id="of a master that this replica was promoted after")):
        eventually(thread.has_looked_again())

    assert [] == chore.done


@pytest.mark.parametrize("error", [Stale, ServerChanged])
def test_chores_leave_an_ended_term_and_serve_the_next(
    thread: Observed, chore: Chore, term: Term, error: type[Exception]
) -> None:
    with capture_logs() as told, serving(thread, term):
        eventually(chore.is_done_again())
        chore.raises = [error("over")]
        eventually(lambda: not chore.raises)
        eventually(thread.rests)
        with serving(thread, replace(term, token="next")):
            eventually(chore.is_done_again())

    assert [] == told


def test_chores_reopen_a_lost_connection_without_logging_it(thread: Observed, chore: Chore, term: Term) -> None:
    with capture_logs() as told, serving(thread, term):
        eventually(chore.is_done_again())
        before = chore.wire
        chore.raises = [RedisUnavailable("lost")]
        eventually(lambda: not chore.raises)
        eventually(chore.is_done_again())

    assert before is not chore.wire
    assert [] == told


@pytest.mark.parametrize("error", [ArchiveFailed("disk full"), KeyError("a bug")])
def test_a_failing_chore_is_logged_once_and_once_when_it_recovers(
    thread: Observed, chore: Chore, term: Term, error: Exception
) -> None:
    chore.raises = [error] * 3
    with capture_logs() as told, serving(thread, term):
        eventually(chore.is_done_again())

    assert [("chore_failed", "chore"), ("chore_back", "chore")] == [(each["event"], each["chore"]) for each in told]
    assert str(error) == told[0]["reason"] == told[1]["after"]


class FailingOnce(Chore):
    """A chore that cannot be made the first time, and is sound afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.has_failed = False

    def over(self, wire: Wire) -> Chore:
        if not self.has_failed:
            self.has_failed = True
            raise KeyError("a bug")
        return super().over(wire)


def test_chores_continue_soon_after_an_error_of_their_thread_which_ends_while_the_term_lasts(
    thread: Observed, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    chore = FailingOnce()
    monkeypatch.setattr(loop, "_STEADY_MS", 0.0)
    monkeypatch.setattr(thread, "_makers", [chore.over])

    with capture_logs() as told, serving(thread, term):
        eventually(chore.is_done_again())
        eventually(lambda: len(told) == 2)

    assert chore.has_failed
    assert ["thread_failed", "thread_back"] == [each["event"] for each in told]
    assert ["chores", "chores"] == [each["thread"] for each in told]


def test_a_chore_with_more_work_runs_again_at_once(thread: Observed, chore: Chore, term: Term) -> None:
    chore.every_ms, chore.has_more = 3_600_000.0, True

    with serving(thread, term):
        eventually(lambda: len(chore.done) > 100)
