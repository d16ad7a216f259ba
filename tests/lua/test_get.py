"""get.lua: returns the contents of some schedules."""

from __future__ import annotations

from tests.lua.ground import FIELDS, HOUR_MS, OWN, TEMPLATE, Ground
from tests.prefix import RQ


def _fields(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_get_returns_place_and_content_of_each_id(ground: Ground) -> None:
    ground.freeze()
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms), ("p", due_ms), lane="high")
    ground.put_recurring("r", due_ms)
    ground.put_recurring("e", due_ms)
    ground.call("pause", ["p"], note="why not")
    ground.redis.zrem(ground.keys.due_normal(), "e")
    ground.redis.hset(ground.keys.quarantine(), "q", f"low {due_ms} 5 its hash is gone")
    since = ground.redis.hget(ground.keys.paused(), "p").split()[2].decode()

    now_ms, last_id, last_t, a, unknown, p, r, e, q = ground.call("get", ["a", "unknown", "p", "r", "e", "q"])

    assert ground.now_ms == now_ms
    assert (ground.last.id, ground.last.t) == (last_id, last_t)
    assert "" == unknown
    assert ["due", "high", str(due_ms), "", "", 0, []] == a[:7]
    assert FIELDS.items() <= _fields(a[7]).items()
    assert ["paused", "high", str(due_ms), since, "why not", 0] == p[:6]
    assert ["due", "normal", str(due_ms), "", "", 1] == r[:6]
    assert OWN.items() <= _fields(r[6]).items()
    assert TEMPLATE == _fields(r[7])
    assert ["ended", "", "", "", "", 1] == e[:6]
    assert ["quarantine", "low", str(due_ms), "5", "its hash is gone", 0, [], []] == q
    assert 4 == len(ground.entries())


def test_a_key_of_another_type_does_not_hide_the_others(ground: Ground) -> None:
    due_ms = ground.now_ms + HOUR_MS
    ground.put(("a", due_ms), ("b", due_ms))
    ground.redis.delete(f"{RQ}:job:a-{due_ms}")
    ground.redis.set(f"{RQ}:job:a-{due_ms}", "x")

    _, _, _, a, b = ground.call("get", ["a", "b"])

    assert [] == a[7]
    assert FIELDS.items() <= _fields(b[7]).items()


def test_get_returns_the_last_log_entry_of_the_newest_epoch(ground: Ground) -> None:
    ground.put(("a", "+1000"))
    ground.redis.hset(ground.keys.meta(), "epoch", 41)
    ground.put(("b", "+1000"))

    _, last_id, last_t, _ = ground.call("get", ["a"])

    assert ("41-2", ground.last.t) == (last_id, last_t)
