"""RQ's rate limits: every script that pushes a run hands it to its limit, like RQ itself."""

from collections.abc import Callable

import pytest
import rq
from rq import Queue
from rq.job import Job

from tests.builders.namespaces import FIELDS, HOUR_MS, TEMPLATE, Namespace, put_due
from tests.builders.records import open_run, texts_of
from tests.lua import restoring
from tests.lua.chained import QUEUE, A, B, chain, jobs, unblock
from tests.lua.overlapping import advance, becomes, put
from tests.lua.test_backfill import backfill
from tests.lua.test_cancel_run import FACTS
from tests.lua.test_lost import again, end, job, lose
from tests.lua.test_native import slots
from tests.lua.test_retry import retry
from tests.prefix import RQ

KEY = "mail"
LIMIT = {"rate_limit_key": KEY, "rate_limit_concurrency": "1"}
LIMITED = FIELDS | LIMIT | {"zs": "1l"}
ALLOWED, WAITING = f"{RQ}:rl:{KEY}:allowed", f"{RQ}:rl:{KEY}:rate_limited"
KEYS = [f"{RQ}:rl-keys", f"{RQ}:rl:{KEY}", ALLOWED, WAITING]


def take_slot(ns: Namespace, name: str = "other") -> None:
    """Let another job of RQ take the slot."""
    ns.redis.hset(ns.keys.rq.job(name), mapping={"status": "started"})
    ns.redis.zadd(ALLOWED, {name: 1})


def _fire(ns: Namespace) -> str:
    [run] = put_due(ns, "a", **LIMITED)
    ns.fire()
    return run


def _advance(ns: Namespace) -> str:
    put(ns, template=LIMIT, policy="l")
    return advance(ns, "allow")[1]


def _run_now_once(ns: Namespace) -> str:
    ns.put(("a", ns.now_ms + HOUR_MS), fields=LIMITED)
    return str(ns.call("run_now", id="a")[-1])


def _run_now_of_a_rule(ns: Namespace) -> str:
    ns.put_recurring("r", template=LIMIT)
    return str(ns.call("run_now", id="r")[-1])


def _enqueue(ns: Namespace) -> str:
    return str(ns.enqueue("e", TEMPLATE | LIMIT)[3])


def _retry(ns: Namespace) -> str:
    ns.redis.hset(ns.keys.rq.job("a-1700000000000"), mapping=TEMPLATE | LIMIT | {"status": "failed"})
    return str(retry(ns)[2])


def _backfill(ns: Namespace) -> str:
    ns.put_recurring("r", template=LIMIT)
    return str(backfill(ns, 1_700_000_000_000)[-1])


def _restore(ns: Namespace) -> str:
    job = texts_of(LIMITED | {"data": "call"})
    lost = open_run(run="1700000000000", job=job)
    restoring.restore(ns, lost)
    return "a-1700000000000"


def _lost(ns: Namespace) -> str:
    ns.put(("waits", "+60000"))
    job(ns, "r-1767225600000", retries_left="2", data="call", **LIMIT)
    ns.redis.hdel(ns.keys.rq.job("r-1767225600000"), "enqueued_at")
    lose(ns, ns.last, again("r-1767225600000"))
    return "r-1767225600000"


def _unblock(ns: Namespace) -> str:
    jobs(ns, "stopped", "deferred", timeout="180", **LIMIT)
    chain(ns, QUEUE)
    unblock(ns)
    return B


LAUNCHES: dict[str, Callable[[Namespace], str]] = {
    "fire": _fire, "advance": _advance, "run_now of a one-shot": _run_now_once, "run_now of a rule": _run_now_of_a_rule,
    "enqueue": _enqueue, "retry": _retry, "backfill": _backfill, "restore": _restore, "lost": _lost,
    "unblock": _unblock,
}  # fmt: skip
each_launch = pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)


@pytest.mark.parametrize("is_full", [False, True], ids=["with a slot", "without a slot"])
@each_launch
def test_a_run_waits_while_all_slots_are_taken(
    led: Namespace, launch: Callable[[Namespace], str], is_full: bool
) -> None:
    if is_full:
        take_slot(led)

    run = launch(led)

    assert ((["other"], [run]) if is_full else ([run], [])) == slots(led)
    assert ([] if is_full else [run]) == led.queue()
    assert ("rate_limited" if is_full else "queued") == led.job(run)["status"]
    assert is_full == ("enqueued_at" not in led.job(run))
    assert {KEY.encode()} == led.redis.smembers(f"{RQ}:rl-keys")
    assert {b"concurrency": b"1"} == led.redis.hgetall(f"{RQ}:rl:{KEY}")


@pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")
@pytest.mark.parametrize("is_full", [False, True], ids=["with a slot", "without a slot"])
@each_launch
def test_a_run_has_the_fields_and_keys_of_rqs_own(
    led: Namespace, launch: Callable[[Namespace], str], is_full: bool
) -> None:
    if is_full:
        take_slot(led)
        led.redis.hset(f"{RQ}:job:rqs-other", "status", "started")
        led.redis.zadd(f"{RQ}:rl:rqs:allowed", {"rqs-other": 1})
    run = launch(led)
    led.redis.copy(led.keys.rq.job(run), f"{RQ}:job:theirs")
    led.redis.hset(f"{RQ}:job:theirs", mapping={"status": "scheduled", "rate_limit_key": "rqs", "data": "call"})
    led.redis.hdel(f"{RQ}:job:theirs", "enqueued_at")

    Queue("rqs", connection=led.redis)._enqueue_rate_limited_job(Job.fetch("theirs", connection=led.redis))

    led.redis.hdel(f"{RQ}:job:theirs", "data")  # packed
    ours, theirs = led.job(run), led.job("theirs")
    differing = {name for name in ours | theirs if (ours.get(name) or "") != (theirs.get(name) or "")}
    assert {"origin", "enqueued_at", "rate_limit_key", "data"} >= differing
    assert ("enqueued_at" in theirs) == ("enqueued_at" in ours) == (not is_full)
    assert led.redis.hgetall(f"{RQ}:rl:rqs") == led.redis.hgetall(f"{RQ}:rl:{KEY}")
    assert [len(ids) for ids in slots(led, "rqs")] == [len(ids) for ids in slots(led)]


@each_launch
@pytest.mark.parametrize("key", KEYS)
def test_a_run_is_not_pushed_past_a_broken_limit(led: Namespace, launch: Callable[[Namespace], str], key: str) -> None:
    led.redis.set(key, "x")

    launch(led)

    assert ([], b"x") == (led.queue(), led.redis.get(key))


@pytest.mark.parametrize("key", KEYS)
def test_a_one_shot_is_quarantined_with_the_limits_key_that_is_of_a_wrong_type(led: Namespace, key: str) -> None:
    led.redis.set(key, "x")
    put_due(led, "a", **LIMITED)
    put_due(led, "b")

    fired = led.fire()

    assert ([["a", f"wrong type at {key} (string)"]], 1) == (fired.quarantined, fired.runs)


def test_a_rule_is_quarantined_with_the_limits_key_that_is_of_a_wrong_type(led: Namespace) -> None:
    led.redis.set(ALLOWED, "x")
    put(led, template=LIMIT, policy="l")

    word, _ = advance(led, "allow")

    assert ("quarantined", f"quarantine normal {led.schedule('r')['nominal']}") == (word, led.places()["r"])
    assert [f"wrong type at {ALLOWED} (string)"] == [row.split(" ", 6)[6] for row in led.last.rows]


def test_runs_wait_for_a_slot_in_the_order_of_their_times_also_beside_runs_without_a_limit(led: Namespace) -> None:
    first_ms = led.now_ms - 1000
    limited = [(f"j{n}", first_ms + n) for n in range(9)]
    led.put(*reversed(limited), fields=LIMITED | {"rate_limit_concurrency": "2"}, allow_past=1)
    put_due(led, "free")

    fired = led.fire()

    runs = [f"{id}-{due_ms}" for id, due_ms in limited]
    assert (10, runs[:2], runs[2:]) == (fired.runs, *slots(led))
    assert {*runs[:2]} < {*led.queue()}
    assert 3 == len(led.queue())
    logged = led.last.fields["runs"].split()
    assert (10, runs) == (len(logged), [run for run in logged if run in runs])


def test_a_limited_run_with_the_front_flag_waits_and_is_pushed_to_the_front(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "others")
    put_due(led, "a", **LIMITED | {"zs": "1fl"})
    put_due(led, "b", **LIMITED | {"zs": "1fl"})

    led.fire()

    [first], [second] = slots(led)
    assert [first, "others"] == led.queue()
    assert ("1", "1") == (led.job(first)["enqueue_at_front"], led.job(second)["enqueue_at_front"])


def test_a_limited_run_keeps_its_deadline_and_its_mark_while_it_waits(led: Namespace) -> None:
    take_slot(led)
    [run] = put_due(led, "a", **LIMITED | {"zs": "1el", "zs_expires": str(HOUR_MS)})
    led.redis.hset(led.keys.meta(), "doubt", led.now_ms)

    fired = led.fire()

    assert (1, "1") == (fired.uncertain, led.job(run)["zs_uncertain"])
    assert HOUR_MS - 10_000 < led.redis.pttl(led.keys.rq.job(run)) <= HOUR_MS
    assert [run.encode()] == led.redis.zrange(led.keys.deadlines(), 0, -1)


def test_a_run_with_the_flag_of_a_limit_but_no_limit_is_pushed(led: Namespace) -> None:
    [run] = put_due(led, "a", zs="1l")

    led.fire()

    assert ([run], ([], [])) == (led.queue(), slots(led))


def test_the_newest_number_of_slots_counts(led: Namespace) -> None:
    first_ms = led.now_ms - 1000
    led.put(("a", first_ms), fields=LIMITED, allow_past=1)
    led.put(("b", first_ms + 1), fields=LIMITED | {"rate_limit_concurrency": "3"}, allow_past=1)

    led.fire()

    assert (2, 0) == tuple(len(runs) for runs in slots(led))
    assert {b"concurrency": b"3"} == led.redis.hgetall(f"{RQ}:rl:{KEY}")


