"""put.lua over an existing run, job or schedule: fired runs, repairs, other states, updates and signatures."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, HOUR_MS, Namespace
from tests.prefix import RQ


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        *(
            ({"status": status, "data": "old", "zs": "1"}, "already_fired")
            for status in ("queued", "started", "finished", "failed", "canceled")
        ),
        ({"status": "finished"}, "already_fired"),  # a worker's fields alone
        ({"status": "queued", "last_heartbeat": "x"}, "already_fired"),
        ({"last_heartbeat": "x"}, "already_fired"),
        ({"data": "theirs", "status": "finished"}, "TAKEN"),  # a foreign job
        ({"data": "theirs", "enqueued_at": "x"}, "TAKEN"),
        ({"data": "theirs", "status": "later"}, "TAKEN"),
    ],
    ids=str,
)
def test_a_put_whose_run_exists_in_rq_leaves_it_alone(ns: Namespace, fields: dict[str, str], word: str) -> None:
    due_ms = ns.now_ms + HOUR_MS
    ns.redis.hset(f"{RQ}:job:a-{due_ms}", mapping=fields)

    words = ns.put(("a", due_ms, "new"), ("b", due_ms))

    assert [(word, str(due_ms)), ("created", str(due_ms))] == words
    assert (fields, {"b": f"normal {due_ms}"}) == (ns.job(f"a-{due_ms}"), ns.places())


def _forge(**fields: str) -> Callable[[Namespace, str], Any]:
    return lambda ns, run: ns.redis.hset(ns.keys.rq.job(run), mapping=fields)


def _lose(ns: Namespace, run: str) -> None:
    ns.put_later("a")
    ns.redis.delete(ns.keys.rq.job(run))


def _misplace(ns: Namespace, run: str) -> None:
    ns.put_later("a", fields=FIELDS | {"result_ttl": "60"})
    ns.redis.zrem(ns.keys.due_normal(), "a")


def _quarantine(ns: Namespace, run: str) -> None:
    ns.redis.hset(ns.keys.quarantine(), "a", f"normal {ns.now_ms + HOUR_MS} 1 its hash is gone")


REPAIRED: dict[str, tuple[Callable[[Namespace, str], Any], str]] = {
    "a forged hash": (_forge(x="1"), "created"),
    "a forged hash that is scheduled": (_forge(status="scheduled", x="1"), "created"),
    "a forged hash with empty fields": (_forge(status="", started_at=""), "created"),
    "a schedule without its hash": (_lose, "updated"),
    "a hash that is in no lane": (_misplace, "created"),
    "a schedule in quarantine": (_quarantine, "updated"),
    "a recurring schedule": (lambda ns, run: ns.put_recurring("a"), "updated"),
}


@pytest.mark.parametrize("there", REPAIRED)
def test_a_put_repairs_or_replaces_what_is_there(ns: Namespace, there: str) -> None:
    ns.freeze()
    due_ms = ns.now_ms + HOUR_MS
    prepare, word = REPAIRED[there]
    prepare(ns, f"a-{due_ms}")

    assert [(word, str(due_ms))] == ns.put(("a", due_ms))

    assert {"a": f"normal {due_ms}"} == ns.places()
    job = ns.job(f"a-{due_ms}")
    assert FIELDS | {"data": "call", "status": "scheduled", "created_at": job["created_at"]} == job
    assert 0 == ns.redis.exists(ns.keys.recurring(), ns.keys.schedule("a"), ns.keys.template("a"))


@pytest.mark.parametrize(
    ("lane", "later_ms", "word"),
    [("normal", 0, "already_fired"), ("high", 0, "already_fired"), ("normal", 1, "updated")],
)
def test_a_put_keeps_a_run_that_rq_cancelled(ns: Namespace, lane: str, later_ms: int, word: str) -> None:
    due_ms = ns.put_later("a")
    ns.redis.hset(f"{RQ}:job:a-{due_ms}", "status", "canceled")

    words = ns.put(("a", due_ms + later_ms, "other"), lane=lane)

    assert [(word, str(due_ms + later_ms))] == words
    assert "canceled" == ns.job(f"a-{due_ms}")["status"]
    assert later_ms == 0 or {"a": f"normal {due_ms + later_ms}"} == ns.places()


def test_a_key_of_another_type_at_the_run_is_reported_and_the_rest_is_put(ns: Namespace) -> None:
    due_ms = ns.now_ms + HOUR_MS
    ns.redis.rpush(f"{RQ}:job:bad-{due_ms}", "x")

    words = ns.put(("bad", due_ms), ("good", due_ms))

    assert ["WRONGTYPE", "created"] == [word for word, _ in words]
    assert ["good"] == list(ns.places())


@pytest.mark.parametrize(("later_ms", "lane", "word"), [(0, "normal", "unchanged"), (7, "low", "updated")])
def test_a_put_never_resumes_a_paused_schedule(ns: Namespace, later_ms: int, lane: str, word: str) -> None:
    due_ms = ns.put_later("a")
    ns.call("pause", ["a"], note="why not")
    paused_at = ns.redis.hget(ns.keys.paused(), "a").split()[2].decode()

    words = ns.put(("a", due_ms + later_ms), lane=lane)

    assert [(word, str(due_ms + later_ms))] == words
    assert {"a": f"paused {lane} {due_ms + later_ms}"} == ns.places()
    held = ns.redis.hget(ns.keys.paused(), "a").decode()
    assert f"{lane} {due_ms + later_ms} {paused_at} why not" == held


@pytest.mark.parametrize("meanwhile", ["nothing", "another put", "a cancel"])
def test_a_put_is_written_only_if_its_version_is_the_present_one(ns: Namespace, meanwhile: str) -> None:
    due_ms = ns.put_later("a")
    seen = _version(ns)
    if meanwhile == "another put":
        ns.put(("a", due_ms, "of somebody else"))
    elif meanwhile == "a cancel":
        ns.call("cancel", ["a"])
    before, present = ns.keyspace(), "-" if meanwhile == "a cancel" else _version(ns)

    [(word, _)] = ns.put(("a", due_ms + 1, "mine"), seen_version=seen)

    assert ("updated" if meanwhile == "nothing" else f"CHANGED:{present}") == word
    assert (meanwhile != "nothing") == (before == ns.keyspace())


def _version(ns: Namespace) -> str:
    """Return the version of one-shot a."""
    return ns.job(ns.run("a", ns.places()["a"].split()[-1]))["created_at"]


DUE_MS = 1_900_000_000_000
SIGNATURE, OTHER = f"k1.06d2d3800.{'A' * 22}", f"k2.06d2d3800.{'+/' * 11}"
UNSIGNED = "data"


def test_a_signed_one_shot_has_its_signature_beside_its_data(ns: Namespace) -> None:
    ns.put(("a", DUE_MS, "call", SIGNATURE), ("b", DUE_MS, SIGNATURE), ("c", DUE_MS, "call", OTHER))

    jobs = [ns.job(f"{id}-{DUE_MS}") for id in "abc"]
    assert [("call", SIGNATURE), (SIGNATURE, None), ("call", OTHER)] == [
        (job["data"], job.get("zs_sig")) for job in jobs
    ]
    rows = ["a", str(DUE_MS), SIGNATURE, "call", "b", str(DUE_MS), "data", SIGNATURE, "c", str(DUE_MS), OTHER, "call"]
    assert rows == ns.last.texts[-len(rows) :]


@pytest.mark.parametrize(
    ("before", "data", "name", "word"),
    [
        (SIGNATURE, "call", SIGNATURE, "unchanged"),
        (SIGNATURE, "call", OTHER, "updated"),
        (SIGNATURE, "call", UNSIGNED, "updated"),
        (SIGNATURE, "x", SIGNATURE, "updated"),
        (UNSIGNED, "call", UNSIGNED, "unchanged"),
        (UNSIGNED, "call", SIGNATURE, "updated"),
    ],
)
def test_an_equal_one_shot_with_an_equal_signature_is_unchanged(
    ns: Namespace, before: str, data: str, name: str, word: str
) -> None:
    ns.put(("a", DUE_MS, "call", before))

    assert [(word, str(DUE_MS))] == ns.put(("a", DUE_MS, data, name))
    assert (1 if word == "unchanged" else 2) == len(ns.entries())
    assert (data, name) == (ns.job(f"a-{DUE_MS}")["data"], ns.job(f"a-{DUE_MS}").get("zs_sig", UNSIGNED))


def test_a_delay_that_the_caller_computed_may_have_passed(ns: Namespace) -> None:
    past = ns.now_ms - 5

    words = ns.put(("a", f"={past}", "call", SIGNATURE), ("b", past, "call", SIGNATURE))

    assert [("created", str(past)), ("PAST", str(past))] == words


def test_a_signed_rule_has_its_signature_in_its_template(ns: Namespace) -> None:
    def put(id: str, name: str) -> str:
        return str(ns.put_recurring(id, DUE_MS, name=name)[0])

    assert ["created", "unchanged", "updated"] == [put("r", name) for name in (SIGNATURE, SIGNATURE, OTHER)]
    assert OTHER == ns.template("r")["zs_sig"]
    assert [OTHER, "call"] == ns.last.texts[-2:]
    assert ["updated", "unchanged"] == [put("r", UNSIGNED), put("r", UNSIGNED)]
    assert "zs_sig" not in ns.template("r")


def test_a_run_that_is_enqueued_has_the_signed_time_or_none(ns: Namespace) -> None:
    first, second = (ns.enqueue("e", FIELDS, run_ms=DUE_MS) for _ in range(2))

    assert (f"e-{DUE_MS}", "AGAIN") == (first[-1], second[0])
