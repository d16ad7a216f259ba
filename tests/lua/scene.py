"""A namespace with schedules and runs of every kind, by a clock that stands still, and a call of each script."""

from collections.abc import Callable
from typing import Any

from tests.builders import records
from tests.builders.namespaces import FIELDS, HOUR_MS, LEASE_MS, TEMPLATE, Namespace
from tests.lua import restoring
from tests.lua.limited import EMAIL
from tests.lua.test_lost import again, end, execution, job
from tests.lua.test_pause_resume import plan_text
from tests.lua.test_retry import retry
from tests.prefix import RQ
from zsched.core.entry import Position

DUE_MS = 1_700_000_000_000
LIMITED = FIELDS | {"zs": "1l", "rate_limit_key": "sms", "rate_limit_concurrency": "1"}
EXPIRES = str(10 * 365 * 24 * HOUR_MS)  # so long after DUE_MS that it has not passed
WORKED = [f"{name}-1767225600000" for name in ("ended", "again", "lost")]  # runs that workers had
CHAIN = [f"chain-{ms}" for ms in (1767225600000, 1767225660000)]  # of which the first is over, and the second waits
GONE, LAST = (f"withdrawn-{ms}" for ms in (1767225600000, 1767225660000))  # of a schedule with cancel_previous
RULES = ("rule", "due-rule", "paused-rule", "chain", "withdrawn")
Keyspace = dict[bytes, tuple[bytes, int]]


def furnish(ns: Namespace) -> None:
    """Put schedules and runs of every kind."""
    client, keys = ns.redis, ns.keys
    client.hset(keys.meta(), mapping={"frozen_ms": ns.now_ms, "frozen_by": "daemon-1"})
    ns.limit(email=0.001)
    ns.put(("later", DUE_MS * 2), ("paused", DUE_MS * 2))
    ns.put(("missed", DUE_MS), ("due", DUE_MS), ("bad", DUE_MS + 1), allow_past=1)
    ns.put(("expiring", DUE_MS), fields=FIELDS | {"zs": "1e", "zs_expires": EXPIRES}, allow_past=1)
    ns.put(("mail-1", DUE_MS), ("mail-2", DUE_MS), fields=EMAIL, allow_past=1)
    ns.put(("limited-1", DUE_MS), ("limited-2", DUE_MS), fields=LIMITED, allow_past=1)
    client.sadd(keys.rq.limits(), "sms")
    client.hset(f"{keys.rq.prefix}:rl:sms", "concurrency", 1)
    client.zadd(f"{keys.rq.prefix}:rl:sms:allowed", {"nobody": 1})
    client.zadd(keys.rq.limit_waiting("sms"), {"nobody-else": 1})
    client.delete(keys.rq.job(f"bad-{DUE_MS + 1}"))
    ns.put_recurring("rule", template={"zs_expires": EXPIRES})
    for id in RULES[1:]:
        ns.put_recurring(id, DUE_MS, template={"zs_expires": EXPIRES})
    for id in ("paused", "missed", "paused-rule"):
        ns.call("pause", [id], note="why not")
    ns.put(("paused-for-now", DUE_MS * 2))
    ns.call("pause", ["paused-for-now"], note="why not")
    client.hset(keys.paused(), "paused-for-now", f"normal {DUE_MS * 2} 5 why not\x1fann\x1f7")
    client.zadd(keys.resumes(), {"paused-for-now": 7})
    for id in RULES:
        client.set(f"progress of {id}", ns.progress(id))
    for run in WORKED:
        job(ns, run)
        execution(ns, run)
    client.hset(keys.rq.job(WORKED[0]), mapping={"status": "finished", "ended_at": "then", "zs_expires": EXPIRES})
    client.hset(keys.rq.job(WORKED[1]), "retries_left", "1")
    _chain(ns)
    client.hset(keys.rq.job("delayed"), mapping={"status": "scheduled", "origin": "default", "timeout": "180"})
    client.zadd(f"{RQ}:scheduled:default", {"delayed": 1_700_000_000})
    ns.report()


def _chain(ns: Namespace) -> None:
    client, keys = ns.redis, ns.keys
    first, second = CHAIN
    client.hset(keys.rq.job(first), mapping={"status": "stopped", "origin": "default"})
    client.hset(keys.rq.job(second), mapping={"status": "deferred", "origin": "default"})
    client.rpush(keys.waiting("chain"), second)
    client.hset(keys.rq.job(GONE), mapping={"status": "queued", "origin": "default", "enqueued_at": "then"})
    client.rpush(f"{RQ}:queue:default", GONE)
    client.hset(keys.chains(), mapping={"chain": f"queue {first}", "withdrawn": f"cancel_previous {GONE} {LAST}"})
    client.hset(keys.rq.job(LAST), mapping={"status": "started", "origin": "default"})
    client.zadd(keys.deadlines(), {GONE: DUE_MS * 2, WORKED[0]: DUE_MS})


