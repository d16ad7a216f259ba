"""Faults in the schedules: too many at one moment, values broken by another writer, rules that change meanwhile."""

import random
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import redis

from tests.faults.archives import KEYS, is_leader
from tests.prefix import RQ
from tests.waiting import eventually
from tools.campaign.calls import now_us
from tools.campaign.clients import Caller
from tools.campaign.receipts import FUNC
from tools.campaign.stage import Stage
from tools.campaign.workers import BULK, ODD
from zsched import ScheduleRow
from zsched.core.clock import from_ms

_ZONE = "Europe/Kyiv"
_BREAK_QUEUE = "return redis.call('TYPE', KEYS[1]).ok == 'none' and redis.call('SET', KEYS[1], 'not a list') and 1 or 0"


def _caller(stage: Stage, name: str) -> Caller:
    return Caller(f"{name}{now_us() // 1000}", stage.redis.tcp_url, stage.ledger)


def _put(caller: Caller, ids: list[str], due_ms: int, queue: str) -> None:
    rows: list[ScheduleRow] = [
        {"func": FUNC, "id": id, "at": from_ms(due_ms), "queue": queue, "allow_past": True} for id in ids
    ]
    caller.call("put", ids, lambda: caller.client.schedule_many(rows), due_ms=due_ms)


def same_millisecond(stage: Stage, rng: random.Random) -> None:
    caller = _caller(stage, "crowd")
    due_ms = now_us() // 1000 + 1_000 + stage.crowd // 5
    _put(caller, [caller.new_id() for _ in range(stage.crowd)], due_ms, BULK)
    stage.wait(max(due_ms - now_us() // 1000, 0) / 1000 + 0.5)


def malformed(stage: Stage, rng: random.Random) -> None:
    """Break one schedule of a crowd; the other 999 must fire undisturbed."""
    caller = _caller(stage, "good")
    ids, due_ms = [caller.new_id() for _ in range(1_000)], now_us() // 1000 + 2_000
    _put(caller, ids, due_ms, BULK)
    bad = rng.choice(ids)
    stage.foreign.add(bad)
    key = f"{RQ}:job:{bad}-{due_ms}"
    with stage.watch() as watch:
        how = rng.choice(["gone", "no queue", "wrong type"])
        if how == "no queue":
            watch.hdel(key, "origin")
        else:
            watch.delete(key)
        if how == "wrong type":
            watch.set(key, "not a hash")
    stage.wait(max(due_ms - now_us() // 1000, 0) / 1000 + 0.3)


def wrong_queue(stage: Stage, rng: random.Random) -> None:
    """Break the key of a queue, so that its due runs wait. They fire once the key is right again."""
    caller = _caller(stage, "odd")
    ids = [caller.new_id() for _ in range(20)]
    with stage.watch() as watch:
        while not watch.eval(_BREAK_QUEUE, 1, f"{RQ}:queue:{ODD}"):
            stage.wait(0.01)
        _put(caller, ids, now_us() // 1000 + 300, ODD)
        stage.wait(rng.uniform(0.8, 1.5))
        watch.delete(f"{RQ}:queue:{ODD}")
    stage.wait(0.3)


def vanish(stage: Stage, rng: random.Random) -> None:
    """
    Delete the hashes of one-shots and rules shortly before they are due, as an eviction or a clean-up script does. The
    archives have them, so all fire.
    """
    caller = _caller(stage, "gone")
    ids, due_ms = [caller.new_id() for _ in range(200)], now_us() // 1000 + 3_000
    _put(caller, ids, due_ms, BULK)
    rules = [caller.new_id() for _ in range(4)]
    schedule = partial(caller.client.schedule, FUNC, queue=BULK)
    for id in rules:
        every_ms = rng.randint(40, 60) * 100
        caller.call("rule", id, partial(schedule, id=id, every=every_ms / 1000), every_ms=every_ms)
    stage.await_archives(1, within_s=5.0)
    with stage.watch() as watch:
        keys = [f"{RQ}:job:{id}-{due_ms}" for id in rng.sample(ids, 40)]
        keys += [rng.choice([KEYS.schedule, KEYS.template])(id) for id in rules]
        watch.delete(*keys)
        eventually(lambda: not _are_lost(watch, [*ids, *rules], due_ms), 90.0)  # the auditor looks each minute
    for id in rules:
        caller.conclude(partial(caller.cancel, id))


def _are_lost(watch: redis.Redis, ids: list[str], due_ms: int) -> bool:
    """Return True while schedules of *ids* are in quarantine, or one-shots wait that are due at *due_ms*."""
    waiting = [watch.zscore(KEYS.due_normal(), id) for id in ids]
    is_over = now_us() // 1000 > due_ms + 100
    return not is_over or due_ms in waiting or any(watch.hmget(KEYS.quarantine(), ids))


def lack_zone(stage: Stage, rng: random.Random) -> None:
    """
    Let a daemon lead whose machine lacks Europe/Kyiv. A schedule of that zone waits, until a daemon stands by that has
    it.
    """
    caller = _caller(stage, "zone")
    slim, other = stage.seats if rng.random() < 0.5 else stage.seats[::-1]
    stage.end(slim)
    stage.start_slim(slim)
    stage.end(other)
    id = caller.new_id()
    stage.foreign.add(id)  # its times are no multiples of some milliseconds
    with stage.watch() as watch:
        eventually(lambda: is_leader(slim.process, watch), 20.0)
        at = datetime.now(ZoneInfo(_ZONE)) + timedelta(seconds=2)
        daily = f"FREQ=DAILY;BYHOUR={at.hour};BYMINUTE={at.minute};BYSECOND={at.second}"
        put = lambda: caller.client.schedule(FUNC, id=id, rrule=daily, tz=_ZONE, queue=BULK)  # noqa: E731
        caller.conclude(lambda: caller.call("rule", id, put))
        slim.process.wait_for("zone_unknown")
        assert not watch.hexists(KEYS.quarantine(), id), "it was condemned"
        stage.start(other)
        eventually(lambda: watch.keys(f"{RQ}:job:{id}-*"), 20.0)
    caller.conclude(lambda: caller.cancel(id))
    stage.end(slim)
    stage.start(slim)


def churn_rules(stage: Stage, rng: random.Random) -> None:
    """
    Change, pause or cancel a due rule while its plan is on its way, for tens of milliseconds. A plan that is applied
    nevertheless would fire at times of the old rule, or bring the rule back.
    """
    caller = _caller(stage, "churn")
    client, ids = caller.client, [caller.new_id() for _ in range(8)]
    stage.daemons_net.delay_s = 0.06
    until_us = now_us() + 3_000_000

    def rule(id: str) -> None:
        every_ms = rng.randint(80, 200)
        action = lambda: client.schedule(FUNC, id=id, every=every_ms / 1000, queue=BULK)  # noqa: E731
        caller.call("rule", id, action, every_ms=every_ms)

    for id in ids:
        rule(id)
    while now_us() < until_us:
        id = rng.choice(ids)
        rng.choice([rule, rule, caller.pause, caller.resume, caller.cancel])(id)
        stage.wait(0.03)  # rules must live long enough to be due
    stage.daemons_net.mend()
    for id in ids:
        caller.conclude(lambda id=id: caller.cancel(id))  # type: ignore[misc]
