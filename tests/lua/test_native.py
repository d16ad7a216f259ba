"""native.lua: moves RQ's own due delayed jobs to their queues."""

import pytest
import rq
from rq import Queue, Retry
from rq.job import Job

from tests.builders.namespaces import Namespace
from tests.lua.delayed import LOCK_S, OURS, Reply, delay, native, waiting
from tests.prefix import RQ
from zsched.core.clock import from_ms

PATIENCE_MS = 7_000  # after which what is odd was looked at twice


def _is_later(reply: Reply) -> bool:
    return isinstance(reply.next_ms, int) and reply.next_ms > reply.now_ms


def _lock(ns: Namespace, queue: str = "default") -> bytes | None:
    held: bytes | None = ns.redis.get(f"{RQ}:scheduler-lock:{queue}")
    return held


def test_a_due_job_is_queued_as_rqs_scheduler_would(led: Namespace) -> None:
    delay(led, "a")
    led.redis.srem(f"{RQ}:queues", f"{RQ}:queue:default")

    reply = native(led)

    assert (1, 1, "", [], [], []) == (
        reply.pushed, reply.looked, reply.next_ms, reply.others, reply.broken, reply.odd
    )  # fmt: skip
    assert (["a"], []) == (led.queue(), waiting(led))
    assert {f"{RQ}:queue:default".encode()} == led.redis.smembers(f"{RQ}:queues")
    job = Job.fetch("a", connection=led.redis)
    assert ("queued", 180, "default") == (job.get_status(), job.timeout, job.origin)
    assert from_ms(reply.now_ms) == job.enqueued_at
    assert [] == led.entries()


def test_a_job_that_is_due_in_two_registries_is_pushed_once(led: Namespace) -> None:
    delay(led, "a")
    delay(led, "a", queue="mail")

    first = native(led, "default", "mail")
    led.pass_time(PATIENCE_MS)
    second = native(led, "default", "mail")

    assert (1, 0) == (first.pushed, second.pushed)
    assert (["a"], []) == (led.queue(), led.queue("mail"))
    assert ([], []) == (waiting(led), waiting(led, "mail"))


def test_a_moved_job_has_the_fields_that_rqs_scheduler_writes(led: Namespace) -> None:
    for id in ("ours", "rqs"):
        delay(led, id, queue=id, timeout=None, ttl=500, retry=Retry(max=3, interval=60), meta={"a": 1})
        led.redis.hdel(f"{RQ}:job:{id}", "timeout")
        led.redis.hset(f"{RQ}:job:{id}", "origin", "another")
        led.redis.persist(f"{RQ}:job:{id}")
    queue = Queue("rqs", connection=led.redis)

    native(led, "ours")
    queue._enqueue_job(Job.fetch("rqs", connection=led.redis))

    ours, rqs = (led.redis.hgetall(f"{RQ}:job:{id}") for id in ("ours", "rqs"))
    differing = {name for name in ours.keys() | rqs.keys() if ours.get(name) != rqs.get(name)}
    assert {b"origin", b"enqueued_at", b"created_at"} >= differing - {b"data", b"meta"}
    assert (b"180", b"ours") == (ours[b"timeout"], ours[b"origin"])
    assert 490 < led.redis.ttl(f"{RQ}:job:ours") <= 500


def test_the_next_due_time_is_the_earliest_of_all_queues(led: Namespace) -> None:
    delay(led, "a", in_s=3600)
    delay(led, "b", queue="other", in_s=60)
    earliest_ms = int(led.redis.zscore(f"{RQ}:scheduled:other", "b")) * 1000

    assert earliest_ms == native(led, "default", "other", "unknown").next_ms


def test_native_without_delayed_jobs_has_no_next_time_and_writes_only_the_lock(led: Namespace) -> None:
    before = led.keyspace().keys()

    assert "" == native(led).next_ms
    assert {f"{RQ}:scheduler-lock:default".encode()} == led.keyspace().keys() - before


def test_native_stops_at_its_limit_and_returns_the_current_time_as_the_next(led: Namespace) -> None:
    delay(led, "a", "b")
    delay(led, "c", "d", queue="other")
    delay(led, "e", queue="last")

    reply = native(led, "default", "other", "last", limit=3)

    assert (3, 3, reply.now_ms) == (reply.pushed, reply.looked, reply.next_ms)
    assert (["a", "b"], ["c"]) == (led.queue(), led.queue("other"))
    assert ([], ["d"], ["e"]) == (waiting(led), waiting(led, "other"), waiting(led, "last"))
    assert OURS.encode() == _lock(led, "last")


