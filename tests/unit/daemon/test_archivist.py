"""The archivist's process, in a thread of the test, without a Redis: its messages, and their datagrams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from zsched.archive import Archive
from zsched.config.settings import ArchiveSettings, LogSettings, RedisSettings, Settings
from zsched.core.clock import SystemClock
from zsched.core.runs.run import RunStatus
from zsched.daemon import keeper
from zsched.daemon.about import facts
from zsched.daemon.archivist_messages import Datagrams, Orders, State
from zsched.daemon.keeper import _Inside
from zsched.daemon.meter import Meter
from zsched.errors import ArchiveForeign, ArchiveInUse, ArchiveOfAnother
from zsched.metrics.meter import DURATION_S, MOST, WAIT_S, Distribution, LogTally, Names

OPEN = Orders(1, LogSettings())


class Ends:
    """An archivist, and the daemon's end of its connection."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "archive.db"
        self.daemon, theirs = Datagrams.pair()
        redis = RedisSettings(url=f"unix://{folder}/nowhere")
        settings = Settings(redis=redis, archive=ArchiveSettings(path=str(self.path)))
        self.inside = _Inside(theirs, settings, facts("d1", SystemClock()), Meter())

    def order(self, orders: Orders) -> State:
        """Let the archivist obey *orders*; return its state then."""
        self.inside._obey(orders)
        self.inside._say()
        state = self.daemon.receive(0)
        assert isinstance(state, State)
        return state


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    ends = Ends(tmp_path)
    yield ends
    ends.inside._threads.stop()
    ends.daemon.close()
    ends.inside._datagrams.close()


def test_an_archivist_is_awaited_before_it_follows_but_not_when_its_thread_has_ended(ends: Ends) -> None:
    state = ends.order(OPEN)
    assert (True, None, 1) == (state.was_opened, state.refusal, state.heard)
    assert (False, True) == (state.has_looked, state.is_trusted)

    state = ends.order(replace(OPEN, number=2, is_started=True, is_stopping=True))
    assert (2, True, False) == (state.heard, state.has_looked, state.is_trusted)


def test_an_archive_of_another_namespace_is_refused(ends: Ends) -> None:
    Archive(ends.path, "another").close()

    assert isinstance(ends.order(OPEN).refusal, ArchiveForeign)


def test_an_archive_that_stays_in_use_is_refused(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_LOCKED_S", 0.05)
    with closing(Archive(ends.path, "default")):
        assert isinstance(ends.order(OPEN).refusal, ArchiveInUse)


def test_repeating_the_same_orders_changes_nothing(ends: Ends) -> None:
    first = ends.order(OPEN)
    ends.inside._obey(OPEN)
    ends.inside._say()

    assert ends.daemon.receive(0) is None
    assert first == ends.inside._told


def test_an_archivist_ends_when_its_daemon_is_gone(ends: Ends) -> None:
    ends.daemon.end()

    ends.inside.run()  # returns


ORDERS = Orders(1, LogSettings())


@contextmanager
def both() -> Iterator[tuple[Datagrams, Datagrams]]:
    one, other = Datagrams.pair()
    with closing(one), closing(other):
        yield one, other


def test_a_message_arrives_unchanged_at_the_other_end_which_waits_no_longer_than_its_timeout() -> None:
    with both() as (one, other):
        assert one.send(ORDERS)
        assert (ORDERS, None) == (other.receive(), other.receive(0.001))


def test_an_error_keeps_its_class() -> None:
    with both() as (one, other):
        one.send(State(1, refusal=ArchiveOfAnother("it is another's")))

        refusal = other.receive().refusal

    assert (ArchiveOfAnother, "it is another's") == (type(refusal), str(refusal))
    assert isinstance(refusal, ArchiveForeign)


def test_a_sender_does_not_wait_for_a_stuck_receiver() -> None:
    with both() as (one, other):
        while one.send(ORDERS):
            pass
        other.receive()

        assert one.send(ORDERS)


def test_a_receiver_notices_that_the_other_end_is_closed() -> None:
    one, other = Datagrams.pair()
    with closing(one):
        one.send(ORDERS)
        other.close()

        assert not one.send(ORDERS)
        with pytest.raises(EOFError):
            one.receive()


def test_ending_a_connection_is_noticed_on_both_sides() -> None:
    with both() as (one, other):
        one.end()
        one.end()

        for each in (one, other):
            with pytest.raises(EOFError):
                each.receive()


def test_the_counts_of_all_labelled_queues_fit_into_a_message() -> None:
    tally = LogTally("", names := Names())
    for n in range(2 * MOST):
        queue = names.of(f"{n:03}" + "\U0001f4e8" * 300)
        tally.wait_s[queue], tally.duration_s[queue] = Distribution(WAIT_S), Distribution(DURATION_S)
        tally.ended.update((names.of(queue), status.value) for status in RunStatus)

    with both() as (one, other):
        assert one.send(State(1, counts=tally.counts()))
        counts = other.receive().counts

    assert tally.ended == counts["ended"]
    assert MOST + 1 == len(counts["wait_s"])
