"""A Redis with the settings of deploy/redis/redis.conf, which are reset after each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.waiting import WITHIN_S
from zsched import Client
from zsched.embedded import EmbeddedRedis

CONF = Path(__file__).parents[3] / "deploy" / "redis" / "redis.conf"


@pytest.fixture(scope="session")
def sound_server() -> Iterator[EmbeddedRedis]:
    """A private server with the settings of deploy/redis/redis.conf."""
    lines = (line.split(maxsplit=1) for line in CONF.read_text().splitlines() if line and not line.startswith("#"))
    config = {name: value for name, value in lines if name not in ("appendonly", "hash-max-listpack-value")}
    with EmbeddedRedis(tcp=True, appendonly=True, config=config) as server:
        yield server


@pytest.fixture
def sound(sound_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A client of that server, emptied for this test."""
    with redis.Redis.from_url(sound_server.url, protocol=2, socket_timeout=WITHIN_S) as client:
        client.flushall()
        yield client


@pytest.fixture
def url(sound_server: EmbeddedRedis, sound: redis.Redis) -> str:
    """The URL of that server, emptied."""
    return sound_server.url


@pytest.fixture
def client(url: str) -> Client:
    return Client.from_url(url)


@pytest.fixture
def configure(sound: redis.Redis) -> Iterator[Callable[[str, str], None]]:
    """A function that calls CONFIG SET for the time of the test."""
    before: dict[str, str] = {}

    def configure(name: str, value: str) -> None:
        before.setdefault(name, next(iter(sound.config_get(name).values())))
        sound.config_set(name, value)

    yield configure
    for name, value in before.items():
        sound.config_set(name, value)
