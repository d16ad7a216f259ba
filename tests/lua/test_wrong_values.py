"""Values of other programs: each quarantines one schedule, leaves no call half done, and is repaired by a put."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.breadth import everything
from tests.builders import records
from tests.builders.namespaces import HOUR_MS, Namespace
from tests.builders.progress import change_progress, progress_of
from tests.lua import restoring
from tests.lua.scene import DUE_MS, Keyspace, contents, furnish, kept, leave_out, seen, set_back
from tests.lua.test_pause_resume import plan_text
from zsched.errors import RedisRefused

# -- what can be wrong ----------------------------------------------------------------------------

STANDING = [  # of paused and quarantine
    "", " ", "nonsense", "normal", "normal 5", "normal 5 x", "normal x 1 why", "normal nan 1 why", "normal 0x7 1 why",
    "normal 5\0 1 why", "urgent 5 1 why", "normal:email 5 1 why", "normal 1e 1 why", "normal  5 1 why", b"\xff\xfe 5 1",
    "9" * 100_000,
]  # fmt: skip
TIMES = ["", "x", "-", "nan", "1.5", "1e300", "0x7", "9" * 400, b"\xff"]
SCORES = [float("inf"), float("-inf"), 1.5, 1e300, -5.0]
TEXTS = ["", "x", b"\xff\xfe", "{}", "[" * 5000, "a\nb c=d"]

Spoil = Callable[[Namespace], Any]


def _hash(key: Callable[[Namespace], str], field: str, value: Any) -> Spoil:
    return lambda ns: ns.redis.hset(key(ns), field, value)


def _progress(word: str, value: Any) -> Spoil:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return lambda ns: change_progress(ns.redis, ns.keys, "rule", **{word: text})


def _spoils() -> Iterator[tuple[str, str, Spoil]]:
    """Yield broken values: name, schedule, and a function that writes the value."""
    for n, value in enumerate(STANDING):
        yield f"paused {n}", "paused", _hash(lambda g: g.keys.paused(), "paused", value)
        yield f"paused rule {n}", "paused-rule", _hash(lambda g: g.keys.paused(), "paused-rule", value)
        yield f"quarantine {n}", "q", _hash(lambda g: g.keys.quarantine(), "q", value)
        yield f"quarantine rule {n}", "qr", lambda g, value=value: _quarantined_rule(g, value)
    for n, score in enumerate(SCORES):
        yield f"score {n}", "later", lambda g, score=score: g.redis.zadd(g.keys.due_normal(), {"later": score})
        yield f"rule's score {n}", "rule", lambda g, score=score: g.redis.zadd(g.keys.due_normal(), {"rule": score})
    for n, value in enumerate(TIMES):
        for field in ("anchor", "created_at", "pause_after"):
            yield f"{field} {n}", "rule", _hash(lambda g: g.keys.schedule("rule"), field, value)
        yield f"nominal {n}", "rule", _progress("nominal", value)
        yield f"expiry {n}", "rule", _hash(lambda g: g.keys.template("rule"), "zs_expires", value)
        yield f"job's expiry {n}", "expiring", _hash(lambda g: g.keys.rq.job(f"expiring-{DUE_MS}"), "zs_expires", value)
        yield f"limit {n}", "later", _hash(lambda g: g.keys.limits(), "email", value)
        yield f"limit at {n}", "later", _hash(lambda g: g.keys.limits(), "email", b"5 " + _bytes(value))
        yield f"limit of {n}", "later", _hash(lambda g: g.keys.limits(), "email", _bytes(value) + b" 0")
    for n, value in enumerate(TEXTS):
        for field in ("progress", "trigger", "digest", "policy", "tags", "lane"):
            yield f"{field} {n}", "rule", _hash(lambda g: g.keys.schedule("rule"), field, value)
        for word in ("version", "last", "state"):
            yield f"{word} {n}", "rule", _progress(word, value)
        for field in ("origin", "zs", "data", "description"):
            yield f"template's {field} {n}", "rule", _hash(lambda g: g.keys.template("rule"), field, value)
        for field in ("origin", "zs", "status", "data"):
            yield f"job's {field} {n}", "later", _hash(lambda g: g.keys.rq.job(f"later-{DUE_MS * 2}"), field, value)
        yield f"chain {n}", "chain", _hash(lambda g: g.keys.chains(), "chain", value)
        yield f"waiting {n}", "chain", lambda g, value=value: g.redis.lset(g.keys.waiting("chain"), 0, value)
        yield f"op {n}", "later", lambda g, value=value: g.redis.set(g.keys.op("op"), value)
    for n, value in enumerate([*TEXTS, "normal", "normal:", ":email", "normal.x:email", "urgent:email", "low:default"]):
        yield f"throttled {n}", "later", _hash(lambda g: g.keys.meta(), "throttled", value)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _quarantined_rule(ns: Namespace, value: Any) -> None:
    ns.redis.zrem(ns.keys.due_normal(), "rule")
    ns.put_recurring("qr", DUE_MS * 2)
    ns.redis.zrem(ns.keys.due_normal(), "qr")
    ns.redis.hset(ns.keys.quarantine(), "qr", value)


SPOILS: dict[str, list[tuple[str, str, Spoil]]] = {}
for _name, _id, _spoil in _spoils():
    SPOILS.setdefault(_name.rpartition(" ")[0], []).append((_name, _id, _spoil))

ONE_SHOTS = ("paused", "q", "later", "expiring")

# -- what is done ---------------------------------------------------------------------------------


def _resume(ns: Namespace, id: str, missed: str) -> Any:
    plan = plan_text(DUE_MS, _bytes(_version(ns, id)).decode("latin-1"), DUE_MS * 2, until_ms=DUE_MS * 3)
    return ns.call("resume", [id, plan], missed=missed)


def _version(ns: Namespace, id: str) -> Any:
    return progress_of(ns.redis, ns.keys, id).get("version") or "?"


def _advance(ns: Namespace, id: str, overlap: str) -> Any:
    """Return the row of *id* that fire would answer if it were due, or before it was taken out of its lane."""
    [score] = ns.redis.zmscore(ns.keys.due_normal(), [id])
    words = (
        id,
        "normal",
        f"{score:.17g}" if score is not None else "-",
        ns.progress(id) if score is not None else "5 - - 0-0-0",
    )
    return ns.advance((words, DUE_MS * 2, DUE_MS * 2 + HOUR_MS), overlap=overlap)


_OP = {"op": "op"}
VERBS: dict[str, Callable[[Namespace, str], Any]] = {
    "put": lambda g, id: g.put((id, DUE_MS * 2 + 7), op="op"),
    "put the same": lambda g, id: g.put((id, DUE_MS * 2)),
    "put_recurring": lambda g, id: g.put_recurring(id, DUE_MS * 2),
    "put_recurring of another": lambda g, id: g.put_recurring(id, DUE_MS * 2, trigger="rule-2", digest="d"),
    "enqueue": lambda g, id: g.enqueue(id, **_OP),
    "cancel": lambda g, id: g.call("cancel", [id], **_OP),
    "pause": lambda g, id: g.call("pause", [id], note="again"),
    "resume": lambda g, id: _resume(g, id, "fire"),
    "resume with skip": lambda g, id: _resume(g, id, "skip"),
    "run_now": lambda g, id: g.call("run_now", id=id, **_OP),
    "skip": lambda g, id: leave_out(g, id, f"{DUE_MS * 2} - - {_version(g, id)}", **_OP),
    "backfill": lambda g, id: g.call("run_now", [DUE_MS - 5, "once"], id=id, seen_version=_version(g, id), **_OP),
    "get": lambda g, id: g.call("get", [id, "paused", "later"]),
    "audit": lambda g, id: g.call("audit", [id, ""]),
    "restore as due": lambda g, id: restoring.restore(g, records.rule("due", id), **seen(g)),
    "restore as gone": lambda g, id: restoring.restore(g, records.gone(id), **seen(g)),
    "replan": lambda g, id: g.call(
        "replan",
        [id, _version(g, id), DUE_MS * 2, DUE_MS * 2, DUE_MS, DUE_MS, "-"],
        meta_field="tzdata",
        plans_by="x",
        is_done=0,
    ),
    "fire": lambda g, id: g.fire(),
    "advance": lambda g, id: _advance(g, id, "skip"),
    "advance with queue": lambda g, id: _advance(g, id, "queue"),
    "unblock": lambda g, id: g.call("unblock", cursor="0", count=100),
    "limits": lambda g, id: g.limit(default=5),
}  # fmt: skip


FEW = 5  # in the usual run, a value is shown to every fifth verb; each kind of values is shown to all


@pytest.fixture
def scene(led: Namespace) -> Iterator[tuple[Namespace, Keyspace]]:
    furnish(led)
    led.limit()
    at_first = kept(led)
    yield led, at_first
    set_back(led, at_first)  # for the check of the log


def _places_of(ns: Namespace, id: str) -> list[str]:
    row = ns.call("get", [id])[3]
    return str(row[-1]).split() if row else []


def _assert_whole(ns: Namespace, verb: str, id: str, reply: Any) -> None:
    """Check that the *reply* is true: an id is in one place, or gone with all its keys."""
    places, recurring = _places_of(ns, id), ns.redis.sismember(ns.keys.recurring(), id)
    own = ns.redis.exists(ns.keys.schedule(id), ns.keys.template(id))
    assert len(places) <= 1
    if verb in ("cancel", "restore as gone", "enqueue"):
        assert ([], False, 0) == (places, bool(recurring), own)
    elif verb in ("put", "put the same") and reply[0][0] in ("created", "updated", "unchanged"):
        assert (1, False) == (len(places), bool(recurring))
        assert "scheduled" == ns.job(f"{id}-{reply[0][1]}")["status"]
    elif verb.startswith("put_recurring") or verb == "restore as due":
        assert (1, True, 2) == (len(places), bool(recurring), own)


@pytest.mark.parametrize("kind", SPOILS)
def test_a_corrupted_value_makes_no_call_half_done_and_a_put_repairs_it(
    scene: tuple[Namespace, Keyspace], kind: str
) -> None:
    ns, at_first = scene

    for n, (name, id, spoil) in enumerate(SPOILS[kind]):
        set_back(ns, at_first)
        spoil(ns)
        spoiled, before = kept(ns), contents(ns)
        for verb in list(VERBS) if everything() else list(VERBS)[n % FEW :: FEW]:
            call = VERBS[verb]
            set_back(ns, spoiled)
            reply, refused = _tried(lambda call=call, id=id: call(ns, id))
            if refused:
                assert (name, verb, before) == (name, verb, contents(ns)), refused
            elif kind != "op":  # then it is what stands there
                _assert_whole(ns, verb, id, reply)
        set_back(ns, spoiled)
        ns.redis.delete(ns.keys.op("op"))
        assert "paused" == ns.call("get", [id, "missed"])[4][0], name
        _assert_a_put_puts_right(ns, id, name)


def _tried(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return the reply, or why the call was refused."""
    try:
        return call(), ""
    except RedisRefused as error:
        return None, str(error)


