"""A script applies nothing at all when Redis is out of memory: Redis refuses its first write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lua.ground import LEASE_MS, SERVER, TOKEN, Ground
from tests.lua.scene import CALLS, contents, furnish
from tests.lua.test_wrong_types import READS
from zsched.errors import RedisRefused

FREEING = ("free_slots", "trim")  # they only delete


@contextmanager
def _out_of_memory(ground: Ground) -> Iterator[None]:
    ground.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        ground.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in (*READS, *FREEING)])
def test_a_script_without_memory_applies_nothing(led: Ground, name: str) -> None:
    furnish(led)
    led.scripts.ensure(name.split(" ")[0])
    before = contents(led)

    with _out_of_memory(led), pytest.raises(RedisRefused, match="maxmemory"):
        CALLS[name](led)

    assert before == contents(led)


def test_a_leader_without_memory_keeps_its_lease_and_can_release_it(led: Ground) -> None:
    for name in ("renew", "release"):
        led.scripts.ensure(name)

    with _out_of_memory(led):
        led.call("renew", token=TOKEN, expected_server=SERVER, lease_ms=LEASE_MS)
        led.call("release", token=TOKEN)

    assert 0 == led.redis.exists(led.keys.lease())


def test_schedules_can_be_read_without_memory(led: Ground) -> None:
    led.put(("later", "+60000"))
    led.scripts.ensure("get")

    with _out_of_memory(led):
        assert "due" == led.call("get", ["later"])[3][0]
