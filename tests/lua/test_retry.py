"""retry.lua: repeats an ended run."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import FIELDS, TEMPLATE, Namespace, flat
from tests.prefix import RQ

AT = 1_700_000_000_000
RUN = f"a-{AT}"
JOB = {"data": "call", "origin": "mail", "timeout": "180", "description": "app.task"}
OF_A_RUN = {  # what RQ and tasks write as it goes
    "status": "failed", "created_at": "2023-11-14T22:13:20.000000Z", "enqueued_at": "2023-11-14T22:13:20.000000Z",
    "started_at": "2023-11-14T22:13:21.000000Z", "ended_at": "2023-11-14T22:13:22.000000Z", "worker_name": "w",
    "last_heartbeat": "2023-11-14T22:13:21.000000Z", "number_of_retries": "1", "group_id": "", "exc_info": "x",
    "result": "x", "zs_uncertain": "1", "zs_note": "{}", "zs_attempts": "[]", "stopped_callback_name": "",
}  # fmt: skip

ANEW = {"is_once": 0, "keep_retried_ms": 60_000}


def retry(ns: Namespace, run: str = RUN, id: str = "a", pairs: dict[str, str] | None = None, **over: Any) -> list[Any]:
    """Return word, now ms and detail."""
    texts = flat(pairs or {})
    row = [id, run, over.pop("nominal_ms", AT), over.pop("signature", ""), len(texts), *texts]
    now_ms, word, detail = ns.call("retry", row, **({"op": "op-1"} | ANEW | over))
    return [word, now_ms, detail]


def job(ns: Namespace, run: str = RUN, **fields: str) -> None:
    ns.redis.hset(ns.keys.rq.job(run), mapping=JOB | {"status": "finished"} | fields)


@pytest.mark.parametrize("status", ["finished", "failed", "stopped", "canceled"])
def test_retrying_a_run_that_is_over_queues_and_logs_a_complete_copy(ns: Namespace, status: str) -> None:
    job(ns, status=status)

    word, _, again = retry(ns)

    assert ("retried", f"{RUN}-r1", [again]) == (word, again, ns.queue("mail"))
    assert JOB | {"status": "queued"} == {name: ns.job(again)[name] for name in (*JOB, "status")}
    entry = ns.last
    assert ("0-1", "enqueue", ["rows", "1", again, f"0 4 {RUN}"]) == (entry.id, entry.kind, entry.texts[:4])
    assert JOB == dict(zip(entry.texts[4::2], entry.texts[5::2], strict=True))
    assert {f"{RQ}:queue:mail".encode()} == ns.redis.smembers(f"{RQ}:queues")
    assert status == ns.job(RUN)["status"]


def test_a_retry_is_complete_if_a_value_equals_the_name_of_a_field(ns: Namespace) -> None:
    fields = {"status": "finished"} | JOB | {"description": "status", "meta": "m"}
    ns.redis.hset(ns.keys.rq.job(RUN), mapping=fields)

    again = retry(ns)[2]

    assert ("queued", "status") == (ns.job(again)["status"], ns.job(again)["description"])


def test_a_retry_copies_requested_fields_but_no_results(ns: Namespace) -> None:
    asked = {
        "meta": "m", "result_ttl": "60", "failure_ttl": "-1", "retry_intervals": "[0]", "zs_retries": "3",
        "enqueue_at_front_on_retry": "1", "success_callback_name": "app.ok", "success_callback_timeout": "60",
        "zs_func": "app.other", "zs_tags": "[]", "zs": "1s", "zs_result_ttl": "0",
    }  # fmt: skip
    job(ns, **(OF_A_RUN | asked | {"retries_left": "0"}))

    again = retry(ns)[2]

    made = ns.job(again)
    assert JOB | asked | {"retries_left": "3", "status": "queued"} == {
        name: value for name, value in made.items() if name not in ("created_at", "enqueued_at")
    }
    assert made["created_at"] == made["enqueued_at"] > OF_A_RUN["created_at"]


def test_a_retry_copies_long_payloads_byte_by_byte(ns: Namespace) -> None:
    data, meta = (bytes(range(128)) + "é☃".encode()) * 2000, b"y" * 262_144
    job(ns)
    ns.redis.hset(ns.keys.rq.job(RUN), mapping={"data": data, "meta": meta})

    again = retry(ns)[2]

    assert [data, meta] == ns.redis.hmget(ns.keys.rq.job(again), "data", "meta")


def test_a_retry_of_a_retry_belongs_to_the_same_occurrence(ns: Namespace) -> None:
    job(ns)
    first = retry(ns)[2]
    ns.redis.hset(ns.keys.rq.job(first), "status", "failed")

    second = retry(ns, first, op="op-2")[2]

    assert (f"{RUN}-r1", f"{RUN}-r2") == (first, second)
    assert first == ns.last.texts[3].split(" ")[2]


def test_a_retry_id_is_not_reused_after_rq_deleted_the_first(ns: Namespace) -> None:
    job(ns)
    runs = []
    for number in range(3):
        runs.append(retry(ns, op=f"op-{number}")[2])
        ns.redis.delete(ns.keys.rq.job(runs[-1]), f"{RQ}:queue:mail")

    assert [f"{RUN}-r{number}" for number in (1, 2, 3)] == runs


def test_a_retry_avoids_an_id_from_a_lost_history(ns: Namespace) -> None:
    job(ns)
    job(ns, f"{RUN}-r1")

    assert f"{RUN}-r2" == retry(ns)[2]


def test_a_retry_id_contains_the_namespace(ns: Namespace, redis_url: str) -> None:
    other = Namespace(ns.redis, redis_url, "mail")
    job(other, f"{RUN}-nmail")

    assert f"{RUN}-nmail-r1" == retry(other, f"{RUN}-nmail")[2]
    other.close()


def test_a_retry_goes_to_the_front_if_the_run_did(ns: Namespace) -> None:
    ns.redis.rpush(f"{RQ}:queue:mail", "waiting")
    job(ns, zs="1f")

    again = retry(ns)[2]

    assert ([again, "waiting"], "1") == (ns.queue("mail"), ns.last.texts[3][0])


@pytest.mark.parametrize(("kind", "zs", "front"), [("rule", "1fs", "1"), ("one-shot", None, "0")])
def test_a_retry_keeps_flags_and_leaves_its_schedule_unchanged(
    ns: Namespace, kind: str, zs: str | None, front: str
) -> None:
    due_ms = ns.put_later("a") if kind == "one-shot" else 0
    if kind == "rule":
        ns.put_recurring("a")
    job(ns, **({"zs": zs} if zs else {}))
    before = ns.schedule("a"), ns.template("a"), ns.places(), ns.job(f"a-{due_ms}")

    word, _, again = retry(ns)

    assert ("retried", zs, front) == (word, ns.job(again).get("zs"), ns.last.texts[3][0])
    assert before == (ns.schedule("a"), ns.template("a"), ns.places(), ns.job(f"a-{due_ms}"))


@pytest.mark.parametrize(
    "status", ["queued", "started", "deferred", "ready_to_enqueue", "rate_limited", "scheduled", "created"]
)
def test_retrying_an_open_run_is_refused(ns: Namespace, status: str) -> None:
    job(ns, status=status)
    before = ns.keyspace()

    assert ["NOTOVER", status] == retry(ns)[::2]
    assert before == ns.keyspace()


def test_retrying_the_run_id_of_a_waiting_schedule_is_refused(ns: Namespace) -> None:
    due_ms = ns.put_later("a")

    assert ("WAITS", 1) == (retry(ns, f"a-{due_ms}", nominal_ms=due_ms)[0], len(ns.entries()))


def test_a_run_that_rq_deleted_is_retried_with_the_callers_fields(ns: Namespace) -> None:
    assert "GONE" == retry(ns)[0]

    word, _, again = retry(ns, pairs=FIELDS | TEMPLATE | {"status": "queued"})

    assert ("retried", [again]) == (word, ns.queue())
    assert TEMPLATE.items() <= ns.job(again).items()
    assert "queued" == ns.job(again)["status"]


def test_a_run_cancelled_in_a_long_queue_is_retried_with_the_callers_fields(ns: Namespace) -> None:
    job(ns, status="canceled", zs_gone="1")
    ns.redis.hdel(ns.keys.rq.job(RUN), "data")

    assert "GONE" == retry(ns)[0]
    again = retry(ns, pairs=TEMPLATE)[2]

    assert [again] == ns.queue()
    assert "zs_gone" not in ns.job(again)


def test_fields_in_rq_take_precedence_over_the_callers_fields(ns: Namespace) -> None:
    job(ns)

    again = retry(ns, pairs=TEMPLATE | {"data": "other"})[2]

    assert ("call", [again]) == (ns.job(again)["data"], ns.queue("mail"))


def _bare(ns: Namespace) -> None:
    ns.redis.hset(ns.keys.rq.job(RUN), "status", "finished")


def _queue_of_another_type(ns: Namespace) -> None:
    job(ns)
    ns.redis.set(f"{RQ}:queue:mail", "x")


CORRUPTED: list[dict[str, str]] = [
    {"data": ""}, {"origin": ""}, {"timeout": "1h"}, {"result_ttl": "soon"}, {"status": "odd"},
    {"zs_retries": "x", "retries_left": "x"},
    *({name: "1" * 100_001} for name in ("description", "origin", "zs_made_up", "retry_intervals", "timeout")),
    {f"zs_made_up{n}": "x" for n in range(200)},
]  # fmt: skip
REFUSED: dict[str, tuple[Callable[[Namespace], Any], str]] = {
    **{
        f"corrupted by {str(fields)[:40]}": (lambda ns, fields=fields: job(ns, **fields), "BROKEN")
        for fields in CORRUPTED
    },
    "of another type": (lambda ns: ns.redis.set(ns.keys.rq.job(RUN), "x"), "BROKEN"),
    "without data": (_bare, "BROKEN"),
    "with a queue of another type": (_queue_of_another_type, "WRONGTYPE"),
}


@pytest.mark.parametrize("broken", REFUSED)
def test_a_broken_job_is_not_retried(ns: Namespace, broken: str) -> None:
    prepare, word = REFUSED[broken]
    prepare(ns)
    before = ns.keyspace()

    assert word == retry(ns, pairs=TEMPLATE if broken == "without data" else None)[0]
    assert before == ns.keyspace()


def _rows(*runs: str) -> list[Any]:
    """Return the rows of runs "<id>-<ms>…" that RQ has."""
    return [text for run in runs for text in (run.split("-")[0], run, run.split("-")[1], "", 0)]


def test_many_runs_are_retried_with_one_entry_in_their_order(ns: Namespace) -> None:
    runs = [f"a{n}-{AT}" for n in range(50)]
    for run in runs:
        job(ns, run)
    job(ns, "open-1", status="queued")

    reply = ns.call("retry", _rows("open-1", *runs, "gone-1"), **ANEW)[1:]

    assert ["NOTOVER", *["retried"] * 50, "GONE"] == reply[::2]
    assert reply[3:-1:2] == ns.queue("mail") == [f"{run}-r1" for run in runs]
    assert (1, ["rows", "50"]) == (len(ns.entries()), ns.last.texts[:2])


def test_a_run_that_was_retried_or_succeeded_since_is_not_retried_in_bulk(ns: Namespace) -> None:
    for id in "abc":
        job(ns, f"{id}-{AT}", status="finished" if id == "c" else "failed")
    again = retry(ns)[2]

    reply = ns.call("retry", _rows(RUN, f"b-{AT}", f"c-{AT}"), **(ANEW | {"is_once": 1}))[1:]
    explicit = retry(ns, op="op-2")[0]

    assert ["RETRIED", again, "retried", f"b-{AT}-r2", "SUCCEEDED", "-"] == reply
    assert "retried" == explicit
    assert 3 == len(ns.queue("mail"))


def test_a_retried_run_is_remembered_although_rq_forgot_it(ns: Namespace) -> None:
    assert "retried" == retry(ns, pairs=TEMPLATE)[0]

    assert "RETRIED" == retry(ns, pairs=TEMPLATE, op="op-2", is_once=1)[0]
    assert 0 < ns.redis.pttl(ns.keys.retried_prefix() + RUN) <= 60_000


def test_two_runs_of_one_occurrence_are_retried_by_two_calls(ns: Namespace) -> None:
    job(ns)
    job(ns, f"{RUN}-r7")

    first = ns.call("retry", _rows(RUN, f"{RUN}-r7"), **ANEW)[1:]
    second = ns.call("retry", _rows(f"{RUN}-r7"), **ANEW)[1:]

    assert (["retried", f"{RUN}-r1", "LATER", "-"], ["retried", f"{RUN}-r2"]) == (first, second)


def test_runs_with_large_payloads_are_retried_by_several_calls(ns: Namespace) -> None:
    runs = [f"a{n}-{AT}" for n in range(10)]
    for run in runs:
        job(ns, run, data="x" * 262_144)

    words = ns.call("retry", _rows(*runs), **ANEW)[1::2]

    assert ["retried"] * 3 + ["LATER"] * 7 == words
