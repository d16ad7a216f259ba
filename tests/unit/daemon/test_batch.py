from __future__ import annotations

from zsched.daemon.batch import Batch


def learn(batch: Batch, ms_per_schedule: float, times: int, round_trip_ms: float = 0.1) -> int:
    """Feed *batch* with full scripts at a constant speed; its size after them."""
    for _ in range(times):
        batch.learn(round_trip_ms + batch.size * ms_per_schedule, batch.size)
    return batch.size


def test_it_begins_with_the_most_and_keeps_it_while_scripts_are_fast() -> None:
    batch = Batch(most=500, target_ms=3.0)
    batch.learn(0.1, 0)

    assert 500 == learn(batch, ms_per_schedule=0.004, times=20)


def test_it_begins_with_500_at_most() -> None:
    assert [200, 500, 500] == [Batch(most, target_ms=3.0).size for most in (200, 500, 4000)]


def test_slow_scripts_shrink_it_to_what_fits_into_the_target() -> None:
    batch = Batch(most=500, target_ms=3.0)
    batch.learn(0.1, 0)

    assert 280 <= learn(batch, ms_per_schedule=0.01, times=40) <= 320


def test_it_never_falls_below_the_least() -> None:
    batch = Batch(most=500, target_ms=3.0)
    batch.learn(0.1, 0)

    assert 50 == learn(batch, ms_per_schedule=10, times=40)


def test_the_least_is_not_above_the_most() -> None:
    batch = Batch(most=10, target_ms=3.0)
    batch.learn(0.1, 0)

    assert 10 == learn(batch, ms_per_schedule=10, times=10)


def test_it_grows_again_when_scripts_are_fast_again() -> None:
    batch = Batch(most=500, target_ms=3.0)
    batch.learn(0.1, 0)
    learn(batch, ms_per_schedule=1, times=20)

    assert 500 == learn(batch, ms_per_schedule=0.004, times=40)


def test_a_batch_that_was_not_full_says_nothing_about_the_size() -> None:
    batch = Batch(most=500, target_ms=3.0)

    for _ in range(20):
        batch.learn(50.0, 499)

    assert 500 == batch.size


def test_the_round_trip_is_not_the_scripts_time() -> None:
    batch = Batch(most=500, target_ms=3.0)
    batch.learn(40.0, 0)

    assert 500 == learn(batch, ms_per_schedule=0.004, times=20, round_trip_ms=40.0)
