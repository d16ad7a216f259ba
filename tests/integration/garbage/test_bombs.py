"""Arguments that another program made far larger than a client may: a listing has many schedules."""

import zlib

import pytest
import redis

from zsched import Client
from zsched.storage.keys import Keys

JOB = Keys("default").rq.job


@pytest.mark.parametrize(
    "arguments", [b'"%b"' % (b"a" * 2**20), b"[]," * 300_000 + b"1"], ids=["a long text", "many values"]
)
def test_a_listing_has_no_arguments_that_are_too_large(
    redis_client: redis.Redis, redis_url: str, arguments: bytes
) -> None:
    client = Client.from_url(redis_url, serializer="json")
    client.schedule("app.f", args=("small",), id="small", after=3600)
    large = client.schedule("app.f", id="large", after=3600).run_id or ""
    redis_client.hset(JOB(large), "data", zlib.compress(b'["app.f",null,[%b],{}]' % arguments))

    found = {one.id: one.args for one in client.list()}

    assert {"small": ["small"], "large": None} == found
    assert "app.f" == client.get("large").func
