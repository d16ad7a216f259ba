"""
fire.lua: schedules that cannot be quarantined, because the quarantine key has a wrong type, keep no other from firing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lua.ground import Ground
from tests.prefix import RQ


def put_due(ground: Ground, *ids: str, lane: str = "normal") -> list[str]:
    """Put one-shots that are due now, a millisecond apart; return their run ids."""
    first_ms = ground.now_ms - 1000
    rows = [(id, first_ms + n) for n, id in enumerate(ids)]
    ground.put(*rows, lane=lane, allow_past=1)
    return [f"{id}-{due_ms}" for id, due_ms in rows]


def _spoil_quarantine(ground: Ground) -> str:
    key = ground.keys.quarantine()
    ground.redis.set(key, "x")
    return key


def test_fire_reports_a_quarantine_key_of_a_wrong_type(led: Ground) -> None:
    led.put_recurring("r", led.now_ms - 1000)
    key = _spoil_quarantine(led)

    assert [key] == led.fire().wrong


def _stuck_one_shots(ground: Ground, number: int) -> None:
    for run in put_due(ground, *(f"stuck{n:03}" for n in range(number))):
        ground.redis.delete(f"{RQ}:job:{run}")


def _due_rules(ground: Ground, number: int) -> None:
    for n in range(number):
        ground.put_recurring(f"stuck{n:03}", ground.now_ms - 2000)


@pytest.mark.parametrize("put", [_stuck_one_shots, _due_rules])
def test_a_schedule_that_cannot_be_quarantined_does_not_block_later_schedules(
    led: Ground, put: Callable[[Ground, int], None]
) -> None:
    put(led, 9)
    good = put_due(led, *(f"good{n}" for n in range(5)))
    low = put_due(led, "low", lane="low")
    _spoil_quarantine(led)

    fired = [led.fire(limit=3) for _ in range(3)]

    assert [3, 3, 0] == [one.runs for one in fired]
    assert [*good, *low] == led.queue()
    assert 9 == led.redis.zcard(led.keys.due_normal())


def test_fire_pushes_no_more_than_its_limit_beside_schedules_that_cannot_be_quarantined(led: Ground) -> None:
    _stuck_one_shots(led, 2)
    good = put_due(led, *(f"good{n}" for n in range(8)))
    _spoil_quarantine(led)

    assert 4 == led.fire(limit=4).runs
    assert good[:4] == led.queue()


@pytest.mark.parametrize("number", [1, 3, 100])
def test_a_schedule_that_cannot_be_quarantined_is_tried_once_a_second(led: Ground, number: int) -> None:
    _stuck_one_shots(led, number)
    _spoil_quarantine(led)

    fired = led.fire(limit=3)

    assert (fired.now_ms + 1000, min(number, 30)) == (fired.next_ms, fired.looked)


def test_fire_does_not_page_through_a_lane_if_quarantine_works(led: Ground) -> None:
    _due_rules(led, 9)

    fired = led.fire(limit=3)

    assert (3, 3, fired.now_ms) == (fired.looked, len(fired.recurring), fired.next_ms)
