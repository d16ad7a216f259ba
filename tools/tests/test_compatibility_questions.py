"""Questions that the compatibility page asks a server and an RQ."""

import sys
from pathlib import Path

import pytest
import rq

from tools.compatibility.differences import QUESTIONS, ask, ask_rq
from tools.compatibility.servers import servers
from zsched.embedded import find_server, packaged_server

pytestmark = pytest.mark.redis


def test_a_server_answers_each_question() -> None:
    binary = find_server()

    told = ask(binary)

    assert list(QUESTIONS) == list(told)
    assert told["`INFO` tells"].endswith(f"version {binary.version}")
    assert told["this binary speaks TLS"] in ("yes", "no")
    assert int(told["a waiting one-shot takes"].split()[0]) > 100


@pytest.mark.once
def test_an_rq_answers_by_its_own_python() -> None:
    told = ask_rq(Path(sys.executable))

    assert rq.VERSION == told["version"]
    assert "yes" == told["`rq cron`"]


@pytest.mark.once
def test_the_oldest_server_comes_first_and_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.compatibility.servers.BINARIES", {})

    assert packaged_server() == servers()[0]