def kept(ns: Namespace) -> Keyspace:
    """Save all keys, to set Redis back to them."""
    return {key: (ns.redis.dump(key), max(ns.redis.pttl(key), 0)) for key in ns.redis.keys("*")}


def set_back(ns: Namespace, to: Keyspace) -> None:
    with ns.redis.pipeline(transaction=False) as pipeline:
        pipeline.flushall()
        for key, (dump, ttl_ms) in to.items():
            pipeline.restore(key, ttl_ms, dump)
        pipeline.execute()


def contents(ns: Namespace) -> dict[str, Any]:
    """Return the values of all keys, comparable. Leave out ids of results, which RQ makes by its own clock."""
    keys, found = sorted(ns.redis.keys("*")), {}
    with ns.redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        types = pipeline.execute()
        for key, kind in zip(keys, types, strict=True):
            pipeline.execute_command(*_READ[kind.decode()](key))
        for key, kind, held in zip(keys, types, pipeline.execute(), strict=True):
            name = key.decode()
            if kind == b"set" or (kind == b"stream" and ":results:" in name):
                held = sorted(held) if kind == b"set" else [one[1] for one in held]
            found[name] = [kind, held]
    return found


_READ: dict[str, Callable[[bytes], tuple[Any, ...]]] = {
    "string": lambda key: ("GET", key),
    "hash": lambda key: ("HGETALL", key),
    "list": lambda key: ("LRANGE", key, 0, -1),
    "set": lambda key: ("SMEMBERS", key),
    "zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
    "stream": lambda key: ("XRANGE", key, "-", "+"),
}


def spoil(ns: Namespace, key: str) -> None:
    """Replace *key* by one of another type."""
    is_string = ns.redis.type(key) == b"string"
    ns.redis.delete(key)
    if is_string:
        ns.redis.rpush(key, "not ours")
    else:
        ns.redis.set(key, "not ours")


def row(ns: Namespace, id: str) -> list[str]:
    """Return the row of a due recurring schedule, as fire answers it."""
    return [id, "normal", str(DUE_MS), ns.redis.get(f"progress of {id}").decode()]


def _advance(overlap: str, id: str = "due-rule", next_ms: Any = DUE_MS * 2) -> Callable[[Namespace], Any]:
    return lambda ns: ns.advance((row(ns, id), DUE_MS, next_ms), overlap=overlap)


def seen(ns: Namespace) -> dict[str, Any]:
    last = ns.link.execute("XREVRANGE", ns.keys.log(), "+", "-", "COUNT", 1)[0]
    return {"seen_entry": last[0].decode(), "seen_t": last[1][3].decode()}


def _skip(ns: Namespace, next_ms: Any) -> Any:
    version, passed = row(ns, "paused-rule")[3].split()[3], f"paused:{DUE_MS}:{DUE_MS}:1"
    plan = plan_text(DUE_MS, version, next_ms, until_ms=DUE_MS * 3, passed=passed)
    return ns.call("resume", ["paused-rule", plan], missed="skip")


def leave_out(ns: Namespace, id: str, progress: str = "", **more: Any) -> Any:
    nominal_ms, _, _, version = (progress or row(ns, id)[3]).split()
    seen = {"seen_version": version, "seen_nominal_ms": nominal_ms, "from_ms": 0, "until_ms": DUE_MS * 3}
    plan = {"nominal_ms": DUE_MS * 4, "due_ms": DUE_MS * 4, "skips": f"skip={nominal_ms}", "times": nominal_ms}
    return ns.call("skip", id=id, note="n", verb="skip", passed="-", **seen, **plan, **more)


def _replan(ns: Namespace) -> Any:
    id, _, due_ms, version = row(ns, "due-rule")
    rows = [id, version, due_ms, due_ms, DUE_MS - 1, DUE_MS - 1, "-"]
    return ns.call("replan", rows, meta_field="tzdata", plans_by="2026a", is_done=1)


_OP = {"op": "op"}

