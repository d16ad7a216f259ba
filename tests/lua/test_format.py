"""lib/meta.lua: what a newer zsched keeps, an older one leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zsched
from tests.lua.ground import HOUR_MS, Ground
from zsched.errors import NewerFormat
from zsched.storage.scripts import load

LUA = Path(zsched.__file__).parent / "lua"
WITHOUT = {"note", "release", "survey"}  # a worker's note of its run, the end of a term, and what only reads


@pytest.mark.parametrize(
    "call",
    [
        lambda ground: ground.put(("a", "+60000")),
        lambda ground: ground.put_recurring("r", ground.now_ms + HOUR_MS),
        lambda ground: ground.call("acquire", daemon="d", nonce="n", server_id="s", lease_ms=1000, gen="g"),
        lambda ground: ground.fire(),
        lambda ground: ground.advance(),
        lambda ground: ground.call("get", ["a"]),
    ],
    ids=["put", "put_recurring", "acquire", "fire", "advance", "get"],
)
def test_what_a_newer_zsched_keeps_an_older_one_neither_reads_nor_writes(
    led: Ground, call: Callable[[Ground], Any]
) -> None:
    led.redis.hset(led.keys.meta(), "format", 2)
    before = led.keyspace()

    with pytest.raises(NewerFormat, match="in format 2, and this one knows 1: upgrade zsched here"):
        call(led)

    assert before == led.keyspace()


@pytest.mark.parametrize("name", sorted(path.stem for path in LUA.glob("*.lua")))
def test_every_script_that_reads_or_writes_schedules_looks_at_the_format(name: str) -> None:
    assert ("{'FORMAT', meta[9], FORMAT}" in load(name).text) is (name not in WITHOUT)


def test_who_leads_notes_its_format_where_an_older_one_led(led: Ground) -> None:
    led.redis.hdel(led.keys.meta(), "format")
    led.redis.delete(led.keys.lease())

    led.call("acquire", daemon="d", nonce="n", server_id="s", lease_ms=1000, gen="g")

    assert led.redis.hget(led.keys.meta(), "format") == b"1"
