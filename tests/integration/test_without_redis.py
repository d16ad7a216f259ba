"""``zsched why``, ``history`` and ``status`` while Redis does not answer: by an archive on this disk, if it has one."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.entries import add_entry, end_fields
from tests.builders.scenes import Scene
from tests.integration.cli_recover.losses import populate
from zsched.cli.program import DONE, FAILED, UNHEALTHY
from zsched.core.runs.run import Run, RunStatus

pytestmark = pytest.mark.once

NOWHERE = "redis://127.0.0.1:1/0"
PROBLEM = f"cannot reach Redis at {NOWHERE} (ZSCHED_REDIS_URL)"
REMEDY = "start Redis, or repair the connection to it: redis-cli -p 1 PING"
BY_ARCHIVE = "by an archive that knows what happened up to"


@pytest.fixture
def scene(redis_client: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    """A namespace with a schedule in every place, which an archive has followed."""
    scene = Scene(redis_client, redis_url, tmp_path)
    try:
        populate(scene)
        yield scene
    finally:
        scene.close()


@pytest.fixture
def cut_off(scene: Scene) -> Zsched:
    """A command line that does not reach Redis, on the machine with the archive."""
    return Zsched(NOWHERE, ZSCHED_ARCHIVE_PATH=str(scene.archive.path))


@pytest.fixture
def elsewhere() -> Zsched:
    """A command line that does not reach Redis, on a machine without an archive."""
    return Zsched(NOWHERE)


@pytest.mark.parametrize(
    ("id", "verdict", "line"),
    [
        ("once", "SCHEDULED: next", "created by"),
        ("cron", "SCHEDULED: next", "created by"),
        ("paused", "PAUSED: since", "until Monday"),
        ("fired", "QUEUED: run fired-", "fired for"),
        ("late", "OVERDUE: due", f"→ {REMEDY}"),
    ],
)
def test_why_answers_from_the_archive_and_says_up_to_when(cut_off: Zsched, id: str, verdict: str, line: str) -> None:
    result = cut_off("why", id)

    assert DONE == result.exit_code
    assert result.stdout.startswith(verdict)
    assert BY_ARCHIVE in result.stdout.splitlines()[0]
    assert line in result.stdout
    assert PROBLEM in result.stderr
    assert REMEDY in result.stderr


def test_why_by_the_archive_has_the_error_of_redis_in_its_source(cut_off: Zsched, scene: Scene) -> None:
    source = cut_off.json("why", "once")["source"]

    assert source["archive"].endswith(f":{scene.archive.path}")
    assert source["problem"].startswith(PROBLEM)
    assert source["as_of_at"] is not None


def test_why_of_a_run_whose_function_was_missing_names_no_host(cut_off: Zsched, scene: Scene) -> None:
    [run_id] = (run for run in scene.queued() if run.startswith("fired-"))
    error = "ValueError: Invalid attribute name: app.bill (app has no bill)"
    run = Run(run_id, RunStatus.FAILED, started_ms=scene.now_ms, worker="w", error=error)
    last = scene.log()[-1].position
    add_entry(scene.redis, scene.keys.log(), f"{last.epoch}-{last.seq + 1}", "end", last.t_us, *end_fields(run))
    assert scene.follower.step()

    result = cut_off("why", "fired")

    assert DONE == result.exit_code
    assert result.stdout.startswith("FAILED: ")
    assert error in result.stdout


def test_an_error_that_is_not_the_way_to_redis_stays_the_error(scene: Scene, redis_url: str) -> None:
    scene.redis.config_set("requirepass", "secret")
    try:
        result = Zsched(redis_url)("why", "once")
    finally:
        redis.Redis.from_url(redis_url, password="secret").config_set("requirepass", "")

    assert FAILED == result.exit_code
    assert "needs user and password" in result.stderr
    assert "archive" not in result.stderr


def test_why_of_an_id_that_the_archive_does_not_know_fails_as_it_may_have_been_put_later(cut_off: Zsched) -> None:
    result = cut_off("why", "unheard-of")

    assert FAILED == result.exit_code
    assert "UNKNOWN: " in result.stdout
    assert BY_ARCHIVE in result.stdout


def test_history_answers_from_the_archive_and_says_up_to_when(cut_off: Zsched) -> None:
    result, told = cut_off("history"), cut_off.json("history", "fired")

    assert DONE == result.exit_code
    assert "fired" in result.stdout
    assert f"searched {BY_ARCHIVE}" in result.stdout
    assert PROBLEM in result.stderr
    assert ["fired"] == [one["id"] for one in told["occurrences"]]
    assert told["source"]["problem"].startswith(PROBLEM)


def test_history_of_an_id_that_the_archive_does_not_know_fails(cut_off: Zsched) -> None:
    assert FAILED == cut_off("history", "unheard-of").exit_code


def test_status_adds_what_the_archive_knows(cut_off: Zsched, scene: Scene) -> None:
    result = cut_off("status")
    told = json.loads(cut_off("status", "--json").stderr)

    assert (UNHEALTHY, "") == (result.exit_code, result.stdout)
    assert f"{scene.archive.path} knows, up to " in result.stderr
    assert "3 schedules wait, 1 of them due" in result.stderr
    assert "2 runs not over" in result.stderr
    assert (3, 1, 1, 2) == tuple(told["archived"][name] for name in ("waiting", "overdue", "paused", "open_runs"))


def test_the_error_says_where_to_ask_without_an_archive_here(elsewhere: Zsched) -> None:
    results = [elsewhere("why", "once"), elsewhere("history"), elsewhere("status")]

    assert [FAILED, FAILED, UNHEALTHY] == [result.exit_code for result in results]
    assert [True] * 3 == ["ask on a machine with a daemon, as its user" in result.stderr for result in results]
    assert [True] * 3 == [REMEDY in result.stderr for result in results]


def test_an_archive_that_this_user_may_not_read_is_named_with_its_owner(
    cut_off: Zsched, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr("zsched.cli.archived.facts_at", lambda path: None)
    monkeypatch.setattr(os, "access", lambda path, mode: path != scene.archive.path and access(path, mode))

    result = cut_off("why", "once")

    assert FAILED == result.exit_code
    assert f"{scene.archive.path} may have an archive, which user " in result.stderr
    assert "sudo -u " in result.stderr


def test_an_archive_of_another_redis_does_not_answer(cut_off: Zsched, scene: Scene) -> None:
    scene.archive.set_facts(address="127.0.0.1:2/0")
    scene.archive.commit()

    result = cut_off("why", "once")

    assert (FAILED, "") == (result.exit_code, result.stdout)
    assert "no archive of namespace 'default' of the Redis at 127.0.0.1:1/0 is here" in result.stderr
