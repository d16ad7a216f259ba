"""Kinds of triggers: each answers everything that the rest of zsched asks, and no other module knows a single kind."""

import copy
import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

import zsched
from zsched.core.options import SCHEDULE_OPTIONS, define
from zsched.core.planning import Bracket, first
from zsched.core.triggers import GIVE_A_RULE, KINDS, Anchor, TriggerKind, TriggerSpec, build, read_spec

NOW_MS = 1_780_000_000_000
HOUR_MS = 3_600_000

# What knows the texts of one kind: the list itself, readers of other schedulers, and who names the longest interval.
MAY_KNOW_ONE_KIND = {"core/triggers/trigger.py", "imports/fields.py", "cli/import_steps.py", "files/checking.py"}

by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@by_kind
def test_a_kind_defines_every_attribute_of_trigger_kinds(kind: TriggerKind) -> None:
    asked = [name for name in TriggerKind.__annotations__ if not name.startswith("_")]

    assert [] == [name for name in asked if not hasattr(kind, name)]
    assert kind.help.endswith(".")


@by_kind
def test_an_example_of_a_kind_fires_and_comes_back_as_its_option(kind: TriggerKind) -> None:
    spec = define("app.task", {kind.name: kind.example}, "id").when

    assert isinstance(spec, TriggerSpec)
    assert build(spec, NOW_MS).next_after(NOW_MS) is not None
    assert (spec.expr, None) == kind.parse(kind.to_option(spec.expr))
    assert kind.describe(spec.expr)


@by_kind
def test_a_stored_rule_is_read_back_with_its_kind(kind: TriggerKind) -> None:
    spec = TriggerSpec(kind, kind.parse(kind.example)[0], count=3)

    read = read_spec(spec.to_text())

    assert spec == read
    assert read.kind is kind


@by_kind
def test_copying_or_pickling_a_kind_returns_the_kind_itself(kind: TriggerKind) -> None:
    assert copy.deepcopy(kind) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind


@by_kind
def test_a_kind_is_listed_as_an_option_and_in_the_remedy(kind: TriggerKind) -> None:
    assert kind.name in SCHEDULE_OPTIONS
    assert kind.name in GIVE_A_RULE


def test_an_unknown_kind_in_a_stored_rule_is_refused_with_the_known_kinds() -> None:
    with pytest.raises(ValueError, match="'moon' is no kind of trigger; known are every, cron, rrule"):
        read_spec('{"kind":"moon","expr":"full","tz":"UTC"}')


def test_only_the_listed_modules_import_a_single_kind() -> None:
    root = Path(zsched.__file__).parent
    modules = [f"zsched.core.triggers.{kind.name} import" for kind in KINDS]

    found = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if any(module in file.read_text() for module in modules)
    }

    assert MAY_KNOW_ONE_KIND == found


# -- a kind that zsched does not have -------------------------------------------------------------------


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
