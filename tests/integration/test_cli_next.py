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


def test_a_time_that_summer_time_skips_comes_at_the_first_moment_after_the_gap() -> None:
    times = following("--cron", "30 2 * * *", *NEW_YORK, "--from", "2026-03-07T00:00", "-n", "3")

    assert [
        {"utc": "2026-03-07T07:30:00Z", "local": "2026-03-07T02:30:00-05:00"},
        {"utc": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00"},
        {"utc": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00-04:00"},
    ] == times


def test_a_time_that_winter_time_repeats_comes_once() -> None:
    times = following("--cron", "30 1 * * *", *NEW_YORK, "--from", "2026-10-31T12:00", "-n", "2")

    assert [
        {"utc": "2026-11-01T05:30:00Z", "local": "2026-11-01T01:30:00-04:00"},
        {"utc": "2026-11-02T06:30:00Z", "local": "2026-11-02T01:30:00-05:00"},
    ] == times


def test_a_rule_with_wildcards_runs_through_both_passes_of_that_night() -> None:
    times = following("--cron", "*/30 * * * *", *NEW_YORK, "--from", "2026-11-01T00:45", "-n", "5")

    assert [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ] == [one["local"] for one in times]


def test_a_from_option_with_an_offset_is_an_instant_in_any_zone() -> None:
    [time] = following("--cron", "0 9 * * *", *NEW_YORK, "--from", "2026-06-01T12:59:59Z", "-n", "1")

    assert {"utc": "2026-06-01T13:00:00Z", "local": "2026-06-01T09:00:00-04:00"} == time


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

    own = zsched("next", "digest", "-n", "1", "--from", "2030-06-01T00:00", "--json")
    elsewhere = zsched("next", "digest", "-n", "1", "--from", "2030-06-01T00:00", "--tz", "UTC", "--json")

    assert ["2030-06-01T09:00:00-04:00"] == [one["local"] for one in json.loads(own.stdout)]
    assert ["2030-06-01T13:00:00+00:00"] == [one["local"] for one in json.loads(elsewhere.stdout)]


def test_a_one_shot_has_one_next_time(zsched: Zsched) -> None:
    zsched("add", "party", FUNC, "--at", "2030-12-31T23:59", "--tz", "Asia/Seoul")

    before = zsched("next", "party", "--from", "2030-01-01T00:00", "--json")
    behind = zsched("next", "party", "--from", "2031-01-01T00:00", "--json")

    assert [{"utc": "2030-12-31T14:59:00Z", "local": "2030-12-31T23:59:00+09:00"}] == json.loads(before.stdout)
    assert [] == json.loads(behind.stdout)


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
