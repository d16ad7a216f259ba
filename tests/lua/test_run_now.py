"""run_now.lua and enqueue.lua: runs on request."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, TEMPLATE, Namespace, flat
from tests.prefix import RQ


def _run_now(ns: Namespace, id: str, op: str = "op-1") -> list[Any]:
    return ns.call("run_now", id=id, op=op)


def test_a_one_shot_runs_now_under_the_run_id_of_its_time(ns: Namespace) -> None:
    due_ms = ns.put_later("a")

    word, _, run = _run_now(ns, "a")

    assert ("fired", f"a-{due_ms}", [run]) == (word, run, ns.queue())
    assert {} == ns.places()
    assert "queued" == ns.job(run)["status"]
    assert ns.job(run)["created_at"] <= ns.job(run)["enqueued_at"]
    entry = ns.last
    assert ("0-2", "run_now", {"id": "a", "run": run, "last": "0"}) == (entry.id, entry.kind, entry.fields)
    assert {f"{RQ}:queue:default".encode()} == ns.redis.smembers(f"{RQ}:queues")


def test_a_recurring_schedule_gets_an_extra_run_and_keeps_its_next_time(ns: Namespace) -> None:
    _, _, _, due_ms = ns.put_recurring("r")

    word, now_ms, run = _run_now(ns, "r")

    assert ("fired", f"r-{now_ms}-r1", [run]) == (word, run, ns.queue())
    assert {"r": f"normal {due_ms}"} == ns.places()
    assert TEMPLATE.items() <= ns.job(run).items()
    assert "queued" == ns.job(run)["status"]
    assert run == ns.schedule("r")["last"]
    assert "1" == ns.last.fields["last"]


def _enqueue_waiting(ns: Namespace, due_ms: int, version: str) -> list[Any]:
    job = flat(FIELDS | {"data": "call", "zs_sig": "to run now"})
    words = {"if_exists": "replace", "at_front": 0, "run_ms": str(due_ms), "seen_version": version}
    return ns.call("enqueue", job, id="a", **words)


def test_a_signed_one_shot_runs_before_its_time_with_the_signature_of_the_caller_in_one_step(ns: Namespace) -> None:
    due_ms = ns.put_later("a")
    run = f"a-{due_ms}"
    ns.redis.hset(f"{RQ}:job:{run}", "zs_sig", "for its time")

    assert "SIGNED" == ns.call("run_now", id="a")[0]
    word, _, _, pushed = _enqueue_waiting(ns, due_ms, ns.job(run)["created_at"])

    assert ("updated", run, [run], {}) == (word, pushed, ns.queue(), ns.places())
    assert ("to run now", "queued") == (ns.job(run)["zs_sig"], ns.job(run)["status"])
    assert ["rows", "1", run] == ns.last.texts[:3]


@pytest.mark.parametrize("what", ["version", "time", "nothing"])
def test_a_one_shot_that_is_not_as_the_caller_signed_it_stays(ns: Namespace, what: str) -> None:
    due_ms = ns.put_later("a")
    version = ns.job(f"a-{due_ms}")["created_at"]
    if what == "nothing":
        ns.call("cancel", ["a"])
    before = ns.places()

    answer = _enqueue_waiting(ns, due_ms + (what == "time"), "other" if what == "version" else version)

    assert answer[0].startswith("CHANGED:")
    assert (before, []) == (ns.places(), ns.queue())


@pytest.mark.parametrize("kind", ["one-shot", "rule"])
def test_a_schedule_of_another_version_does_not_run_now(ns: Namespace, kind: str) -> None:
    if kind == "rule":
        ns.put_recurring("a")
    else:
        ns.put_later("a")

    assert ns.call("run_now", id="a", seen_version="other")[0].startswith("CHANGED:")
    assert [] == ns.queue()


def test_a_signed_one_shot_whose_queue_is_broken_keeps_its_signature(ns: Namespace) -> None:
    run = f"a-{ns.put_later('a')}"
    ns.redis.hset(f"{RQ}:job:{run}", "zs_sig", "for its time")
    ns.redis.set(f"{RQ}:queue:default", "x")

    assert "WRONGTYPE" == ns.call("run_now", id="a")[0]
    assert "for its time" == ns.job(run)["zs_sig"]


def test_a_signed_one_shot_whose_time_has_come_runs_unchanged(ns: Namespace) -> None:
    due_ms = ns.put_later("a")
    ns.redis.hset(f"{RQ}:job:a-{due_ms}", "zs_sig", "for its time")
    ns.call("pause", ["a"], note="")
    ns.pass_until(due_ms)

    assert ("fired", f"a-{due_ms}") == tuple(ns.call("run_now", id="a")[::2])


def test_runs_in_the_same_millisecond_get_different_ids(ns: Namespace) -> None:
    ns.put_recurring("r")
    ns.freeze()

    runs = [_run_now(ns, "r", f"op-{n}")[2] for n in range(40)]

    assert (40, runs) == (len(set(runs)), ns.queue())
    assert all(ns.redis.exists(f"{RQ}:job:{run}") for run in runs)


def test_run_now_leaves_a_paused_or_ended_rule_unchanged_and_removes_a_paused_one_shot(ns: Namespace) -> None:
    ns.put_recurring("p")
    ns.put_recurring("e")
    ns.redis.zrem(ns.keys.due_normal(), "e")
    ns.put_later("o")
    ns.call("pause", ["p", "o"], note="")
    place = ns.places()["p"]

    assert ["fired"] * 3 == [_run_now(ns, id, id)[0] for id in "peo"]
    assert ({"p": place}, 3) == (ns.places(), len(ns.queue()))


@pytest.mark.parametrize("kind", ["one-shot", "recurring"])
def test_run_now_respects_the_front_flag_of_the_schedule(ns: Namespace, kind: str) -> None:
    ns.redis.rpush(f"{RQ}:queue:default", "waiting")
    if kind == "recurring":
        ns.put_recurring("a", template={"zs": "1fs"})
    else:
        ns.put(("a", "+60000"), fields=FIELDS | {"zs": "1fs"})

    run = _run_now(ns, "a")[2]

    assert [run, "waiting"] == ns.queue()


def _one_shot(act: Callable[[Namespace, str], Any]) -> Callable[[Namespace], Any]:
    return lambda ns: act(ns, f"{RQ}:job:b-{ns.put_later('b')}")


def _rule(act: Callable[[Namespace], Any]) -> Callable[[Namespace], Any]:
    return lambda ns: (ns.put_recurring("b"), act(ns))


BROKEN: dict[str, tuple[Callable[[Namespace], Any], str]] = {
    "a one-shot cancelled by RQ": (_one_shot(lambda g, job: g.redis.hset(job, "status", "canceled")), "QUARANTINED"),
    "a one-shot without its job": (_one_shot(lambda g, job: g.redis.delete(job)), "QUARANTINED"),
    "a one-shot whose job is of another type": (_one_shot(lambda g, job: g.redis.set(job, "x")), "QUARANTINED"),
    "a rule without its template": (_rule(lambda g: g.redis.delete(g.keys.template("b"))), "QUARANTINED"),
    "a rule with a template of another type": (
        _rule(lambda g: g.redis.set(g.keys.template("b"), "x")),
        "QUARANTINED",
    ),
    "a rule without a payload": (_rule(lambda g: g.redis.hdel(g.keys.template("b"), "data")), "QUARANTINED"),
    "a rule whose hash is of another type": (_rule(lambda g: g.redis.set(g.keys.schedule("b"), "x")), "WRONGTYPE"),
    "a queue of another type": (_rule(lambda g: g.redis.set(f"{RQ}:queue:default", "x")), "WRONGTYPE"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_run_now_of_a_broken_schedule_writes_nothing(ns: Namespace, broken: str) -> None:
    prepare, word = BROKEN[broken]
    prepare(ns)
    before = ns.keyspace()

    assert word == _run_now(ns, "b")[0]
    assert before == ns.keyspace()


# -- enqueue -----------------------------------------------------------------------------------------


def _enqueue(ns: Namespace, op: str = "op-1", fields: dict[str, str] = TEMPLATE, **over: Any) -> list[Any]:
    return ns.enqueue("e", fields, op=op, **over)


def test_a_run_is_queued_and_logged_whole(ns: Namespace) -> None:
    word, now_ms, version, run = _enqueue(ns)

    assert ("created", "0-1", f"e-{now_ms}", [run]) == (word, version, run, ns.queue())
    assert TEMPLATE.items() <= ns.job(run).items()
    assert "queued" == ns.job(run)["status"]
    assert {f"{RQ}:queue:default".encode()} == ns.redis.smembers(f"{RQ}:queues")
    entry = ns.last
    assert ("0-1", "enqueue", ["rows", "1", run, "0 4 -", *flat(TEMPLATE)]) == (entry.id, entry.kind, entry.texts)


def test_calls_for_one_id_in_the_same_millisecond_get_different_run_ids(ns: Namespace) -> None:
    ns.freeze()

    runs = [_enqueue(ns, op=f"o-{n}")[3] for n in range(41)]

    assert (41, runs) == (len(set(runs)), ns.queue())


def test_enqueue_at_front_puts_the_run_first(ns: Namespace) -> None:
    ns.redis.rpush(f"{RQ}:queue:default", "waiting")

    run = _enqueue(ns, at_front=1)[3]

    assert [run, "waiting"] == ns.queue()
    assert "1 4 -" == ns.last.texts[3]


@pytest.mark.parametrize("kind", ["one-shot", "recurring"])
def test_enqueue_replaces_a_waiting_schedule_of_its_id(ns: Namespace, kind: str) -> None:
    due_ms = ns.now_ms + HOUR_MS
    if kind == "recurring":
        ns.put_recurring("e")
    else:
        ns.put(("e", due_ms))

    assert "updated" == _enqueue(ns)[0]
    assert ({}, {}) == (ns.places(), ns.job(f"e-{due_ms}"))
    assert 0 == ns.redis.exists(ns.keys.schedule("e"), ns.keys.template("e"), ns.keys.recurring())


@pytest.mark.parametrize(("if_exists", "word"), [("keep", "kept"), ("error", "EXISTS")])
def test_enqueue_with_keep_or_error_leaves_a_waiting_schedule_alone(ns: Namespace, if_exists: str, word: str) -> None:
    ns.put(("e", "+60000"))

    reply = _enqueue(ns, if_exists=if_exists)

    assert [word, "-"] == [reply[0], reply[3]]
    assert ([], 1) == (ns.queue(), len(ns.entries()))


def test_a_queue_of_another_type_is_reported(ns: Namespace) -> None:
    ns.redis.set(f"{RQ}:queue:default", "x")

    assert "WRONGTYPE" == _enqueue(ns)[0]
    assert [] == ns.entries()


# -- a guarded id -------------------------------------------------------------------------------------


def _once(ns: Namespace, op: str, if_exists: str = "keep", **over: Any) -> list[Any]:
    """Enqueue with a guard of an hour."""
    return _enqueue(ns, op=op, if_exists=if_exists, fields=TEMPLATE | {"zs_unique": str(HOUR_MS)}, **over)


@pytest.mark.parametrize("fate", ["queued", "started", "finished", "failed", "gone", "canceled"])
def test_a_guarded_id_keeps_its_run_whatever_became_of_it_unless_it_was_cancelled(ns: Namespace, fate: str) -> None:
    run = _once(ns, "o-1")[3]
    if fate == "gone":
        ns.redis.delete(f"{RQ}:job:{run}")
    else:
        ns.redis.hset(f"{RQ}:job:{run}", "status", fate)

    refused, kept = _once(ns, "o-2", "error"), _once(ns, "o-3")

    is_free = fate == "canceled"
    assert refused[3] == kept[3]
    assert is_free == (run != kept[3])
    assert ("created" if is_free else "EXISTS", "kept") == (refused[0], kept[0])
    assert ([run, kept[3]] if is_free else [run], 1 + is_free) == (ns.queue(), len(ns.entries()))


def test_a_guard_ends_with_its_time_and_its_key_is_removed(ns: Namespace) -> None:
    _, now_ms, _, first = _once(ns, "o-1")
    key = f"{ns.keys.unique_prefix()}e"
    left_ms = ns.redis.pttl(key)
    ns.redis.set(key, f"{now_ms} {first}")  # as an hour later

    again = _once(ns, "o-2")

    assert HOUR_MS - (ns.server_ms - ns.began_ms) <= left_ms <= HOUR_MS
    assert ("created", 2) == (again[0], len(ns.queue()))
    assert ns.redis.get(key).endswith(again[3].encode())


@pytest.mark.parametrize("text", ["", "soon e-1", "99999999999999999999 e-1", "1900000000000", "1 e-1", None])
def test_another_programs_value_is_not_a_guard_and_is_replaced(ns: Namespace, text: str | None) -> None:
    key = f"{ns.keys.unique_prefix()}e"
    ns.redis.hset(key, "a", "b") if text is None else ns.redis.set(key, text)

    assert ["created", "kept"] == [_once(ns, op)[0] for op in ("o-1", "o-2")]


def test_a_call_that_replaces_neither_makes_nor_heeds_a_guard(ns: Namespace) -> None:
    _enqueue(ns, op="o-1")
    assert "created" == _once(ns, "o-2")[0]

    assert "created" == _enqueue(ns, op="o-3")[0]
    assert "kept" == _once(ns, "o-4")[0]


def test_a_guarded_call_sent_again_answers_as_at_first(ns: Namespace) -> None:
    first = _once(ns, "o-1")

    assert [str(one) for one in first] == _once(ns, "o-1")
