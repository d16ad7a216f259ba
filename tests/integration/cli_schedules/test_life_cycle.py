"""``zsched cancel``, ``pause``, ``resume`` and ``run``."""

from __future__ import annotations

import json

import pytest
import redis

from tests.integration.cli_schedules.ground import FUNC, Zsched
from tests.prefix import RQ
from zsched.cli.program import DONE, FAILED, NOT_FOUND, USAGE
from zsched.storage.reader import Reader

pytestmark = pytest.mark.once


def test_cancel_prints_a_result_per_id_and_exits_with_not_found(some: Zsched) -> None:
    result = some("cancel", "party", "nobody", "beat", "--json")

    assert NOT_FOUND == result.exit_code
    assert [("party", "cancelled"), ("nobody", "not_found"), ("beat", "cancelled")] == [
        (one["id"], one["result"]) for one in json.loads(result.stdout)
    ]
    assert {"digest", "stopped"} == set(some.ids())


def test_a_paused_schedule_resumes(some: Zsched) -> None:
    resumed = some("resume", "stopped")

    assert DONE == resumed.exit_code
    assert resumed.output.startswith("stopped: resumed (next ")
    assert "active" == some.json("show", "stopped")["state"]


def test_resume_with_skip_removes_an_overdue_one_shot(zsched: Zsched) -> None:
    zsched("add", "late", FUNC, "--at", "2026-01-01T00:00Z", "--allow-past")
    zsched("pause", "late")

    result = zsched("resume", "late", "--missed", "skip")

    assert (DONE, "late: skipped (its time had passed, so it has ended)\n") == (result.exit_code, result.output)


def test_resume_of_an_overdue_one_shot_that_fires_meanwhile_says_that_it_fires(
    zsched: Zsched, monkeypatch: pytest.MonkeyPatch
) -> None:
    zsched("add", "late", FUNC, "--at", "2026-01-01T00:00Z", "--allow-past")
    zsched("pause", "late")
    monkeypatch.setattr(Reader, "find", lambda reader, id: None)  # a daemon has fired it

    result = zsched("resume", "late", "--json")

    told = {"id": "late", "result": "resumed", "remark": "its time had passed, so it fires now; see zsched why late"}
    assert (DONE, [told]) == (result.exit_code, json.loads(result.stdout))


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("set nobody --tag a", NOT_FOUND, ""),
        ("run nobody", NOT_FOUND, ""),
        ("set beat", USAGE, ""),
        ("set party --every 5", USAGE, ""),  # a one-shot becomes no rule
        ("cancel stopped nobody", NOT_FOUND, "stopped: cancelled\nnobody: not_found\n"),
        ("pause nobody beat", NOT_FOUND, "nobody: not_found\nbeat: paused"),
        ("resume nobody stopped", NOT_FOUND, "nobody: not_found\nstopped: resumed"),
        ("cancel fired", FAILED, "fired: already_fired\n"),
    ],
)
def test_a_command_that_cannot_do_all_says_so_by_its_exit_code(
    some: Zsched, command: str, code: int, output: str
) -> None:
    some("add", "fired", FUNC, "--after", "1h")
    some("run", "fired")

    result = some(*command.split())

    assert (code, True) == (result.exit_code, result.stdout.startswith(output)), result.output


def test_run_pushes_at_once_and_prints_the_run_id(some: Zsched, redis_client: redis.Redis) -> None:
    result = some("run", "beat")

    assert [result.output.strip().encode()] == redis_client.lrange(f"{RQ}:queue:default", 0, -1)
