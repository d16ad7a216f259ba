"""Remedies for a Redis that does not answer: each part that fails has its own, and its command reaches that part."""

import pickle
import shlex
import ssl
from typing import Any

import pytest
import redis

from zsched.errors import RedisUnavailable, SlotMoves
from zsched.storage.connection import Link, Wire
from zsched.storage.remedies import Endpoint


class FakeConnection:
    """A connection to port 7001 of 10.0.0.1, which raises *error* instead of a reply."""

    def __init__(self, error: Exception) -> None:
        self.host, self.port, self.db, self._error = "10.0.0.1", 7001, 0, error

    def send_packed_command(self, packed: list[bytes], check_health: bool = True) -> None:
        pass

    def read_response(self) -> Any:
        raise self._error

    def disconnect(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            redis.ConnectionError("closed"),
            "start Redis, or repair the connection to it: redis-cli -h 10.0.0.1 -p 7001 PING",
        ),
        (
            redis.exceptions.TryAgainError("rehashing"),
            "it is used again when it is whole; if that lasts, see the Cluster: "
            "redis-cli --cluster check 10.0.0.1:7001",
        ),
        (
            redis.exceptions.ClusterDownError("The cluster is down"),
            "start the nodes that are missing: redis-cli --cluster check 10.0.0.1:7001",
        ),
        (
            redis.BusyLoadingError("loading"),
            "wait until it has loaded its data; this shows the progress: "
            "redis-cli -h 10.0.0.1 -p 7001 INFO persistence",
        ),
        (
            redis.ResponseError("BUSY a script"),
            "wait for the script that runs there, or end it: redis-cli -h 10.0.0.1 -p 7001 SCRIPT KILL",
        ),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), "bring the replicas back"),
        (redis.InvalidResponse("HTTP/1.1"), "look for a proxy, another program or a TLS port at that address"),
    ],
)
def test_an_error_has_the_remedy_of_the_part_that_failed(error: Exception, remedy: str) -> None:
    wire = Wire(FakeConnection(error), "x")

    with pytest.raises(RedisUnavailable) as caught:
        wire.execute("GET")

    assert remedy == caught.value.remedy
    assert f"{caught.value.problem}; {remedy}" == str(caught.value)


def test_a_failed_tls_handshake_has_its_own_remedy() -> None:
    error = redis.ConnectionError("wrong version number")
    error.__cause__ = ssl.SSLError(1, "wrong version number")

    assert Endpoint({}, is_tls=True).when_silent(error).startswith("let [redis] url begin with rediss:")


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("redis://localhost", "redis-cli PING"),
        ("redis://127.0.0.1:1/3", "redis-cli -p 1 -n 3 PING"),
        ("rediss://u:secret@10.0.0.9:1", "redis-cli -h 10.0.0.9 -p 1 --tls PING"),
        ("unix:///nowhere/redis.sock", "redis-cli -s /nowhere/redis.sock PING"),
    ],
)
def test_the_command_reaches_the_server_of_the_url_and_has_no_password(
    url: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link.from_url(url, 0.1)

    def refused(*_: Any) -> None:
        raise redis.ConnectionError("refused")

    monkeypatch.setattr(link.pool, "get_connection", refused)
    with pytest.raises(RedisUnavailable) as caught:
        link.execute("PING")

    assert caught.value.remedy.endswith(f": {command}")


def test_a_host_that_a_cluster_named_is_one_word_of_its_command() -> None:
    command = Endpoint({"host": "a;touch b", "port": 7001}, is_tls=True).cluster_check()

    assert ["redis-cli", "--tls", "--cluster", "check", "a;touch b:7001"] == shlex.split(command)


def test_an_error_with_another_problem_keeps_class_and_remedy() -> None:
    error = SlotMoves("it moves", "wait").but("of 9 rows 3 were put: it moves", may_have_been_applied=True)

    assert isinstance(error, SlotMoves)
    assert ("of 9 rows 3 were put: it moves; wait", "wait", True) == (
        str(error),
        error.remedy,
        error.may_have_been_applied,
    )


def test_an_error_is_the_same_in_another_process() -> None:
    there = pickle.loads(pickle.dumps(SlotMoves("it moves", "wait", may_have_been_applied=True)))

    assert ("it moves; wait", "wait", True) == (str(there), there.remedy, there.may_have_been_applied)
