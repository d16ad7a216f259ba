"""lost.lua: runs whose worker died."""

import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry

from tests.builders.entries import LogEntry
from tests.builders.namespaces import EPOCH, Namespace
from tests.lua.chained import chain, unblock, waiting
from tests.prefix import RQ
from zsched.core.clock import from_ms

ENQUEUED, BEAT = "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:01.000001Z"
A, B = "a-1767225600000", "b-1767225600000"
WHY = "its worker w died: no heartbeat since " + BEAT
LOST_MS = 1_767_225_700_123
DATA = zlib.compress(b"call")
YEAR_S = 31_536_000
PACKED = b64encode(zlib.compress(WHY.encode())).decode()


def job(ns: Namespace, run: str, status: str = "started", **more: str) -> None:
    fields = {"data": DATA, "created_at": ENQUEUED, "enqueued_at": ENQUEUED, "started_at": BEAT, "origin": "default"}
    ns.redis.hset(
        ns.keys.rq.job(run),
        mapping=fields | {"last_heartbeat": BEAT, "worker_name": "w", "timeout": "180", "status": status} | more,
    )


def execution(ns: Namespace, run: str, name: str = "x", is_alive: bool = False) -> str:
    """Write the traces of a worker that is killed during *run*."""
    member = f"{run}:{name}"
    ns.redis.zadd(f"{RQ}:wip:default", {member: 1_767_225_660})
    ns.redis.zadd(f"{RQ}:executions:{run}", {name: 9_999_999_999})
    if is_alive:
        ns.redis.hset(f"{RQ}:execution:{member}", "id", name)
    return member


def again(run: str, members: str = "", status: str = "started", attempt: int = 2) -> tuple[str, ...]:
    mark = BEAT if status == "started" else ENQUEUED
    return run.rpartition("-")[0], run, status, mark, members, "again", str(attempt), WHY, ""


def end(run: str, members: str = "", status: str = "started") -> tuple[str, ...]:
    mark = BEAT if status == "started" else ENQUEUED
    return run.rpartition("-")[0], run, status, mark, members, "end", "lost", f'{{"error":"{WHY}"}}', PACKED


def lose(ns: Namespace, seen: LogEntry, *dead: tuple[str, ...], **over: Any) -> list[Any]:
    arguments = {"seen_entry": seen.id, "seen_t": seen.t, "ended_ms": LOST_MS} | over
    return ns.call("lost", [text for one in dead for text in one], **arguments)


NOTHING: list[Any] = ["-", "0", [], [], []]


@pytest.mark.parametrize(("flag", "is_front"), [("1", True), ("", False), ("0", False)])
def test_a_lost_run_with_retries_left_is_queued_at_once(
    led: Namespace, seen: LogEntry, flag: str, is_front: bool
) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "before")
    job(led, A, retries_left="2", enqueue_at_front_on_retry=flag)
    member = execution(led, A)

    reply = lose(led, seen, again(A, member))

    entry = led.last
    status, retries_left, enqueued_at = led.redis.hmget(led.keys.rq.job(A), "status", "retries_left", "enqueued_at")
    assert [entry.id, entry.t, [A], [], []] == reply[1:]
    assert (f"{EPOCH}-2", "again", [f"{A} 2 {WHY}"]) == (entry.id, entry.kind, entry.rows)
    assert ([A, "before"] if is_front else ["before", A]) == led.queue()
    assert (b"queued", b"1") == (status, retries_left)
    assert ENQUEUED.encode() < enqueued_at
    assert not led.redis.exists(f"{RQ}:wip:default", f"{RQ}:executions:{A}")
    assert f"{RQ}:queue:default".encode() in led.redis.smembers(f"{RQ}:queues")


def _set(**fields: str) -> Callable[[Namespace], Any]:
    return lambda led: led.redis.hset(led.keys.rq.job(A), mapping=fields)


NOT_LOST: dict[str, tuple[str, Callable[[Namespace], Any]]] = {  # its status when it was seen, and what happened then
    "without retries left": ("started", _set(retries_left="0")),
    "without a number of retries": ("started", lambda led: led.redis.hdel(led.keys.rq.job(A), "retries_left")),
    "finished": ("started", _set(status="finished")),
    "with another heartbeat": ("started", _set(last_heartbeat="2026-01-01T00:00:30.000001Z")),
    "queued": ("started", _set(status="queued")),
    "alive by the server's clock": ("started", lambda led: execution(led, A, is_alive=True)),
    "alive in another execution": ("started", lambda led: execution(led, A, "y", is_alive=True)),
    "deleted": ("started", lambda led: led.redis.delete(led.keys.rq.job(A))),
    "in its queue": ("queued", lambda led: led.redis.rpush(f"{RQ}:queue:default", "x", A, "y")),
    "taken": ("queued", lambda led: led.redis.rpush(f"{RQ}:queue:default:intermediate", A)),
    "begun": ("queued", lambda led: execution(led, A)),
    "pushed again": ("queued", _set(enqueued_at=BEAT)),
}


