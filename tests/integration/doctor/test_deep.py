"""``zsched doctor --deep``: changes by another program, by an archive on this disk."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.scenes import SOON, Scene
from zsched.cli import archived

pytestmark = pytest.mark.once
Deep = Callable[[], list[dict[str, str]]]


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    """Two schedules that an archive has."""
    scene = Scene(redis_client, redis_url, tmp_path)
    try:
        scene.client.schedule("app.task", id="a", at=SOON, args=("secret",))
        scene.client.schedule("app.task", id="r", every=3600)
        scene.follower.step()
        yield scene
    finally:
        scene.close()


@pytest.fixture
def findings(scene: Scene, redis_url: str) -> Deep:
    """Return the findings about schedules, as JSON has them."""
    zsched = Zsched(redis_url, ZSCHED_ARCHIVE_PATH=str(scene.archive.path))

    def ask() -> list[dict[str, Any]]:
        told = json.loads(zsched("doctor", "--deep", "--json").stdout)
        return [finding for finding in told if finding["check"] == "differences"]

    return ask


def test_schedules_without_a_difference_are_counted(scene: Scene, findings: Deep) -> None:
    scene.client.schedule("app.task", id="new", at=SOON)  # the archive does not have it yet

    [finding] = findings()

    assert "ok" == finding["verdict"]
    assert finding["said"].startswith("2 schedules as in their history, by archive ")


def test_a_changed_payload_is_named_without_its_content(scene: Scene, findings: Deep) -> None:
    [key] = scene.redis.keys(scene.keys.rq.job("a-*"))
    scene.redis.hset(key, "data", "forged")

    [finding] = findings()

    expected = {"verdict": "problem", "remedy": "zsched archive recover --force restores the state of the log"}
    assert expected.items() <= finding.items()
    assert finding["said"].startswith("schedule a: expected normal lane, due ")
    assert finding["said"].endswith(", found other data")


def test_a_schedule_that_the_log_never_had_has_a_remedy_of_its_own(scene: Scene, findings: Deep) -> None:
    scene.redis.zadd(scene.keys.due_normal(), {"stranger": 5e12})

    [finding] = findings()

    assert "schedule stranger: expected nothing, found in normal" == finding["said"]
    assert "if it is yours, put it again; otherwise cancel it" == finding["remedy"]


def test_differences_beyond_the_first_are_counted(
    scene: Scene, findings: Deep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived, "_SHOWN", 1)
    scene.redis.delete(scene.keys.due_normal())

    assert ["schedule", "1"] == [finding["said"].split()[0] for finding in findings()]


def test_an_archive_of_another_history_is_not_compared(scene: Scene, findings: Deep) -> None:
    scene.redis.flushall()
    scene.client.schedule("app.task", id="other", at=SOON)

    [finding] = findings()

    assert "skipped" == finding["verdict"]
    assert finding["said"].endswith("does not follow the log of this Redis")


def test_the_check_names_where_to_ask_on_a_machine_without_an_archive(redis_url: str) -> None:
    told = json.loads(Zsched(redis_url)("doctor", "--deep", "--json").stdout)

    [finding] = [finding for finding in told if finding["check"] == "differences"]
    assert "skipped" == finding["verdict"]
    assert "ask on a machine with a daemon, as its user" in finding["said"]
