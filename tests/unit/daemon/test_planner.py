from typing import Any

import pytest

from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.policy import Passed, Plan, Policy
from zsched.core.options.checked import CheckedOptions, policy_text
from zsched.core.options.choices import CatchUp
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.daemon import planner as planner_module
from zsched.daemon.planner import Planner
from zsched.storage.dispatch import DueRecurring

NOON = 1_767_268_800_000  # 2026-01-01T12:00Z, a Thursday
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def due(
    trigger: TriggerSpec | str,
    nominal_ms: int = NOON,
    anchor_ms: int = NOON - DAY,
    id: str = "a",
    policy: Policy | None = None,
) -> DueRecurring:
    text = trigger if isinstance(trigger, str) else trigger.to_text()
    texts = (id, "normal", str(nominal_ms), f"{nominal_ms} - - 1-1-1", text, str(anchor_ms))
    return DueRecurring(
        *(each.encode() for each in texts),
        None if policy is None else policy_text(CheckedOptions(policy=policy)).encode(),
    )


def fires(fire_ms: int, next_ms: int | None, *passed: Passed) -> Plan:
    """Return the plan of a schedule without jitter."""
    return Plan(fire_ms, fire_ms, passed, next_ms, next_ms)


def cron(expr: str, **bounds: Any) -> TriggerSpec:
    return TriggerSpec(CRON, expr, **bounds)


def every(ms: int, **bounds: int) -> TriggerSpec:
    return TriggerSpec(EVERY, str(ms), **bounds)


def rrule(expr: str, **bounds: int) -> TriggerSpec:
    return TriggerSpec(RRULE, expr, **bounds)


def plans(*rows: DueRecurring, now_ms: int = NOON) -> list[Plan]:
    planned = Planner().plan(rows, now_ms)
    assert [] == planned.bad
    return [written.plan for _, written in planned.good]


def test_a_due_rule_fires_and_gets_its_next_time() -> None:
    assert [fires(NOON, NOON + HOUR)] == plans(due(cron("0 * * * *")))


def test_the_second_schedule_of_a_rule_is_planned_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    first = planner.plan([row], NOON).good[0][1].plan

    monkeypatch.setattr(planner_module, "build", None)
    second = planner.plan([due(cron("0 * * * *"), id="b")], NOON + 5).good[0][1].plan

    assert first == second


USUAL, ALL, FIRST = Policy(), Policy(CatchUp.ALL), Policy(CatchUp.ALL, catch_up_limit=1)


