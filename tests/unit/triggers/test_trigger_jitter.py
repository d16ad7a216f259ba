"""Jitter: the delay of an occurrence after its nominal time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.clock import to_ms
from zsched.core.triggers import TriggerSpec, build, delay_of, due_of
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
T0 = to_ms(datetime(2026, 1, 1, tzinfo=UTC))
GOLDEN = {"a": 194_532, "reminder-42": 458_888}  # ms after 01:00 of 600,000; another value moves every schedule
IDS = [f"digest-{number}" for number in range(4000)]


def _every(every_ms: int, jitter_ms: int, **bounds: int) -> TriggerSpec:
    return TriggerSpec(EVERY, str(every_ms), jitter_ms=jitter_ms, **bounds)


@given(
    st.sampled_from(
        [
            TriggerSpec(CRON, "0 9 * * 1-5", "America/New_York", jitter_ms=20 * HOUR),
            TriggerSpec(CRON, "*/5 * * * *", jitter_ms=5 * MINUTE),
            TriggerSpec(RRULE, "FREQ=DAILY;BYHOUR=9,10", "Europe/London", jitter_ms=30 * MINUTE),
            _every(7001, 7001), _every(1, 1), _every(HOUR, 1), _every(HOUR, 90 * MINUTE, count=5),
        ]
    ),
    st.text("abc-_019", min_size=1, max_size=20), st.integers(0, 400 * 86_400_000),
)  # fmt: skip
def test_jitter_stays_below_its_bound_and_the_next_occurrence(spec: TriggerSpec, id: str, after_ms: int) -> None:
    trigger = build(spec, T0)
    nominal_ms = trigger.next_after(T0 + after_ms)
    if nominal_ms is None:
        return

    due_ms, next_ms = due_of(trigger, id, nominal_ms), trigger.next_after(nominal_ms)

    assert nominal_ms <= due_ms <= nominal_ms + spec.jitter_ms
    assert next_ms is None or due_ms < next_ms


def test_an_occurrence_without_jitter_is_due_at_its_nominal_time() -> None:
    assert T0 + HOUR == due_of(build(_every(HOUR, 0), T0), "a", T0 + HOUR)
    assert 0 == delay_of("a", 0)


def test_golden_values_hold_for_every_version_and_every_process() -> None:
    trigger = build(_every(HOUR, 10 * MINUTE), T0)
    asked = "from zsched.core.triggers import delay_of; print(delay_of('reminder-42', 600_000))"

    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    elsewhere = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, env=environment)

    assert GOLDEN == {id: due_of(trigger, id, T0 + HOUR) - T0 - HOUR for id in GOLDEN}
    assert 230_212 == int(elsewhere.stdout)


def test_jitter_differs_between_occurrences_and_between_ids() -> None:
    trigger = build(_every(HOUR, 30 * MINUTE), T0)
    delays = {id: [due_of(trigger, id, T0 + n * HOUR) - T0 - n * HOUR for n in range(1, 50)] for id in ("a", "b")}

    assert delays["a"] != delays["b"]
    assert all(len(set(of_one)) > 45 for of_one in delays.values())


@pytest.mark.parametrize("place", ["rule", "one-shots"])
def test_jitter_is_spread_evenly_and_reaches_both_ends(place: str) -> None:
    trigger, most = build(_every(HOUR, 9), T0), 9
    found = Counter(due_of(trigger, id, T0 + HOUR) - T0 - HOUR if place == "rule" else delay_of(id, most) for id in IDS)

    assert [*range(most + 1)] == sorted(found)
    expected = len(IDS) / (most + 1)
    chi_squared = sum((count - expected) ** 2 / expected for count in found.values())
    assert chi_squared < 27.9  # 9 degrees of freedom: 0.1 % of good spreads are worse, and this one is always the same


@pytest.mark.parametrize("month_day", [(3, 8), (11, 1)], ids=["an hour is skipped", "an hour is repeated"])
def test_jitter_is_elapsed_time_across_a_clock_change(month_day: tuple[int, int]) -> None:
    zone = ZoneInfo("America/New_York")
    spec = TriggerSpec(CRON, "*/30 * * * *", "America/New_York", jitter_ms=30 * MINUTE)
    trigger, start_ms = build(spec, T0), to_ms(datetime(2026, *month_day, 0, tzinfo=zone))

    times = [start_ms + n * 30 * MINUTE for n in range(1, 9)]
    dues = [due_of(trigger, "a", at_ms) for at_ms in times]

    assert all(trigger.last_until(at_ms) == at_ms for at_ms in times), "the rule goes on through it"
    assert all(at_ms <= due_ms < at_ms + 30 * MINUTE for at_ms, due_ms in zip(times, dues, strict=True))
    assert sorted(dues) == dues
