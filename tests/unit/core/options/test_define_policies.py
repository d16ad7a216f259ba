"""Options for late and overlapping runs: each of them, and contradictions."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.schedules import schedule
from zsched.core.model import At, Definition, Schedule
from zsched.core.occurrences.policy import USUAL, Policy
from zsched.core.options.choices import CatchUp, Overlap
from zsched.core.options.define import PRESETS, define, define_now, least_gap_ms
from zsched.core.options.revision import revise
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import delay_of
from zsched.errors import InvalidSchedule

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
AT_MS = 1_795_248_000_000
HOUR_S, HOUR_MS = 3600, 3_600_000
POLICIES = ("overlap", "overlap_limit", "catch_up", "catch_up_window", "catch_up_limit")
OTHER = {"overlap": "allow", "overlap_limit": 7, "catch_up": "none", "catch_up_window": 60, "catch_up_limit": 7}


def _define(**options: Any) -> Definition:
    return define("app.task", options, "made-up")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, USUAL),
        (dict.fromkeys(POLICIES), USUAL),
        ({"overlap": "skip", "catch_up": "latest", "catch_up_window": 86_400, "catch_up_limit": 100}, USUAL),
        ({"overlap": "allow"}, Policy(overlap=Overlap.ALLOW)),
        ({"overlap": Overlap.QUEUE}, Policy(overlap=Overlap.QUEUE)),
        ({"overlap": "queue", "overlap_limit": 1}, Policy(overlap=Overlap.QUEUE, overlap_limit=1)),
        ({"overlap": "cancel_previous"}, Policy(overlap=Overlap.CANCEL_PREVIOUS)),
        ({"catch_up": "none"}, Policy(CatchUp.NONE)),
        ({"catch_up": CatchUp.LATEST, "catch_up_window": timedelta(minutes=5)}, Policy(catch_up_window_ms=300_000)),
        ({"catch_up_window": 0}, Policy(catch_up_window_ms=0)),
        ({"catch_up": "all", "overlap": "allow"}, Policy(CatchUp.ALL, overlap=Overlap.ALLOW)),
        (
            {"catch_up": "all", "catch_up_limit": 10_000, "catch_up_window": 0.5, "overlap": "queue"},
            Policy(CatchUp.ALL, 500, 10_000, Overlap.QUEUE),
        ),
    ],
)
@pytest.mark.parametrize("rule", [{"every": 5}, {"cron": "0 9 * * *"}, {"rrule": "FREQ=DAILY"}])
def test_a_rule_has_the_given_policies(rule: dict[str, Any], options: dict[str, Any], expected: Policy) -> None:
    assert expected == _define(**rule, **options).policy


@pytest.mark.parametrize(
    ("name", "words"), [("overlap", "skip, allow, queue, cancel_previous"), ("catch_up", "latest, all, none")]
)
@pytest.mark.parametrize("value", ["queued", "", "LATEST", 1, True, ["skip"]])
def test_an_unknown_policy_is_refused_and_the_valid_ones_are_listed(name: str, words: str, value: Any) -> None:
    with pytest.raises(InvalidSchedule, match=f"^{name}=.*not one of its values; give one of {words}$"):
        _define(every=5, **{name: value})


@pytest.mark.parametrize(("name", "most"), [("overlap_limit", 1000), ("catch_up_limit", 10_000)])
@pytest.mark.parametrize("value", [0, -1, "one more", True, 1.0, "2"])
def test_a_limit_is_a_whole_number_of_runs(name: str, most: int, value: Any) -> None:
    options = {"overlap": "queue", "catch_up": "all"}

    assert most == getattr(_define(every=5, **options, **{name: most}).policy, name)
    with pytest.raises(InvalidSchedule, match=f"^{name}=.*give a whole number from 1 to {most}$"):
        _define(every=5, **options, **{name: most + 1 if value == "one more" else value})


@pytest.mark.parametrize("name", ["catch_up_window", "jitter", "expires_after"])
@pytest.mark.parametrize("value", [-1, float("nan"), "5 m", True, timedelta.max, timedelta(microseconds=-1000)])
def test_an_invalid_duration_is_refused_with_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _define(every=5, **{name: value})

    assert name == caught.value.field


@pytest.mark.parametrize("when", [{"at": AT}, {"after": 5}, {"every": 60}, {"cron": "* * * * *"}])
def test_expiry_and_jitter_are_accepted_for_every_schedule(when: dict[str, Any]) -> None:
    definition = _define(**when, jitter=timedelta(seconds=7), expires_after=30)

    is_rule = isinstance(definition.when, TriggerSpec)
    assert (30_000, 0 if is_rule else 7000) == (definition.expires_ms, definition.jitter_ms)
    assert (7000 if is_rule else 0) == getattr(definition.when, "jitter_ms", 0)
    assert (None, 0) == (_define(**when).expires_ms, _define(**when).jitter_ms)


def test_a_run_at_once_expires_too_and_has_no_jitter() -> None:
    assert 30_000 == define_now("app.task", {"expires_after": 30}, "made-up").expires_ms
    with pytest.raises(InvalidSchedule, match=r"^jitter=5: no such option here"):
        define_now("app.task", {"jitter": 5}, "made-up")


BAD: list[tuple[str, str, dict[str, Any]]] = [
    ("catch_up", r"overlap='skip'.*give overlap=.allow. or .queue.", {"every": 5, "catch_up": "all"}),
    ("catch_up", r"overlap='skip'", {"every": 5, "catch_up": "all", "overlap": "skip"}),
    ("catch_up", r"overlap='skip'", {"every": 5, "catch_up": "all", "overlap": None}),
    ("catch_up", r"overlap='cancel_previous'", {"every": 5, "catch_up": "all", "overlap": "cancel_previous"}),
    ("overlap_limit", r"nothing waits.*overlap=.queue.", {"every": 5, "overlap_limit": 2}),
    ("overlap_limit", r"overlap='allow'", {"every": 5, "overlap_limit": 2, "overlap": "allow"}),
    ("catch_up_limit", r"catch_up='latest'.*catch_up=.all.", {"every": 5, "catch_up_limit": 2}),
    ("catch_up_limit", r"catch_up='none'", {"every": 5, "catch_up_limit": 2, "catch_up": "none"}),
    ("catch_up_window", r"nothing is caught up", {"every": 5, "catch_up_window": 60, "catch_up": "none"}),
    ("count", r"give a whole number from 1", {"every": 5, "count": 0}),
    ("ends", r"before starts; give a later time", {"every": 5, "starts": AT, "ends": AT - timedelta(seconds=1)}),
    ("jitter", r"next, 5s; give less", {"every": 5, "jitter": 5.001}),
    ("jitter", r"next, 1h", {"cron": "0 9,10,17 * * *", "jitter": HOUR_S + 1}),
    ("jitter", r"next, 23h", {"cron": "30 5 * * *", "tz": "America/New_York", "starts": datetime(2026, 3, 3),
                                  "jitter": 86_400}),
    ("jitter", r"next, 1d", {"rrule": "FREQ=DAILY;BYHOUR=9", "jitter": 86_401}),
    ("expires_after", r"out of range; give 1ms to", {"at": AT, "expires_after": 0}),
    ("expires_after", r"jitter=60.*give a longer one, or less jitter", {"at": AT, "expires_after": 59.9, "jitter": 60}),
    ("expires_after", r"jitter=3", {"every": 5, "expires_after": 2, "jitter": 3}),
    ("expires_after", r"jitter=600", {"at": AT, "urgency": "digest", "expires_after": 60, "jitter": 600}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "told", "options"), BAD)
def test_options_that_contradict_each_other_are_refused(field: str, told: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule, match=rf"^{field}=.*{told}"):
        _define(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"every": 5, "jitter": 5},
        {"every": 5, "count": 1, "jitter": 600},
        {"every": 5, "starts": AT, "ends": AT},
        {"cron": "0 9,10,17 * * *", "jitter": HOUR_S},
        {"at": AT, "jitter": 60, "expires_after": 60},
        {"every": 5, "overlap_limit": 100, "catch_up_limit": 100, "catch_up_window": 86_400, "catch_up": "none"},
    ],
)
def test_options_that_just_fit_together_are_accepted(options: dict[str, Any]) -> None:
    _define(**options)


@pytest.mark.parametrize("name", POLICIES)
def test_a_one_shot_with_policies_of_a_rule_is_refused_in_a_put_and_in_an_update(name: str) -> None:
    says, given = rf"^{name}=.*a one-shot has one occurrence.*give every, cron or rrule", {name: OTHER[name]}

    for when in ({"at": AT}, {"after": 5}):
        with pytest.raises(InvalidSchedule, match=says):
            _define(**when, **given)
    with pytest.raises(InvalidSchedule, match=rf"^{name}=.*a one-shot has one occurrence"):
        _update(ONCE, **given)


def test_a_one_shot_accepts_only_the_default_values_of_policies() -> None:
    assert _define(at=AT) == _define(at=AT, overlap=None, catch_up=None, catch_up_window=86_400, catch_up_limit=100)
    for policy in ({"overlap": "skip"}, {"overlap": Overlap.SKIP}, {"catch_up": "latest"}):
        with pytest.raises(InvalidSchedule, match="a one-shot has one occurrence"):
            _define(at=AT, **policy)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TriggerSpec(EVERY, "1500"), 1500),
        (TriggerSpec(EVERY, "1500", count=1), None),
        (TriggerSpec(RRULE, "FREQ=DAILY", starts_ms=AT_MS, count=2), 24 * HOUR_MS),
        (TriggerSpec(EVERY, "1500", starts_ms=AT_MS, ends_ms=AT_MS + 1), None),
        (TriggerSpec(CRON, "0 9,11,12 * * *"), HOUR_MS),
        (TriggerSpec(CRON, "0 0 29 2 *"), 1461 * 24 * HOUR_MS),
        (TriggerSpec(RRULE, "FREQ=MONTHLY", starts_ms=AT_MS, count=5), 28 * 24 * HOUR_MS),
    ],
)
def test_the_least_gap_is_computed_from_the_first_occurrences(spec: TriggerSpec, expected: int | None) -> None:
    assert expected == least_gap_ms(spec)


ONCE = schedule(
    priority=_define(at=AT).priority, next_ms=AT_MS + delay_of("a", 60_000), nominal_ms=AT_MS, jitter_ms=60_000,
    expires_ms=90_000,
)  # fmt: skip
RULE = TriggerSpec(CRON, "0 * * * *", jitter_ms=60_000)
QUEUED = Policy(CatchUp.ALL, HOUR_MS, 5, Overlap.QUEUE, 3)
RECURRING = replace(ONCE, kind="cron", trigger=RULE, policy=QUEUED, anchor_ms=1, version="1-1")


def _update(old: Schedule, **changes: Any) -> Definition:
    return revise(old, {"queue": "default"}, b"stored", changes, PRESETS)


def test_an_update_keeps_policies_jitter_and_expiry() -> None:
    once, recurring = _update(ONCE, queue="sms"), _update(RECURRING, queue="sms")

    assert (At(AT_MS), 60_000, 90_000) == (once.when, once.jitter_ms, once.expires_ms)
    assert (RULE, QUEUED, 90_000) == (recurring.when, recurring.policy, recurring.expires_ms)
    assert USUAL == _update(replace(RECURRING, policy=USUAL)).policy


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"overlap": "allow"}, replace(QUEUED, overlap=Overlap.ALLOW, overlap_limit=100)),
        ({"catch_up": "none"}, Policy(CatchUp.NONE, overlap=Overlap.QUEUE, overlap_limit=3)),
        ({"catch_up": "latest"}, Policy(CatchUp.LATEST, HOUR_MS, 100, Overlap.QUEUE, 3)),
        ({"overlap": "allow", "overlap_limit": None}, replace(QUEUED, overlap=Overlap.ALLOW, overlap_limit=100)),
        ({"overlap_limit": 9}, replace(QUEUED, overlap_limit=9)),
        ({"catch_up_window": None}, replace(QUEUED, catch_up_window_ms=86_400_000)),
        ({"catch_up_window": 5}, replace(QUEUED, catch_up_window_ms=5000)),
        ({"catch_up_limit": None}, replace(QUEUED, catch_up_limit=100)),
        ({"catch_up": "latest", "catch_up_limit": None}, Policy(CatchUp.LATEST, HOUR_MS, 100, Overlap.QUEUE, 3)),
        (dict.fromkeys(POLICIES), USUAL),
    ],
)
def test_an_update_changes_one_policy_and_leaves_the_others(changes: dict[str, Any], expected: Policy) -> None:
    assert expected == _update(RECURRING, **changes).policy


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"overlap": "skip"}, "catch_up"),
        ({"overlap": None}, "catch_up"),
        ({"cron": "*/2 * * * * *"}, "jitter"),
        ({"expires_after": 59}, "expires_after"),
        ({"jitter": 91}, "expires_after"),
    ],
)
def test_an_update_that_contradicts_unchanged_options_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _update(RECURRING, **changes)

    assert field == caught.value.field


def test_an_update_changes_jitter_and_expiry() -> None:
    once, recurring = (_update(old, jitter=5, expires_after=None) for old in (ONCE, RECURRING))

    assert (At(AT_MS), 5000, None) == (once.when, once.jitter_ms, once.expires_ms)
    assert (replace(RULE, jitter_ms=5000), None) == (recurring.when, recurring.expires_ms)
    assert replace(RULE, jitter_ms=0) == _update(RECURRING, jitter=None).when
    assert 0 == _update(ONCE, jitter=None).jitter_ms


NO_POLICIES = dict.fromkeys(["overlap", "overlap_limit", "catch_up", "catch_up_window_s", "catch_up_limit"])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (RECURRING, {"overlap": "queue", "overlap_limit": 3, "catch_up": "all", "catch_up_window_s": 3600.0,
                     "catch_up_limit": 5, "jitter_s": 60.0, "expires_after_s": 90.0}),
        (replace(RECURRING, policy=USUAL, expires_ms=None, jitter_ms=0),
         {"overlap": "skip", "overlap_limit": None, "catch_up": "latest", "catch_up_window_s": 86_400.0,
          "catch_up_limit": 100, "jitter_s": 0.0, "expires_after_s": None}),
        (ONCE, NO_POLICIES | {"jitter_s": 60.0, "expires_after_s": 90.0, "nominal_at": "2026-11-21T08:00:00.000Z"}),
    ],
    ids=["queue", "another overlap than queue", "a one-shot"],
)  # fmt: skip
def test_json_of_a_schedule_has_its_policies(schedule: Schedule, expected: dict[str, Any]) -> None:
    told = json.loads(json.dumps(schedule.to_dict()))

    assert expected == {name: told[name] for name in expected}


def test_json_has_the_jitter_of_a_trigger_and_the_nominal_time_before_the_due_time() -> None:
    assert 60.0 == RECURRING.to_dict()["trigger"]["jitter_s"]
    assert ONCE.to_dict()["nominal_at"] < ONCE.to_dict()["next_at"]
