"""Datagrams between a daemon and its archivist: whole, without waiting, and with an end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from zsched.config.settings import LogSettings
from zsched.core.runs import RunStatus
from zsched.daemon.archivist_messages import Datagrams, Orders, State
from zsched.errors import ArchiveForeign, ArchiveOfAnother
from zsched.metrics.meter import DURATION_S, MOST, WAIT_S, Distribution, LogTally, Names

ORDERS = Orders(1, LogSettings())


@contextmanager
def both() -> Iterator[tuple[Datagrams, Datagrams]]:
    one, other = Datagrams.pair()
    with closing(one), closing(other):
        yield one, other


def test_a_message_arrives_unchanged_at_the_other_end() -> None:
    with both() as (one, other):
        assert one.send(ORDERS)
        assert ORDERS == other.receive()


def test_an_error_keeps_its_class() -> None:
    with both() as (one, other):
        one.send(State(1, refusal=ArchiveOfAnother("it is another's")))

        refusal = other.receive().refusal

    assert (ArchiveOfAnother, "it is another's") == (type(refusal), str(refusal))
    assert isinstance(refusal, ArchiveForeign)


def test_a_receiver_waits_no_longer_than_its_timeout() -> None:
    with both() as (one, _):
        assert one.receive(0.001) is None


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