# -- whose queue it is --------------------------------------------------------------------------------


def test_a_queue_locked_by_another_scheduler_is_left_alone(led: Namespace) -> None:
    delay(led, "a")
    delay(led, "b", queue="other")
    led.redis.set(f"{RQ}:scheduler-lock:default", "worker-1", ex=60)
    before = led.redis.zrange(f"{RQ}:scheduled:default", 0, -1, withscores=True)

    reply = native(led, "default", "other")

    assert (["default", "worker-1"], 1) == (reply.others, reply.pushed)
    assert before == led.redis.zrange(f"{RQ}:scheduled:default", 0, -1, withscores=True)
    assert ([], ["b"], b"worker-1") == (led.queue(), led.queue("other"), _lock(led))
    assert led.redis.ttl(f"{RQ}:scheduler-lock:default") > LOCK_S


def test_native_takes_and_renews_its_scheduler_lock_and_leaves_its_queue_to_another_holder(led: Namespace) -> None:
    native(led)
    since_ms = led.server_ms
    led.redis.expire(f"{RQ}:scheduler-lock:default", 3)
    delay(led, "a")

    of_another_namespace = native(led, owner="zsched:other")
    assert (0, ["default", OURS]) == (of_another_namespace.pushed, of_another_namespace.others)
    native(led)

    assert OURS.encode() == _lock(led)
    assert led.is_life(f"{RQ}:scheduler-lock:default", LOCK_S, since_ms)


def test_only_own_scheduler_locks_are_released(led: Namespace) -> None:
    delay(led, "a")
    led.redis.set(f"{RQ}:scheduler-lock:default", OURS)
    led.redis.set(f"{RQ}:scheduler-lock:other", "worker-1")

    reply = native(led, "default", "other", lock_s=0)

    assert (0, ["a"], None, b"worker-1") == (reply.pushed, waiting(led), _lock(led), _lock(led, "other"))


def test_jobs_with_at_front_are_queued_first_by_their_time(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "waiting")
    delay(led, "back")
    delay(led, "front-1", "front-2", at_front=True)

    native(led)

    assert ["front-1", "front-2", "waiting", "back"] == led.queue()


@pytest.mark.parametrize(("ended_at", "queue"), [("", ["waiting", "a"]), ("2026-01-01T00:00:00Z", ["a", "waiting"])])
def test_a_retry_goes_to_the_front_from_the_second_attempt(led: Namespace, ended_at: str, queue: list[str]) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "waiting")
    delay(led, "a", retry=Retry(max=2, interval=60, enqueue_at_front=True))
    led.redis.hset(f"{RQ}:job:a", "ended_at", ended_at)
    is_at_front = Job.fetch("a", connection=led.redis).should_enqueue_at_front()

    native(led)

    assert queue == led.queue()
    assert is_at_front == (queue[0] == "a")


# -- what is odd --------------------------------------------------------------------------------------


def test_a_deleted_job_is_removed_from_its_registry_at_the_second_look(led: Namespace) -> None:
    delay(led, "a", "b")
    led.redis.delete(f"{RQ}:job:a")

    first, (left, score) = native(led), led.redis.zrange(f"{RQ}:scheduled:default", 0, 0, withscores=True)[0]
    led.pass_time(PATIENCE_MS)
    second = native(led)

    assert (1, [], b"a") == (first.pushed, first.odd, left)
    assert first.next_ms == score * 1000 > first.now_ms
    assert (0, ["default", "a", "gone"], "") == (second.pushed, second.odd, second.next_ms)
    assert (["b"], []) == (led.queue(), waiting(led))


@pytest.mark.parametrize("status", ["queued", "started", "finished", "failed", "canceled", "deferred", "strange", None])
def test_a_job_of_another_status_is_reported_and_not_queued_again(led: Namespace, status: str | None) -> None:
    delay(led, "a")
    if status is None:
        led.redis.hdel(f"{RQ}:job:a", "status")
    else:
        led.redis.hset(f"{RQ}:job:a", "status", status)
    before = led.redis.hgetall(f"{RQ}:job:a")

    assert (0, []) == (native(led).pushed, led.queue())
    led.pass_time(PATIENCE_MS)
    reply = native(led)

    assert (0, ["default", "a", status or "no status"]) == (reply.pushed, reply.odd)
    assert ([], [], before) == (led.queue(), waiting(led), led.redis.hgetall(f"{RQ}:job:a"))


