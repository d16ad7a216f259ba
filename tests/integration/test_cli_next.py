"""``zsched next``: the times of rules and schedules, summer time included."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

from tests.integration.command_line import Zsched
from zsched.cli import program
from zsched.cli.program import DONE, NOT_FOUND, USAGE

pytestmark = pytest.mark.once

FUNC = "zsched.demo.tasks.heartbeat"
NEW_YORK = ("--tz", "America/New_York")


def following(*arguments: str) -> list[dict[str, str]]:
    """Return the answer of ``zsched next --json``, which needs no Redis for a rule."""
    nowhere = {"ZSCHED_REDIS_URL": "redis://127.0.0.1:1/0"}
    result = CliRunner().invoke(program, ["next", "--json", *arguments], env=nowhere)
    assert DONE == result.exit_code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("rule", "begin", "times"),
    [
        # a time that is skipped comes at the first moment after the gap
        ("30 2 * * *", "2026-03-07T00:00", ["2026-03-07T02:30-05", "2026-03-08T03:00-04", "2026-03-09T02:30-04"]),
        # one that is repeated comes once
        ("30 1 * * *", "2026-10-31T12:00", ["2026-11-01T01:30-04", "2026-11-02T01:30-05"]),
        # a rule with wildcards runs through both passes of that night
        ("*/30 * * * *", "2026-11-01T00:45", [
            "2026-11-01T01:00-04", "2026-11-01T01:30-04", "2026-11-01T01:00-05", "2026-11-01T01:30-05",
            "2026-11-01T02:00-05",
        ]),
        # a beginning with an offset is an instant in any zone
        ("0 9 * * *", "2026-06-01T12:59:59Z", ["2026-06-01T09:00-04"]),
    ],
    ids=["skipped", "repeated", "wildcards", "instant"],
)  # fmt: skip
def test_next_goes_through_summer_time(rule: str, begin: str, times: list[str]) -> None:
    found = following("--cron", rule, *NEW_YORK, "--from", begin, "-n", str(len(times)))

    assert [f"{time[:-3]}:00{time[-3:]}:00" for time in times] == [one["local"] for one in found]
    assert [datetime.fromisoformat(one["local"]) for one in found] == [
        datetime.fromisoformat(one["utc"]) for one in found
    ]
    assert all(one["utc"].endswith(":00Z") for one in found)


def test_next_shows_milliseconds_only_if_they_are_not_zero() -> None:
    times = following("--every", "500ms", "--from", "2026-06-01T00:00Z", "-n", "2")

    assert ["2026-06-01T00:00:00.500Z", "2026-06-01T00:00:01Z"] == [one["utc"] for one in times]


def test_the_table_of_next_has_local_and_utc_times_side_by_side() -> None:
    command = ["next", "--rrule", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0", *NEW_YORK, "--from", "2026-06-01T00:00"]

    result = CliRunner().invoke(program, [*command, "-n", "1"])

    assert ["LOCAL                      UTC", "2026-06-01 09:00:00-04:00  2026-06-01 13:00:00Z"] == (
        result.output.splitlines()
    )


def test_a_schedule_shows_its_own_next_times(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--cron", "0 9 * * *", *NEW_YORK)

    [own] = zsched.json("next", "digest", "-n", "1", "--from", "2030-06-01T00:00")
    [elsewhere] = zsched.json("next", "digest", "-n", "1", "--from", "2030-06-01T00:00", "--tz", "UTC")

    assert ("2030-06-01T09:00:00-04:00", "2030-06-01T13:00:00+00:00") == (own["local"], elsewhere["local"])


def test_a_one_shot_has_one_next_time(zsched: Zsched) -> None:
    zsched("add", "party", FUNC, "--at", "2030-12-31T23:59", "--tz", "Asia/Seoul")

    before = zsched.json("next", "party", "--from", "2030-01-01T00:00")

    assert [{"utc": "2030-12-31T14:59:00Z", "local": "2030-12-31T23:59:00+09:00"}] == before
    assert [] == zsched.json("next", "party", "--from", "2031-01-01T00:00")


def test_next_of_a_schedule_with_jitter_shows_due_and_nominal_times(zsched: Zsched) -> None:
    rule = ("--cron", "30 1 * * *", *NEW_YORK, "--jitter", "1h")
    zsched("add", "digest", FUNC, *rule)
    asked = ("next", "digest", "--from", "2030-10-31T12:00Z", "-n", "3")

    times = json.loads(zsched(*asked, "--json").stdout)
    head, *rows = zsched(*asked).stdout.splitlines()

    nominal = ["2030-11-01T05:30:00Z", "2030-11-02T05:30:00Z", "2030-11-03T05:30:00Z"]
    assert nominal == [one["nominal"] for one in times]
    dues = [datetime.fromisoformat(one["utc"]) for one in times]
    late = [due - datetime.fromisoformat(at) for due, at in zip(dues, nominal, strict=True)]
    assert all(timedelta() < one <= timedelta(hours=1) for one in late)
    assert dues == [datetime.fromisoformat(one["local"]) for one in times]
    assert ["LOCAL", "UTC", "NOMINAL"] == head.split()
    assert all("01:30:00-04:00" in row for row in rows)


def test_next_of_a_one_shot_with_jitter_shows_its_nominal_time(zsched: Zsched) -> None:
    zsched("add", "a", FUNC, "--at", "2030-12-24T18:00", "--tz", "Asia/Seoul", "--jitter", "1h")

    [told] = json.loads(zsched("next", "a", "--json").stdout)

    assert "2030-12-24T09:00:00Z" == told["nominal"] < told["utc"]


def test_a_schedule_that_does_not_exist_is_not_found(zsched: Zsched) -> None:
    assert NOT_FOUND == zsched("next", "nobody").exit_code


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "ID"),
        (("digest", "--every", "5m"), "ID"),
        (("--cron", "61 * * * *"), "cron"),
        (("--cron", "0 0 30 2 *"), "cron"),
        (("--cron", "* * * *"), "cron"),
        (("--rrule", "FREQ=SECONDLY"), "rrule"),
        (("--every", "0"), "every"),
        (("--every", "soon"), "soon"),
        (("--every", "9" * 18 + "w"), "longer"),
        (("--every", "5m", "--tz", "EST"), "America/New_York"),
        (("--every", "5m", "--from", "2026-06-01"), "time of day"),
        (("--every", "5m", "--from", "tomorrow"), "tomorrow"),
        (("--every", "5m", "-n", "0"), "-n"),
    ],
)
def test_a_bad_rule_is_a_usage_error_that_names_the_mistake(arguments: tuple[str, ...], named: str) -> None:
    result = CliRunner().invoke(program, ["next", *arguments])

    assert USAGE == result.exit_code
    assert named in result.stderr
    assert 1 == result.stderr.count("\n")
