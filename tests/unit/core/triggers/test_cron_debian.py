"""Cron expressions that Debian's cron accepts: each has the values that cron gives it."""

from itertools import product
from typing import Final, NamedTuple

import pytest

from zsched.core.triggers.cron import CRON, CronRule, cron_rule

EVERY_DAY: Final = set(range(7))  # 0 is Sunday here, as in crontab(5)


def rule_of(text: str) -> CronRule:
    return cron_rule(CRON.parse(text)[0])


def sundays_first(rule: CronRule) -> set[int]:
    """Return the weekdays of *rule*, with 0 for Sunday."""
    return {(day + 1) % 7 for day in rule.days.weekdays}


def month_days(rule: CronRule) -> set[int]:
    return {day for day in range(1, 32) if rule.days.month_days >> day - 1 & 1}


@pytest.mark.parametrize(
    ("text", "minutes", "hours"),
    [  # sentence of crontab(5): the fields, and the values that it gives
        ("8 * * * *", {8}, set(range(24))),
        ("8-11 * * * *", {8, 9, 10, 11}, set(range(24))),
        ("* 8-11 * * *", set(range(60)), {8, 9, 10, 11}),
        ("1,2,5,9 * * * *", {1, 2, 5, 9}, set(range(24))),
        ("0-4,8-12 * * * *", {*range(5), *range(8, 13)}, set(range(24))),
        ("0 0-23/2 * * *", {0}, set(range(0, 24, 2))),
        ("0 0,2,4,6,8,10,12,14,16,18,20,22 * * *", {0}, set(range(0, 24, 2))),
        ("0 */2 * * *", {0}, set(range(0, 24, 2))),
        ("5 0 * * *", {5}, {0}),
        ("15 14 1 * *", {15}, {14}),
        ("23 0-23/2 * * *", {23}, set(range(0, 24, 2))),
        ("23 23-23 * * *", {23}, {23}),
        ("2-2 * * * *", {2}, set(range(24))),
        ("2-2/3,7 5-5 * * *", {2, 7}, {5}),
        ("02 08-09 * * *", {2}, {8, 9}),
        ("*/60 */24 * * *", {0}, {0}),
        ("*/90 * * * *", {0}, set(range(24))),
        ("10-20/100 * * * *", {10}, set(range(24))),
        ("10-20/10,15-16 * * * *", {10, 15, 16, 20}, set(range(24))),
        ("0-59/15 * * * *", {0, 15, 30, 45}, set(range(24))),
        ("*,5 * * * *", set(range(60)), set(range(24))),
        ("0\t4   8-14  *  *", {0}, {4}),
    ],
)
def test_minutes_and_hours_have_the_values_of_crontab_5(text: str, minutes: set[int], hours: set[int]) -> None:
    times = rule_of(text).times

    assert (minutes, hours) == ({*times.minutes}, {*times.hours})


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", {0}), ("7", {0}), ("sun", {0}), ("Sun", {0}), ("SUN", {0}), ("07", {0}), ("7-7", {0}), ("sun-sun", {0}),
        ("0-0", {0}), ("sun-0", {0}), ("1-5", {1, 2, 3, 4, 5}), ("mon-fri", {1, 2, 3, 4, 5}), ("sun-tue", {0, 1, 2}),
        ("0-7", EVERY_DAY), ("sun-7", EVERY_DAY), ("1-7", EVERY_DAY), ("6-7", {0, 6}), ("sat-7", {0, 6}),
        ("5-7/2", {5, 0}), ("0-7/2", {0, 2, 4, 6}), ("1-7/2", {0, 1, 3, 5}), ("0-7/7", {0}), ("*/2", {0, 2, 4, 6}),
        ("*/7", {0}), ("mon-1", {1}), ("05-5", {5}), ("mon,wed,fri", {1, 3, 5}), ("mon-wed,sat", {1, 2, 3, 6}),
        ("tue-thu/2", {2, 4}), ("*", EVERY_DAY),
    ],
)  # fmt: skip
def test_days_of_the_week_have_the_values_of_crontab_5(field: str, days: set[int]) -> None:
    assert days == sundays_first(rule_of(f"0 4 * * {field}"))


@pytest.mark.parametrize(
    ("field", "months"),
    [
        ("1", {1}), ("jan", {1}), ("DEC", {12}), ("jan-mar", {1, 2, 3}), ("jan-mar/2", {1, 3}), ("Jan,jul", {1, 7}),
        ("2-2", {2}), ("feb-2", {2}), ("*/3", {1, 4, 7, 10}), ("*/12", {1}), ("09-10", {9, 10}),
        ("3-12/3", {3, 6, 9, 12}),
    ],
)  # fmt: skip
def test_months_have_the_values_of_crontab_5(field: str, months: set[int]) -> None:
    assert months == {*rule_of(f"0 4 1 {field} *").days.months}


class Field(NamedTuple):
    """A field of crontab(5): its place, its bounds, and its names."""

    at: int
    low: int
    high: int
    names: tuple[str, ...] = ()


FIELDS: Final = {
    "minute": Field(0, 0, 59),
    "hour": Field(1, 0, 23),
    "day": Field(2, 1, 31),
    "month": Field(3, 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    "weekday": Field(4, 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")),
}


def values_of(name: str, rule: CronRule) -> set[int]:
    days, times = rule.days, rule.times
    parts = {"minute": {*times.minutes}, "hour": {*times.hours}, "day": month_days(rule), "month": {*days.months}}
    return parts.get(name) or sundays_first(rule)


def sampled(field: Field) -> list[int]:
    """Return bounds of ranges worth a look: both ends, their neighbours, and the middle."""
    low, high = field.low, field.high
    return sorted({low, low + 1, (low + high) // 2, high - 1, high})


@pytest.mark.parametrize("name", FIELDS)
def test_every_range_with_or_without_steps_has_the_values_that_debians_cron_sets(name: str) -> None:
    field = FIELDS[name]
    steps = [None, 1, 2, 3, 7, 100]
    for first, last, step in product(sampled(field), sampled(field), steps):
        if first > last:
            continue  # refused there; it wraps round here
        expected = set(range(first, last + 1, step or 1))
        if name == "weekday" and expected & {0, 7}:
            expected = expected - {7} | {0}
        texts = [f"{first}-{last}", f"{first:02}-{last:03}"]
        if field.names and (name != "weekday" or last != 7):
            texts.append("-".join(field.names[end - field.low] for end in (first, last)))
        for text in texts:
            parts = ["0", "0", "*", "*", "*"]
            parts[field.at] = text if step is None else f"{text}/{step}"
            assert expected == values_of(name, rule_of(" ".join(parts))), parts


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@yearly", "0 0 1 1 *"), ("@annually", "0 0 1 1 *"), ("@monthly", "0 0 1 * *"), ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"), ("@hourly", "0 * * * *"),
    ],
)  # fmt: skip
def test_a_nickname_of_crontab_5_is_its_five_fields(alias: str, fields: str) -> None:
    assert rule_of(fields) == rule_of(alias)


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("30 4 1,15 * 5", True), ("30 4 * * 5", False), ("30 4 1 * *", False), ("30 4 */2 * 5", False),
        ("0 4 1 * */2", False),
    ],
)  # fmt: skip
def test_two_restricted_day_fields_are_alternatives_unless_one_begins_with_a_star(text: str, either: bool) -> None:
    assert either == rule_of(text).days.either
