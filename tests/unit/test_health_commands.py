"""The commands in the doctor's remedies reach the examined Redis, and contain no password."""

from __future__ import annotations

import pytest

from zsched.health.verdict import Shell
from zsched.storage.connection import Link

KEY = "zsched:{default}:meta"


def shell(url: str, serializer: str = "pickle", password: str | None = None, rq_prefix: str = "rq") -> Shell:
    return Shell(Link.from_url(url, 1.0, password), serializer, rq_prefix)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://localhost:6379/0", f"redis-cli GET '{KEY}'"),
        ("redis://me:secret@db:6380/2", f"redis-cli -h db -p 6380 -n 2 GET '{KEY}'"),
        ("rediss://db/0", f"redis-cli -h db --tls GET '{KEY}'"),
        ("unix:///run/redis.sock?db=1", f"redis-cli -s /run/redis.sock -n 1 GET '{KEY}'"),
        ("redis+sentinel://a:26379,b:26379/main/0", f"redis-cli -h MASTER GET '{KEY}'"),
    ],
)
def test_the_redis_cli_command_uses_the_redis_of_the_settings(url: str, said: str) -> None:
    assert said == shell(url).written(["redis-cli", "GET", KEY])


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("redis://localhost:6379/0", {}, "rq worker email"),
        (
            "redis://localhost:6379/1",
            {"serializer": "json"},
            "RQ_REDIS_URL=redis://localhost:6379/1 rq worker --serializer json email",
        ),
        ("redis://:secret@db/0", {}, "RQ_REDIS_URL=redis://:PASSWORD@db/0 rq worker email"),
        ("redis://me:secret@db/0", {}, "RQ_REDIS_URL=redis://USER:PASSWORD@db/0 rq worker email"),
        ("redis://:secret@localhost:6379/0", {}, "RQ_REDIS_URL=redis://:PASSWORD@localhost:6379/0 rq worker email"),
        ("redis://db/0", {"password": "secret"}, "RQ_REDIS_URL=redis://:PASSWORD@db/0 rq worker email"),
        ("redis://me@db/0", {"password": "secret"}, "RQ_REDIS_URL=redis://USER:PASSWORD@db/0 rq worker email"),
        ("rediss://localhost:6379/0", {}, "RQ_REDIS_URL=rediss://localhost:6379/0 rq worker email"),
        ("rediss://db?ssl_ca_certs=/a&db=1", {}, "RQ_REDIS_URL='rediss://db?ssl_ca_certs=/a&db=1' rq worker email"),
        ("unix:///run/redis.sock?db=1", {}, "RQ_REDIS_URL='unix:///run/redis.sock?db=1' rq worker email"),
        ("unix://:secret@/run/redis.sock", {}, "RQ_REDIS_URL=unix://:PASSWORD@/run/redis.sock rq worker email"),
        ("redis+sentinel://a:26379/main/0", {}, "rq worker email"),
        ("redis://db/0", {"rq_prefix": "{a}:rq"}, "RQ_KEY_PREFIX='{a}:rq' RQ_REDIS_URL=redis://db/0 rq worker email"),
    ],
)
def test_the_worker_command_uses_the_redis_of_the_settings(url: str, options: dict[str, str], said: str) -> None:
    assert said == shell(url, **options).written(["rq", "worker", "email"])
