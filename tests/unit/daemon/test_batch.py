"""The size of a batch; and the log events at the begin of a term. No Redis."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from tests.unit.daemon.leading import NOW_MS, TERM
from zsched.core.clock import ManualClock
from zsched.daemon.batch import Batch
from zsched.daemon.elector import Elector


def learn(batch: Batch, ms_per_schedule: float, times: int, round_trip_ms: float = 0.1) -> int:
    """Feed *batch* with full scripts at a constant speed; return its size after them."""
    for _ in range(times):
        batch.learn(round_trip_ms + batch.size * ms_per_schedule, batch.size)
    return batch.size


def measured(most: int = 500, round_trip_ms: float = 0.1) -> Batch:
    """Return a batch that knows its round trip."""
    batch = Batch(most, target_ms=3.0)
    batch.learn(round_trip_ms, 0)
    return batch


SIZES = {  # the most, the round trip, milliseconds per schedule, scripts, and the bounds of the size after them
    "it stays at its maximum while scripts are fast": (500, 0.1, 0.004, 20, 500, 500),
    "slow scripts shrink it to the target time": (500, 0.1, 0.01, 40, 280, 320),
    "never below its minimum": (500, 0.1, 10, 40, 50, 50),
    "its minimum is not above its maximum": (10, 0.1, 10, 10, 10, 10),
    "the round trip is no script time": (500, 40.0, 0.004, 20, 500, 500),
}


@pytest.mark.parametrize(
    ("most", "round_trip_ms", "ms_per_schedule", "times", "least", "greatest"), SIZES.values(), ids=SIZES
)
def test_a_batch_has_the_size_that_fits_the_target_time(
    most: int, round_trip_ms: float, ms_per_schedule: float, times: int, least: int, greatest: int
) -> None:
    assert least <= learn(measured(most, round_trip_ms), ms_per_schedule, times, round_trip_ms) <= greatest


def test_the_first_batch_has_at_most_500_schedules() -> None:
    assert [200, 500, 500] == [Batch(most, target_ms=3.0).size for most in (200, 500, 4000)]


def test_a_batch_grows_again_when_scripts_are_fast_again() -> None:
    batch = measured()
    learn(batch, ms_per_schedule=1, times=20)

    assert 500 == learn(batch, ms_per_schedule=0.004, times=40)


def test_a_batch_that_was_not_full_does_not_change_the_size() -> None:
    batch = Batch(most=500, target_ms=3.0)

    for _ in range(20):
        batch.learn(50.0, 499)

    assert 500 == batch.size


@pytest.mark.parametrize("first_ms", [0.1, 5.0])
def test_a_batch_recovers_after_the_network_became_slower_or_faster_for_good(first_ms: float) -> None:
    batch = Batch(most=1000, target_ms=3.0)
    learn(batch, ms_per_schedule=0.0028, times=400, round_trip_ms=first_ms)

    slower = learn(batch, ms_per_schedule=0.0028, times=400, round_trip_ms=first_ms + 5)
    faster = learn(batch, ms_per_schedule=0.0028, times=400, round_trip_ms=first_ms)

    assert 950 <= slower
    assert 950 <= faster


def test_a_batch_under_an_endless_backlog_stays_at_the_size_that_fits_the_target() -> None:
    batch = Batch(most=1000, target_ms=3.0)
    learn(batch, ms_per_schedule=0.01, times=200)

    sizes = {learn(batch, ms_per_schedule=0.01, times=1) for _ in range(5000)}

    assert min(sizes - {15, 16}) >= 280  # 15 or 16: the script that measures the round trip
    assert max(sizes) <= 330


def test_a_single_slow_round_trip_does_not_make_batches_long() -> None:
    batch = Batch(most=1000, target_ms=3.0)
    learn(batch, ms_per_schedule=0.01, times=200)

    batch.learn(200.0, batch.size)

    assert learn(batch, ms_per_schedule=0.01, times=300) <= 330


def test_measuring_the_round_trip_under_a_backlog_costs_less_than_two_percent() -> None:
    batch = Batch(most=1000, target_ms=3.0)
    learn(batch, ms_per_schedule=0.002, times=200)

    done = sum(learn(batch, ms_per_schedule=0.002, times=1) for _ in range(1000))

    assert done >= 980_000


def test_short_scripts_do_not_shrink_the_batch() -> None:
    batch = Batch(most=1000, target_ms=3.0)
    learn(batch, ms_per_schedule=0.002, times=200)

    sizes = set()
    for _ in range(1000):
        batch.learn(0.1, 3)
        sizes.add(batch.size)

    assert {1000} == sizes


def test_a_batch_with_the_maximum_1_stays_at_1() -> None:
    assert 1 == learn(Batch(most=1, target_ms=3.0), ms_per_schedule=0.004, times=500)


@pytest.mark.parametrize(("until_ms", "told_ms"), [(0, 0), (NOW_MS - 1, 0), (NOW_MS, 0), (NOW_MS + 500, 500)])
def test_a_term_logs_the_length_of_its_hold(until_ms: int, told_ms: int) -> None:
    lease = Mock(acquire=lambda: replace(TERM, hold_ms=until_ms))  # it lets every daemon lead
    elector = Elector(lease, ManualClock(), 500)

    with capture_logs() as told:
        assert elector.campaign() is None

    assert [("term_began", told_ms)] == [(one["event"], one["hold_ms"]) for one in told]
