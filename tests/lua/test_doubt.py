"""Doubt: which one-shots may have been pushed in a lost history, and when the archives end it."""

from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace, put_due
from tests.builders.records import one_shot
from tests.lua.restoring import merged, restore
from zsched.core.entry import Position


def doubt(led: Namespace, ago_ms: int = 0, **meta: Any) -> int:
    """Cast the doubt of a change of server, so long ago; return its time."""
    doubt_ms = led.now_ms - ago_ms
    led.redis.hset(led.keys.meta(), mapping={"doubt": doubt_ms} | meta)
    return doubt_ms


def kept(led: Namespace, field: str) -> bytes | None:
    return led.redis.hget(led.keys.meta(), field)


def test_schedules_put_after_a_change_of_server_are_certain_once_nothing_was_lost(led: Namespace) -> None:
    [old] = put_due(led, "old", zs="1s")
    led.pass_time(10)
    doubt_ms = doubt(led)
    led.pass_time(10)
    [late] = put_due(led, "late", zs="1s")
    [first, second] = led.redis.zrange(led.keys.due_normal(), 0, -1, withscores=True)
    assert second[1] <= doubt_ms >= first[1]

    led.call("shown", doubt=doubt_ms)
    fired = led.fire()

    assert ([old], 1, 0, [late]) == (fired.skipped, fired.runs, fired.uncertain, led.queue())


def test_schedules_put_after_a_change_of_server_are_in_doubt_until_then(led: Namespace) -> None:
    doubt_ms = doubt(led)
    led.pass_time(10)
    [late] = put_due(led, "late", zs="1s")

    led.call("shown", doubt=doubt_ms - 1)  # of another change of server

    assert ([late], None) == (led.fire().skipped, kept(led, "shown"))


@pytest.mark.parametrize(("lost_ms", "skipped"), [(0, 1), (-HOUR_MS, 0), ("nonsense", 1)])
def test_the_doubt_of_an_earlier_loss_stays(led: Namespace, lost_ms: Any, skipped: int) -> None:
    lost = lost_ms if isinstance(lost_ms, str) else led.now_ms + lost_ms
    doubt_ms = doubt(led, lost=lost)
    led.pass_time(10)
    put_due(led, "late", zs="1s")

    led.call("shown", doubt=doubt_ms)

    assert skipped == len(led.fire().skipped)


@pytest.mark.parametrize(("reason", "has_loss"), [("lost", True), ("corrected", True), ("audit", False)])
def test_a_restore_after_a_loss_keeps_its_doubt(led: Namespace, reason: str, has_loss: bool) -> None:
    doubt_ms = doubt(led, ago_ms=5000)

    restore(led, one_shot("due", "a"), reason=reason)

    assert (str(doubt_ms).encode() if has_loss else None) == kept(led, "lost")


def test_a_merge_keeps_the_later_doubt(led: Namespace) -> None:
    doubt_ms = doubt(led, ago_ms=5000, lost=led.now_ms - HOUR_MS)

    merged(led, Position(1, 1, 5))

    assert str(doubt_ms).encode() == kept(led, "lost")
