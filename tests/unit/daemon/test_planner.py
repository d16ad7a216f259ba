from __future__ import annotations

import pytest

from zsched.core.policy import Plan, Range
from zsched.core.triggers import TriggerKind, TriggerSpec
from zsched.daemon import planner as planner_module
from zsched.daemon.planner import Planner
from zsched.storage.dispatch import DueRecurring

NOON = 1_767_268_800_000  # 2026-01-01T12:00Z, a Thursday
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def due(trigger: TriggerSpec | str, nominal_ms: int = NOON, anchor_ms: int = NOON - DAY, id: str = "a") -> DueRecurring:
    text = trigger if isinstance(trigger, str) else trigger.to_text()
    texts = (id, "normal", str(nominal_ms), "1-1", text, str(anchor_ms), str(nominal_ms))
    return DueRecurring(*(each.encode() for each in texts))


def cron(expr: str, **bounds: int) -> TriggerSpec:
    return TriggerSpec(TriggerKind.CRON, expr, **bounds)


def every(ms: int, **bounds: int) -> TriggerSpec:
    return TriggerSpec(TriggerKind.EVERY, str(ms), **bounds)


def rrule(expr: str, **bounds: int) -> TriggerSpec:
    return TriggerSpec(TriggerKind.RRULE, expr, **bounds)


def plans(*rows: DueRecurring, now_ms: int = NOON) -> list[Plan]:
    planned = Planner().plan(rows, now_ms)
    assert [] == planned.bad
    return [plan for _, plan in planned.good]


def test_what_is_due_fires_and_the_next_time_follows() -> None:
    assert [Plan(NOON, None, NOON + HOUR)] == plans(due(cron("0 * * * *")))


def test_the_second_schedule_of_a_rule_is_planned_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    first = planner.plan([row], NOON).good[0][1]

    monkeypatch.setattr(planner_module, "build", None)
    second = planner.plan([due(cron("0 * * * *"), id="b")], NOON + 5).good[0][1]

    assert first == second


def test_a_remembered_next_time_that_has_passed_is_not_used() -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    planner.plan([row], NOON)

    late = planner.plan([row], NOON + 2 * HOUR + 1).good[0][1]

    assert Plan(NOON + 2 * HOUR, Range(NOON, NOON + HOUR, 2), NOON + 3 * HOUR) == late


def test_a_plan_of_a_late_schedule_is_not_remembered_for_one_that_is_on_time() -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    planner.plan([row], NOON + 2 * HOUR + 1)

    assert Plan(NOON, None, NOON + HOUR) == planner.plan([row], NOON).good[0][1]


def test_the_end_of_a_rule_is_remembered_as_an_end() -> None:
    planner, row = Planner(), due(cron("0 * * * *", ends_ms=NOON))

    assert [Plan(NOON, None, None)] * 2 == [planner.plan([row], now).good[0][1] for now in (NOON, NOON + HOUR)]


@pytest.mark.parametrize(
    ("spec", "other_anchor_ms", "expected"),
    [
        (every(7 * MINUTE), NOON - 8 * MINUTE, [NOON + 7 * MINUTE, NOON + 6 * MINUTE]),
        (cron("0 * * * *", count=2), NOON - 2 * HOUR, [NOON + HOUR, None]),
        (rrule("FREQ=DAILY;INTERVAL=2"), NOON - DAY, [NOON + 3 * DAY // 2, NOON + DAY // 2]),
        (rrule("FREQ=DAILY", count=2), NOON - 2 * DAY, [NOON + DAY // 2, None]),
    ],
    ids=["every", "cron with count", "rrule with an interval", "rrule with count"],
)
def test_schedules_of_one_text_but_different_anchors_do_not_share_a_plan(
    spec: TriggerSpec, other_anchor_ms: int, expected: list[int | None]
) -> None:
    anchors = [NOON - 7 * MINUTE if spec.kind is TriggerKind.EVERY else NOON - 1, other_anchor_ms]
    planner = Planner()

    for order in (anchors, anchors[::-1]):
        found = {
            int(row.anchor_ms): plan.next_ms
            for row, plan in planner.plan([due(spec, anchor_ms=anchor) for anchor in order], NOON).good
        }
        assert dict(zip(anchors, expected, strict=True)) == found


BROKEN = [
    "",
    "no json",
    "[]",
    "{}",
    '{"kind":"lunar","expr":"1","tz":"UTC"}',
    '{"kind":"cron","expr":"61 * * * *","tz":"UTC"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"Mars/Olympus"}',
    '{"kind":"cron","expr":7,"tz":"UTC"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"UTC","count":"two"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"UTC","colour":"red"}',
    '{"kind":"every","expr":"0","tz":"UTC"}',
    '{"kind":"every","expr":"-5","tz":"UTC"}',
    '{"kind":"rrule","expr":"FREQ=HOURLY","tz":"UTC"}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", BROKEN, ids=[text[:50] or "empty" for text in BROKEN])
def test_a_broken_trigger_does_not_stop_the_others(text: str) -> None:
    good = due(cron("0 * * * *"), id="good")

    planned = Planner().plan([good, due(text, id="bad"), good], NOON)

    assert [good, good] == [row for row, _ in planned.good]
    assert [b"bad"] == [row.id for row, _ in planned.bad]
    reason = planned.bad[0][1]
    assert reason.startswith(b"cannot be planned: ")
    assert len(reason) <= 300
    assert b"\n" not in reason


@pytest.mark.parametrize("field", ["nominal_ms", "anchor_ms"])
@pytest.mark.parametrize("value", [b"", b"soon", b"1e3", b"\xff", None])
def test_a_broken_number_is_that_schedules_problem(field: str, value: bytes | None) -> None:
    broken = due(every(MINUTE))._replace(**{field: value})

    assert [broken] == [one for one, _ in Planner().plan([broken], NOON).bad]


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_REMEMBERED", 3)
    planner = Planner()

    rows = [due(cron("0 * * * *"), nominal_ms=NOON - n * HOUR, anchor_ms=0, id=str(n)) for n in range(10)]
    for row in rows:
        planner.plan([row], int(row.nominal_ms))

    assert len(planner._known) <= 3
