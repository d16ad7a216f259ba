"""A file of schedules in a product's tests, and its fixture for them."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.documents import programs
from tests.unit.testing import tasks
from tests.unit.testing.tasks import KEYS
from tests.waiting import ENDS_S
from zsched import InvalidFile, ZschedError
from zsched.testing import ManualScheduler

TASKS = """
from zsched import task
from tests.unit.testing import tasks

@task(queue="press", cron="30 2 * * *", tz="Europe/Berlin")
def edition(city: str, pages: int = 8) -> None:
    tasks.note((city, pages))
"""
FILE = """
[schedules.berlin]
func = "gazette.edition"
kwargs = { city = "Berlin" }
[schedules.noon]
func = "tests.unit.testing.tasks.note"
args = ["noon"]
cron = "0 12 * * *"
tz = "Europe/Berlin"
"""


@pytest.fixture
def gazette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A product's folder: a module of tasks, ``gazette``, and ``schedules.toml``."""
    (tmp_path / "gazette.py").write_text(TASKS)
    (tmp_path / "schedules.toml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("gazette", None)


def test_the_schedules_of_a_file_fire_over_a_change_to_summer_time(ground: Any, gazette: Path) -> None:
    with ManualScheduler(ground, start=datetime(2026, 3, 28, tzinfo=UTC)) as scheduler:
        applied = scheduler.apply(gazette / "schedules.toml")
        runs = scheduler.advance(days=3, work=True)

    assert [("berlin", "created"), ("noon", "created")] == [(step.entry.id, step.outcome) for step in applied.steps]
    # 02:30 is 01:30Z; on the 29th there is none, and 03:00 is the first valid time; then it is 00:30Z
    assert [("berlin", 28, 1, 30), ("noon", 28, 11, 0), ("berlin", 29, 1, 0), ("noon", 29, 10, 0)] == [
        (run.schedule_id, run.nominal_at.day, run.nominal_at.hour, run.nominal_at.minute) for run in runs[:4]
    ]
    assert [("berlin", 30, 0, 30), ("noon", 30, 10, 0)] == [
        (run.schedule_id, run.nominal_at.day, run.nominal_at.hour, run.nominal_at.minute) for run in runs[4:]
    ]
    assert [("Berlin", 8), "noon"] * 3 == tasks.CALLS
    assert {"press", "default"} == {run.queue for run in runs}


def test_a_file_applied_again_changes_nothing_and_keeps_its_owner(scheduler: ManualScheduler, gazette: Path) -> None:
    path = str(gazette / "schedules.toml")

    scheduler.apply(path)
    again = scheduler.apply(path)

    assert (0, 2) == (again.count("updated"), again.count("unchanged"))
    assert "file:schedules.toml" == scheduler.client.get("noon").owner
    with pytest.raises(InvalidFile, match=r"owned by 'file:schedules\.toml', not by 'others'"):
        scheduler.apply(path, owner="others")


def test_all_mistakes_of_a_file_are_raised_and_nothing_is_put(scheduler: ManualScheduler, gazette: Path) -> None:
    wrong = FILE.replace('"Berlin" }', "7 }").replace("tasks.note", "tasks.notte").replace("0 12", "0 25")
    (gazette / "schedules.toml").write_text(wrong)

    with pytest.raises(InvalidFile) as raised:
        scheduler.apply(gazette / "schedules.toml")

    path = f"{gazette}/schedules.toml"
    expected = [
        f"{path}:4: [schedules.berlin]: city=7: task gazette.edition wants str, not int",
        f"{path}:6: [schedules.noon]: func='tests.unit.testing.tasks.notte': there is no notte in ",
        f"{path}:8: [schedules.noon]: cron='0 25 * * *': ",
    ]
    found = raised.value.complaints
    assert expected == [complaint[: len(start)] for complaint, start in zip(found, expected, strict=True)]
    assert [] == list(scheduler.client.list())


def test_an_entry_refused_by_redis_raises_and_the_others_are_put(scheduler: ManualScheduler, gazette: Path) -> None:
    scheduler.redis.set(KEYS.template("berlin"), "another writer's")

    with pytest.raises(ZschedError, match="berlin"):
        scheduler.apply(gazette / "schedules.toml")

    assert ["noon"] == [schedule.id for schedule in scheduler.client.list()]


CONFTEST = 'pytest_plugins = ["zsched.testing.fixtures"]\n'

ANOTHER_TEST = """

def test_each_test_has_its_own_scheduler(scheduler):
    assert list(scheduler.client.list()) == []
"""


def test_a_product_tests_its_schedules(tmp_path: Path) -> None:
    told = programs("docs/how-to/test-schedules.md")
    for name in ("shop.py", "test_shop.py"):
        (tmp_path / name).write_text(told[name])
    (tmp_path / "pytest.ini").touch()  # of no folder above
    (tmp_path / "conftest.py").write_text(CONFTEST)
    with (tmp_path / "test_shop.py").open("a") as file:
        file.write(ANOTHER_TEST)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ENDS_S)

    assert 0 == ran.returncode, ran.stdout
    assert "2 passed" in ran.stdout