def test_an_odd_job_is_checked_again_after_five_seconds_and_not_before(led: Namespace) -> None:
    delay(led, "a")
    led.redis.hset(f"{RQ}:job:a", "status", "started")
    first = native(led)
    assert isinstance(first.next_ms, int)

    led.pass_until(first.now_ms // 1000 * 1000 + 5000)
    before = native(led)
    led.pass_until(first.next_ms)
    after = native(led)

    assert (0, 1) == (before.looked, after.looked)
    assert first.now_ms // 1000 * 1000 + 5500 == first.next_ms


def test_a_job_whose_hash_rq_writes_after_the_registry_is_not_lost(led: Namespace) -> None:
    delay(led, "a")
    written = led.redis.hgetall(f"{RQ}:job:a")
    led.redis.delete(f"{RQ}:job:a")  # RQ 2 writes the registry at once, also where it was given a pipeline
    led.pass_time(1000)
    assert (0, []) == (native(led).pushed, native(led).odd)
    led.redis.hset(f"{RQ}:job:a", mapping=written)
    led.pass_time(PATIENCE_MS)

    assert 1 == native(led).pushed
    assert ["a"] == led.queue()


def test_a_job_key_of_a_wrong_type_does_not_block_other_jobs(led: Namespace) -> None:
    delay(led, "a", "b", "c")
    for id in ("a", "b"):
        led.redis.delete(f"{RQ}:job:{id}")
        led.redis.lpush(f"{RQ}:job:{id}", "x")

    replies = [native(led, limit=1) for _ in range(3)]

    assert [0, 0, 1] == [reply.pushed for reply in replies]
    assert [["default", "a", "WRONGTYPE"], ["default", "b", "WRONGTYPE"], []] == [reply.odd for reply in replies]
    assert (["c"], ["a", "b"]) == (led.queue(), waiting(led))
    assert _is_later(replies[2])
    led.pass_time(PATIENCE_MS)
    again = native(led)
    assert ([], ["a", "b"]) == (again.odd, waiting(led))
    assert _is_later(again)


@pytest.mark.parametrize("key", [f"{RQ}:scheduled:default", f"{RQ}:queue:default", f"{RQ}:scheduler-lock:default"])
def test_a_queue_with_a_key_of_a_wrong_type_does_not_stop_other_queues(led: Namespace, key: str) -> None:
    delay(led, "a")
    delay(led, "b", queue="other")
    led.redis.delete(key)
    led.redis.hset(key, "x", "y")
    before = led.redis.dump(key), led.redis.dump(f"{RQ}:scheduled:default")

    reply = native(led, "default", "other")

    assert (["default", key], 1, "") == (reply.broken, reply.pushed, reply.next_ms)
    assert ["b"] == led.queue("other")
    assert before == (led.redis.dump(key), led.redis.dump(f"{RQ}:scheduled:default"))


@pytest.mark.parametrize("ttl", ["0", "-1", "abc", "1.5", "9" * 30])
def test_a_corrupted_time_to_live_or_set_of_queues_is_ignored(led: Namespace, ttl: str) -> None:
    delay(led, "a")
    led.redis.hset(f"{RQ}:job:a", "ttl", ttl)
    led.redis.set(f"{RQ}:queues", "x")

    assert (1, -1, ["a"]) == (native(led).pushed, led.redis.ttl(f"{RQ}:job:a"), led.queue())


@pytest.mark.parametrize("score", ["+inf", "-inf", "1e300", "-5", "1.5"])
def test_a_corrupted_score_in_a_registry_does_no_harm(led: Namespace, score: str) -> None:
    delay(led, "a")
    led.redis.zadd(f"{RQ}:scheduled:default", {"a": float(score)})

    reply = native(led)

    assert reply.next_ms == ""
    assert (reply.pushed == 1) == (float(score) < 2)


# -- rate limits of RQ --------------------------------------------------------------------------------

limited = pytest.mark.skipif(not hasattr(rq, "RateLimit"), reason="RQ 2 has no rate limits")


def limit(ns: Namespace, *ids: str, most: int = 2, key: str = "mail") -> None:
    for id in ids:
        ns.redis.hset(f"{RQ}:job:{id}", mapping={"rate_limit_key": key, "rate_limit_concurrency": most})


def slots(ns: Namespace, key: str = "mail") -> tuple[list[str], list[str]]:
    """Return the jobs with a slot, and the jobs that wait for one."""
    allowed, held = (ns.redis.zrange(f"{RQ}:rl:{key}:{of}", 0, -1) for of in ("allowed", "rate_limited"))
    return [id.decode() for id in allowed], [id.decode() for id in held]


@limited
def test_a_job_with_a_rate_limit_has_the_fields_and_keys_that_rqs_scheduler_writes(led: Namespace) -> None:
    for id in ("ours", "rqs"):
        ids = [f"{id}{n}" for n in range(3)]
        delay(led, *ids, queue=id, timeout=None, ttl=500)
        limit(led, *ids, key=id)
    queue, since_ms = Queue("rqs", connection=led.redis), led.server_ms

    reply = native(led, "ours")
    for n in range(3):
        queue._enqueue_rate_limited_job(Job.fetch(f"rqs{n}", connection=led.redis))

    assert (3, []) == (reply.pushed, reply.odd)
    assert (["ours0", "ours1"], ["rqs0", "rqs1"]) == (led.queue("ours"), led.queue("rqs"))
    assert (["ours0", "ours1"], ["ours2"]) == slots(led, "ours")
    assert led.redis.hgetall(f"{RQ}:rl:rqs") == led.redis.hgetall(f"{RQ}:rl:ours")
    assert {b"ours", b"rqs"} == led.redis.smembers(f"{RQ}:rl-keys")
    for n in range(3):
        ours, rqs = (led.redis.hgetall(f"{RQ}:job:{id}{n}") for id in ("ours", "rqs"))
        differing = {name for name in ours.keys() | rqs.keys() if ours.get(name) != rqs.get(name)}
        assert {b"origin", b"enqueued_at", b"created_at", b"rate_limit_key"} >= differing - {b"data", b"meta"}
        assert all(led.is_life(f"{RQ}:job:{id}{n}", 500, since_ms) for id in ("ours", "rqs"))


@limited
def test_jobs_wait_for_a_slot_in_the_order_of_their_times_also_beside_rqs_jobs(led: Namespace) -> None:
    from rq.rate_limit import RateLimitRegistry  # RQ 2 has none

    ids = [f"j{n}" for n in range(9)]
    for n, id in enumerate(reversed(ids)):
        delay(led, id, in_s=n - 20)
    limit(led, *ids, most=1)
    native(led)
    order = led.queue()

    while slots(led)[0]:
        [id] = slots(led)[0]
        RateLimitRegistry("mail", connection=led.redis).release_and_enqueue(id)
        order += led.queue()[len(order) :]

    assert ids[::-1] == order


@limited
@pytest.mark.parametrize(
    "key", [f"{RQ}:rl-keys", f"{RQ}:rl:mail", f"{RQ}:rl:mail:allowed", f"{RQ}:rl:mail:rate_limited"]
)
def test_a_limit_with_a_key_of_a_wrong_type_does_not_stop_other_jobs(led: Namespace, key: str) -> None:
    delay(led, "a", "b")
    limit(led, "a")
    led.redis.set(key, "x")

    reply = native(led)

    assert (1, ["default", "a", "WRONGTYPE"]) == (reply.pushed, reply.odd)
    assert (["b"], ["a"]) == (led.queue(), waiting(led))


@limited
def test_a_deleted_job_or_a_job_for_a_queue_of_a_wrong_type_takes_no_slot(led: Namespace) -> None:
    delay(led, "a")
    limit(led, "a", most=1)
    led.redis.zadd(f"{RQ}:rl:mail:rate_limited", {"gone": 1, "stuck": 2})
    led.redis.hset(f"{RQ}:job:stuck", mapping={"status": "rate_limited", "origin": "odd"})
    led.redis.set(f"{RQ}:queue:odd", "x")

    native(led)

    assert ([], ["stuck", "a"]) == slots(led)


@limited
@pytest.mark.parametrize("fields", [("", 2), ("mail", ""), ("mail", 0), ("mail", "many"), ("mail", -1)])
def test_a_job_with_an_invalid_limit_is_pushed(led: Namespace, fields: tuple[str, object]) -> None:
    delay(led, "a")
    led.redis.hset(f"{RQ}:job:a", mapping={"rate_limit_key": fields[0], "rate_limit_concurrency": str(fields[1])})

    assert 1 == native(led).pushed
    assert ["a"] == led.queue()


@pytest.mark.parametrize(("flag", "is_at_front"), [("", False), ("0", False), ("-1", True), ("1", True)])
def test_a_flag_in_a_job_counts_as_rq_reads_it(led: Namespace, flag: str, is_at_front: bool) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "waiting")
    delay(led, "a")
    led.redis.hset(f"{RQ}:job:a", "enqueue_at_front", flag)

    native(led)

    assert is_at_front == (led.queue()[0] == "a")
