"""Refused triggers, and the messages of their refusals."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.unit.triggers.oracle import ms
from zsched.core.triggers import TriggerSpec, build, check
from zsched.core.triggers.cron import CRON, parse_cron
from zsched.core.triggers.every import EVERY, parse_every
from zsched.core.triggers.rrule import RRULE, parse_rrule
from zsched.errors import InvalidSchedule, TriggerError

NOW = ms("2026-01-01")


def refusal(parse, value):
    with pytest.raises(InvalidSchedule) as caught:
        parse(value)
    assert len(str(caught.value)) < 400
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * * *", "starts="),
        ("*", "1 field,"),
        ("61 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * 32 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("60 * * * * *", "second"),
        ("*/0 * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("1.5 * * * *", "minute"),
        ("5-5/0 * * * *", "steps of 0"),
        ("1,2, * * * *", "minute"),
        ("0 0 * * 7-sun", "'7-sun'"),
        ("0 0 * * monday", "day of week"),
        ("0 0 * * 7-0", "'7-0'"),
        ("0 22-4/3 * * *", "steps across"),
        ("0 0 1 OCT-FEB/2 *", "steps across"),
        ("0 0 L-15/2 * *", "day of month"),
        ("0 0 * * MON#6", "day of week"),
        ("0 0 * * 5L", "write L5 for"),
        ("0 0 * * MON,FRI#2", "mixes"),
        ("0 0 15W * *", "W ("),
        ("H * * * *", "drawn by lot"),
        ("R(0-9) * * * *", "drawn by lot"),
        ("@reboot", "reboot"),
        ("@fortnightly", "@weekly"),
        ("TZ=UTC 0 0 * * *", "tz="),
        ("", "empty"),
        ("   ", "empty"),
        ("0 0 * * *\x00", "characters"),
        ("0 0 * * *\n0 1 * * *", "characters"),
        ("0 0\u00a0* * *", "characters"),
        ("٣ * * * *", "characters"),
        (",".join(["1"] * 20_000) + " * * * *", "longer than 512"),
        ("9" * 5000 + " * * * *", "longer than 512"),
        ("9" * 400 + " * * * *", "minute"),
        (None, "not a text"),
        (b"* * * * *", "not a text"),
        (5, "not a text"),
    ],
)
def test_a_bad_cron_expression_is_refused(value, says):
    error = refusal(parse_cron, value)

    assert "cron" == error.field
    assert says in str(error)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("  0  9\t* * 1-5 ", "0 9 * * 1-5"), ("@daily", "@daily"), ("0 9 * * mon-FRI", "0 9 * * mon-FRI")],
)
def test_a_cron_expression_keeps_its_text_except_for_spaces(value, expected):
    assert expected == parse_cron(value)
    assert expected == parse_cron(expected)


FIELDS = st.text(st.sampled_from("0123456789*/-,#?lLwWhHrRfrimonjan()@ "), min_size=1, max_size=8)


@settings(max_examples=examples(1500), deadline=None)
@given(st.integers(0, 5), FIELDS)
def test_any_text_is_a_cron_expression_or_an_invalid_schedule(position, field):
    fields = ["0"] * 1 + ["*"] * 5
    fields[position] = field
    try:
        expr = parse_cron(" ".join(fields))
    except InvalidSchedule:
        return
    trigger = build(TriggerSpec(CRON, expr), NOW)
    assert trigger.next_after(NOW) is None or trigger.next_after(NOW) > NOW


# RFC 5545, 3.3.10; but a leap second, 60, is none of ours.
@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        ("FREQ=YEARLY;BYMONTH={}", 1, 12),
        ("FREQ=YEARLY;BYWEEKNO={};BYDAY=MO", -53, 53),
        ("FREQ=YEARLY;BYYEARDAY={}", -366, 366),
        ("FREQ=MONTHLY;BYMONTHDAY={}", -31, 31),
        ("FREQ=DAILY;BYHOUR={}", 0, 23),
        ("FREQ=DAILY;BYMINUTE={}", 0, 59),
        ("FREQ=DAILY;BYSECOND={}", 0, 59),
        ("FREQ=YEARLY;BYDAY=MO;BYSETPOS={}", -366, 366),
        ("FREQ=YEARLY;BYDAY={}MO", -53, 53),
    ],
)
def test_numbers_of_a_recurrence_rule_have_the_ranges_of_rfc_5545(rule: str, least: int, most: int) -> None:
    for number in (least, most):
        assert parse_rrule(rule.format(number))[0] == rule.format(number)
    for number in (least - 1, most + 1):
        refusal(parse_rrule, rule.format(number))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("FREQ=HOURLY", "every="),
        ("FREQ=SECONDLY;BYMONTHDAY=31", "every="),
        ("FREQ=FORTNIGHTLY", "WEEKLY"),
        (f"FREQ={'X' * 41}", f"FREQ={'X' * 40} is not known"),
        (f"FREQ=DAILY;{'X' * 41}", f"'{'X' * 40}' is not NAME=VALUE"),
        (f"FREQ=DAILY;{'X' * 41}=1", f"unknown part '{'X' * 40}'"),
        (f"FREQ=DAILY;COUNT={'9' * 41}", f"COUNT={'9' * 40} is out of range"),
        (f"FREQ=DAILY;BYHOUR={'9' * 41}", f"BYHOUR={'9' * 40} is out of range"),
        (f"FREQ=DAILY;BYDAY={'X' * 41}", f"'{'X' * 40}' is not a weekday"),
        (f"FREQ=DAILY;UNTIL={'9' * 41}", f"UNTIL={'9' * 40} is not an instant"),
        ("BYDAY=MO", "FREQ is missing"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=99999", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=" + "9" * 300, "INTERVAL"),
        ("FREQ=DAILY;COUNT=0", "COUNT"),
        ("FREQ=DAILY;COUNT=-1", "COUNT"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20300101T000000Z", "exclude each other"),
        ("FREQ=DAILY;UNTIL=20300101", "Z"),
        ("FREQ=DAILY;UNTIL=20300101T000000", "Z"),
        ("FREQ=DAILY;UNTIL=20301301T000000Z", "not a date"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
        ("FREQ=DAILY;BYMONTH=0", "BYMONTH"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "without 0"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,,2", "BYMONTHDAY"),
        ("FREQ=MONTHLY;BYDAY=0MO", "weekday"),
        ("FREQ=MONTHLY;BYDAY=XX", "weekday"),
        ("FREQ=WEEKLY;BYDAY=1MO", "numbered weekday"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO"),
        ("FREQ=YEARLY;BYWEEKNO=1", "add BYDAY"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "BYWEEKNO"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;BYEASTER=0", "unknown part"),
        ("FREQ=DAILY;WKST=1MO", "WKST"),
        ("FREQ=DAILY;WKST=MO,TU", "WKST"),
        ("FREQ=DAILY;X", "NAME=VALUE"),
        ("FREQ=", "NAME=VALUE"),
        ("", "empty"),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY", "starts="),
        ("FREQ=DAILY;DTSTART=20260101T000000Z", "starts="),
        ("DTSTART;TZID=Europe/London:20260101T000000\nRRULE:FREQ=DAILY", "starts="),
        ("RRULE:FREQ=DAILY\nEXDATE:20260101T000000Z", "EXDATE"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY", "EXRULE"),
        ("FREQ=DAILY\nFREQ=DAILY", "one RRULE"),
        ("FREQ=DAILY;BYMINUTE=" + ",".join(["1"] * 20_000), "longer than 512"),
        (None, "not a text"),
        (7, "not a text"),
    ],
)
def test_a_bad_recurrence_rule_is_refused(value, says):
    error = refusal(parse_rrule, value)

    assert "rrule" == error.field
    assert says in str(error)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, "30000"),
        (0.5, "500"),
        (0.1 + 0.2, "300"),
        (0.001, "1"),
        (Decimal("2.25"), "2250"),
        (timedelta(minutes=5), "300000"),
        (timedelta(milliseconds=1), "1"),
        ("30", "30000"),
        ("2m", "120000"),
        ("1h30m", "5400000"),
        ("500ms", "500"),
        (100 * 365.25 * 86_400, "3155760000000"),
    ],
)
def test_an_interval_is_rounded_to_whole_milliseconds(value, expected):
    assert expected == parse_every(value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0, "positive"),
        (0.0, "positive"),
        (-1, "positive"),
        (timedelta(seconds=-1), "positive"),
        (timedelta(), "positive"),
        (0.0001, "millisecond"),
        (timedelta(microseconds=1), "millisecond"),
        (1 / 3, "0.333"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (float("-inf"), "finite"),
        (Decimal("sNaN"), "finite"),
        (Decimal("1e999999"), "100 years"),
        (Decimal("-1e999999"), "positive"),
        pytest.param(10**5000, "100 years", id="5001 digits"),
        (timedelta.max, "100 years"),
        (True, "not a duration"),
        ("soon", "not a duration"),
        ("1 h", "not a duration"),
        ("0s", "positive"),
        ("-5", "positive"),
        (None, "not a duration"),
    ],
)
def test_a_bad_interval_is_refused(value, says):
    error = refusal(parse_every, value)

    assert "every" == error.field
    assert says in str(error)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (TriggerSpec(CRON, "0 0 30 2 *"), "cron"),
        (TriggerSpec(CRON, "0 0 31 4,6,9,11 *", "America/New_York"), "cron"),
        (TriggerSpec(CRON, "0 0 30,31 2 ?"), "cron"),
        (TriggerSpec(CRON, "61 * * * *"), "cron"),
        (TriggerSpec(CRON, "0 0 * * *", ends_ms=NOW), "ends"),
        (TriggerSpec(CRON, "0 0 * * *", ends_ms=NOW + 5, starts_ms=NOW + 6), "ends"),
        (TriggerSpec(CRON, "0 0 * * *", starts_ms=10**18), "starts"),
        (TriggerSpec(CRON, "0 0 * * *", count=0), "count"),
        (TriggerSpec(CRON, "0 0 * * *", "Mars/Olympus"), "tz"),
        (TriggerSpec(RRULE, "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "rrule"),
        (TriggerSpec(RRULE, "FREQ=DAILY;BYMONTH=4;BYMONTHDAY=31;BYHOUR=1,2"), "rrule"),
        (TriggerSpec(RRULE, "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2"), "rrule"),
        (TriggerSpec(RRULE, "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29", starts_ms=NOW), "rrule"),
        (TriggerSpec(RRULE, "FREQ=DAILY;UNTIL=20200101T000000Z"), "rrule"),
        (TriggerSpec(EVERY, "1000", ends_ms=NOW + 999), "ends"),
    ],
)
def test_a_schedule_that_never_fires_is_refused(spec, field):
    error = refusal(lambda value: check(value, NOW), spec)

    assert field == error.field


def test_a_schedule_that_starts_after_the_last_possible_time_has_no_time() -> None:
    last_ms = ms("9999-12-29T23:59")
    check(TriggerSpec(CRON, "59 23 29 12 *", starts_ms=last_ms), NOW)

    error = refusal(lambda value: check(value, NOW), TriggerSpec(CRON, "59 23 29 12 *", starts_ms=last_ms + 1))

    assert f"never fires: {CRON.cause}" in str(error)


@pytest.mark.parametrize(
    "spec",
    [
        TriggerSpec(CRON, "0 0 29 2 *"),
        TriggerSpec(CRON, "0 0 */28 2 1", "Pacific/Apia"),
        TriggerSpec(RRULE, "FREQ=MONTHLY;INTERVAL=7;BYMONTHDAY=31;BYDAY=FR"),
        TriggerSpec(EVERY, "1000", ends_ms=NOW + 1000),
    ],
)
def test_a_schedule_that_fires_seldom_is_accepted(spec):
    check(spec, NOW)


@pytest.mark.parametrize(
    "spec",
    [TriggerSpec(CRON, "no cron"), TriggerSpec(RRULE, "no rule"), TriggerSpec(EVERY, "0"), TriggerSpec(EVERY, "x")],
)
def test_a_stored_rule_that_cannot_be_read_is_a_trigger_error(spec):
    with pytest.raises(TriggerError):
        build(spec, NOW)


@pytest.mark.parametrize(("days", "is_refused"), [("FRI-SUN/2", False), ("5-0/2", False), ("FRI-MON/2", True)])
def test_steps_of_weekdays_may_end_on_sunday_and_not_beyond(days, is_refused):
    if is_refused:
        assert "takes steps across the end of its range" in str(refusal(parse_cron, f"0 0 * * {days}"))
    else:
        parse_cron(f"0 0 * * {days}")
