"""``zsched backfill``: its output, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.faults.processes import ENDS_S, eventually
from tests.integration.command_line import Zsched
from tests.integration.terminals import run_on_terminal
from tests.prefix import RQ
from zsched import Client
from zsched.cli.program import DONE, FAILED, INTERRUPTED, NOT_FOUND, USAGE
from zsched.core.clock import to_ms
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once
KEYS = Keys("default")
HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR  # an hour that has passed for sure


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
    redis_client.hset(KEYS.schedule("r"), "nominal", to_ms(NOW - 2 * HOUR))  # as when no daemon led for a while

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
    ("options", "advice"), [([], "the same command goes on from there"), (["--again"], "give a later --from")]
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
    assert (INTERRUPTED, "goes on from there") == (process.returncode, told.strip()[-18:])
    assert 0 < pushed < 90_000
    assert pushed == zsched.json("backfill", "r", *stretch(90_000), "--dry-run")["ran"]


@pytest.mark.usefixtures("client")
def test_a_backfill_shows_a_progress_bar_on_a_terminal(redis_url: str) -> None:
    printed, shown = run_on_terminal(redis_url, "backfill", "r", *stretch(2000))

    assert "backfilling" in shown
    assert "2000/2000" in shown
    assert printed.startswith("r: 2,000 runs pushed")
