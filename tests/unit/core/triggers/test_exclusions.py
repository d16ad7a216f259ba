"""Exclusions: the texts, and the occurrences that they leave, against a walk through all times on the clock."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.exclusions import canonical
from zsched.core.triggers.layers import NeverOpen, OpenTrigger
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import OnExcluded, TriggerSpec
from zsched.core.triggers.trigger import build, check, read_spec
from zsched.errors import InvalidSchedule

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
ZONES = ("UTC", "Asia/Seoul", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")

# Each text with the condition on a local time that it stands for.
TEXTS: dict[str, Callable[[datetime], bool]] = {
    "Sat,Sun": lambda at: at.weekday() >= 5,
    "Mon-Wed": lambda at: at.weekday() <= 2,
    "22:00-07:00": lambda at: at.hour >= 22 or at.hour < 7,
    "01:30-02:30": lambda at: (1, 30) <= (at.hour, at.minute) < (2, 30),
    "Fri 18:00-09:00": lambda at: (at.weekday() == 4 and at.hour >= 18) or (at.weekday() == 5 and at.hour < 9),
    "2026-03-28..2026-04-02": lambda at: (3, 28) <= (at.month, at.day) <= (4, 2) and at.year == 2026,
    "2026-10-25": lambda at: (at.year, at.month, at.day) == (2026, 10, 25),
    "12-25": lambda at: (at.month, at.day) == (12, 25),
    "02-29": lambda at: (at.month, at.day) == (2, 29),
}
RULES = (
    TriggerSpec(EVERY, str(47 * MINUTE)),
    TriggerSpec(EVERY, str(DAY)),
    TriggerSpec(CRON, "*/30 * * * *"),
    TriggerSpec(CRON, "0 9 * * *"),
    TriggerSpec(CRON, "15 2,23 * * 5-7"),
    TriggerSpec(RRULE, "FREQ=DAILY;INTERVAL=2;BYHOUR=6,22"),
)


@pytest.mark.parametrize(
    ("on_excluded", "hour", "expected"),
    [
        (OnExcluded.SKIP, 8, (START + 1 * HOUR, "00:00-07:00")),
        (OnExcluded.SKIP, 13, None),
        (OnExcluded.NEXT_OPEN, 6, (START + 1 * HOUR, "00:00-07:00")),
        (OnExcluded.NEXT_OPEN, 8, None),  # it ran at 7
    ],
)
def test_the_newest_occurrence_is_excluded_until_a_later_one_ran(
    on_excluded: OnExcluded, hour: int, expected: tuple[int, str] | None
) -> None:
    spec = TriggerSpec(CRON, "0 1,12 * * *", exclude=("00:00-07:00",), on_excluded=on_excluded)
    trigger = build(spec, START - DAY)

    assert isinstance(trigger, OpenTrigger)
    assert expected == trigger.newest_excluded(START + hour * HOUR)


def test_a_rule_whose_few_times_are_all_excluded_is_refused_for_its_exclusions() -> None:
    with pytest.raises(InvalidSchedule, match="excludes all times of the rule"):
        check(TriggerSpec(RRULE, "FREQ=DAILY", count=3, exclude=("2026-01-01..2026-01-09",)), START)


def is_excluded(texts: Sequence[str], tz: str, ms: int) -> bool:
    local = datetime.fromtimestamp(ms / 1000, ZoneInfo(tz))
    return any(TEXTS[text](local) for text in texts)


def walked(spec: TriggerSpec, texts: Sequence[str], anchor_ms: int, until_ms: int) -> list[int]:
    """Return the occurrences until *until_ms*, decided one by one; a moved one by looking minute by minute."""
    found = set()
    base = TriggerSpec(spec.kind, spec.expr, spec.tz, count=spec.count)
    for at_ms in build(base, anchor_ms).between(anchor_ms, until_ms):
        if is_excluded(texts, spec.tz, at_ms):
            if spec.on_excluded is OnExcluded.SKIP:
                continue
            at_ms = -(-at_ms // MINUTE) * MINUTE
            while is_excluded(texts, spec.tz, at_ms) and at_ms <= until_ms:
                at_ms += MINUTE
        found.add(at_ms)
    return sorted(at_ms for at_ms in found if at_ms <= until_ms)


# Days of the year before which a rule begins: any, the beginning of summer time, its end, and the turn of the year.
@given(
    rule=st.sampled_from(RULES),
    tz=st.sampled_from(ZONES),
    texts=st.lists(st.sampled_from([*TEXTS]), min_size=1, max_size=3, unique=True),
    on_excluded=st.sampled_from(OnExcluded),
    count=st.none() | st.integers(1, 400),
    day=st.sampled_from([0, 57, 64, 85, 88, 91, 273, 276, 295, 301, 356]),
    after_d=st.floats(0, 6),
    days=st.floats(0, 6),
)
def test_a_trigger_has_the_occurrences_that_a_walk_finds(
    rule: TriggerSpec,
    tz: str,
    texts: list[str],
    on_excluded: OnExcluded,
    count: int | None,
    day: int,
    after_d: float,
    days: float,
) -> None:
    spec = TriggerSpec(rule.kind, rule.expr, tz, count=count, exclude=tuple(texts), on_excluded=on_excluded)
    anchor_ms = START + day * DAY
    after_ms = anchor_ms + int(after_d * DAY)
    until_ms = after_ms + int(days * DAY)
    expected = [at_ms for at_ms in walked(spec, texts, anchor_ms, until_ms) if at_ms > after_ms]

    trigger = build(spec, anchor_ms)

    assert len(expected) == trigger.count_between(after_ms, until_ms)
    last_ms = trigger.last_until(until_ms)
    assert (expected[-1] if expected else None) == (last_ms if last_ms is not None and last_ms > after_ms else None)
    try:
        assert expected == list(trigger.between(after_ms, until_ms))
    except NeverOpen:
        assert [] == expected


def test_count_counts_the_excluded_occurrences_too() -> None:
    trigger = build(TriggerSpec(CRON, "0 9 * * *", count=7, exclude=("Sat,Sun",)), START)

    assert 5 == trigger.count_between(START, START + 100 * DAY)


def test_occurrences_that_move_to_one_instant_are_one() -> None:
    spec = TriggerSpec(CRON, "0 * * * *", exclude=("22:00-07:00",), on_excluded=OnExcluded.NEXT_OPEN)

    trigger = build(spec, START)

    assert [START + 7 * HOUR, START + 8 * HOUR] == list(trigger.between(START - 1, START + 8 * HOUR))


def test_the_excluded_occurrences_are_listed_by_excluded_time_with_its_texts() -> None:
    friday = START + DAY + 9 * HOUR
    trigger = build(TriggerSpec(CRON, "0 9 * * *", exclude=("Sat,Sun", "2026-01-05")), START)

    assert isinstance(trigger, OpenTrigger)
    assert [(friday + DAY, friday + 3 * DAY, 3, "Sat,Sun; 2026-01-05")] == list(
        trigger.excluded(friday, friday + 9 * DAY)
    )[:1]


def test_a_schedule_whose_times_are_all_excluded_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="excludes all times of the rule") as caught:
        check(TriggerSpec(CRON, "0 3 * * *", exclude=("22:00-07:00",)), START)

    assert "exclude" == caught.value.field


def test_a_stored_rule_keeps_its_exclusions() -> None:
    spec = TriggerSpec(CRON, "0 9 * * *", exclude=("Sat,Sun", "kr"), on_excluded=OnExcluded.NEXT_OPEN)

    assert spec == read_spec(spec.to_text())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Sat, Sun", "Sat,Sun"), ("mon-fri", "Mon,Tue,Wed,Thu,Fri"), ("SUN,sat", "Sat,Sun"),
        ("Fri-Mon", "Mon,Fri,Sat,Sun"), (" 22:00 - 07:00", "22:00-07:00"), ("00:00-24:00", "00:00-24:00"),
        ("Mon-Tue  12:00-13:00", "Mon,Tue 12:00-13:00"),
        ("2026-12-24 .. 2027-01-01", "2026-12-24..2027-01-01"), ("12-25", "12-25"), ("kr", "kr"), ("us-fed", "us-fed"),
    ],
)  # fmt: skip
def test_a_text_has_one_form(given: str, text: str) -> None:
    assert (text,) == canonical("exclude", [given, given])


@pytest.mark.parametrize(
    "text",
    ["", "Sa", "Sat;Sun", "25:00-26:00", "22:00", "22:00-22:00", "9:00-10:00", "2026-02-30", "2026-1-1", "13-01",
     "02-30", "2026-12-24..2026-12-23", "Xyz", "Sat-", "12:60-13:00", "KR", "24:00-01:00", "Mon-Tue-Wed"],
)  # fmt: skip
def test_a_text_of_no_form_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        canonical("exclude", [text])

    assert ("exclude", text) == (caught.value.field, caught.value.value)
    assert caught.value.remedy
