"""fire.lua: due one-shots to their RQ queues, due recurring schedules to the caller."""

import pytest
import redis
from rq.job import Job

from tests.builders.namespaces import EPOCH, Namespace, put_due
from tests.prefix import RQ
from zsched.core.clock import from_ms


def test_a_due_one_shot_moves_from_its_lane_to_its_queue(led: Namespace) -> None:
    [run] = put_due(led, "a")

    fired = led.fire()

    assert (1, 1, "", 0) == (fired.runs, fired.looked, fired.next_ms, fired.uncertain)
    assert [run] == led.queue()
    assert {} == led.places()
    assert {f"{RQ}:queue:default".encode()} == led.redis.smembers(f"{RQ}:queues")
    job = led.job(run)
    enqueued_at = from_ms(fired.now_ms).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"
    assert ("queued", enqueued_at, "call") == (job["status"], job["enqueued_at"], job["data"])
    assert "zs_uncertain" not in job


@pytest.mark.parametrize("sizes", [(70, 70, 70), (1, 100, 3, 90), (32, 33, 31, 64), (200,)], ids=str)
@pytest.mark.parametrize("limit", [200, 90, 33])
def test_many_one_shots_at_few_times_go_in_their_order(led: Namespace, sizes: tuple[int, ...], limit: int) -> None:
    due_ms = led.now_ms - 1000
    rows = [(f"a{n:03}", due_ms + time) for time, size in enumerate(sizes) for n in range(size)]
    rows = [(f"{id}t{at}", at) for id, at in rows]
    led.put(*rows, allow_past=1)

    looked = []
    while len(led.queue()) < len(rows):
        looked.append(led.fire(limit=limit).looked)

    assert [f"{id}-{at}" for id, at in rows] == led.queue()
    assert [limit] * (len(rows) // limit) == looked[: len(rows) // limit]


def test_fire_with_nothing_due_writes_nothing_and_returns_the_next_time(led: Namespace) -> None:
    assert "" == led.fire().next_ms
    due_ms = led.put_later("low", lane="low")
    led.put(("high", due_ms + 5), lane="high")
    before = led.keyspace()

    fired = led.fire()

    assert (0, 0, due_ms) == (fired.runs, fired.looked, fired.next_ms)
    assert before == led.keyspace()


def test_fire_never_fires_a_run_before_its_due_millisecond(led: Namespace) -> None:
    led.put(("a", led.now_ms + 60_000))

    led.pass_time(59_999)
    early = led.fire()
    led.pass_time(1)

    assert (0, 1) == (early.runs, led.fire().runs)


def test_lanes_fire_high_before_normal_before_low_and_each_by_due_time_also_if_a_batch_is_limited(
    led: Namespace,
) -> None:
    low = put_due(led, "l1", "l2", lane="low")
    normal = put_due(led, "n1", "n2")
    high = put_due(led, "h1", "h2", lane="high")

    first = led.fire(limit=5)

    assert (5, 5, first.now_ms) == (first.runs, first.looked, first.next_ms)
    assert ([*high, *normal, low[0]], ["l2"]) == (led.queue(), list(led.places()))
    assert (f"{EPOCH}-4", "fire", ["runs", " ".join(led.queue())]) == (led.last.id, led.last.kind, led.last.texts)
    assert led.last.t.startswith(str(first.now_ms))
    assert 1 == led.fire().runs
    assert [*high, *normal, *low] == led.queue()


def test_runs_with_the_front_flag_are_queued_before_the_others_by_due_time(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "waiting")
    front = put_due(led, "f1", "f2", zs="1f")
    [back] = put_due(led, "b")

    led.fire()

    assert [*front, "waiting", back] == led.queue()


def test_a_run_goes_to_the_queue_of_its_origin(led: Namespace) -> None:
    [push] = put_due(led, "a", origin="push")
    [sms] = put_due(led, "b", origin="sms")

    led.fire()

    assert ([push], [sms]) == (led.queue("push"), led.queue("sms"))
    assert {f"{RQ}:queue:push".encode(), f"{RQ}:queue:sms".encode()} == led.redis.smembers(f"{RQ}:queues")


def test_a_run_that_rq_cancelled_before_its_time_is_not_pushed(led: Namespace) -> None:
    cancelled, good = put_due(led, "a", "b")
    led.redis.hset(f"{RQ}:job:{cancelled}", "data", b'["app.task", null, [], {}]')
    with redis.Redis.from_url(led.link.where) as theirs:
        Job.fetch(cancelled, connection=theirs, serializer="json").cancel()

    fired = led.fire()

    assert (1, [f"{cancelled}=canceled"]) == (fired.runs, fired.cancelled)
    assert [good] == led.queue()
    assert {} == led.places()
    assert "canceled" == led.job(cancelled)["status"]
    assert {"runs": good, "cancelled": f"{cancelled}=canceled"} == led.last.fields


def test_schedules_that_cannot_be_pushed_are_quarantined_and_the_rest_continue(led: Namespace) -> None:
    gone, wrong_job, good = put_due(led, "gone", "job", "good")
    led.redis.delete(f"{RQ}:job:{gone}", f"{RQ}:job:{wrong_job}")
    led.redis.rpush(f"{RQ}:job:{wrong_job}", "not a hash")
    at = {name: run.rpartition("-")[2] for name, run in (("gone", gone), ("job", wrong_job))}

    fired = led.fire()

    why = {"gone": "its hash is gone", "job": "wrong type at its key"}
    assert why == dict(fired.quarantined)
    assert ["fire", "quarantine"] == [entry.kind for entry in led.entries()[-2:]]
    assert [f"{name} normal {at[name]} {reason}" for name, reason in fired.quarantined] == led.last.rows
    assert [good] == led.queue()
    assert {name: f"quarantine normal {due_ms}" for name, due_ms in at.items()} == led.places()
    kept = led.redis.hget(led.keys.quarantine(), "gone").decode()
    assert f"normal {at['gone']} {fired.now_ms} its hash is gone" == kept


def test_a_recurring_schedule_with_a_key_of_another_type_is_quarantined(led: Namespace) -> None:
    led.put_recurring("r", led.now_ms - 10)
    led.redis.delete(led.keys.schedule("r"))
    led.redis.set(led.keys.schedule("r"), "not ours")

    fired = led.fire()

    assert [["r", "wrong type at its key"]] == fired.quarantined
    assert "quarantine" == led.last.kind


@pytest.mark.parametrize("ids", [("a",), ("a", "b"), ("b", "c")], ids=str)
def test_a_one_shot_without_a_queue_is_quarantined_and_the_others_fire(led: Namespace, ids: tuple[str, ...]) -> None:
    run, *others = put_due(led, *ids)
    led.redis.hdel(led.keys.rq.job(run), "origin")

    fired = led.fire()

    assert [[ids[0], "its job names no queue"]] == fired.quarantined
    assert others == led.queue()


def test_a_corrupted_set_of_queues_is_reported_and_does_not_stop_a_push(led: Namespace) -> None:
    [run] = put_due(led, "a")
    led.redis.set(f"{RQ}:queues", "not a set")

    fired = led.fire()

    assert (1, [f"{RQ}:queues"]) == (fired.runs, fired.wrong)
    assert ([run], b"not a set") == (led.queue(), led.redis.get(f"{RQ}:queues"))
    assert [f"{RQ}:queues"] == led.fire().wrong  # also where nothing is due


def test_due_recurring_schedules_are_returned_and_stay_in_their_lane(led: Namespace) -> None:
    due_ms = led.now_ms - 10
    _, anchor_ms, version, _ = led.put_recurring("r", due_ms, lane="high")
    [run] = put_due(led, "a")

    fired = led.fire()

    assert [["r", "high", str(due_ms), f"{due_ms} - - {version}", "rule-1", str(anchor_ms), None]] == fired.recurring
    assert (1, [run], {"r": f"high {due_ms}"}) == (fired.runs, led.queue(), led.places())


def test_a_recurring_schedule_is_returned_although_a_former_one_shot_has_its_run_id(led: Namespace) -> None:
    due_ms = led.now_ms + 60_000
    led.put(("r", due_ms))
    run = led.call("run_now", id="r", op="op-1")[2]
    led.put_recurring("r", due_ms)
    led.pass_time(60_001)

    fired = led.fire()

    assert f"r-{due_ms}" == run
    assert (["r"], []) == ([row[0] for row in fired.recurring], fired.cancelled)
    assert {"r": f"normal {due_ms}"} == led.places()


def test_two_namespaces_with_the_same_schedule_id_fire_different_runs(led: Namespace, redis_url: str) -> None:
    other = Namespace(led.redis, redis_url, "email")
    other.lead()
    due_ms = led.now_ms - 5
    led.put(("email-welcome", due_ms), allow_past=1)
    other.put(("welcome", due_ms), allow_past=1)

    led.fire()
    other.fire()

    assert [f"email-welcome-{due_ms}", f"welcome-{due_ms}-nemail"] == led.queue()
    other.check_log()
    other.close()


def test_five_hundred_due_one_shots_fire_in_one_script(led: Namespace) -> None:
    due_ms = led.now_ms - 1000
    for first in range(0, 500, 100):
        led.put(*((f"i-{n:03}", due_ms) for n in range(first, first + 100)), allow_past=1)

    fired = led.fire(limit=500)

    assert (500, fired.now_ms) == (fired.runs, fired.next_ms)
    assert [f"i-{n:03}-{due_ms}" for n in range(500)] == led.queue()


def test_a_flushed_script_is_loaded_again(led: Namespace) -> None:
    put_due(led, "a")
    led.fire(limit=0)
    led.redis.script_flush()

    led.fire()

    assert 1 == len(led.queue())
