"""The address of a Redis: one text for all ways to write it, without user or password."""

from __future__ import annotations

from pathlib import Path

import pytest

from zsched.config.settings import load_settings
from zsched.config.urls import address_of


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost:6379/0", "localhost:6379/0"),
        ("redis://localhost", "localhost:6379/0"),
        ("redis:///3", "localhost:6379/3"),
        ("redis://LocalHost/?db=2", "localhost:6379/2"),
        ("redis://h/1?db=2", "h:6379/2"),  # redis-py takes the query's
        ("rediss://Cache.example:6380/1", "cache.example:6380/1"),
        ("redis://ann:s3cret@h:1/0", "h:1/0"),
        ("redis://:s3c@ret@h:1/0?password=s3cret&username=ann", "h:1/0"),
        ("redis://[::1]:7000/0", "[::1]:7000/0"),
        ("unix:///run/redis.sock?db=4", "unix:/run/redis.sock/4"),
        ("unix://ann:s3cret@/run/redis.sock", "unix:/run/redis.sock/0"),
        ("redis+sentinel://:s3cret@b,a:1/main/2?sentinel_password=s3cret", "sentinels:a:1,b:26379/main/2"),
        ("redis+sentinel://a:1,b/main/2", "sentinels:a:1,b:26379/main/2"),
    ],
)
def test_an_address_is_the_configured_host_port_and_database(url: str, address: str) -> None:
    assert address == address_of(url)


def test_an_address_has_the_sentinels_of_the_settings() -> None:
    env = {"ZSCHED_REDIS_SENTINELS": "b:1,a:2", "ZSCHED_REDIS_MASTER": "main", "ZSCHED_REDIS_URL": "redis://x:y@/3"}

    assert "sentinels:a:2,b:1/main/3" == address_of(load_settings(env=env).redis.url)


def test_the_settings_name_the_place_of_the_address(tmp_path: Path) -> None:
    file, url = tmp_path / "zsched.toml", "redis://h:1/0"
    file.write_text(f'[redis]\nurl = "{url}"\n')
    env = {"ZSCHED_REDIS_URL": url}
    sentinels = {"ZSCHED_REDIS_SENTINELS": "a:1", "ZSCHED_REDIS_MASTER": "main"}

    found = [
        load_settings(env={}),
        load_settings(file, env={}),
        load_settings(file, env=env),
        load_settings(file, env=env, flags={"redis.url": url}),
        load_settings(env=sentinels),
    ]

    assert [
        "the default, as ZSCHED_REDIS_URL is not set",
        f"{file}: [redis] url",
        "ZSCHED_REDIS_URL",
        "--redis-url",
        "ZSCHED_REDIS_SENTINELS, ZSCHED_REDIS_MASTER",
    ] == [one.redis.given_by for one in found]
