"""Kinds of triggers: each answers everything that the rest of zsched asks, and no other module knows a single kind."""

import copy
import os
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zsched
from zsched.core.clock import to_ms
from zsched.core.occurrences.first_times import Bracket, first
from zsched.core.options.define import SCHEDULE_OPTIONS, define
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Anchor, TriggerKind, TriggerSpec
from zsched.core.triggers.trigger import GIVE_A_RULE, KINDS, build, delay_of, due_of, read_spec

NOW_MS = 1_780_000_000_000
HOUR_MS = 3_600_000

# What knows the texts of one kind: the list itself, readers of schedulers and calendars, exclusions, which are times of
# cron, and who names the longest interval.
MAY_KNOW_ONE_KIND = {
    "core/triggers/trigger.py", "imports/crontab.py", "files/checking.py",
    "client/ics.py", "core/triggers/calendar_definition.py", "core/triggers/exclusions.py",
}  # fmt: skip

by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@by_kind
def test_a_kind_defines_every_attribute_and_is_listed_as_an_option_and_in_the_remedy(kind: TriggerKind) -> None:
    asked = [name for name in TriggerKind.__annotations__ if not name.startswith("_")]

    assert [] == [name for name in asked if not hasattr(kind, name)]
    assert kind.help.endswith(".")
    assert kind.name in SCHEDULE_OPTIONS
    assert kind.name in GIVE_A_RULE


@by_kind
def test_an_example_of_a_kind_fires_and_comes_back_as_its_option(kind: TriggerKind) -> None:
    spec = define("app.task", {kind.name: kind.example}, "id").when

    assert isinstance(spec, TriggerSpec)
    assert build(spec, NOW_MS).next_after(NOW_MS) is not None
    assert (spec.expr, None) == kind.parse(kind.to_option(spec.expr))
    assert kind.describe(spec.expr)


@by_kind
def test_a_kind_comes_back_as_itself_from_a_stored_rule_a_copy_and_a_pickle(kind: TriggerKind) -> None:
    spec = TriggerSpec(kind, kind.parse(kind.example)[0], count=3)

    read = read_spec(spec.to_text())

    assert spec == read
    assert read.kind is copy.deepcopy(kind) is pickle.loads(pickle.dumps(kind)) is kind


def test_an_unknown_kind_in_a_stored_rule_is_refused_with_the_known_kinds() -> None:
    with pytest.raises(ValueError, match="'moon' is not a kind of trigger; known are every, cron, rrule"):
        read_spec('{"kind":"moon","expr":"full","tz":"UTC"}')


def test_only_the_listed_modules_import_a_single_kind() -> None:
    root = Path(zsched.__file__).parent
    modules = [f"zsched.core.triggers.{kind.name} import" for kind in KINDS]

    files = [file for file in root.rglob("*.py") if any(module in file.read_text() for module in modules)]

    assert {str(file.relative_to(root)) for file in files} == MAY_KNOW_ONE_KIND


@dataclass(frozen=True)
class Tides:
    """A trigger of every 12 hours and 25 minutes since the epoch, or since *phase_ms*."""

    phase_ms: int

    STEP_MS = 745 * 60_000

    def next_after(self, after_ms: int) -> int:
        return after_ms - (after_ms - self.phase_ms) % self.STEP_MS + self.STEP_MS

    def last_until(self, until_ms: int) -> int:
        return until_ms - (until_ms - self.phase_ms) % self.STEP_MS

    def count_between(self, after_ms: int, until_ms: int) -> int:
        return (self.last_until(until_ms) - self.last_until(after_ms)) // self.STEP_MS


class TideKind(TriggerKind):
    name, metavar, help, example, cause = "tide", "", "High water.", "", ""
    is_of_zone = False

    def __init__(self, anchor: Anchor) -> None:
        self.anchor = anchor  # type: ignore[misc]  # a constant of all others

    def parse(self, value: object) -> tuple[str, int | None]:
        return "", None

    def rule(self, spec: TriggerSpec, anchor_ms: int) -> Tides:
        return Tides(0 if self.anchor is Anchor.NOTHING else anchor_ms)


def test_a_first_time_without_an_anchor_is_valid_from_the_previous_occurrence() -> None:
    spec = TriggerSpec(TideKind(Anchor.NOTHING), "")

    bracket = first(spec, NOW_MS)

    before_ms = Tides(0).last_until(NOW_MS)
    assert Bracket(str(before_ms + Tides.STEP_MS), before_ms, before_ms + Tides.STEP_MS) == bracket


def test_a_first_time_counted_from_the_creation_is_always_equally_far_away() -> None:
    spec = TriggerSpec(TideKind(Anchor.INSTANT), "", ends_ms=NOW_MS + 24 * HOUR_MS)

    bracket = first(spec, NOW_MS)

    assert Bracket(f"+{Tides.STEP_MS}", 0, NOW_MS + 24 * HOUR_MS - Tides.STEP_MS + 1) == bracket


def test_a_kind_without_a_zone_ignores_the_zone_of_its_schedule() -> None:
    spec = TriggerSpec(TideKind(Anchor.NOTHING), "", "Europe/Berlin")

    assert not spec.is_of_zone


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
    asked = "from zsched.core.triggers.trigger import delay_of; print(delay_of('reminder-42', 600_000))"

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
