"""``zsched simulate``: what would become of the schedules of a file, beside what the scheduler then does."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from zsched.cli.program import DONE, USAGE
from zsched.core.occurrences.outcomes import What
from zsched.testing import ManualScheduler

pytestmark = pytest.mark.once
FILE = """
[schedules.slow]
func = "app.slow"
every = 60
queue = "email"
[schedules.nightly]
func = "app.report"
cron = "0 3 * * *"
tz = "Asia/Seoul"
exclude = ["Sat,Sun"]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "schedules.toml").write_text(FILE)
    return str(tmp_path / "schedules.toml")


def test_a_file_is_simulated_with_workers_and_durations_and_nothing_is_written(
    zsched: Zsched, file: str, redis_client: redis.Redis
) -> None:
    before = redis_client.dbsize()

    shown = zsched("simulate", file, "--days", "7", "--workers", "email=1", "--took", "app.slow=90s")

    header, slow, nightly, backlog = shown.stdout.splitlines()
    assert "ID OCCURRENCES RUN SKIPPED EXPIRED CANCELLED NOT OVER LONGEST WAIT" == " ".join(header.split())
    assert ["slow", "10,079", "5,040", "5,039", "0", "0", "1", "0s"] == slow.split()
    assert ["nightly", "5", "5"] == nightly.split()[:3]
    assert "email with 1 worker: nothing waits" == backlog
    assert "no duration is known of app.report" in shown.stderr
    assert (DONE, before) == (shown.exit_code, redis_client.dbsize())


def test_skipped_occurrences_are_as_many_as_the_scheduler_then_skips(
    zsched: Zsched, file: str, redis_client: redis.Redis
) -> None:
    Path(file).write_text(FILE.replace("every = 60", "every = 120"))
    told = json.loads(zsched("simulate", file, "--days", "1", "--took", "app.slow=600s", "--json").stdout)
    numbers = {one["id"]: one["outcomes"] for one in told["schedules"]}
    with ManualScheduler(redis_client, start=datetime(2026, 3, 2, tzinfo=UTC), overlap_patience_s=3600) as scheduler:
        scheduler.client.schedule("builtins.print", id="slow", every=120)
        for n in range(144):  # a run of each ten minutes is over at their end
            scheduler.advance(seconds=600 if n < 143 else 599)
            scheduler.work()
        skipped = [one.count for one in scheduler.client.history("slow", limit=1000) if one.what is What.SKIPPED]

    assert {"fired": 144, "overlap": sum(skipped)} == numbers["slow"]


def test_a_paused_schedule_is_left_out_by_name_of_its_state(zsched: Zsched, file: str) -> None:
    Path(file).write_text(FILE + "enabled = false\n")

    shown = zsched("simulate", file, "--days", "1")

    assert "zsched: left out: 1 paused" in shown.stderr
    assert "nightly" not in shown.stdout


def test_a_file_with_a_mistake_is_refused_before_a_simulation(zsched: Zsched, file: str) -> None:
    Path(file).write_text(FILE.replace("every = 60", "every = -1"))

    shown = zsched("simulate", file)

    assert USAGE == shown.exit_code
    assert "schedules.toml:4: [schedules.slow]: every=-1" in shown.stderr
    assert "nothing was simulated: 1 mistake" in shown.stderr


@pytest.mark.parametrize("bad", ["email", "=4", "email=0", "email=many"])
def test_workers_without_a_queue_or_number_are_refused(zsched: Zsched, file: str, bad: str) -> None:
    shown = zsched("simulate", file, "--workers", bad)

    assert USAGE == shown.exit_code
    assert f"'{bad}' is not a name with its value; give one such as email=4" in shown.stderr
