"""Redis servers of a single test, and plain clients of them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.builders.leaders import know
from tests.waiting import WITHIN_S
from zsched.embedded import EmbeddedRedis


def connect(url: str, retries: int = 0) -> redis.Redis:
    """Return a plain client, RESP 2."""
    return redis.Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), retries), socket_timeout=WITHIN_S)


@contextmanager
def own_server(**options: Any) -> Iterator[EmbeddedRedis]:
    """A server without a hold, that the test may mistreat."""
    with EmbeddedRedis(**options) as server, connect(server.url) as client:
        know(client)
        yield server


def replicate(server: EmbeddedRedis) -> None:
    """Return when every replica has all writes until now."""
    with connect(server.tcp_url) as client:
        replicas = client.info("replication")["connected_slaves"]
        client.set("marker", "x")
        assert replicas == client.wait(replicas, int(1000 * WITHIN_S))


def put_back(server: EmbeddedRedis, saved: Path) -> None:
    """Kill *server*, and start it with the file that SAVE wrote a while ago."""
    server.kill()
    shutil.copy(saved, server.folder / "dump.rdb")
    server.start()
