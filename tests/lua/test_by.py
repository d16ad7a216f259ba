"""The caller's name in the log: once in every entry that a client asks for, never in an entry of a daemon."""

from __future__ import annotations

import pytest

from tests.lua.ground import HOUR_MS, Ground
from tests.lua.scene import CALLS, furnish
from zsched.storage.scripts import load

ASKED_FOR = [name for name in CALLS if "by" in load(name.split(" ")[0]).argv]
OF_DAEMONS = [name for name in CALLS if name not in ASKED_FOR]


def test_the_scripts_that_clients_ask_for_are_these() -> None:
    assert {
        "backfill", "cancel", "cancel_run", "enqueue", "pause", "put", "put_recurring", "restore", "resume", "retry",
        "run_now",
    } == {name.split(" ")[0] for name in ASKED_FOR}  # fmt: skip


@pytest.mark.parametrize("name", ASKED_FOR)
def test_an_entry_has_who_asked_once_before_its_own_texts(led: Ground, name: str) -> None:
    furnish(led)
    before = len(led.entries())

    CALLS[name](led.acting_as("ann@host"))

    told = led.parsed()[before:]
    assert [b"ann@host"] * len(told) == [entry.by for entry in told]
    assert told
    assert [1] * len(told) == [entry.texts.count(b"ann@host") for entry in told]


@pytest.mark.parametrize("name", OF_DAEMONS)
def test_an_entry_of_a_daemon_has_nobody(led: Ground, name: str) -> None:
    furnish(led)
    before = len(led.entries())

    CALLS[name](led.acting_as("ann@host"))

    assert [] == [entry for entry in led.parsed()[before:] if entry.by]


def test_a_put_of_many_has_who_asked_once(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS

    ground.acting_as("ann@host").put(*((f"s{n}", due_ms) for n in range(200)))

    [entry] = ground.parsed()
    assert (b"ann@host", 1) == (entry.by, entry.texts.count(b"ann@host"))