CALLS: dict[str, Callable[[Namespace], Any]] = {
    "put of new ones": lambda g: g.put(("new", DUE_MS * 2), ("new-2", DUE_MS * 2 + 1), op="op"),
    "put over a one-shot": lambda g: g.put(("later", DUE_MS * 2, "other"), lane="high"),
    "put over a rule": lambda g: g.put(("rule", DUE_MS * 2)),
    "put over a paused one": lambda g: g.put(("paused", DUE_MS * 2 + 5)),
    "put_recurring of a new one": lambda g: g.put_recurring("new", DUE_MS * 2, op="op"),
    "put_recurring over a one-shot": lambda g: g.put_recurring("later", DUE_MS * 2),
    "put_recurring over a rule": lambda g: g.put_recurring("rule", DUE_MS * 2, trigger="rule-2", digest="d"),
    "enqueue": lambda g: g.enqueue("later", TEMPLATE | {"zs_expires": EXPIRES}, **_OP),
    "run_now of a one-shot": lambda g: g.call("run_now", id="expiring", **_OP),
    "run_now of a rule": lambda g: g.call("run_now", id="rule", **_OP),
    "run_now backfill": lambda g: g.call(
        "run_now", [DUE_MS - 5, "once", DUE_MS - 4, "again"], id="rule", seen_version=row(g, "rule")[3].split()[3]
    ),
    "retry": lambda g: retry(g, WORKED[0], "ended", {"zs_expires": EXPIRES}, nominal_ms=1767225600000),
    "cancel of a one-shot": lambda g: g.call("cancel", ["later"]),
    "cancel of a rule": lambda g: g.call("cancel", ["rule"], **_OP),
    "cancel_run": lambda g: g.call("cancel_run", ["withdrawn", GONE, "queued then", "{}"], most_waiting=50),
    "pause": lambda g: g.call("pause", ["rule"], note="n"),
    "resume": lambda g: g.call("resume", ["paused", ""], missed="fire"),
    "resume of a rule": lambda g: g.call("resume", ["paused-rule", ""], missed="fire"),
    "resume with skip of a one-shot": lambda g: g.call("resume", ["missed", ""], missed="skip"),
    "resume with skip of a rule": lambda g: _skip(g, DUE_MS * 2),
    "resume with skip to the end": lambda g: _skip(g, "-"),
    "named_texts": lambda g: g.call("named_texts", ["calendar:kr", "-", "{}"], is_restored=0),
    "skip": lambda g: leave_out(g, "rule"),
    "skip of a paused one": lambda g: leave_out(g, "paused-rule"),
    "end_pauses": lambda g: g.call("end_pauses", ["paused-for-now", ""], missed="skip"),
    "get": lambda g: g.call("get", ["later", "rule", "paused"]),
    "acquire": lambda g: g.call("acquire", daemon="daemon-1", nonce="n", server_id="s2", lease_ms=LEASE_MS),
    "renew": lambda g: g.call("renew", lease_ms=LEASE_MS),
    "fire": lambda g: g.fire(),
    "advance": _advance("skip"),
    "advance to the end": _advance("skip", next_ms=""),
    "advance with queue": _advance("queue", "chain"),
    "advance with cancel_previous": _advance("cancel_previous", "withdrawn"),
    "limits": lambda g: g.limit(default=5),
    "replan": _replan,
    "quarantine": lambda g: g.call("quarantine", [*row(g, "due-rule"), "why"]),
    "set_aside": lambda g: g.call("set_aside", [*row(g, "due-rule"), "Europe/Kyiv"]),
    "notified": lambda g: g.call("notified", teller="ops", seen="", text="1-1-1-0-0 - -"),
    "deadline": lambda g: g.call("deadline", [CHAIN[0], f"{DUE_MS} 1", "is queued for 2 h"], logged="", **seen(g)),
    "shown": lambda g: g.call("shown", doubt=-1),
    "track": lambda g: g.call(
        "track", ["ended", WORKED[0], "finished then", "!", "succeeded", "{}"], **seen(g)
    ),
    "look": lambda g: g.call("look", WORKED, fields="status ended_at zs_note"),
    "lost": lambda g: g.call(
        "lost",
        [*again(WORKED[1], f"{WORKED[1]}:x"), *end(WORKED[2], f"{WORKED[2]}:x")],
        ended_ms=DUE_MS, **seen(g),
    ),
    "unblock": lambda g: g.call("unblock", cursor="0", count=100),
    "free_slots": lambda g: g.call("free_slots", ["sms", 0], most=10),
    "native": lambda g: g.call("native", ["default"], owner="zsched:default", lock_s=30, limit=10),
    "restore": lambda g: restoring.restore(
        g, records.one_shot("paused", "later"), records.rule("due", "rule"), records.one_shot("quarantine", "x"),
        records.rule("due", "y"), records.one_shot("due", "z"), records.open_run(id="w"), **seen(g),
    ),
    "restore_runs": lambda g: restoring.restore(g, records.open_run("over", *GONE.split("-"), job=()), **seen(g)),
    "merged": lambda g: restoring.merged(g, Position(1, 2, 3), **seen(g)),
    "report": lambda g: g.report(hold_for_ms=1000),
    "trim": lambda g: g.call("trim", first_kept="7-2", limit=100, silent_ms=-1),
    "archived": lambda g: g.call("archived", entry="7-1", entry_ms=1, is_before="", alive_ms=1000),
}  # fmt: skip
