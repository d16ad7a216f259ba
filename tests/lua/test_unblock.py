"""unblock.lua: a round through the chains launches waiting runs, withdraws replaced ones and drops finished ones."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.builders.namespaces import EPOCH, LEASE_MS, Namespace
from tests.lua.chained import (
    CANCEL,
    ENDS,
    LONG_AGO,
    MADE,
    QUEUE,
    A,
    B,
    C,
    chain,
    ends,
    jobs,
    page,
    unblock,
    waiting,
)
from tests.prefix import RQ
from zsched.core.runs.job import ms_of
from zsched.errors import Garbled

OPEN = ("queued", "started", "scheduled", "rate_limited")


WRITES = {"hset", "hdel", "del", "rpush", "lpush", "lrem", "ltrim", "zadd", "zrem", "sadd", "xadd", "pexpire"}
OURS = {"evalsha", "config|resetstat", "info"}  # of the test


@contextmanager
def writing_nothing(led: Namespace) -> Iterator[Counter[str]]:
    """Count the commands of the scripts inside the block, which must not write."""
    before, asked = led.keyspace(), Counter[str]()
    led.redis.config_resetstat()
    yield asked
    stats = led.redis.info("commandstats").items()
    asked.update({name: row["calls"] for key, row in stats if (name := key.removeprefix("cmdstat_")) not in OURS})
    assert set() == WRITES & asked.keys()
    assert before == led.keyspace()


# -- launches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ENDS)
def test_a_waiting_run_is_launched_behind_a_run_that_is_over_whatever_its_end(led: Namespace, status: str) -> None:
    jobs(led, status, "deferred")
    chain(led, QUEUE)
    led.redis.rpush(f"{RQ}:queue:default", "before")

    launched = unblock(led)

    entry, job = led.last, led.job(B)
    assert {B: ENDS[status]} == launched
    assert (f"{EPOCH}-1", "unblock", [f"{B} {ENDS[status]}"]) == (entry.id, entry.kind, entry.rows)
    assert (["before", B], f"queue {B}", []) == (led.queue(), chain(led), waiting(led))
    assert ("queued", 27, "call") == (job["status"], len(job["enqueued_at"]), job["data"])
    assert {f"{RQ}:queue:default".encode()} == led.redis.smembers(f"{RQ}:queues")


@pytest.mark.parametrize("statuses", [(), ("finished",), ("-",)], ids=str)
@pytest.mark.parametrize("status", OPEN)
def test_a_run_waits_while_a_run_before_it_is_open(led: Namespace, status: str, statuses: tuple[str, ...]) -> None:
    jobs(led, *statuses, status, "deferred")
    [open, waits] = [A, B, C][len(statuses) : len(statuses) + 2]
    chain(led, f"queue {open}")

    with writing_nothing(led):
        assert ("0", True, {}) == page(led)

    assert [waits] == waiting(led)


@pytest.mark.parametrize(("first", "second"), [("finished", "started"), ("started", "finished")])
def test_a_run_waits_for_every_run_of_its_chain(led: Namespace, first: str, second: str) -> None:
    jobs(led, first, second, "deferred")
    chain(led, f"{QUEUE} {B}")

    assert {} == unblock(led)
    assert (f"queue {A if first == 'started' else B}", [C]) == (chain(led), waiting(led))

    jobs(led, "finished", "finished")
    assert [C] == list(unblock(led))


def test_waiting_runs_are_launched_one_by_one_in_the_order_of_their_list(led: Namespace) -> None:
    jobs(led, "finished", "deferred", "deferred")
    chain(led, QUEUE)

    assert ("0", True, {B: ENDS["finished"]}) == page(led)
    assert ("0", True, {}) == page(led)
    assert ([B], [C], f"queue {B}") == (led.queue(), waiting(led), chain(led))

    led.redis.hset(led.keys.rq.job(B), "status", "failed")
    assert ("0", False, {C: f"{B} failed"}) == page(led)
    assert ([B, C], [], f"queue {C}") == (led.queue(), waiting(led), chain(led))


@pytest.mark.parametrize(("zs", "expected"), [("1q", ["before", B]), ("1fq", [B, "before"])])
def test_a_run_of_a_schedule_with_the_front_flag_is_launched_to_the_front(
    led: Namespace, zs: str, expected: list[str]
) -> None:
    jobs(led, "finished", "deferred", zs=zs)
    chain(led, QUEUE)
    led.redis.rpush(f"{RQ}:queue:default", "before")

    unblock(led)

    assert expected == led.queue()


@pytest.mark.parametrize("what", ["deleted", "cancelled", "of another type", "queued by hand"])
def test_a_run_that_does_not_wait_any_more_is_skipped_at_the_head_of_its_list(led: Namespace, what: str) -> None:
    jobs(led, "finished", "deferred", "deferred")
    chain(led, QUEUE)
    job_key = led.keys.rq.job(B)
    if what in ("cancelled", "queued by hand"):
        led.redis.hset(job_key, "status", "canceled" if what == "cancelled" else "queued")
    else:
        led.redis.delete(job_key)
    if what == "of another type":
        led.redis.set(job_key, "text")

    assert ("0", False, {C: ENDS["finished"]}) == page(led)
    assert ([C], [], f"queue {C}") == (led.queue(), waiting(led), chain(led))


@pytest.mark.parametrize("statuses", [("finished", "-"), ("-", "canceled"), ("failed",)])
def test_a_chain_without_open_and_waiting_runs_is_removed(led: Namespace, statuses: tuple[str, ...]) -> None:
    jobs(led, *statuses)
    chain(led, QUEUE)
    if len(statuses) > 1:
        led.redis.rpush(led.keys.waiting("r"), B)

    assert ("0", False, {}) == page(led)

    assert (None, [], []) == (chain(led), waiting(led), led.entries())


def test_a_list_without_a_run_before_it_is_launched_too(led: Namespace) -> None:
    jobs(led, "-", "deferred")
    chain(led, "queue")

    assert {B: "no run is before it"} == unblock(led)
    assert f"queue {B}" == chain(led)


# -- dead workers ------------------------------------------------------------------------------------


def dies(ns: Namespace, run: str, **more: str) -> None:
    """Kill the worker of *run*, long ago."""
    ns.redis.hset(ns.keys.rq.job(run), mapping={"status": "started", "last_heartbeat": LONG_AGO} | more)


def test_a_waiting_run_is_launched_behind_a_run_of_a_dead_worker_which_stays_until_its_end_is_known(
    led: Namespace,
) -> None:
    jobs(led, "started", "deferred", "deferred")
    dies(led, A)
    chain(led, QUEUE)

    assert {B: f"the worker w of {A} died"} == unblock(led)
    assert f"queue {A} {B}" == chain(led)

    led.redis.hset(led.keys.rq.job(A), "status", "failed")
    assert {} == unblock(led)
    assert (f"queue {B}", [C]) == (chain(led), waiting(led))


@pytest.mark.parametrize(("more", "waits"), [({"retries_left": "1"}, True), ({"retries_left": "0"}, False),
                                             ({"retries_left": "1", "zs_on_lost": "fail"}, False)])  # fmt: skip
def test_a_dead_run_that_will_be_retried_blocks_its_chain(led: Namespace, more: dict[str, str], waits: bool) -> None:
    jobs(led, "started", "deferred")
    dies(led, A, **more)
    chain(led, QUEUE)

    assert waits == (unblock(led) == {})
    assert (waits, [B] if waits else []) == (led.queue() == [], waiting(led))


# -- runs that cannot be launched --------------------------------------------------------------------


def text_at_queue(led: Namespace) -> None:
    led.redis.set(f"{RQ}:queue:default", "text")


def no_queue(led: Namespace) -> None:
    led.redis.hdel(led.keys.rq.job(B), "origin")


def queue_without_a_name(led: Namespace) -> None:
    led.redis.hset(led.keys.rq.job(B), "origin", "x" * 1001)


@pytest.mark.parametrize("break_it", [text_at_queue, no_queue, queue_without_a_name])
def test_a_run_whose_queue_is_broken_keeps_its_place_and_hinders_no_other_chain(
    led: Namespace, break_it: Callable[[Namespace], None]
) -> None:
    jobs(led, "finished", "deferred", "deferred")
    led.redis.hset(led.keys.rq.job(C), mapping={"origin": "other"})
    led.redis.lrem(led.keys.waiting("r"), 1, C)
    led.redis.rpush(led.keys.waiting("s"), C)
    chain(led, "queue")
    chain(led, "queue", "s")
    break_it(led)

    assert ("0", True, {C: "no run is before it"}) == page(led)
    with writing_nothing(led):
        assert ("0", True, {}) == page(led)

    assert ([B], ["other"]) == (waiting(led), [led.job(run)["origin"] for run in led.queue("other")])

    led.redis.delete(f"{RQ}:queue:default")
    led.redis.hset(led.keys.rq.job(B), "origin", "default")
    assert [B] == list(unblock(led))


@pytest.mark.parametrize("mode", ["queue", "cancel_previous"])
def test_a_waiting_list_of_another_type_hinders_no_other_chain(led: Namespace, mode: str) -> None:
    jobs(led, "finished", "deferred")
    chain(led, QUEUE)
    led.redis.set(led.keys.waiting("s"), "text")
    chain(led, f"{mode} {A}", "s")

    assert {B: ENDS["finished"]} == unblock(led)
    assert b"text" == led.redis.get(led.keys.waiting("s"))


@pytest.mark.parametrize(
    "text", ["", " ", "nonsense", f"allow {A}", f"skip {A}", "cancel_previous", "cancel_previous  "]
)
def test_a_corrupted_or_empty_chain_is_removed_and_hinders_no_other_chain(led: Namespace, text: str) -> None:
    jobs(led, "finished", "deferred")
    chain(led, QUEUE)
    chain(led, text, "s")

    assert {B: ENDS["finished"]} == unblock(led)
    assert (None, f"queue {B}") == (chain(led, id="s"), chain(led))


@pytest.mark.parametrize("text", [f"queue  {A}  ", f"queue\t{A}", f"queue {A} {A}"])
def test_a_chain_of_odd_spaces_or_repeated_runs_is_read(led: Namespace, text: str) -> None:
    jobs(led, "started", "deferred")
    chain(led, text)
    assert {} == unblock(led)

    jobs(led, "finished")
    assert [B] == list(unblock(led))


# -- doubt -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doubt_ms", "is_uncertain"), [(-1, False), (ms_of(MADE) - 1, False), (ms_of(MADE), True)])
def test_a_run_that_a_lost_redis_may_have_launched_is_uncertain(
    led: Namespace, doubt_ms: int, is_uncertain: bool
) -> None:
    jobs(led, "finished", "deferred", zs="1q")
    chain(led, QUEUE)
    led.redis.hset(led.keys.meta(), "doubt", doubt_ms)

    assert {B: ENDS["finished"]} == unblock(led)
    assert ("queued", "1" if is_uncertain else None) == (led.job(B)["status"], led.job(B).get("zs_uncertain"))


def test_a_run_that_a_lost_redis_may_have_launched_ends_as_cancelled_if_its_schedule_skips_uncertain_runs(
    led: Namespace,
) -> None:
    jobs(led, "finished", "deferred", "deferred", zs="1sq")
    chain(led, QUEUE)
    led.redis.zadd(led.keys.deadlines(), {B: 1, C: 1})
    led.redis.hset(led.keys.meta(), "doubt", ms_of(MADE))
    led.redis.hset(led.keys.rq.job(C), "created_at", "2026-01-01T00:00:00.001000Z")  # after the loss

    assert ("0", True, {}) == page(led)

    [row] = ends(led)
    assert row.startswith(f'{B} cancelled {{"ended":{led.now_ms}')
    assert "a lost Redis may have pushed it already" == json.loads(row.split(" ", 2)[2])["error"]
    assert ("canceled", [], [C]) == (led.job(B)["status"], led.queue(), waiting(led))
    assert [C.encode()] == led.redis.zrange(led.keys.deadlines(), 0, -1)
    assert 0 < led.redis.ttl(led.keys.rq.job(B)) <= 600

    assert ("0", False, {C: "no run is before it"}) == page(led)
    assert "zs_uncertain" not in led.job(C)


def test_the_last_waiting_run_that_ends_for_doubt_ends_its_chain(led: Namespace) -> None:
    jobs(led, "finished", "deferred", zs="1sq")
    chain(led, QUEUE)
    led.redis.hset(led.keys.meta(), "doubt", ms_of(MADE))

    assert ("0", False, {}) == page(led)
    assert (None, [], "canceled") == (chain(led), waiting(led), led.job(B)["status"])


# -- rounds ------------------------------------------------------------------------------------------


def test_a_round_goes_through_all_chains_page_by_page_in_parts_of_a_bounded_size(led: Namespace) -> None:
    with led.redis.pipeline(transaction=False) as pipeline:
        for number in range(2000):
            run = f"s{number}-1767225600000"
            pipeline.hset(led.keys.rq.job(run), mapping={"status": "deferred", "origin": "default"})
            pipeline.rpush(led.keys.waiting(f"s{number}"), run)
            pipeline.hset(led.keys.chains(), f"s{number}", f"queue {'x' * 70}-{number}")
        pipeline.execute()

    cursor, launched, pages = "0", dict[str, str](), 0
    while cursor != "0" or not pages:
        cursor, _, more = page(led, cursor, 50)
        assert len(more) < 400
        launched |= more
        pages += 1

    assert (2000, 2000, True) == (len(launched), len(set(led.queue())), pages > 5)
    assert [] == led.redis.keys(f"{led.keys.waiting_prefix()}*")


def test_a_round_without_changes_asks_few_things_about_each_chain_however_many_runs_wait(led: Namespace) -> None:
    jobs(led, "started", "deferred")
    chain(led, QUEUE)
    chain(led, QUEUE, "s")
    led.redis.rpush(led.keys.waiting("r"), *(f"r-{number}" for number in range(1000)))
    page(led)

    with writing_nothing(led) as asked:
        assert ("0", True, {}) == page(led)

    assert "lrange" not in asked
    # of each chain: the job of its open run, what lib/liveness.lua needs, and whether its list exists; and of the call:
    # its lease, TIME, meta, two of TYPE, HSCAN, and with a hash tag in RQ's prefix lib/whole.lua's
    assert sum(asked.values()) <= 2 * 3 + 7


def test_a_round_without_chains_is_one_call_to_redis(led: Namespace) -> None:
    page(led)

    with writing_nothing(led) as asked:
        assert ("0", False, {}) == page(led)

    assert sum(asked.values()) <= 7


def test_a_round_launches_nothing_during_a_hold_and_after_a_clock_jump(led: Namespace) -> None:
    jobs(led, "finished", "deferred")
    chain(led, QUEUE)

    jumped = led.call("unblock", cursor="0", count=100, clock_from_ms=led.now_ms + 9000)
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + LEASE_MS)
    held = led.call("unblock", cursor="0", count=100)

    assert (["JUMPED", led.now_ms], ["HELD", led.now_ms, led.now_ms + LEASE_MS]) == (jumped, held)
    assert ([], [B], []) == (led.queue(), waiting(led), led.entries())


# -- cancel_previous ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "text"), [("queued", CANCEL), ("scheduled", CANCEL),
                                              ("deferred", f"cancel_previous {B}")])  # fmt: skip
def test_withdrawing_cancels_a_run_that_has_not_begun_and_records_its_end(
    led: Namespace, status: str, text: str
) -> None:
    jobs(led, status, "started")
    chain(led, text)

    unblock(led)

    [row] = ends(led)
    assert row.startswith(f'{A} cancelled {{"ended":')
    assert json.loads(row.split(" ", 2)[2])["error"] == "its next occurrence came first (overlap=cancel_previous)"
    assert ("canceled", f"cancel_previous {B}", []) == (led.job(A)["status"], chain(led), led.queue())
    assert [] == led.redis.keys(f"{RQ}:scheduled:*") + waiting(led)


@pytest.mark.parametrize("last", ["queued", "started"])
def test_the_last_run_is_not_withdrawn(led: Namespace, last: str) -> None:
    jobs(led, "finished", last)
    chain(led, f"cancel_previous {B}")

    with writing_nothing(led):
        assert ("0", False, {}) == page(led)


def test_withdrawing_a_running_run_sends_its_worker_a_stop_command_every_ten_seconds(led: Namespace) -> None:
    jobs(led, "started", "queued")
    chain(led, CANCEL)

    with led.heard(f"{RQ}:pubsub:w") as heard:
        for passed_ms in (0, 0, 9000, 1001, 0):
            led.pass_time(passed_ms)
            unblock(led)

    told = {"command": "stop-job", "job_id": A}
    assert [told, told] == [json.loads(text) for text in heard]
    assert (CANCEL, []) == (chain(led), led.entries())


@pytest.mark.parametrize(("statuses", "left"), [
    (("stopped", "started"), f"cancel_previous {B}"),
    (("started", "finished"), CANCEL),  # it is still not to run
    (("stopped", "finished"), None),
    (("-", "-"), None),
])  # fmt: skip
def test_the_last_run_of_a_chain_stays_till_all_end(
    led: Namespace, statuses: tuple[str, str], left: str | None
) -> None:
    jobs(led, *statuses)
    chain(led, CANCEL)

    unblock(led)

    assert (left, []) == (chain(led), led.entries())


def test_a_change_to_cancel_previous_leaves_no_list_of_expired_runs(led: Namespace) -> None:
    jobs(led, "started", "deferred", "deferred")
    led.redis.delete(led.keys.rq.job(B))  # it expired
    chain(led, f"cancel_previous {A}")

    unblock(led)

    assert ([], "canceled") == (waiting(led), led.job(C)["status"])


def test_withdrawing_skips_a_run_that_a_worker_has_just_taken(led: Namespace) -> None:
    jobs(led, "queued", "started")
    led.redis.delete(f"{RQ}:queue:default")
    chain(led, CANCEL)

    unblock(led)

    assert (CANCEL, "queued", []) == (chain(led), led.job(A)["status"], led.entries())


def test_chains_of_another_type_are_refused_before_anything_is_written(led: Namespace) -> None:
    led.redis.set(led.keys.chains(), "text")

    with pytest.raises(Garbled, match="chains is a string"):
        unblock(led)
    assert [] == led.entries()


# -- texts of others ---------------------------------------------------------------------------------


def test_the_reason_of_a_launch_is_one_line_for_a_hostile_name_of_a_worker(led: Namespace) -> None:
    jobs(led, "started", "deferred")
    dies(led, A, worker_name=f"w\n{B} {'x' * 300}")
    chain(led, QUEUE)

    seen = f"w?{B}?{'x' * 300}"[:200]
    assert {B: f"the worker {seen} of {A} died"} == unblock(led)
    assert [f"{B} the worker {seen} of {A} died"] == led.last.rows