@pytest.mark.parametrize(
    ("policy", "late_ms", "is_remembered"),
    [(USUAL, 0, True), (USUAL, 2 * HOUR, True), (ALL, 0, True), (FIRST, 2 * HOUR, False)],
)
def test_a_late_plan_is_shared_unless_missed_occurrences_are_all_caught_up(
    policy: Policy, late_ms: int, is_remembered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, row = Planner(), due(cron("0 * * * *"), policy=policy)
    planner.plan([row], NOON + late_ms)

    monkeypatch.setattr(planner_module, "build", None)
    planned = planner.plan([row._replace(id=b"b")], NOON + late_ms)

    assert is_remembered is bool(planned.good)


def test_a_remembered_next_time_that_has_passed_is_not_used() -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    planner.plan([row], NOON)

    late = planner.plan([row], NOON + 2 * HOUR + 1).good[0][1].plan

    coalesced = Passed(Outcome.COALESCED.word, NOON, NOON + HOUR, 2)
    assert fires(NOON + 2 * HOUR, NOON + 3 * HOUR, coalesced) == late


def test_a_plan_of_a_late_schedule_is_not_used_for_a_schedule_on_time() -> None:
    planner, row = Planner(), due(cron("0 * * * *"))
    planner.plan([row], NOON + 2 * HOUR + 1)

    assert fires(NOON, NOON + HOUR) == planner.plan([row], NOON).good[0][1].plan


def test_a_remembered_plan_is_not_used_for_other_policies() -> None:
    planner, gap = Planner(), 2 * HOUR
    rows = [due(cron("0 12 * * *"), policy=Policy(each)) for each in CatchUp]
    planner.plan(rows, NOON)

    late = planner.plan(rows, NOON + gap).good

    missed = Plan(None, None, (Passed(Outcome.MISSED.word, NOON, NOON, 1),), NOON + DAY, NOON + DAY)
    assert rows == [one for one, _ in late]
    assert [fires(NOON, NOON + DAY), fires(NOON, NOON + DAY), missed] == [one.plan for _, one in late]


@pytest.mark.parametrize(
    ("policy", "patience_ms"), [(Policy(CatchUp.NONE), 5000), (Policy(catch_up_window_ms=MINUTE), MINUTE)]
)
def test_a_remembered_plan_is_not_used_when_its_occurrence_is_too_late(policy: Policy, patience_ms: int) -> None:
    planner, row = Planner(), due(cron("0 * * * *"), policy=policy)
    planner.plan([row], NOON)

    found = [planner.plan([row], NOON + late_ms).good[0][1].plan.fire_ms for late_ms in (patience_ms, patience_ms + 1)]

    assert [NOON, None] == found


@pytest.mark.parametrize(
    ("policy", "words"), [(b"", "skip 100 -"), (b"fs", "skip 100 fs"), (b'e{"overlap":"queue"}', "queue 100 e")]
)
def test_the_words_for_advance_contain_the_plan_the_overlap_policy_and_the_flags(policy: bytes, words: str) -> None:
    row = due(cron("0 * * * *"))._replace(policy=policy or None)

    [(_, written)] = Planner().plan([row], NOON + HOUR).good

    times = f"{NOON + HOUR} {NOON + HOUR} {words} {NOON + 2 * HOUR} {NOON + 2 * HOUR}"
    assert f"{times} coalesced:{NOON}:{NOON}:1".encode() == written.words


def test_two_schedules_of_one_rule_have_different_jitter() -> None:
    planner, rows = Planner(), [due(cron("0 * * * *", jitter_ms=MINUTE), id=id) for id in ("a", "b", "a")]

    first, other, again = (one.plan for _, one in planner.plan(rows, NOON + MINUTE).good)

    assert first == again
    assert (NOON, NOON) == (first.fire_ms, other.fire_ms)
    assert first.next_due_ms != other.next_due_ms


def test_the_end_of_a_rule_is_remembered_as_an_end() -> None:
    planner, row = Planner(), due(cron("0 * * * *", ends_ms=NOON))

    assert [fires(NOON, None)] * 2 == [planner.plan([row], now).good[0][1].plan for now in (NOON, NOON + HOUR)]


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
    anchors = [NOON - 7 * MINUTE if spec.kind is EVERY else NOON - 1, other_anchor_ms]
    planner = Planner()

    for order in (anchors, anchors[::-1]):
        found = {
            int(one.anchor_ms): written.plan.next_ms
            for one, written in planner.plan([due(spec, anchor_ms=anchor) for anchor in order], NOON).good
        }
        assert dict(zip(anchors, expected, strict=True)) == found


BROKEN = [
    "",
    "no json",
    "[]",
    "{}",
    '{"kind":"lunar","expr":"1","tz":"UTC"}',
    '{"kind":"cron","expr":"61 * * * *","tz":"UTC"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"no zone"}',
    '{"kind":"cron","expr":7,"tz":"UTC"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"UTC","count":"two"}',
    '{"kind":"cron","expr":"0 * * * *","tz":"UTC","colour":"red"}',
    '{"kind":"every","expr":"0","tz":"UTC"}',
    '{"kind":"every","expr":"-5","tz":"UTC"}',
    '{"kind":"rrule","expr":"FREQ=HOURLY","tz":"UTC"}',
    '{"kind":"' + "long\\n" * 200 + '","expr":"","tz":"UTC"}',
    "[" * 100_000,
]


def test_a_rule_of_a_zone_that_this_machine_lacks_is_neither_planned_nor_bad() -> None:
    good, other = due(cron("0 * * * *"), id="good"), due(cron("0 * * * *", tz="Mars/Olympus"), id="other")

    planned = Planner().plan([other, good], NOON)

    assert ([good], [(other, "Mars/Olympus")], []) == (
        [one for one, _ in planned.good], planned.lacking, planned.bad,
    )  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=[text[:50] or "empty" for text in BROKEN])
def test_a_broken_trigger_does_not_stop_other_schedules(text: str) -> None:
    good = due(cron("0 * * * *"), id="good")

    planned = Planner().plan([good, due(text, id="bad"), good], NOON)

    assert [good, good] == [one for one, _ in planned.good]
    assert [b"bad"] == [row.id for row, _ in planned.bad]
    reason = planned.bad[0][1]
    assert reason.startswith(b"cannot be planned: ")
    assert len(reason) <= 300
    assert b"\n" not in reason


@pytest.mark.parametrize("text", [b"{", b"[]", b"7", b'{"catch_up":"some"}', b'{"colour":"red"}', b"\xff"])
def test_broken_policies_do_not_stop_other_schedules(text: bytes) -> None:
    good = due(cron("0 * * * *"))
    broken = good._replace(id=b"bad", policy=text)

    planned = Planner().plan([broken, good], NOON)

    assert ([broken], [good]) == ([one for one, _ in planned.bad], [one for one, _ in planned.good])


@pytest.mark.parametrize("field", ["progress", "anchor_ms"])
@pytest.mark.parametrize("value", [b"", b"soon", b"1e3", b"\xff", None])
def test_a_broken_number_is_reported_for_its_schedule(field: str, value: bytes | None) -> None:
    broken = due(every(MINUTE))._replace(**{field: value})

    assert [broken] == [one for one, _ in Planner().plan([broken], NOON).bad]


def test_the_planner_remembers_a_bounded_number_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_REMEMBERED", 3)
    planner = Planner()

    rows = [due(cron("0 * * * *"), nominal_ms=NOON - n * HOUR, anchor_ms=0, id=str(n)) for n in range(10)]
    sizes = []
    for row in rows:
        planner.plan([row], int(row.due_ms))
        sizes.append(len(planner._shared))

    assert [1, 2, 3] == sizes[:3]
    assert max(sizes) <= 3