@pytest.mark.parametrize("state", NOT_LOST)
def test_a_run_that_is_not_lost_or_has_no_retries_left_is_left_alone(
    led: Namespace, seen: LogEntry, state: str
) -> None:
    status, act = NOT_LOST[state]
    job(led, A, status, retries_left="1")
    members = execution(led, A) if status == "started" else ""
    act(led)
    ways = (again,) if state.startswith("without") else (again, end)
    before = led.keyspace()

    assert NOTHING == lose(led, seen, *(way(A, members, status) for way in ways))[1:]
    assert before == led.keyspace()


def test_a_lost_run_without_retries_ends_as_failed_in_log_and_rq(led: Namespace, seen: LogEntry) -> None:
    job(led, A, retries_left="2")
    member = execution(led, A)

    reply = lose(led, seen, end(A, member))

    entry = led.last
    assert [entry.id, entry.t, [], [A], []] == reply[1:]
    assert ("end", [f"{A} lost {end(A)[7]}"]) == (entry.kind, entry.rows)
    filed = Job.fetch(A, connection=led.redis)
    assert ("failed", from_ms(LOST_MS)) == (filed.get_status().value, filed.ended_at)  # as the log has it
    assert WHY == filed.latest_result().exc_string  # type: ignore[union-attr]  # there is one
    [(member_of, until_s)] = led.redis.zrange(f"{RQ}:failed:default", 0, -1, withscores=True)
    assert (A.encode(), led.now_ms // 1000 + YEAR_S) == (member_of, until_s)
    assert 0 <= 1000 * YEAR_S - led.redis.pttl(led.keys.rq.job(A)) <= led.server_ms - led.began_ms
    assert [A] == FailedJobRegistry(connection=led.redis).get_job_ids()
    assert [] == StartedJobRegistry(connection=led.redis).get_job_ids()
    assert [] == led.queue()


def test_a_lost_run_keeps_its_last_ten_results(led: Namespace, seen: LogEntry) -> None:
    job(led, A)
    for number in range(12):
        led.redis.xadd(f"{RQ}:results:{A}", {"type": "2", "number": number})

    lose(led, seen, end(A, execution(led, A)))

    kept = [fields.get(b"number") for _, fields in led.redis.xrange(f"{RQ}:results:{A}")]
    assert [*(str(number).encode() for number in range(3, 12)), None] == kept


@pytest.mark.parametrize(
    ("ttl", "wish", "lives_s"),
    [
        ("60", {}, 60), ("-1", {}, -1), ("0", {}, -2), ("1.5", {}, YEAR_S), ("", {}, YEAR_S),
        ("60", {"zs_failure_ttl": "20"}, 20), ("60", {"zs_failure_ttl": "0"}, -2),
    ],
)  # fmt: skip
def test_a_lost_run_is_kept_for_its_failure_ttl(
    led: Namespace, seen: LogEntry, ttl: str, wish: dict[str, str], lives_s: int
) -> None:
    job(led, A, failure_ttl=ttl, **wish)
    led.redis.xadd(f"{RQ}:results:{A}", {"type": "2"})  # of an attempt before
    keys, since_ms = (led.keys.rq.job(A), f"{RQ}:results:{A}"), led.server_ms
    for key in keys:
        led.redis.expire(key, 7)

    assert [A] == lose(led, seen, end(A, execution(led, A)))[4]

    assert all(led.is_life(key, lives_s, since_ms) for key in keys)
    assert (lives_s != -2) == (led.redis.zscore(f"{RQ}:failed:default", A) is not None)


def test_retried_and_ended_runs_are_logged_as_two_entries(led: Namespace, seen: LogEntry) -> None:
    job(led, A, retries_left="1")
    job(led, B)

    reply = lose(led, seen, end(B, execution(led, B)), again(A, execution(led, A)))

    assert ["again", "end"] == [entry.kind for entry in led.entries()][-2:]
    assert [led.last.id, led.last.t, [A], [B], []] == reply[1:]


@pytest.mark.parametrize(
    "key", [f"{RQ}:job:{A}", f"{RQ}:queue:default", f"{RQ}:wip:default", f"{RQ}:failed:default", f"{RQ}:executions:{A}",
            f"{RQ}:results:{A}", f"{RQ}:queue:default:intermediate"],
)  # fmt: skip
def test_a_key_of_a_wrong_type_hides_no_other_run(led: Namespace, seen: LogEntry, key: str) -> None:
    job(led, A, retries_left="1")
    job(led, B, retries_left="1", origin="other")
    led.redis.delete(key)
    led.redis.set(key, "?")

    assert [B] == lose(led, seen, again(A), again(B))[3]


def test_a_run_named_twice_is_pushed_once(led: Namespace, seen: LogEntry) -> None:
    job(led, A, retries_left="2")
    members = f"{execution(led, A)} {execution(led, A, 'y')}"

    assert [[A], []] == lose(led, seen, again(A, members), again(A, members))[3:5]
    assert ([A], 0) == (led.queue(), led.redis.exists(f"{RQ}:wip:default"))


# -- in a chain -----------------------------------------------------------------------------------

AFTER = "a-1767225660000"


def waits(ns: Namespace, run: str, before: str) -> None:
    """Let *run* wait for *before* in the list of its schedule."""
    job(ns, run, "deferred")
    ns.redis.rpush(ns.keys.waiting("a"), run)
    ns.redis.hset(ns.keys.chains(), "a", f"queue {before}")


def test_a_run_that_waits_for_a_lost_run_is_launched_in_the_next_round(led: Namespace, seen: LogEntry) -> None:
    job(led, A)
    waits(led, AFTER, A)

    assert [A] == lose(led, seen, end(A, execution(led, A)))[4]
    assert ("end", [], [AFTER]) == (led.last.kind, led.queue(), waiting(led, "a"))

    assert {AFTER: f"{A} failed"} == unblock(led)
    assert ([AFTER], f"queue {AFTER}") == (led.queue(), chain(led, id="a"))


def test_a_run_that_was_launched_behind_a_dead_worker_does_not_start_twice_when_the_loss_is_recorded(
    led: Namespace, seen: LogEntry
) -> None:
    job(led, A)
    member = execution(led, A)
    waits(led, AFTER, A)
    assert {AFTER: f"the worker w of {A} died"} == unblock(led)
    assert f"queue {A} {AFTER}" == chain(led, id="a")

    lose(led, seen, end(A, member))

    assert {} == unblock(led)
    assert ([AFTER], f"queue {AFTER}") == (led.queue(), chain(led, id="a"))


def test_a_retried_lost_run_keeps_its_place_in_its_chain(led: Namespace, seen: LogEntry) -> None:
    job(led, A, retries_left="1")
    waits(led, AFTER, A)

    lose(led, seen, again(A, execution(led, A)))

    assert {} == unblock(led)
    assert ([A], f"queue {A}", [AFTER]) == (led.queue(), chain(led, id="a"), waiting(led, "a"))


# -- lost before it began -------------------------------------------------------------------------


def test_a_run_that_left_its_queue_is_pushed_again(led: Namespace, seen: LogEntry) -> None:
    led.redis.rpush(f"{RQ}:queue:default", "later")
    job(led, A, "queued", retries_left="1")
    job(led, B, "queued")

    reply = lose(led, seen, again(A, status="queued"), end(B, status="queued"))

    assert [[A], [B]] == reply[3:5]
    assert ["later", A] == led.queue()


def test_a_run_whose_worker_died_before_starting_it_leaves_the_intermediate_queue(
    led: Namespace, seen: LogEntry
) -> None:
    job(led, A, "queued", retries_left="1")
    led.redis.rpush(f"{RQ}:queue:default:intermediate", A)
    member = execution(led, A)

    assert [A] == lose(led, seen, again(A, member, "queued"))[3]

    assert [A] == led.queue()
    assert not led.redis.exists(f"{RQ}:queue:default:intermediate", f"{RQ}:wip:default", f"{RQ}:executions:{A}")


def test_a_run_twice_in_the_intermediate_queue_is_pushed_once(led: Namespace, seen: LogEntry) -> None:
    job(led, A)
    led.redis.rpush(f"{RQ}:queue:default:intermediate", A, A)

    assert [A] == lose(led, seen, end(A, execution(led, A)))[4]

    assert [A.encode()] == led.redis.lrange(f"{RQ}:queue:default:intermediate", 0, -1)


def test_a_lost_run_counts_as_a_failure_only_if_it_is_not_retried(led: Namespace) -> None:
    led.put_recurring("a", own={"pause_after": "2"})
    seen = led.last
    job(led, A, retries_left="1")
    lose(led, seen, again(A, execution(led, A)))
    assert led.redis.zscore(led.keys.failing(), "a") is None

    job(led, A)
    assert [] == lose(led, seen, end(A, execution(led, A)))[5]
    assert 1 == led.redis.zscore(led.keys.failing(), "a")
    job(led, A)
    assert ["a"] == lose(led, seen, end(A, execution(led, A)))[5]

    assert ("pause", f"2 failures in a row, the last of run {A}") == (led.last.kind, led.last.fields["note"])
    assert led.places()["a"].startswith("paused")


def test_lost_is_refused_when_the_callers_log_entry_is_missing(led: Namespace, seen: LogEntry) -> None:
    job(led, A, retries_left="1")
    dead = again(A, execution(led, A))

    assert ["LOST"] == lose(led, seen, dead, seen_t="1") == lose(led, seen, dead, seen_entry="9-9")
