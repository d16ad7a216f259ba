"""restore.lua and lib/pushed.lua: lost runs are pushed again, and an existing hash suppresses no run."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders.namespaces import HOUR_MS, Namespace
from tests.builders.records import DUE_MS, TEMPLATE, gone, job, one_shot, open_run, rule
from tests.lua.chained import chain, unblock, waiting
from tests.lua.restoring import logged, restore
from tests.prefix import RQ
from zsched.core.record import Record


def test_an_open_run_is_pushed_again_and_marked_uncertain(led: Namespace) -> None:
    reply = restore(led, open_run())

    job = led.job(f"a-{DUE_MS}")
    assert ("queued", "1", "call") == (job["status"], job["zs_uncertain"], job["data"])
    assert job["created_at"] == job["enqueued_at"]
    assert ([f"a-{DUE_MS}"], {f"{RQ}:queue:default".encode()}) == (led.queue(), led.redis.smembers(f"{RQ}:queues"))
    assert ({}, ["open"]) == (led.places(), reply[3])


def test_restored_runs_are_pushed_in_order_and_runs_of_front_schedules_first(led: Namespace) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "others")
    of_rule = open_run(id="r", job=TEMPLATE, own=[b"flags", b"f"])

    b, d = (open_run(id=id, job=job(zs="f")) for id in "bd")
    restore(led, open_run(id="a"), b, of_rule, open_run(id="c"), d)

    assert [f"{id}-{DUE_MS}" for id in "brd"] + ["others", f"a-{DUE_MS}", f"c-{DUE_MS}"] == led.queue()
    assert "flags" not in led.job(f"r-{DUE_MS}")


def test_a_skipped_run_is_only_recorded(led: Namespace) -> None:
    before = led.keyspace()

    restore(led, open_run("skipped"), hold_for_ms=0)

    changed = {key for key, value in led.keyspace().items() if before.get(key) != value}
    assert {led.keys.log().encode(), led.keys.meta().encode()} == changed
    assert ["skipped"] == [row.place for row in logged(led.last)]


def test_a_run_without_a_queue_or_for_a_broken_one_is_refused_and_the_others_continue(led: Namespace) -> None:
    led.redis.set(f"{RQ}:queue:broken", "a text")
    without = open_run(id="w", job=[b"data", b"call"])

    reply = restore(led, open_run(id="x", job=job(origin="broken")), without, open_run(id="y"), one_shot(id="z"))

    assert ([f"y-{DUE_MS}"], {"z": f"low {DUE_MS}"}) == (led.queue(), led.places())
    assert {} == led.job(f"x-{DUE_MS}")
    assert ["refused", "refused", "open"] == [row.place for row in logged(led.last)]
    assert ["due", "refused", "refused", "open"] == reply[3]


def test_a_run_whose_job_exists_is_not_pushed_again_also_if_its_queue_is_broken(led: Namespace) -> None:
    restore(led, open_run(), open_run(id="b"))
    before = led.job(f"a-{DUE_MS}")
    led.redis.set(f"{RQ}:queue:broken", "a text")

    reply = restore(led, open_run(), open_run(id="b", job=job(origin="broken")))

    assert ([f"a-{DUE_MS}", f"b-{DUE_MS}"], before) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", "held"] == [row.place for row in logged(led.last)] == reply[3]


@pytest.mark.parametrize("place", ["open", "skipped"])
@pytest.mark.parametrize("status", ["failed", "finished", "started"])
def test_a_run_with_only_a_workers_fields_is_left_to_rq(led: Namespace, place: str, status: str) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", status)

    reply = restore(led, open_run(place), open_run(place, id="b"))

    pushed = [f"b-{DUE_MS}"] if place == "open" else []
    assert (pushed, {"status": status, "zs_uncertain": "1"}) == (led.queue(), led.job(f"a-{DUE_MS}"))
    assert ["held", place] == [row.place for row in logged(led.last)] == reply[3]
    assert open_run(place).job_fields() == logged(led.last)[0].job_fields()


def test_a_dry_run_says_what_would_be_logged_and_writes_nothing(led: Namespace) -> None:
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "started")
    led.redis.set(f"{RQ}:queue:broken", "a text")
    before = led.keyspace()

    broken = open_run(id="c", job=job(origin="broken"))
    reply = restore(led, open_run(), open_run("skipped", id="b"), broken, one_shot(id="d"), reason="dry")

    assert ["-", "0", ["due", "held", "skipped", "refused"]] == reply[1:]
    assert before == led.keyspace()


@pytest.mark.parametrize("there", ["due", "paused"])
@pytest.mark.parametrize("back", [one_shot(run=str(DUE_MS + 5)), rule(id="a"), gone("a")])
def test_a_run_whose_schedule_was_removed_is_pushed_again(led: Namespace, back: Record, there: str) -> None:
    led.put(("a", DUE_MS))
    if there == "paused":
        led.call("pause", ["a"], note="")

    reply = restore(led, back, open_run())

    assert ([f"a-{DUE_MS}"], "queued") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert [back.place, "open"] == reply[3]


def test_a_scheduled_run_that_rq_cancelled_is_not_pushed(led: Namespace) -> None:
    led.put(("a", DUE_MS))
    led.redis.hset(f"{RQ}:job:a-{DUE_MS}", "status", "canceled")

    reply = restore(led, rule(id="a"), open_run())

    assert ([], "canceled") == (led.queue(), led.job(f"a-{DUE_MS}")["status"])
    assert ["due", "held"] == reply[3]


@pytest.mark.parametrize(("left_ms", "is_guarded"), [(HOUR_MS, True), (-1, False)])
def test_a_restored_run_has_the_rest_of_its_guard(led: Namespace, left_ms: int, is_guarded: bool) -> None:
    pushed_ms = led.now_ms - HOUR_MS
    one = open_run(run=str(pushed_ms), t_us=pushed_ms * 1000)
    one = replace(one, job=(*one.job, b"zs_unique", str(HOUR_MS + left_ms).encode()))

    restore(led, one)

    guard = led.redis.get(f"{led.keys.unique_prefix()}a")
    assert (f"{pushed_ms + HOUR_MS + left_ms} a-{pushed_ms}".encode() if is_guarded else None) == guard


# -- runs that wait for others -----------------------------------------------------------------------


def queued_run(n: int, place: str = "open", **fields: str) -> Record:
    """Return the *n*-th run of a schedule with overlap=queue."""
    return open_run(place, run=str(DUE_MS + n), job=job(**({"zs": "1q"} | fields)))


RUNS = [f"a-{DUE_MS + n}" for n in range(4)]


def test_restored_runs_of_a_schedule_that_queues_wait_in_order_and_are_launched_one_by_one(led: Namespace) -> None:
    reply = restore(led, queued_run(2), queued_run(0, zs="1fq"), queued_run(1))

    assert (["open"] * 3, [], RUNS[:3], "queue") == (reply[3], led.queue(), waiting(led, "a"), chain(led, id="a"))
    fields = led.job(RUNS[0])
    assert ("deferred", "1", "call", None) == (
        fields["status"], fields["zs_uncertain"], fields["data"], fields.get("enqueued_at")
    )  # fmt: skip
    led.redis.hdel(led.keys.meta(), "hold")
    assert {RUNS[0]: "no run is before it"} == unblock(led) | unblock(led)
    assert ([RUNS[0]], RUNS[1:3], f"queue {RUNS[0]}") == (led.queue(), waiting(led, "a"), chain(led, id="a"))


@pytest.mark.parametrize("text", [None, f"queue {RUNS[0]}", "cancel_previous a-1", "nonsense"])
def test_restored_runs_wait_behind_a_run_that_rq_has(led: Namespace, text: str | None) -> None:
    led.redis.hset(led.keys.rq.job(RUNS[0]), mapping={"status": "started", "worker_name": "w"})
    if text is not None:
        chain(led, text, "a")

    reply = restore(led, queued_run(0), queued_run(1), queued_run(2))

    led.redis.hdel(led.keys.meta(), "hold")
    assert (["held", "open", "open"], {}) == (reply[3], unblock(led))
    assert (f"queue {RUNS[0]}", RUNS[1:3]) == (chain(led, id="a"), waiting(led, "a"))
    led.redis.hset(led.keys.rq.job(RUNS[0]), "status", "finished")
    assert {RUNS[1]: f"{RUNS[0]} finished"} == unblock(led)


def test_restored_runs_take_their_places_among_runs_that_wait_in_redis(led: Namespace) -> None:
    led.redis.hset(led.keys.rq.job(RUNS[0]), mapping={"status": "queued", "origin": "default"})
    for run in (RUNS[1], RUNS[3]):
        led.redis.hset(led.keys.rq.job(run), mapping={"status": "deferred", "origin": "default"})
        led.redis.rpush(led.keys.waiting("a"), run)
    chain(led, f"queue {RUNS[0]}", "a")

    reply = restore(led, *(queued_run(n) for n in (1, 2, 3)))

    assert ["held", "open", "held"] == reply[3]
    assert (f"queue {RUNS[0]}", RUNS[1:4]) == (chain(led, id="a"), waiting(led, "a"))
    assert ["1"] * 3 == [led.job(run)["zs_uncertain"] for run in RUNS[1:4]]


def test_a_waiting_run_that_was_lost_from_its_list_alone_waits_again(led: Namespace) -> None:
    led.redis.hset(led.keys.rq.job(RUNS[0]), mapping={"status": "deferred", "origin": "default"})

    assert ["held"] == restore(led, queued_run(0))[3]

    assert ([RUNS[0]], "queue") == (waiting(led, "a"), chain(led, id="a"))


def test_a_skipped_run_of_a_schedule_that_queues_does_not_wait(led: Namespace) -> None:
    assert ["skipped"] == restore(led, queued_run(0, "skipped"))[3]
    assert ([], None) == (waiting(led, "a"), chain(led, id="a"))


def test_a_run_that_is_over_is_taken_out_of_the_list_where_it_waits_once_more(led: Namespace) -> None:
    for run in RUNS[:2]:
        led.redis.hset(led.keys.rq.job(run), mapping={"status": "deferred", "origin": "default"})
        led.redis.rpush(led.keys.waiting("a"), run)
    led.redis.zadd(led.keys.deadlines(), {RUNS[0]: 1})

    assert ["over"] == restore(led, open_run("over", run=str(DUE_MS), job=()))[3]

    assert ([RUNS[1]], "canceled", []) == (
        waiting(led, "a"),
        led.job(RUNS[0])["status"],
        led.redis.zrange(led.keys.deadlines(), 0, -1),
    )
    assert 0 < led.redis.ttl(led.keys.rq.job(RUNS[0])) <= 600


@pytest.mark.parametrize("job", [{"status": "queued"}, {"status": "started", "started_at": "2026", "worker_name": "w"}])
def test_a_run_that_is_over_and_that_nobody_may_end_again_keeps_no_other_waiting(
    led: Namespace, job: dict[str, str]
) -> None:
    led.redis.hset(led.keys.rq.job(RUNS[0]), mapping=job | {"origin": "default"})  # as between a worker's two steps
    led.redis.hset(led.keys.rq.job(RUNS[1]), mapping={"status": "deferred", "origin": "default"})
    led.redis.rpush(led.keys.waiting("a"), RUNS[1])
    chain(led, f"queue {RUNS[0]}", "a")

    assert ["again"] == restore(led, open_run("over", run=str(DUE_MS), job=()))[3]

    led.redis.hdel(led.keys.meta(), "hold")
    assert [RUNS[1]] == list(unblock(led))
    fields = led.job(RUNS[0])
    assert ("1", "1") == (fields["zs_uncertain"], fields["zs_over"])


def test_a_run_that_cannot_wait_because_of_a_list_of_another_type_is_pushed(led: Namespace) -> None:
    led.redis.set(led.keys.waiting("a"), "text")

    assert ["open", "open"] == restore(led, queued_run(0), queued_run(1))[3]

    assert RUNS[:2] == led.queue()


def test_a_dry_run_lets_no_run_wait(led: Namespace) -> None:
    before = led.keyspace()

    assert ["open"] == restore(led, queued_run(0), reason="dry")[3]
    assert before == led.keyspace()


def test_a_waiting_run_keeps_the_rest_of_its_deadline(led: Namespace) -> None:
    pushed_ms = led.now_ms - HOUR_MS
    one = open_run(run=str(pushed_ms), t_us=pushed_ms * 1000, job=job(zs="1eq", zs_expires=str(HOUR_MS + 60_000)))

    restore(led, one)

    assert [f"a-{pushed_ms}"] == waiting(led, "a")
    assert 0 < led.redis.pttl(led.keys.rq.job(f"a-{pushed_ms}")) <= 60_001


# -- a hash that exists already ----------------------------------------------------------------------


NOT_PUSHED = [
    {"x": "1"},
    {"status": "scheduled", "data": "mine"},
    {"status": "created"},
    {"status": "", "started_at": "", "worker_name": ""},
    {"zs": "1", "origin": "default", "data": "mine"},
]
PUSHED = [
    *({"status": status} for status in ("queued", "started", "deferred", "finished", "failed", "stopped", "canceled")),
    {"status": "of a later RQ"},
    {"status": "scheduled", "enqueued_at": "2026-01-01T00:00:00.000000Z"},  # it waits for another attempt
    *({field: "x"} for field in ("enqueued_at", "started_at", "ended_at", "last_heartbeat", "worker_name")),
]
AT = 1_700_000_000_000


def _advance(ns: Namespace) -> str:
    [word] = ns.advance((["r", "normal", str(AT), ns.progress("r")], AT, AT + HOUR_MS))
    return "-" if word == "duplicate" else word


def _backfill(ns: Namespace) -> str:
    version = ns.schedule("r")["version"]
    return str(ns.call("run_now", [AT, "once"], id="r", seen_version=version)[2])


def _restore(ns: Namespace) -> str:
    [place] = restore(ns, open_run(id="r", run=str(AT)))[3]
    return "pushed" if place == "open" else "-"


CALLS: dict[str, Callable[[Namespace], str]] = {"advance": _advance, "backfill": _backfill, "restore": _restore}


@pytest.fixture
def ruled(led: Namespace) -> Namespace:
    led.put_recurring("r", AT)
    return led


@pytest.mark.parametrize("fields", [*NOT_PUSHED, None], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_forged_hash_or_key_is_replaced_by_the_run(
    ruled: Namespace, name: str, fields: dict[str, str] | None
) -> None:
    if fields is None:
        ruled.redis.set(f"{RQ}:job:r-{AT}", "x", ex=1000)
    else:
        ruled.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" != CALLS[name](ruled)
    job = ruled.job(f"r-{AT}")
    assert ([f"r-{AT}"], "queued", "call") == (ruled.queue(), job["status"], job["data"])
    assert ("x" in job, -1) == (False, ruled.redis.ttl(f"{RQ}:job:r-{AT}"))


@pytest.mark.parametrize("fields", PUSHED, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_was_pushed_or_taken_is_left_alone(ruled: Namespace, name: str, fields: dict[str, str]) -> None:
    ruled.redis.hset(f"{RQ}:job:r-{AT}", mapping=fields)

    assert "-" == CALLS[name](ruled)
    mark = {"zs_uncertain": "1"} if name == "restore" else {}
    assert ([], fields | mark) == (ruled.queue(), ruled.job(f"r-{AT}"))


@pytest.mark.parametrize(
    "fields", [{"zs": "1"}, {"zs": "1fse", "zs_expires": "1"}, {"status": "queued", "zs": "1"}], ids=str
)
def test_a_forged_one_shot_does_not_remove_a_rule_from_its_lane(led: Namespace, fields: dict[str, str]) -> None:
    due_ms = led.now_ms - 1000
    led.put_recurring("r", due_ms)
    forged = {"status": "scheduled", "origin": "evil", "data": "mine", **fields}
    led.redis.hset(f"{RQ}:job:r-{due_ms}", mapping=forged)

    fired = led.fire()

    assert ([], [], 0) == (fired.cancelled, fired.expired, fired.runs)
    assert ["r"] == [row[0] for row in fired.recurring]
    assert ({"r": f"normal {due_ms}"}, []) == (led.places(), led.queue("evil"))
    assert forged == led.job(f"r-{due_ms}")
    words = led.advance((fired.recurring[0], due_ms, due_ms + HOUR_MS))
    expected = (["duplicate"], []) if fields.get("status") == "queued" else (["fired"], [f"r-{due_ms}"])
    assert expected == (words, led.queue())
    assert ({"r": f"normal {due_ms + HOUR_MS}"}, []) == (led.places(), led.queue("evil"))


def test_restoring_the_run_of_a_waiting_one_shot_changes_nothing(led: Namespace) -> None:
    led.put(("r", AT), allow_past=1)

    assert "-" == _restore(led)
    assert {"r": f"normal {AT}"} == led.places()


def test_a_restored_one_shot_replaces_a_job_key_of_another_type(led: Namespace) -> None:
    led.redis.set(f"{RQ}:job:a-{DUE_MS}", "x")

    restore(led, one_shot())

    assert ({"a": f"low {DUE_MS}"}, "scheduled") == (led.places(), led.job(f"a-{DUE_MS}")["status"])


def test_a_run_on_request_avoids_an_id_that_a_forged_hash_occupies(ruled: Namespace) -> None:
    ruled.freeze(AT + 5)
    ruled.redis.hset(f"{RQ}:job:r-{AT + 5}-r1", "status", "queued")

    word, _, pushed = ruled.call("run_now", id="r")

    assert ("fired", f"r-{AT + 5}-r2") == (word, pushed)
