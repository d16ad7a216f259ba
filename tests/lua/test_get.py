"""get.lua: contents and versions of schedules; a call with another version changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, OWN, TEMPLATE, Ground
from tests.prefix import RQ


def _fields(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_get_returns_place_and_content_of_each_id(ground: Ground) -> None:
    ground.freeze()
    due_ms = ground.put_later("a", "p", lane="high")
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
    due_ms = ground.put_later("a", "b")
    ground.redis.delete(f"{RQ}:job:a-{due_ms}")
    ground.redis.set(f"{RQ}:job:a-{due_ms}", "x")

    _, _, _, a, b = ground.call("get", ["a", "b"])

    assert [] == a[7]
    assert FIELDS.items() <= _fields(b[7]).items()


# -- versions ----------------------------------------------------------------------------------------


VERBS: dict[str, dict[str, Any]] = {"pause": {"note": "mine"}, "resume": {"missed": "fire"}, "cancel": {}}


def version(ground: Ground, id: str = "a") -> str:
    """Return the version of a schedule, "" if there is none."""
    place = ground.places().get(id, "").split()
    if found := ground.schedule(id):
        return found["version"]
    job = ground.job(ground.run(id, place[-1])) if place else {}
    return job.get("zs_version", job.get("created_at", ""))


def make(ground: Ground, kind: str) -> None:
    if kind == "one-shot":
        ground.put(("a", 1_900_000_000_000))
    else:
        ground.put_recurring("a", "+1000")


def rows(verb: str) -> list[str]:
    return ["a", ""] if verb == "resume" else ["a"]


@pytest.fixture(params=["one-shot", "recurring"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_every_change_of_a_schedule_makes_a_version_that_is_new(ground: Ground, kind: str, is_frozen: bool) -> None:
    if is_frozen:
        ground.freeze()
    make(ground, kind)
    seen = [version(ground)]

    for number in range(5):
        ground.call("pause", ["a"], note=f"note {number}")
        seen.append(version(ground))
        ground.call("pause", ["a"], note="another note")
        seen.append(version(ground))
        ground.call("resume", ["a", ""], missed="fire")
        seen.append(version(ground))
        if kind == "one-shot":
            ground.put(("a", 1_900_000_000_000 + number, "other"))
        else:
            ground.put_recurring("a", digest=f"digest {number}")
        seen.append(version(ground))

    assert "" not in seen
    assert 21 == len(set(seen))


def test_a_call_that_changes_nothing_keeps_the_version(ground: Ground, kind: str) -> None:
    make(ground, kind)
    before = version(ground)

    make(ground, kind)
    ground.call("resume", ["a", ""], missed="fire")

    assert before == version(ground)


def test_a_fire_keeps_the_version_of_a_recurring_schedule(led: Ground) -> None:
    led.put_recurring("a", led.now_ms + 10)
    before = version(led)
    led.pass_time(1000)
    [row] = led.fire().recurring

    assert ["fired"] == led.advance((row, int(row[2]), int(row[2]) + HOUR_MS))
    assert before == version(led)


def test_a_text_of_megabytes_of_another_program_is_cut_and_a_payload_is_not(ground: Ground) -> None:
    due_ms = ground.put_later("a")
    texts = {"origin": "q" * 3_000_000, "data": "d" * 3_000_000}
    ground.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=texts)

    [a] = ground.call("get", ["a"])[3:]

    assert {"origin": 2**20, "data": 3_000_000} == {name: len(_fields(a[7])[name]) for name in texts}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_changes_the_schedule_only_with_its_present_version(ground: Ground, kind: str, verb: str) -> None:
    make(ground, kind)
    stale = version(ground)
    ground.call("pause", ["a"], note="somebody else")
    before, present = ground.keyspace(), version(ground)

    refused = ground.call(verb, rows(verb), seen_version=stale, **VERBS[verb])[1]
    after = ground.keyspace()
    done = ground.call(verb, rows(verb), seen_version=present, **VERBS[verb])[1]

    assert {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[verb] == done
    assert (f"CHANGED:{present}", before) == (refused, after)


def test_a_pause_sent_again_by_its_operation_gets_the_first_reply(ground: Ground, kind: str) -> None:
    make(ground, kind)
    call = {"op": "op-1", "keep_op_ms": 60_000, "seen_version": version(ground), "note": "mine"}

    first = ground.call("pause", ["a"], **call)

    assert [str(text) for text in first] == ground.call("pause", ["a"], **call)
    assert "paused" == first[1]