def _assert_a_put_puts_right(ns: Namespace, id: str, name: str) -> None:
    """Check that another schedule fires, and that this one fires after it was put again."""
    ns.put(("canary", DUE_MS), allow_past=1)
    ns.fire()
    assert f"canary-{DUE_MS}" in ns.queue(), name
    due_ms = DUE_MS + 100
    if id in ONE_SHOTS:
        ns.put((id, due_ms), allow_past=1)
    else:
        ns.put_recurring(id, due_ms, trigger="rule-9", digest="d9")
    if id in ("paused", "paused-rule"):
        ns.call("resume", [id, ""], missed="fire")
    fired = ns.fire()
    assert f"{id}-{due_ms}" in ns.queue() or id in [one[0] for one in fired.recurring], name


@pytest.mark.parametrize("id", ["", "two words", "line\nfeed", "l" * 129])
def test_a_due_malformed_id_is_quarantined_although_it_has_a_rule(led: Namespace, id: str) -> None:
    led.put_recurring("r")
    led.redis.hset(led.keys.schedule_prefix() + id, mapping=led.redis.hgetall(led.keys.schedule("r")))
    led.redis.zadd(led.keys.due_normal(), {id: led.now_ms - 10})

    fired = led.fire()

    assert ([], ["its id is malformed"]) == (fired.recurring, [reason for _, reason in fired.quarantined])
    assert {id, "r"} == led.places().keys()
