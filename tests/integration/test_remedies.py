"""A Redis that does not answer: every view has the remedy of the part that failed, and none has another."""

import json
from typing import Any

import pytest
import redis

from tests.builders.command_line import Zsched
from zsched.cli.program import FAILED, UNHEALTHY
from zsched.core.clock import SystemClock
from zsched.daemon.process import unseen_text
from zsched.errors import RedisUnavailable
from zsched.health.facts import DaemonHealth
from zsched.storage.connection import Link
from zsched.storage.found import Unfound
from zsched.web.answers import Problem

pytestmark = pytest.mark.once

PROBLEM, REMEDY = "no node has the slot", "give the slot to a node"


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection fail, as if a Cluster had lost the slot."""

    def connect(*_: Any) -> None:
        raise Unfound(PROBLEM, REMEDY)

    monkeypatch.setattr(redis.Connection, "connect", connect)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("status", UNHEALTHY),
        ("doctor", UNHEALTHY),
        ("why a", FAILED),
        ("history", FAILED),
        ("ls", FAILED),
        ("cancel a", FAILED),
        ("add a app.run --every 60", FAILED),
    ],
)
def test_every_command_has_the_remedy_in_a_line_of_its_own(command: str, code: int) -> None:
    zsched = Zsched("redis://somewhere")

    result, told = zsched(*command.split()), zsched(*command.split(), "--json")

    assert (code, code) == (result.exit_code, told.exit_code)
    assert f"  → {REMEDY}" in result.stderr.splitlines()
    assert 1 == result.stderr.count(REMEDY)
    assert "start Redis" not in result.stderr
    assert REMEDY == json.loads(told.stderr)["remedy"]


def test_an_http_problem_and_the_line_of_systemctl_have_the_remedy() -> None:
    with pytest.raises(RedisUnavailable) as caught:
        Link.from_url("redis://somewhere", 1.0).execute("PING")

    body = json.loads(Problem.from_error(caught.value).response().body)

    assert REMEDY == body["remedy"]
    assert body["detail"].endswith(f"{PROBLEM}; {REMEDY}")
    assert unseen_text(caught.value, DaemonHealth(SystemClock())).endswith(f"{PROBLEM}; {REMEDY}")
