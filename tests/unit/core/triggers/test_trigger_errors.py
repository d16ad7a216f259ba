"""Refused triggers, and the messages of their refusals."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.unit.core.triggers.oracle import ms
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import build, check
from zsched.core.triggers.zones import FLOOR_S
from zsched.errors import InvalidSchedule, TriggerError

NOW = ms("2026-01-01")


def refusal(parse, value):
    with pytest.raises(InvalidSchedule) as caught:
        parse(value)
    assert len(str(caught.value)) < 400
    assert caught.value.remedy
    return caught.value


OF_CRON = {
    "4 fields": ["* * * *"],
    "is a year, not supported: six fields begin with the seconds; write '0 0 1 1 *'": ["0 0 1 1 * 2027"],
    "write '* * * * * *' with starts= and ends=, or give at= for a single time": ["* * * * * * *"],
    "write '0 0 12 ? * 2-6' with starts=": ["0 0 12 ? * 2-6 *", "0 0 12 ? * 2-6 2027-2030"],
    "write '0 12 24 12' with starts=": ["0 12 24 12 2027"],
    "1 field,": ["*"],
    "' ' does not belong after '0,'; write '0,15,30,45 * * * *' if": ["0, 15, 30, 45 * * * *", "0, 15,30 ,45 * * * *"],
    "' ' does not belong after '*/'; write '*/5 9-17 * * *' if": ["*/ 5 9 - 17 * * *"],
    "',' does not belong after '1,2'; write '1,2 * * * *' if": ["1,2, * * * *"],
    "',' does not belong after '0 9 * * MON'; write '0 9 * * MON' if": ["0 9 * * MON,"],
    "',' does not belong after '0 '; write '0 9,17 * * *' if": ["0 ,9,17 * * *"],
    "minute": ["61 * * * *", "*/0 * * * *", "-1 * * * *", "1.5 * * * *", "9" * 400 + " * * * *"],
    "hour": ["* 24 * * *"],
    "day of month": ["* * 0 * *", "* * 32 * *", "0 0 L-15/2 * *"],
    "month": ["* * * 13 *"],
    "day of week": ["* * * * 8", "0 0 * * monday", "0 0 * * MON#6"],
    "second": ["60 * * * * *"],
    "steps of 0": ["5-5/0 * * * *"],
    "'7-sun'": ["0 0 * * 7-sun"],
    "'7-0'": ["0 0 * * 7-0"],
    "takes steps across the end of its range": ["0 22-4/3 * * *", "0 0 1 OCT-FEB/2 *", "0 0 * * FRI-MON/2"],
    "write L5 for": ["0 0 * * 5L"],
    "mixes": ["0 0 * * MON,FRI#2"],
    "W (": ["0 0 15W * *"],
    "would be random": ["H * * * *", "R(0-9) * * * *"],
    "reboot": ["@reboot"],
    "@weekly": ["@fortnightly"],
    "tz=": ["TZ=UTC 0 0 * * *"],
    "empty": ["", "   "],
    "'\\x00' is a character that no rule has": ["0 0 * * *\x00"],
    "'\\n' is a character that no rule has": ["0 0 * * *\n0 1 * * *"],
    "'\\xa0' is a character that no rule has": ["0 0\u00a0* * *"],
    "'٣' is a character that no rule has": ["٣ * * * *"],
    "'–' is a character that no rule has": ["0 9–17 * * *"],
    "longer than 512": [",".join(["1"] * 20_000) + " * * * *", "9" * 5000 + " * * * *"],
    "not a text": [None, b"* * * * *", 5],
}
OF_RRULE = {
    "every=": ["FREQ=HOURLY", "FREQ=SECONDLY;BYMONTHDAY=31"],
    "WEEKLY": ["FREQ=FORTNIGHTLY"],
    f"FREQ={'X' * 40} is not known": [f"FREQ={'X' * 41}"],
    f"'{'X' * 40}' is not NAME=VALUE": [f"FREQ=DAILY;{'X' * 41}"],
    f"unknown part '{'X' * 40}'": [f"FREQ=DAILY;{'X' * 41}=1"],
    f"COUNT={'9' * 40} is out of range": [f"FREQ=DAILY;COUNT={'9' * 41}"],
    f"BYHOUR={'9' * 40} is out of range": [f"FREQ=DAILY;BYHOUR={'9' * 41}"],
    f"'{'X' * 40}' is not a weekday": [f"FREQ=DAILY;BYDAY={'X' * 41}"],
    f"UNTIL={'9' * 40} is neither a date nor a time": [f"FREQ=DAILY;UNTIL={'9' * 41}"],
    "FREQ is missing": ["BYDAY=MO"],
    "twice": ["FREQ=DAILY;FREQ=DAILY"],
    "INTERVAL": [f"FREQ=DAILY;INTERVAL={number}" for number in ("0", "99999", "9" * 300)],
    "COUNT": ["FREQ=DAILY;COUNT=0", "FREQ=DAILY;COUNT=-1"],
    "exclude each other": ["FREQ=DAILY;COUNT=2;UNTIL=20300101T000000Z"],
    "write 20301231, 20301231T180000, or 20301231T180000Z for UTC": [
        f"FREQ=DAILY;UNTIL={text}" for text in ("2030-12-31", "20301231T18", "20301231Z", "1924905599", "forever")
    ],
    "not a date of the calendar": [
        f"FREQ=DAILY;UNTIL={text}" for text in ("20301301", "20300229", "20300101T250000", "20301301T000000Z")
    ],
    "' ' does not belong after 'FREQ=WEEKLY;'; write 'FREQ=WEEKLY;BYDAY=MO'": [
        "FREQ=WEEKLY; BYDAY=MO",
        "RRULE:freq=weekly; byday=mo",
    ],
    "' ' does not belong after 'FREQ=WEEKLY'; write 'FREQ=WEEKLY;BYDAY=MO'": ["FREQ=WEEKLY BYDAY=MO"],
    "' ' does not belong after 'FREQ=DAILY;BYHOUR=9,'": ["FREQ=DAILY;BYHOUR=9, 17"],
    "',' does not belong after 'FREQ=WEEKLY;BYDAY=MO'": [
        "FREQ=WEEKLY;BYDAY=MO,",
        "FREQ=WEEKLY;BYDAY=MO,;BYHOUR=9",
    ],
    "',' does not belong after 'FREQ=WEEKLY;BYDAY='": ["FREQ=WEEKLY;BYDAY=,MO"],
    "';' does not belong after 'FREQ=DAILY;'; write 'FREQ=DAILY;BYHOUR=9'": ["FREQ=DAILY;;BYHOUR=9"],
    "'\\n' is a character that no rule has": ["FREQ=DAILY\n FREQ=DAILY"],
    "BYHOUR": ["FREQ=DAILY;BYHOUR=24"],
    "BYMONTH": ["FREQ=DAILY;BYMONTH=0"],
    "without 0": ["FREQ=MONTHLY;BYMONTHDAY=0"],
    "BYMONTHDAY": ["FREQ=WEEKLY;BYMONTHDAY=1"],
    "weekday": ["FREQ=MONTHLY;BYDAY=0MO", "FREQ=MONTHLY;BYDAY=XX"],
    "numbered weekday": ["FREQ=WEEKLY;BYDAY=1MO"],
    "BYYEARDAY": ["FREQ=MONTHLY;BYYEARDAY=1"],
    "BYWEEKNO": ["FREQ=MONTHLY;BYWEEKNO=1", "FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO"],
    "add BYDAY": ["FREQ=YEARLY;BYWEEKNO=1"],
    "BYSETPOS": ["FREQ=DAILY;BYSETPOS=1"],
    "unknown part": ["FREQ=DAILY;BYEASTER=0"],
    "WKST": ["FREQ=DAILY;WKST=1MO", "FREQ=DAILY;WKST=MO,TU"],
    "NAME=VALUE": ["FREQ=DAILY;X", "FREQ="],
    "empty": [""],
    "starts=": [
        "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY",
        "FREQ=DAILY;DTSTART=20260101T000000Z",
        "DTSTART;TZID=Europe/London:20260101T000000\nRRULE:FREQ=DAILY",
    ],
    "EXDATE is a line of its own": ["RRULE:FREQ=DAILY\nEXDATE:20260101T000000Z"],
    "EXRULE": ["RRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY"],
    "on one line": ["FREQ=DAILY\nFREQ=DAILY"],
    "does not belong after 'ONTHLY;BYMONTHDAY=1,'": ["FREQ=MONTHLY;BYMONTHDAY=1,,2"],
    "longer than 512": ["FREQ=DAILY;BYMINUTE=" + ",".join(["1"] * 20_000)],
    "not a text": [None, 7],
}
OF_EVERY = {
    "positive": [0, 0.0, -1, timedelta(seconds=-1), timedelta(), Decimal("-1e999999"), "0s", "-5"],
    "millisecond": [0.0001, timedelta(microseconds=1)],
    "0.333": [1 / 3],
    "finite": [float("nan"), float("inf"), float("-inf"), Decimal("sNaN")],
    "100 years": [Decimal("1e999999"), 10**5000, timedelta.max],
    "not a duration": [True, "soon", "1 h", None],
}
PARSERS = [(CRON.parse, "cron", OF_CRON), (RRULE.parse, "rrule", OF_RRULE), (EVERY.parse, "every", OF_EVERY)]
REFUSED = [
    pytest.param(parse, field, says, value, id=f"{field}: {says[:40]} {n}")
    for parse, field, of_a_kind in PARSERS
    for says, values in of_a_kind.items()
    for n, value in enumerate(values)
]


@pytest.mark.parametrize(("parse", "field", "says", "value"), REFUSED)
def test_a_bad_cron_expression_recurrence_rule_or_interval_is_refused(parse, field, says, value):
    error = refusal(parse, value)

    assert field == error.field
    assert says in str(error)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("  0  9\t* * 1-5 ", "0 9 * * 1-5"),
        *((text, text) for text in ("@daily", "0 9 * * mon-FRI", "0 0 * * FRI-SUN/2", "0 0 * * 5-0/2")),
    ],
)
def test_a_cron_expression_keeps_its_text_except_for_spaces(value, expected):
    assert (expected, None) == CRON.parse(value)
    assert (expected, None) == CRON.parse(expected)


FIELDS = st.text(st.sampled_from("0123456789*/-,#?lLwWhHrRfrimonjan()@ "), min_size=1, max_size=8)


@settings(max_examples=examples(1500), deadline=None)
@given(st.integers(0, 5), FIELDS)
def test_any_text_is_a_cron_expression_or_an_invalid_schedule(position, field):
    fields = ["0"] * 1 + ["*"] * 5
    fields[position] = field
    try:
        expr, _ = CRON.parse(" ".join(fields))
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
        assert RRULE.parse(rule.format(number))[0] == rule.format(number)
    for number in (least - 1, most + 1):
        refusal(RRULE.parse, rule.format(number))


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
    assert (expected, None) == EVERY.parse(value)


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
        (TriggerSpec(CRON, "0 0 * * *", starts_ms=FLOOR_S * 1000 - 1), "starts"),
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
