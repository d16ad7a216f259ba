"""A key of a wrong type, at any key of zsched's or RQ's: a script does all that it reports, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.lua.ground import Entry, Ground
from tests.lua.scene import CALLS, CHAIN, GONE, WORKED, contents, furnish, kept, set_back, spoil
from tests.prefix import RQ
from zsched.errors import RedisRefused
from zsched.storage.scripts import load

READS = ("get", "look", "archived", "renew")
IDS = ("later", "rule", "due-rule", "new", "paused-rule")
OF_RQ = (
    [f"{RQ}:queues", f"{RQ}:queue:default", f"{RQ}:queue:email", f"{RQ}:queue:default:intermediate"]
    + [f"{RQ}:{registry}:default" for registry in ("deferred", "scheduled", "wip", "failed", "canceled")]
    + [f"{RQ}:{kind}:{run}" for run in (*WORKED, *CHAIN, GONE) for kind in ("job", "executions", "results")]
    + [f"{RQ}:job:{CHAIN[0]}:dependents", f"{RQ}:job::{CHAIN[1]}:dependencies", f"{RQ}:scheduler-lock:default"]
    + [f"{RQ}:rl:sms", f"{RQ}:rl:sms:allowed", f"{RQ}:rl:sms:rate_limited"]
)


@pytest.fixture
def scene(led: Ground) -> Iterator[Ground]:
    furnish(led)
    at_first = kept(led)
    yield led
    set_back(led, at_first)  # for the check of the log


def _keys(ground: Ground, script: str) -> Iterator[str]:
    """Yield every key that *script* gets, or builds from its arguments."""
    for name in load(script).keys:
        if name in ("schedule", "template"):
            yield from (ground.keys.named(name)(id) for id in IDS)
        elif name == "op":
            yield ground.keys.op("op")
        elif name != "wake":
            yield ground.keys.named(name)()
    yield f"{ground.keys.due_normal()}:email"
    yield from (ground.keys.schedule(id) for id in IDS)
    yield from (ground.keys.template(id) for id in IDS)
    yield from OF_RQ


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except RedisRefused:
        return True
    return False


def _places(ground: Ground) -> set[str]:
    """Return every schedule that has a place."""
    keys = ground.keys
    lanes = [keys.due_high(), keys.due_normal(), keys.due_low(), f"{keys.due_normal()}:email"]
    found = [id for key in lanes if ground.redis.type(key) == b"zset" for id in ground.redis.zrange(key, 0, -1)]
    for key in (keys.paused(), keys.quarantine()):
        found += ground.redis.hkeys(key) if ground.redis.type(key) == b"hash" else []
    assert len(found) == len(set(found))
    return {id.decode() for id in found}


def _pushed(entry: Entry) -> list[str]:
    """Return the runs that *entry* says are in their queues, or wait for others."""
    rows = [line.split(" ") for line in entry.rows] if entry.kind in ("advance", "again", "unblock") else []
    if entry.kind == "advance":
        return [f"{row[0]}-{row[2]}" for row in rows if row[1] in ("fired", "uncertain", "deferred")]
    return [row[0] for row in rows] or entry.fields.get("runs", "").split()


def _assert_sound(ground: Ground, told: int, placed: set[str]) -> None:
    """Check that the entries after the first *told* are true, and account for all of *placed*."""
    new = [entry for entry in ground.entries()[told:] if entry.kind != "restore"]
    lists = [f"{RQ}:queue:{name}" for name in ("default", "email")]
    waiting = [run for key in lists if ground.redis.type(key) == b"list" for run in ground.redis.lrange(key, 0, -1)]
    for run in (run for entry in new for run in _pushed(entry)):
        status = ground.redis.hget(ground.keys.rq.job(run), "status")
        has_slot = status == b"queued" and run.encode() in waiting
        waits_for_slot = status == b"rate_limited" and ground.redis.zscore(f"{RQ}:rl:sms:rate_limited", run) is not None
        assert status == b"deferred" or has_slot or waits_for_slot, run
    words = {word for entry in new for text in entry.texts for word in text.replace("=", " ").split()}
    for id in placed - _places(ground):
        assert id in words or any(word.startswith(f"{id}-") for word in words), id


# These deal with many, one by one: what a wrong type is in the way of is quarantined, told, or left as it is.
ONE_BY_ONE = {"fire", "advance", "replan", "lost", "unblock", "restore"}


@pytest.mark.parametrize("name", CALLS)
def test_a_script_that_finds_a_key_of_a_wrong_type_writes_all_or_nothing(scene: Ground, name: str) -> None:
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
