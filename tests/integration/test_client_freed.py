"""A client that nobody holds is freed, with its connections."""

from __future__ import annotations

import gc
import weakref

import pytest
import redis

from zsched import Client

pytestmark = pytest.mark.redis


def test_a_client_that_nobody_holds_is_freed_at_once(redis_url: str, redis_client: redis.Redis) -> None:
    """Its connections end with it. In a cycle of references, both would wait for the garbage collector."""
    client = Client.from_url(redis_url)
    client.schedule("app.task", id="a", after=60)
    client.schedule("app.task", id="b", every=60)
    held = weakref.ref(client)
    gc.disable()
    try:
        del client
        assert held() is None
    finally:
        gc.enable()
