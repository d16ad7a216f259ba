"""get.lua: contents and versions of schedules; a call with another version changes nothing."""

from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, OWN, TEMPLATE, Namespace
from tests.prefix import RQ


def _fields(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_get_returns_place_and_content_of_each_id(ns: Namespace) -> None:
    ns.freeze()
    due_ms = ns.put_later("a", "p", lane="high")
    ns.put_recurring("r", due_ms)
    ns.put_recurring("e", due_ms)
    ns.call("pause", ["p"], note="why not")
    ns.redis.zrem(ns.keys.due_normal(), "e")
    ns.redis.hset(ns.keys.quarantine(), "q", f"low {due_ms} 5 its hash is gone")
    since = ns.redis.hget(ns.keys.paused(), "p").split()[2].decode()

    now_ms, last_id, last_t, a, unknown, p, r, e, q = ns.call("get", ["a", "unknown", "p", "r", "e", "q"])

    assert ns.now_ms == now_ms
    assert (ns.last.id, ns.last.t) == (last_id, last_t)
    assert "" == unknown
    assert ["due", "high", str(due_ms), "", "", 0, []] == a[:7]
    assert FIELDS.items() <= _fields(a[7]).items()
    assert ["paused", "high", str(due_ms), since, "why not", 0] == p[:6]
    assert ["due", "normal", str(due_ms), "", "", 1] == r[:6]
    assert OWN.items() <= _fields(r[6]).items()
    assert TEMPLATE | {"status": "queued"} == _fields(r[7])
    assert ["ended", "", "", "", "", 1] == e[:6]
    assert ["quarantine", "low", str(due_ms), "5", "its hash is gone", 0, [], [], "quarantine"] == q
    assert 4 == len(ns.entries())


def test_a_key_of_another_type_does_not_hide_the_others(ns: Namespace) -> None:
    due_ms = ns.put_later("a", "b")
    ns.redis.delete(f"{RQ}:job:a-{due_ms}")
    ns.redis.set(f"{RQ}:job:a-{due_ms}", "x")

    _, _, _, a, b = ns.call("get", ["a", "b"])

    assert [] == a[7]
    assert FIELDS.items() <= _fields(b[7]).items()


# -- versions ----------------------------------------------------------------------------------------


VERBS: dict[str, dict[str, Any]] = {"pause": {"note": "mine"}, "resume": {"missed": "fire"}, "cancel": {}}


def version(ns: Namespace, id: str = "a") -> str:
    """Return the version of a schedule, "" if there is none."""
    place = ns.places().get(id, "").split()
    if found := ns.schedule(id):
        return found["version"]
    job = ns.job(ns.run(id, place[-1])) if place else {}
    return job.get("zs_version", job.get("created_at", ""))


def make(ns: Namespace, kind: str) -> None:
    if kind == "one-shot":
        ns.put(("a", 1_900_000_000_000))
    else:
        ns.put_recurring("a", "+1000")


def rows(verb: str) -> list[str]:
    return ["a", ""] if verb == "resume" else ["a"]


@pytest.fixture(params=["one-shot", "recurring"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_every_change_of_a_schedule_makes_a_version_that_is_new(ns: Namespace, kind: str, is_frozen: bool) -> None:
    if is_frozen:
        ns.freeze()
    make(ns, kind)
    seen = [version(ns)]

    for number in range(5):
        ns.call("pause", ["a"], note=f"note {number}")
        seen.append(version(ns))
        ns.call("pause", ["a"], note="another note")
        seen.append(version(ns))
        ns.call("resume", ["a", ""], missed="fire")
        seen.append(version(ns))
        if kind == "one-shot":
            ns.put(("a", 1_900_000_000_000 + number, "other"))
        else:
            ns.put_recurring("a", digest=f"digest {number}")
        seen.append(version(ns))

    assert "" not in seen
    assert 21 == len(set(seen))


def test_a_call_that_changes_nothing_keeps_the_version(ns: Namespace, kind: str) -> None:
    make(ns, kind)
    before = version(ns)

    make(ns, kind)
    ns.call("resume", ["a", ""], missed="fire")

    assert before == version(ns)


def test_a_fire_keeps_the_version_of_a_recurring_schedule(led: Namespace) -> None:
    led.put_recurring("a", led.now_ms + 10)
    before = version(led)
    led.pass_time(1000)
    [row] = led.fire().recurring

    assert ["fired"] == led.advance((row, int(row[2]), int(row[2]) + HOUR_MS))
    assert before == version(led)


def test_a_text_of_megabytes_of_another_program_is_cut_and_a_payload_is_not(ns: Namespace) -> None:
    due_ms = ns.put_later("a")
    texts = {"origin": "q" * 3_000_000, "data": "d" * 3_000_000}
    ns.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=texts)

    [a] = ns.call("get", ["a"])[3:]

    assert {"origin": 2**20, "data": 3_000_000} == {name: len(_fields(a[7])[name]) for name in texts}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_changes_the_schedule_only_with_its_present_version(ns: Namespace, kind: str, verb: str) -> None:
    make(ns, kind)
    stale = version(ns)
    ns.call("pause", ["a"], note="somebody else")
    before, present = ns.keyspace(), version(ns)

    refused = ns.call(verb, rows(verb), seen_version=stale, **VERBS[verb])[1]
    after = ns.keyspace()
    done = ns.call(verb, rows(verb), seen_version=present, **VERBS[verb])[1]

    assert {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[verb] == done
    assert (f"CHANGED:{present}", before) == (refused, after)


def test_a_pause_sent_again_by_its_operation_gets_the_first_reply(ns: Namespace, kind: str) -> None:
    make(ns, kind)
    call = {"op": "op-1", "seen_version": version(ns), "note": "mine"}

    first = ns.call("pause", ["a"], **call)

    assert [str(text) for text in first] == ns.call("pause", ["a"], **call)
    assert "paused" == first[1]
