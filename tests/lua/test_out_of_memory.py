"""A script applies nothing at all when Redis is out of memory: Redis refuses its first write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, LEASE_MS, SERVER, TEMPLATE, TOKEN, Ground
from tests.prefix import RQ
from zsched.errors import RedisRefused


@contextmanager
def _out_of_memory(ground: Ground) -> Iterator[None]:
    ground.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        ground.redis.config_set("maxmemory", 0)


_DUE = 1_700_000_000_000

CALLS: dict[str, Callable[[Ground], Any]] = {
    "put of a new one-shot": lambda g: g.put(("new", "+60000")),
    "put over a one-shot": lambda g: g.put(("later", "+1", "other"), lane="high"),
    "put over a recurring one": lambda g: g.put(("rule", "+60000"), op="op"),
    "put_recurring of a new one": lambda g: g.put_recurring("new"),
    "put_recurring over a one-shot": lambda g: g.put_recurring("later"),
    "put_recurring over a rule": lambda g: g.put_recurring("rule", trigger="rule-2", digest="d2", op="op"),
    "fire": lambda g: g.fire(),
    "advance": lambda g: g.advance((_due_row(g), _DUE, g.now_ms + 5000)),
    "advance to the end": lambda g: g.advance((_due_row(g), _DUE, "")),
    "acquire": lambda g: g.call(
        "acquire", daemon=TOKEN.split(":")[0], nonce="n", server_id="s2", lease_ms=LEASE_MS, gen="g"
    ),
    "cancel of a one-shot": lambda g: g.call("cancel", ["later"]),
    "cancel of a rule": lambda g: g.call("cancel", ["rule"]),
    "pause": lambda g: g.call("pause", ["rule"], note="n"),
    "resume": lambda g: g.call("resume", ["paused", ""], missed="fire"),
    "resume with skip": lambda g: g.call("resume", ["missed", ""], missed="skip"),
    "run_now of a one-shot": lambda g: g.call("run_now", id="later", op="op", keep_op_ms=1000),
    "run_now of a rule": lambda g: g.call("run_now", id="rule", op="op", keep_op_ms=1000),
    "enqueue": lambda g: g.call(
        "enqueue", [text for pair in TEMPLATE.items() for text in pair],
        id="later", op="op", keep_op_ms=1000, if_exists="replace", at_front=0,
    ),
    "backfill": lambda g: g.call(
        "backfill", [_DUE, "once"], id="rule", planned_version=g.schedule("rule")["version"], op="op", keep_op_ms=1000
    ),
    "quarantine": lambda g: g.call(
        "quarantine", [*_due_row(g), "why"], token=TOKEN, expected_server=SERVER
    ),
}  # fmt: skip


def _due_row(ground: Ground) -> list[str]:
    return ["due-rule", "normal", str(_DUE), ground.schedule("due-rule")["version"]]


@pytest.fixture
def full(led: Ground) -> Ground:
    """A namespace with schedules and runs of every kind; the scripts are loaded."""
    led.redis.hset(led.keys.meta(), "frozen_by", TOKEN.split(":")[0])  # who may lead by this clock
    led.put(("later", led.now_ms + HOUR_MS), ("paused", "+60000"))
    led.put(("due", _DUE), ("missed", _DUE), ("bad", _DUE), allow_past=1)
    led.redis.delete(f"{RQ}:job:bad-{_DUE}")
    led.put_recurring("rule")
    led.put_recurring("due-rule", _DUE)
    for id in ("paused", "missed"):
        led.call("pause", [id], note="")
    for name in {call.split()[0] for call in CALLS}:
        led.scripts.ensure(name)
    return led


@pytest.mark.parametrize("name", CALLS)
def test_a_script_without_memory_applies_nothing(full: Ground, name: str) -> None:
    before = full.keyspace()

    with _out_of_memory(full), pytest.raises(RedisRefused, match="maxmemory"):
        CALLS[name](full)
    assert before == full.keyspace()
    full.redis.config_set("maxmemory", 0)
    CALLS[name](full)
    assert before != full.keyspace()


def test_a_leader_without_memory_keeps_its_lease_and_can_release_it(full: Ground) -> None:
    full.scripts.ensure("renew")
    full.scripts.ensure("release")
    with _out_of_memory(full):
        full.call("renew", token=TOKEN, expected_server=SERVER, lease_ms=LEASE_MS)
        full.call("release", token=TOKEN)

    assert 0 == full.redis.exists(full.keys.lease())


def test_schedules_can_be_read_without_memory(full: Ground) -> None:
    full.scripts.ensure("get")
    with _out_of_memory(full):
        assert "due" == full.call("get", ["later"])[3][0]
