"""Rules of every script: its leader, its caller's name, unknown ids, and a Redis without memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lua.ground import HOUR_MS, LEASE_MS, TOKEN, Ground
from tests.lua.scene import CALLS, contents, furnish
from tests.lua.test_retry import retry
from tests.lua.test_track import note
from tests.lua.test_wrong_types import READS
from tests.unit.test_scripts_headers import NAMES
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage.scripts import load

LEADERS = [name for name in NAMES if "token" in load(name).argv and "expected_server" in load(name).argv]
MORE: dict[str, Callable[[Ground], Any]] = {
    "audit": lambda g: g.call("audit", ["later", ""]),
    "name": lambda g: g.call("name", gen="new", is_new=1),
}


@pytest.mark.parametrize("name", LEADERS)
def test_a_leaders_script_needs_the_lease_and_its_server(
    led: Ground, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    furnish(led)
    [call, *_] = [call for each, call in (CALLS | MORE).items() if each.split(" ")[0] == name]
    before, as_leader = contents(led), led.call

    for field, error in (("token", Stale), ("expected_server", ServerChanged)):
        monkeypatch.setattr(led, "call", lambda *texts, field=field, **given: as_leader(*texts, **given | {field: "x"}))
        with pytest.raises(error):
            call(led)

    assert before == contents(led)


ASKED_FOR = [name for name in CALLS if "by" in load(name.split(" ")[0]).argv]


@pytest.mark.parametrize("name", CALLS)
def test_an_entry_has_who_asked_once_before_its_own_texts_and_nobody_of_a_daemon(led: Ground, name: str) -> None:
    furnish(led)
    before = len(led.entries())

    CALLS[name](led.acting_as("ann@host"))

    told = led.parsed()[before:]
    by = [(entry.by, entry.texts.count(b"ann@host")) for entry in told if entry.by]
    assert ([(b"ann@host", 1)] * len(told) if name in ASKED_FOR else []) == by
    assert told or name not in ASKED_FOR


def test_the_scripts_that_clients_ask_for_are_these() -> None:
    assert {
        "backfill", "cancel", "cancel_run", "enqueue", "pause", "put", "put_recurring", "restore", "resume", "retry",
        "run_now",
    } == {name.split(" ")[0] for name in ASKED_FOR}  # fmt: skip


def test_a_put_of_many_has_who_asked_once(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS

    ground.acting_as("ann@host").put(*((f"s{n}", due_ms) for n in range(200)))

    [entry] = ground.parsed()
    assert (b"ann@host", 1) == (entry.by, entry.texts.count(b"ann@host"))


@pytest.mark.parametrize("name", [name for name in CALLS if "op" in load(name.split(" ")[0]).keys])
def test_a_call_sent_again_with_its_operation_id_gets_the_first_reply(
    led: Ground, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    furnish(led)
    call, op = led.call, {"op": "op-1", "keep_op_ms": 60_000}
    monkeypatch.setattr(led, "call", lambda *texts, **given: call(*texts, **given | op))
    first = CALLS[name](led)
    left_ms, before = led.redis.pttl(led.keys.op("op-1")), contents(led)
    led.pass_time(1000)

    again = CALLS[name](led)

    assert _texts(first) == _texts(again)
    led.pass_time(-1000)
    assert before == contents(led)
    assert 0 < left_ms <= 60_000


def _texts(reply: Any) -> Any:
    """Return *reply* as it is stored: with its numbers as texts."""
    return [_texts(each) for each in reply] if isinstance(reply, list | tuple) else str(reply)


RUN = "unknown-1767225600000"

UNKNOWN: dict[str, tuple[Callable[[Ground], Any], Any]] = {
    "cancel": (lambda g: g.call("cancel", ["unknown"])[1], "NOTFOUND"),
    "pause": (lambda g: g.call("pause", ["unknown"], note="")[1], "NOTFOUND"),
    "resume": (lambda g: g.call("resume", ["unknown", ""], missed="fire")[1], "NOTFOUND"),
    "resume with skip": (lambda g: g.call("resume", ["unknown", ""], missed="skip")[1], "NOTFOUND"),
    "run_now": (lambda g: g.call("run_now", id="unknown")[0], "NOTFOUND"),
    "backfill": (lambda g: g.call("backfill", [1, "once"], id="unknown", planned_version="")[0], "NOTFOUND"),
    "cancel_run": (lambda g: g.call("cancel_run", ["unknown", RUN, "", "{}"], most_waiting=50)[1], "UNKNOWN"),
    "retry": (lambda g: retry(g, RUN, "unknown", op="-", keep_op_ms=0)[0], "GONE"),
    "get": (lambda g: g.call("get", ["unknown"])[1:], ["", "", ""]),  # nor is there an entry in the log
    "note": (lambda g: note(g, "{}"), "GONE"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_id_or_run_is_named_as_such_and_nothing_is_written(ground: Ground, name: str) -> None:
    call, expected = UNKNOWN[name]
    before = ground.keyspace()

    assert expected == call(ground)
    assert before == ground.keyspace()


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
        led.call("renew", lease_ms=LEASE_MS)
        led.call("release", token=TOKEN)

    assert 0 == led.redis.exists(led.keys.lease())


def test_schedules_can_be_read_without_memory(led: Ground) -> None:
    led.put(("later", "+60000"))
    led.scripts.ensure("get")

    with _out_of_memory(led):
        assert "due" == led.call("get", ["later"])[3][0]
