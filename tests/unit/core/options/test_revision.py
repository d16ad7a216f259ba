"""Updates: options that stay and options that change; and values that Python calls equal and a task does not."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.builders.schedules import schedule
from zsched.core.clock import to_ms
from zsched.core.model import At, Definition, Schedule
from zsched.core.options.choices import OnLost, OnUncertain, Priority
from zsched.core.options.define import PRESETS
from zsched.core.options.revision import is_same, revise
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Fold, Gap, TriggerSpec
from zsched.errors import InvalidSchedule

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
RULE = TriggerSpec(CRON, "0 9 * * *", "Asia/Seoul", to_ms(AT), to_ms(AT) + 10**10, 5, Gap.SHIFT, Fold.SECOND)
ONCE = schedule(
    queue="sms", priority=Priority.HIGH,
    next_ms=to_ms(AT), nominal_ms=to_ms(AT), tz="Asia/Seoul", at_front=True, on_uncertain=OnUncertain.SKIP,
    description="app.task",
    on_lost=OnLost.FAIL,
    tags=("x",), owner="file", name="The digest",
)  # fmt: skip
RECURRING = replace(ONCE, kind="cron", trigger=RULE, anchor_ms=1, version="1-1", pause_after_failures=3)
STORED = {"queue": "sms", "timeout": 60, "result_ttl": 500}
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
CET = timezone(timedelta(hours=1))


def _revise(old: Schedule = ONCE, stored: dict[str, Any] | None = None, **changes: Any) -> Definition:
    return revise(old, STORED | (stored or {}), b"stored", changes, PRESETS)


@pytest.mark.parametrize("old", [ONCE, RECURRING])
def test_an_update_keeps_options_that_it_does_not_name(old: Schedule) -> None:
    definition = _revise(old)

    assert (RULE if old.trigger else At(to_ms(AT))) == definition.when
    assert ("a", "sms", Priority.HIGH, True) == (
        definition.id, definition.queue, definition.priority, definition.at_front,
    )  # fmt: skip
    assert (OnUncertain.SKIP, ("x",), "file", "The digest", "Asia/Seoul") == (
        definition.on_uncertain, definition.tags, definition.owner, definition.name, definition.tz,
    )  # fmt: skip
    assert (OnLost.FAIL, old.pause_after_failures) == (definition.on_lost, definition.pause_after_failures)
    assert (b"stored", 60, 500) == (
        definition.data, definition.timeout, definition.result_ttl,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("at", "hours", "offset_s"), [(AT + timedelta(hours=1), 1, None), (datetime(2026, 11, 21, 17), 0, 9 * 3600)]
)
def test_a_new_time_is_local_in_the_stored_zone_if_naive_and_keeps_the_payload(
    at: datetime, hours: int, offset_s: int | None
) -> None:
    definition = _revise(at=at)

    expected = At(to_ms(AT) + hours * 3_600_000, offset_s)
    assert (expected, b"stored") == (definition.when, definition.data)


@pytest.mark.parametrize("change", [{"args": (2,)}, {"kwargs": {"k": 2}}, {"func": "app.other"}])
def test_a_new_payload_keeps_the_time_and_the_rest_of_the_call(change: dict[str, Any]) -> None:
    new = _revise(stored={"args": (1,), "kwargs": {"k": 1}}, **change)

    assert (At(to_ms(AT)), None) == (new.when, new.data)
    expected = {"func": "app.task", "args": (1,), "kwargs": {"k": 1}} | change
    assert expected == {"func": new.func, "args": new.args, "kwargs": new.kwargs}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cron": "5 9 * * *"}, replace(RULE, expr="5 9 * * *", gap=Gap.FIRST_VALID, count=None)),
        ({"every": 60}, replace(RULE, kind=EVERY, expr="60000", count=None)),
        ({"tz": "Europe/London"}, replace(RULE, tz="Europe/London")),
        ({"count": None}, replace(RULE, count=None)),
        ({"ends": None, "starts": None}, replace(RULE, ends_ms=None, starts_ms=None)),
        ({"gap": "skip"}, replace(RULE, gap=Gap.SKIP)),
    ],
)
def test_an_update_changes_only_the_named_parts_of_a_rule(changes: dict[str, Any], expected: TriggerSpec) -> None:
    assert expected == _revise(RECURRING, **changes).when


INTERVAL = TriggerSpec(EVERY, "1500", "UTC", gap=Gap.SHIFT)
DAILY = TriggerSpec(RRULE, "FREQ=DAILY;BYHOUR=9", "UTC", count=4, gap=Gap.SHIFT)


@pytest.mark.parametrize("rule", [INTERVAL, DAILY])
def test_an_interval_and_an_rrule_survive_unchanged(rule: TriggerSpec) -> None:
    assert rule == _revise(replace(RECURRING, trigger=rule), queue="other").when


@pytest.mark.parametrize(
    ("old", "field", "changes"),
    [
        (ONCE, "id", {"id": "b"}),
        (ONCE, "if_exists", {"if_exists": "keep"}),
        (ONCE, "every", {"every": 5}),
        (ONCE, "cron", {"cron": "* * * * *"}),
        (RECURRING, "at", {"at": AT}),
        (RECURRING, "after", {"after": 5}),
        (ONCE, "queue", {"queue": "a b"}),
        (ONCE, "eta", {"eta": AT}),
        (ONCE, "count", {"count": 5}),
        (ONCE, "jitter", {"jitter": -5}),
        (RECURRING, "cron", {"cron": "nonsense"}),
        (ONCE, "at and after", {"at": AT, "after": 5}),
    ],
)
def test_a_bad_change_names_its_field(old: Schedule, field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        _revise(old, **changes)

    assert field == caught.value.field


def test_an_update_of_the_function_keeps_only_a_description_given_by_the_caller() -> None:
    own = _revise(replace(ONCE, description="Say hello"), func="app.other")
    follows = _revise(func="app.other")

    assert ("Say hello", None) == (own.description, follows.description)


class _Moody:
    """A value whose comparison raises, or has no truth value, like an array of numpy."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        (1.5, 1.5),
        (float("nan"), float("nan")),
        ("a", "a"),
        ([1, (2, {"a": None})], [1, (2, {"a": None})]),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1, 2}, {2, 1}),
        (NOON, NOON.replace()),
        (time(12, fold=1), time(12, fold=1)),
    ],
)
def test_values_of_one_type_and_content_are_the_same(one: Any, other: Any) -> None:
    assert is_same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (1.5, 2.5),
        ("a", b"a"),
        ([1], (1,)),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ((1, 2), (1, 3)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1}, {"a": True}),
        ({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]}),
        ([1, [2, {"a": 3}]], [1, [2, {"a": 3.0}]]),
        (NOON, NOON.astimezone(CET)),
        (NOON, NOON.astimezone(ZoneInfo("Asia/Seoul"))),
        (NOON, NOON.replace(fold=1)),
        (NOON, NOON + timedelta(microseconds=1)),
        (time(12), time(12, fold=1)),
        (_Moody(), _Moody()),
    ],
)
def test_values_that_a_task_can_distinguish_are_not_the_same(one: Any, other: Any) -> None:
    assert not is_same(one, other)
    assert not is_same([one], [other])
