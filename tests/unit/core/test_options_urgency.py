"""Urgency: presets of options, which the options of a call override."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from zsched.core.choices import Priority, ScheduleState
from zsched.core.model import Definition, Schedule
from zsched.core.options import PRESETS, define, define_now, merged_presets
from zsched.core.revision import revise
from zsched.errors import InvalidSchedule

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
HIGH, LOW, NORMAL = Priority.HIGH, Priority.LOW, Priority.NORMAL

Told = tuple[Priority, bool, int | None, int]  # priority, at front, expires_ms, jitter_ms


def _define(**options: Any) -> Definition:
    return define("app.task", {"at": AT, **options}, "made-up")


def _told(definition: Definition) -> Told:
    return definition.priority, definition.at_front, definition.expires_ms, definition.jitter_ms


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"urgency": "asap"}, (HIGH, True, None, 0)),
        ({"urgency": "time_sensitive"}, (HIGH, False, 1_800_000, 0)),
        ({"urgency": "digest"}, (LOW, False, 86_400_000, 600_000)),
        ({"urgency": None}, (NORMAL, False, None, 0)),
        ({"urgency": "asap", "at_front": False}, (HIGH, False, None, 0)),
        ({"urgency": "asap", "priority": "low"}, (LOW, True, None, 0)),
        ({"urgency": "time_sensitive", "expires_after": 60}, (HIGH, False, 60_000, 0)),
        ({"urgency": "digest", "jitter": 0}, (LOW, False, 86_400_000, 0)),
        ({"urgency": "digest", "jitter": 5, "expires_after": 60}, (LOW, False, 60_000, 5000)),
        ({"urgency": "digest", "jitter": None, "expires_after": None}, (LOW, False, 86_400_000, 600_000)),
    ],
)
def test_a_preset_sets_its_options_but_for_those_of_the_call(options: dict[str, Any], expected: Told) -> None:
    assert expected == _told(_define(**options))


@pytest.mark.parametrize("name", ["urgent", "", "ASAP", 1, ["asap"], True])
def test_an_unknown_urgency_is_refused_with_the_list_of_urgencies(name: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"^urgency=.*not an urgency; give one of asap, time_sensitive, digest$"):
        _define(urgency=name)


def test_a_rule_accepts_an_urgency_too() -> None:
    definition = define("app.task", {"every": 3600, "urgency": "digest"}, "made-up")

    assert 600_000 == definition.when.jitter_ms  # type: ignore[union-attr]  # a rule
    assert (LOW, False, 86_400_000, 0) == _told(definition)


def test_a_rule_that_is_faster_than_the_jitter_of_its_urgency_is_refused() -> None:
    with pytest.raises(
        InvalidSchedule,
        match=r"^urgency=.digest.: it has jitter=600: larger than the time.*; give jitter= too, or another urgency",
    ):
        define("app.task", {"every": 60, "urgency": "digest"}, "made-up")


def test_an_urgency_of_an_immediate_run_omits_options_that_it_cannot_have() -> None:
    now = define_now("app.task", {"urgency": "digest"}, "made-up")

    assert (LOW, False, 86_400_000, 0) == _told(now)


def test_given_presets_replace_and_extend_the_defaults() -> None:
    presets = merged_presets({"digest": {"jitter": 60}, "news": {"priority": "low"}})

    changed = define("app.task", {"at": AT, "urgency": "digest"}, "made-up", presets)
    added = define_now("app.task", {"urgency": "news"}, "made-up", presets)

    assert (LOW, False, 86_400_000, 60_000) == _told(changed)
    assert (LOW, False, None, 0) == _told(added)
    assert 600 == PRESETS["digest"]["jitter"], "the defaults stay what they are"
    assert [*PRESETS, "news"] == [*presets]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sms": {"queue": "sms"}}, r"^queue='sms': not an option of an urgency; give priority, at_front"),
        ("digest", "not presets; give a dict such as"),
        ([], "not presets; give a dict such as"),
        ({"digest": "low"}, "not presets; give a dict such as"),
        ({"digest": {"jitter": 60}, "sms": None}, "not presets; give a dict such as"),
    ],
)
def test_presets_of_a_wrong_form_or_with_other_options_are_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        merged_presets(given)


ONCE = Schedule(
    id="a", state=ScheduleState.ACTIVE, kind="once", func="app.task", queue="default", priority=LOW,
    next_ms=0, nominal_ms=1_795_248_000_000, expires_ms=60_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "changes", "expected"),
    [
        (ONCE, {"urgency": "asap"}, (HIGH, True, 60_000, 0)),
        (ONCE, {"urgency": "time_sensitive"}, (HIGH, False, 1_800_000, 0)),
        (ONCE, {"urgency": "time_sensitive", "expires_after": 5}, (HIGH, False, 5000, 0)),
        (replace(ONCE, jitter_ms=7000), {"urgency": "asap"}, (HIGH, True, 60_000, 7000)),
        (ONCE, {"urgency": None}, (LOW, False, 60_000, 0)),
    ],
)
def test_an_update_to_an_urgency_changes_the_options_of_its_preset(
    old: Schedule, changes: dict[str, Any], expected: Told
) -> None:
    assert expected == _told(revise(old, {"queue": "default"}, b"stored", changes))


def test_an_update_to_an_unknown_urgency_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match=r"^urgency="):
        revise(ONCE, {"queue": "default"}, b"stored", {"urgency": "soon"})