def test_a_script_queues_at_most_a_thousand_waiting_jobs_of_all_limits(led: Namespace) -> None:
    for key in ("a", "b"):
        led.redis.sadd(f"{RQ}:rl-keys", key)
        with led.redis.pipeline(transaction=False) as pipeline:
            for n in range(600):
                pipeline.hset(f"{RQ}:job:{key}{n}", mapping={"status": "rate_limited", "origin": "default"})
                pipeline.zadd(f"{RQ}:rl:{key}:rate_limited", {f"{key}{n}": n})
            pipeline.execute()
    rows = [(key, led.now_ms - 1000) for key in ("a", "b")]
    for row in rows:
        limit = {"rate_limit_key": row[0], "rate_limit_concurrency": "10000"}
        led.put(row, fields=FIELDS | limit | {"zs": "1l"}, allow_past=1)

    led.fire()

    assert 997 < len(led.queue()) <= 1000
    assert 1202 == len(led.queue()) + sum(len(slots(led, key)[1]) for key in ("a", "b"))


def test_a_lost_run_comes_back_into_its_queue_with_its_slot_unless_it_ends(led: Namespace) -> None:
    run = "r-1767225600000"
    take_slot(led, run)
    assert run == _lost(led)
    assert (([run], []), [run]) == (slots(led), led.queue())

    led.redis.delete(f"{RQ}:queue:default")
    job(led, run, data="call", **LIMIT)
    lose(led, led.last, end(run))

    assert ([], "failed") == (led.queue(), led.job(run)["status"])


def test_a_throttled_run_is_handed_to_its_limit_when_its_queue_has_room(led: Namespace) -> None:
    led.limit(default=1)
    put_due(led, "a", "b", **LIMITED)

    first = led.fire()
    led.pass_time(1000)
    second = led.fire()

    assert (1, 1) == (first.runs, second.runs)
    assert [1, 1] == [len(runs) for runs in slots(led)]


# -- runs that wait ------------------------------------------------------------------------------------


def cancel_run(ns: Namespace, run: str) -> str:
    id, status = run.rpartition("-")[0], ns.job(run)["status"]
    seen = f"{status} {ns.job(run).get('enqueued_at', '')}"
    return str(ns.call("cancel_run", [id, run, seen, FACTS], most_waiting=50)[1])


@pytest.mark.parametrize("word", ["cancelled", "TAKEN", "BROKEN"])
def test_a_run_that_waits_for_a_slot_is_cancelled_unless_it_just_got_one_or_has_none(led: Namespace, word: str) -> None:
    take_slot(led)
    run = _fire(led)
    if word == "TAKEN":
        led.redis.zrem(WAITING, run)
    elif word == "BROKEN":
        led.redis.hdel(led.keys.rq.job(run), "rate_limit_key")

    assert word == cancel_run(led, run)

    assert (["other"], [run] if word == "BROKEN" else []) == slots(led)
    is_cancelled = word == "cancelled"
    assert is_cancelled == (led.job(run)["status"] == "canceled") == (led.last.kind == "end")


def test_a_run_that_waits_for_a_slot_is_withdrawn_for_the_next_run(led: Namespace) -> None:
    take_slot(led)
    put(led, template=LIMIT, policy="l")
    _, first = advance(led, "cancel_previous")

    word, second = advance(led, "cancel_previous")
    unblock(led)

    assert ("fired", (["other"], [second]), "canceled") == (word, slots(led), led.job(first)["status"])


def test_a_withdrawn_run_without_a_place_stays_in_its_chain(led: Namespace) -> None:
    jobs(led, "rate_limited", "queued")
    led.redis.hset(led.keys.rq.job(B), "origin", "")
    chain(led, f"cancel_previous {A} {B}")

    assert {} == unblock(led)
    assert f"cancel_previous {A} {B}" == chain(led)


def test_a_run_that_waits_for_a_slot_counts_as_overlap_for_an_hour(led: Namespace) -> None:
    take_slot(led)
    put(led, template=LIMIT, policy="l")
    _, first = advance(led, "skip")

    assert "overlap" == advance(led, "skip")[0]
    led.pass_time(HOUR_MS + 1)
    assert "fired" == advance(led, "skip")[0]
    assert first in slots(led)[1]


def test_a_deferred_run_of_a_wrong_limit_stays_deferred(led: Namespace) -> None:
    led.redis.set(ALLOWED, "x")

    _unblock(led)

    assert "deferred" == led.job(B)["status"]


def test_a_chained_run_is_deferred_without_a_slot_and_asks_for_one_when_it_is_released(led: Namespace) -> None:
    put(led, template=LIMIT, policy="l")
    _, first = advance(led, "queue")
    word, second = advance(led, "queue")
    deferred = (word, slots(led), led.job(second)["status"])

    becomes(led, first, "canceled")
    unblock(led)

    assert ("deferred", ([first], []), "deferred") == deferred
    assert ([first], [second]) == slots(led)
