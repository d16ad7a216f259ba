"""seat.lua: two daemons inside workers have a seat; a seat that nobody keeps lapses."""

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from zsched.storage.lease import Seats

LEASE_MS = 6000


def sit(ns: Namespace, daemon: str) -> bool:
    """Take or keep a seat. Return True if there is one."""
    return "FULL" != ns.call("seat", daemon=daemon, most=2, lease_ms=LEASE_MS)[0]


def seated(ns: Namespace) -> set[bytes]:
    """Return the daemons with a seat that has not been given away."""
    return set(ns.redis.zrange(ns.keys.seats(), 0, -1))


@pytest.fixture
def taken(led: Namespace) -> Namespace:
    """A namespace whose two seats are taken, by a and b."""
    assert [True, True] == [sit(led, daemon) for daemon in "ab"]
    return led


def test_a_third_daemon_gets_no_seat_and_the_two_keep_theirs(taken: Namespace) -> None:
    assert [False, True, True] == [sit(taken, daemon) for daemon in "cab"]
    assert {b"a", b"b"} == seated(taken)


def test_a_kept_seat_lasts_and_a_lapsed_seat_goes_to_another_daemon(taken: Namespace) -> None:
    taken.pass_time(LEASE_MS - 1)
    assert sit(taken, "a")
    taken.pass_time(1)

    assert [True, True, False] == [sit(taken, daemon) for daemon in "cab"]
    assert {b"a", b"c"} == seated(taken)


def test_a_daemon_whose_seat_lapsed_gets_it_again_while_one_is_free(taken: Namespace) -> None:
    taken.pass_time(HOUR_MS)

    assert [True, True] == [sit(taken, daemon) for daemon in "ab"]


def test_seats_from_before_the_clock_was_set_back_lapse_after_a_lease(taken: Namespace) -> None:
    taken.pass_time(-HOUR_MS)

    assert not sit(taken, "c")
    assert sit(taken, "a")
    taken.pass_time(LEASE_MS)
    assert sit(taken, "c")
    assert {b"c"} == seated(taken)


def test_unused_seats_leave_no_key(taken: Namespace) -> None:
    assert 0 < taken.redis.pttl(taken.keys.seats()) <= LEASE_MS


def test_a_seat_is_free_if_it_was_left_or_lapsed(taken: Namespace) -> None:
    seats = Seats(taken.link, taken.keys)
    assert not seats.is_free()

    seats.leave("nobody")
    assert not seats.is_free()
    seats.leave("b")

    assert seats.is_free()
    assert seats.take("c")
    assert not seats.is_free()
    taken.pass_time(LEASE_MS)
    assert seats.is_free()
