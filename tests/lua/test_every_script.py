"""Rules of every script: leaders, callers, unknown ids, repeated calls, a full memory and keys of wrong types."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.builders.entries import LogEntry
from tests.builders.namespaces import LEASE_MS, Namespace
from tests.lua.chained import waiting as list_of_waiting
from tests.lua.scene import CALLS, CHAIN, GONE, LAST, WORKED, contents, furnish, kept, set_back, spoil
from tests.lua.test_retry import retry
from tests.lua.test_track import note
from tests.prefix import RQ
from tests.unit.test_scripts_headers import NAMES
from zsched.core.occurrences.outcomes import outcome_of
from zsched.errors import RedisRefused, ServerChanged, Stale
from zsched.storage.scripts import load

LEADERS = [name for name in NAMES if "token" in load(name).argv and "expected_server" in load(name).argv]
MORE: dict[str, Callable[[Namespace], Any]] = {
    "audit": lambda g: g.call("audit", ["later", ""]),
    "name": lambda g: g.call("name", gen="new", is_new=1),
}


@pytest.mark.parametrize("name", LEADERS)
def test_a_leaders_script_needs_the_lease_and_its_server(
    led: Namespace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    furnish(led)
    [call, *_] = [call for each, call in (CALLS | MORE).items() if each.split(" ")[0] == name]
    before, as_leader = contents(led), led.call

    for field, error in (("token", Stale), ("expected_server", ServerChanged)):
        monkeypatch.setattr(led, "call", lambda *texts, field=field, **given: as_leader(*texts, **given | {field: "x"}))
        with pytest.raises(error):
            call(led)

    assert before == contents(led)


ASKED_FOR = [name for name in CALLS if "by" in load(name.split(" ")[0]).argv]


@pytest.mark.parametrize("name", CALLS)
def test_an_entry_has_who_asked_once_before_its_own_texts_and_nobody_of_a_daemon(led: Namespace, name: str) -> None:
    furnish(led)
    before = len(led.entries())

    CALLS[name](led.acting_as("ann@host"))

    told = led.parsed()[before:]
    by = [(entry.by, entry.texts.count(b"ann@host")) for entry in told if entry.by]
    assert ([(b"ann@host", 1)] * len(told) if name in ASKED_FOR else []) == by
    assert told or name not in ASKED_FOR


def test_the_scripts_that_clients_ask_for_are_these() -> None:
    assert {
        "cancel", "cancel_run", "enqueue", "named_texts", "pause", "put", "put_recurring", "restore", "restore_runs",
        "resume", "retry", "run_now", "skip",
    } == {name.split(" ")[0] for name in ASKED_FOR}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CALLS if "op" in load(name.split(" ")[0]).keys])
def test_a_call_sent_again_with_its_operation_id_gets_the_first_reply(
    led: Namespace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    furnish(led)
    call, op = led.call, {"op": "op-1"}
    monkeypatch.setattr(led, "call", lambda *texts, **given: call(*texts, **given | op))
    first = CALLS[name](led)
    left_ms, before = led.redis.pttl(led.keys.op("op-1")), contents(led)
    led.pass_time(1000)

    again = CALLS[name](led)

    assert _texts(first) == _texts(again)
    led.pass_time(-1000)
    assert before == contents(led)
    assert 0 < left_ms <= 600_000


def _texts(reply: Any) -> Any:
    """Return *reply* as it is stored: with its numbers as texts."""
    return [_texts(each) for each in reply] if isinstance(reply, list | tuple) else str(reply)


RUN = "unknown-1767225600000"

UNKNOWN: dict[str, tuple[Callable[[Namespace], Any], Any]] = {
    "cancel": (lambda g: g.call("cancel", ["unknown"])[1], "NOTFOUND"),
    "pause": (lambda g: g.call("pause", ["unknown"], note="")[1], "NOTFOUND"),
    "resume": (lambda g: g.call("resume", ["unknown", ""], missed="fire")[1], "NOTFOUND"),
    "resume with skip": (lambda g: g.call("resume", ["unknown", ""], missed="skip")[1], "NOTFOUND"),
    "run_now": (lambda g: g.call("run_now", id="unknown")[0], "NOTFOUND"),
    "run_now backfill": (lambda g: g.call("run_now", [1, "once"], id="unknown", seen_version="1-1-1")[0], "NOTFOUND"),
    "cancel_run": (lambda g: g.call("cancel_run", ["unknown", RUN, "", "{}"], most_waiting=50)[1], "UNKNOWN"),
    "retry": (lambda g: retry(g, RUN, "unknown", op="-")[0], "GONE"),
    "get": (lambda g: g.call("get", ["unknown"])[1:], ["", "", ""]),  # nor is there an entry in the log
    "note": (lambda g: note(g, "{}"), "GONE"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_id_or_run_is_named_as_such_and_nothing_is_written(ns: Namespace, name: str) -> None:
    call, expected = UNKNOWN[name]
    before = ns.keyspace()

    assert expected == call(ns)
    assert before == ns.keyspace()


READS = ("get", "look", "archived", "renew")
FREEING = ("free_slots", "trim")  # they only delete


@contextmanager
def _out_of_memory(ns: Namespace) -> Iterator[None]:
    ns.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        ns.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in (*READS, *FREEING)])
def test_a_script_applies_nothing_when_redis_is_out_of_memory(led: Namespace, name: str) -> None:
    furnish(led)
    led.scripts.ensure(name.split(" ")[0])
    before = contents(led)

    with _out_of_memory(led), pytest.raises(RedisRefused, match="maxmemory"):
        CALLS[name](led)

    assert before == contents(led)


def test_a_leader_keeps_its_lease_and_reads_schedules_when_redis_is_out_of_memory(led: Namespace) -> None:
    led.put(("later", "+60000"))
    for name in ("renew", "release", "get"):
        led.scripts.ensure(name)

    with _out_of_memory(led):
        led.call("renew", lease_ms=LEASE_MS)
        led.call("release")
        assert "due" == led.call("get", ["later"])[3][0]

    assert 0 == led.redis.exists(led.keys.lease())


# -- keys of wrong types -----------------------------------------------------------------------------


IDS = ("later", "rule", "due-rule", "new", "paused-rule")
OF_RQ = (
    [f"{RQ}:queues", f"{RQ}:queue:default", f"{RQ}:queue:email", f"{RQ}:queue:default:intermediate"]
    + [f"{RQ}:{registry}:default" for registry in ("scheduled", "wip", "failed", "canceled")]
    + [f"{RQ}:{kind}:{run}" for run in (*WORKED, *CHAIN, GONE, LAST) for kind in ("job", "executions", "results")]
    + [f"{RQ}:scheduler-lock:default", f"{RQ}:rl:sms", f"{RQ}:rl:sms:allowed", f"{RQ}:rl:sms:rate_limited"]
)


@pytest.fixture
def scene(led: Namespace) -> Iterator[Namespace]:
    furnish(led)
    at_first = kept(led)
    yield led
    set_back(led, at_first)  # for the check of the log


def _keys(ns: Namespace, script: str) -> Iterator[str]:
    """Yield every key that *script* gets, or builds from its arguments."""
    for name in load(script).keys:
        if name in ("schedule", "template"):
            yield from (ns.keys.named(name)(id) for id in IDS)
        elif name == "op":
            yield ns.keys.op("op")
        elif name != "wake":
            yield ns.keys.named(name)()
    yield f"{ns.keys.due_normal()}:email"
    yield from (ns.keys.schedule(id) for id in IDS)
    yield from (ns.keys.template(id) for id in IDS)
    yield from (ns.keys.waiting(id) for id in ("chain", "withdrawn"))
    yield from OF_RQ


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except RedisRefused:
        return True
    return False


def _places(ns: Namespace) -> set[str]:
    """Return every schedule that has a place."""
    keys = ns.keys
    lanes = [keys.due_high(), keys.due_normal(), keys.due_low(), *ns.redis.keys(f"{keys.due_normal()}:*")]
    found = [id for key in lanes if ns.redis.type(key) == b"zset" for id in ns.redis.zrange(key, 0, -1)]
    for key in (keys.paused(), keys.quarantine()):
        found += ns.redis.hkeys(key) if ns.redis.type(key) == b"hash" else []
    assert len(found) == len(set(found))
    return {id.decode() for id in found}


def _pushed(entry: LogEntry) -> list[str]:
    """Return the runs that *entry* says are in their queues, or wait for others."""
    rows = [line.split(" ") for line in entry.rows] if entry.kind in ("advance", "again", "unblock") else []
    if entry.kind == "advance":
        return [f"{row[0]}-{row[2]}" for row in rows if outcome_of(row[1]).is_pushed]
    return [row[0] for row in rows] or entry.fields.get("runs", "").split()


def _assert_sound(ns: Namespace, told: int, placed: set[str]) -> None:
    """Check that the entries after the first *told* are true, and account for all of *placed*."""
    new = [entry for entry in ns.entries()[told:] if entry.kind != "restore"]
    lists = [f"{RQ}:queue:{name}" for name in ("default", "email")]
    waiting = [run for key in lists if ns.redis.type(key) == b"list" for run in ns.redis.lrange(key, 0, -1)]
    for run in (run for entry in new for run in _pushed(entry)):
        status = ns.redis.hget(ns.keys.rq.job(run), "status")
        has_slot = status == b"queued" and run.encode() in waiting
        waits_for_slot = status == b"rate_limited" and ns.redis.zscore(f"{RQ}:rl:sms:rate_limited", run) is not None
        waits_for_run = status == b"deferred" and run in list_of_waiting(ns, run.rpartition("-")[0])
        assert waits_for_run or has_slot or waits_for_slot, run
    words = {word for entry in new for text in entry.texts for word in text.replace("=", " ").split()}
    for id in placed - _places(ns):
        assert id in words or any(word.startswith(f"{id}-") for word in words), id


# These deal with many, one by one: what a wrong type is in the way of is quarantined, told, or left as it is.
ONE_BY_ONE = {"fire", "advance", "replan", "lost", "unblock", "restore", "restore_runs"}


@pytest.mark.parametrize("name", CALLS)
def test_a_script_that_finds_a_key_of_a_wrong_type_writes_all_or_nothing(scene: Namespace, name: str) -> None:
    at_first, before = kept(scene), contents(scene)
    told, placed = len(scene.entries()), _places(scene)
    CALLS[name](scene)
    done = contents(scene)
    assert (done != before) == (name not in READS)
    odd = []

    for key in dict.fromkeys(_keys(scene, name.split(" ")[0])):
        set_back(scene, at_first)
        spoil(scene, key)
        is_refused = _is_refused(lambda: CALLS[name](scene))
        after = contents(scene)
        others = (after | done | before).keys() - {key}
        if not is_refused and all(after.get(each) == done.get(each) for each in others):
            continue
        changed = sorted(each for each in others if after.get(each) != before.get(each))
        if changed and not is_refused and name.split(" ")[0] in ONE_BY_ONE:
            _assert_sound(scene, told, placed)
        elif changed:
            odd.append((key, changed))

    assert [] == odd
