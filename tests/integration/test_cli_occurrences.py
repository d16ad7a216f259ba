"""``zsched next`` and ``zsched backfill``: the coming times of rules and schedules, and past occurrences."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from tests.builders.command_line import Zsched
from tests.builders.progress import change_progress
from tests.integration.terminals import run_on_terminal
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, INTERRUPTED, NOT_FOUND, USAGE
from zsched.core.clock import to_ms
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

FUNC = "zsched.demo.tasks.heartbeat"
NEW_YORK = ("--tz", "America/New_York")
KEYS = Keys("default")
HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR  # an hour that has passed for sure


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
    found = following("--cron", rule, *NEW_YORK, "--from", begin, "--number", str(len(times)))

    assert [f"{time[:-3]}:00{time[-3:]}:00" for time in times] == [one["local"] for one in found]
    assert [datetime.fromisoformat(one["local"]) for one in found] == [
        datetime.fromisoformat(one["utc"]) for one in found
    ]
    assert all(one["utc"].endswith(":00Z") for one in found)


def test_next_shows_milliseconds_only_if_they_are_not_zero() -> None:
    times = following("--every", "500ms", "--from", "2026-06-01T00:00Z", "--number", "2")

    assert ["2026-06-01T00:00:00.500Z", "2026-06-01T00:00:01Z"] == [one["utc"] for one in times]


def test_the_table_of_next_has_local_and_utc_times_side_by_side() -> None:
    command = ["next", "--rrule", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0", *NEW_YORK, "--from", "2026-06-01T00:00"]

    result = CliRunner().invoke(program, [*command, "--number", "1"])

    assert ["LOCAL                      UTC", "2026-06-01 09:00:00-04:00  2026-06-01 13:00:00Z"] == (
        result.output.splitlines()
    )


def test_a_schedule_shows_its_own_next_times(zsched: Zsched) -> None:
    zsched("add", "digest", FUNC, "--cron", "0 9 * * *", *NEW_YORK)

    [own] = zsched.json("next", "digest", "--number", "1", "--from", "2030-06-01T00:00")
    [elsewhere] = zsched.json("next", "digest", "--number", "1", "--from", "2030-06-01T00:00", "--tz", "UTC")

    assert ("2030-06-01T09:00:00-04:00", "2030-06-01T13:00:00+00:00") == (own["local"], elsewhere["local"])


def test_a_one_shot_has_one_next_time(zsched: Zsched) -> None:
    zsched("add", "party", FUNC, "--at", "2030-12-31T23:59", "--tz", "Asia/Seoul")

    before = zsched.json("next", "party", "--from", "2030-01-01T00:00")

    assert [{"utc": "2030-12-31T14:59:00Z", "local": "2030-12-31T23:59:00+09:00"}] == before
    assert [] == zsched.json("next", "party", "--from", "2031-01-01T00:00")


def test_next_of_a_schedule_with_jitter_shows_due_and_nominal_times(zsched: Zsched) -> None:
    rule = ("--cron", "30 1 * * *", *NEW_YORK, "--jitter", "1h")
    zsched("add", "digest", FUNC, *rule)
    asked = ("next", "digest", "--from", "2030-10-31T12:00Z", "--number", "3")

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
        (("--every", "5m", "--number", "0"), "--number"),
    ],
)
def test_a_bad_rule_is_a_usage_error_that_names_the_mistake(arguments: tuple[str, ...], named: str) -> None:
    result = CliRunner().invoke(program, ["next", *arguments])

    assert USAGE == result.exit_code
    assert named in result.stderr
    assert 1 == result.stderr.count("\n")


# -- backfill -----------------------------------------------------------------------------------------


@pytest.fixture
def client(redis_client: redis.Redis, redis_url: str) -> Client:
    """A client with a schedule r, of every full hour in Seoul."""
    client = Client.from_url(redis_url)
    client.schedule("app.task", id="r", cron="0 * * * *", tz="Asia/Seoul")
    return client


@pytest.fixture
def zsched(client: Client, redis_url: str) -> Zsched:
    return Zsched(redis_url)


def stretch(first: int, last: int = 0) -> list[str]:
    """Return the options for *first* hours before NOW up to *last* hours before NOW."""
    return ["--from", (NOW - first * HOUR).isoformat(), "--to", (NOW - last * HOUR).isoformat()]


def local(hours_ago: int) -> str:
    return (NOW - hours_ago * HOUR + 9 * HOUR).strftime("%Y-%m-%d %H:%M:%S+09:00")


def run(hours_ago: int) -> str:
    return f"r-{to_ms(NOW - hours_ago * HOUR)}"


def test_backfill_prints_pushed_and_already_executed_runs(zsched: Zsched, redis_client: redis.Redis) -> None:
    first, second = zsched("backfill", "r", *stretch(3, 2)), zsched("backfill", "r", *stretch(4, 1))

    assert (DONE, f"r: 1 run pushed, {local(3)}\n") == (first.exit_code, first.stdout)
    assert f"r: 2 runs pushed, {local(4)} to {local(2)}; 1 ran already, or are open\n" == second.stdout
    assert "from Redis alone, whose log goes back to 20" in second.stderr
    assert [run(3), run(4), run(2)] == [one.decode() for one in redis_client.lrange(f"{RQ}:queue:default", 0, -1)]


def test_a_dry_run_lists_what_would_run_and_pushes_nothing(zsched: Zsched, redis_client: redis.Redis) -> None:
    told = zsched("backfill", "r", *stretch(2), "--dry-run").stdout.splitlines()
    many = zsched("backfill", "r", *stretch(200), "--dry-run").stdout.splitlines()

    assert [f"{local(2)}  {run(2)}", f"{local(1)}  {run(1)}"] == told[:2]
    assert [f"r: 2 runs would be pushed, {local(2)} to {local(1)}"] == told[2:]
    assert (52, f"… and 150 more, up to {local(1)}") == (len(many), many[50])
    assert 0 == redis_client.llen(f"{RQ}:queue:default")


def test_backfill_prints_the_occurrences_that_the_schedule_will_fire(zsched: Zsched, redis_client: redis.Redis) -> None:
    change_progress(redis_client, KEYS, "r", nominal=to_ms(NOW - 2 * HOUR))  # as when no daemon led for a while

    told = zsched("backfill", "r", *stretch(3)).stdout
    assert f"r: 1 run pushed, {local(3)}; 2 to be fired by the schedule itself\n" == told


def test_a_backfill_without_occurrences_prints_zero_runs(zsched: Zsched) -> None:
    told = zsched("backfill", "r", "--from", "2026-03-01T00:10", "--to", "2026-03-01T00:50")

    assert (DONE, "r: 0 runs pushed\n") == (told.exit_code, told.stdout)


def test_times_without_an_offset_are_the_schedules_own(zsched: Zsched) -> None:
    told = zsched.json("backfill", "r", "--from", "2026-03-01T09:00", "--to", "2026-03-01T09:30", "--dry-run")

    assert ["2026-03-01T00:00:00.000Z"] == [one["nominal_at"] for one in told["runs"]]


def test_json_of_backfill_has_every_run_and_the_source(zsched: Zsched) -> None:
    told = zsched.json("backfill", "r", *stretch(200))

    assert (200, run(200), 0, 0, False) == (
        len(told["runs"]), told["runs"][0]["run_id"], told["ran"], told["pending"], told["dry_run"]
    )  # fmt: skip
    assert told["source"]["archive"] is None


def test_backfill_again_repeats_finished_runs(zsched: Zsched, redis_client: redis.Redis) -> None:
    zsched("backfill", "r", *stretch(2, 1))
    redis_client.hset(KEYS.rq.job(run(2)), "status", "finished")

    foreseen = zsched("backfill", "r", *stretch(2, 1), "--again", "--dry-run").stdout
    zsched("backfill", "r", *stretch(2, 1), "--again")

    assert foreseen.startswith(f"{local(2)}  an extra run\n")
    assert redis_client.lindex(f"{RQ}:queue:default", -1).startswith(f"{run(2)}-r".encode())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing", *stretch(1)], NOT_FOUND, "no schedule 'nothing'"),
        (["r", "--from", "2026-03-01"], USAGE, "has no time of day"),
        (["r", "--from", "2026-03-01T00:00"], USAGE, "--to"),
        (["r", *stretch(1, 2)], USAGE, "not later than the beginning"),
        (["r", *stretch(1, -1000)], USAGE, "give a time up to now"),
        (["r", *stretch(200_000)], USAGE, "200,000 occurrences lie between these times, more than 100,000"),
    ],
)
def test_a_refused_backfill_prints_the_reason(zsched: Zsched, arguments: list[str], code: int, message: str) -> None:
    told = zsched("backfill", *arguments)

    assert code == told.exit_code
    assert message in told.stderr


def test_a_backfill_of_an_unknown_past_fails_with_a_remedy(zsched: Zsched, redis_client: redis.Redis) -> None:
    redis_client.xadd(KEYS.log(), {"kind": "term", "t": to_ms(NOW) * 1000}, "0-5")
    redis_client.xtrim(KEYS.log(), maxlen=1, approximate=False)

    told = zsched("backfill", "r", *stretch(3))

    assert FAILED == told.exit_code
    assert "the option again" in told.stderr


@pytest.mark.parametrize(
    ("options", "advice"), [([], "the same command continues from there"), (["--again"], "give a later --from")]
)
def test_ctrl_c_prints_the_progress_of_the_backfill(
    zsched: Zsched, monkeypatch: pytest.MonkeyPatch, options: list[str], advice: str
) -> None:
    def stopped(client: Client, *given: Any, on_progress: Callable[[int, int], None], **options: Any) -> None:
        on_progress(300, 2500)
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "backfill", stopped)

    told = zsched("backfill", "r", *stretch(3), *options)

    assert INTERRUPTED == told.exit_code
    assert "stopped after 300 of 2,500 occurrences" in told.stderr
    assert advice in told.stderr


def test_a_real_ctrl_c_stops_the_backfill_and_the_same_command_continues(
    zsched: Zsched, client: Client, redis_client: redis.Redis, redis_url: str
) -> None:
    command = [sys.executable, "-m", "zsched.cli", "backfill", "r", *stretch(90_000)]
    env = os.environ | {"ZSCHED_REDIS_URL": redis_url}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    process.send_signal(signal.SIGINT)

    _, told = process.communicate(timeout=ENDS_S)

    pushed = redis_client.llen(f"{RQ}:queue:default")
    assert (INTERRUPTED, "continues from there") == (process.returncode, told.strip()[-20:])
    assert 0 < pushed < 90_000
    assert pushed == zsched.json("backfill", "r", *stretch(90_000), "--dry-run")["ran"]


@pytest.mark.usefixtures("client")
def test_a_backfill_shows_a_progress_bar_on_a_terminal(redis_url: str) -> None:
    printed, shown = run_on_terminal(redis_url, "backfill", "r", *stretch(2000))

    assert "backfilling" in shown
    assert "2000/2000" in shown
    assert printed.startswith("r: 2,000 runs pushed")
