"""
A hostile writer of RQ's jobs, with the rights of a worker only. Schedules that it did not touch must be undisturbed.

The writer knows the ids and times of waiting runs, and forges rows of other schedules into the jobs of its baits. The
audit excuses the baits; every other schedule must be kept, whatever log entry it shares with a bait.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import redis

from tests.builders.redises import connect
from tests.faults.archives import KEYS, log_in
from tests.prefix import RQ
from tools.campaign.calls import now_us
from tools.campaign.clients import Caller
from tools.campaign.receipts import FUNC
from tools.campaign.stage import Stage
from tools.campaign.workers import BULK
from zsched import ScheduleRow
from zsched.core.clock import from_ms
from zsched.core.log.kinds import changes
from zsched.core.occurrences.outcomes import What
from zsched.storage.rights import Role, rights_of

_GOOD, _FAR, _BAITS = 300, 20, 60
_PASSWORD = "hostile"
_FIELDS = (
    "status", "origin", "zs", "zs_expires", "enqueued_at", "worker_name", "zs_note", "zs_attempts", "timeout", "data",
    "meta",
)  # fmt: skip
_FORGED = (What.CANCELLED, What.QUARANTINED)
_FORGEABLE = ("status", "origin")
_DUE_IN_MS, _FAR_MS = 2_500, 7_200_000


def write_jobs(stage: Stage, rng: random.Random) -> None:
    caller = Caller(f"hostile{now_us() // 1000}", stage.redis.tcp_url, stage.ledger)
    due_ms = now_us() // 1000 + _DUE_IN_MS
    good, far, baits = ([caller.new_id() for _ in range(number)] for number in (_GOOD, _FAR, _BAITS))
    rule = caller.new_id()
    stage.foreign |= {*baits, rule}
    mixed = rng.sample([*good, *baits], _GOOD + _BAITS)
    _put(caller, mixed, due_ms)
    _put(caller, far, due_ms + _FAR_MS)
    waiting = dict.fromkeys(good, due_ms) | dict.fromkeys(far, due_ms + _FAR_MS)
    caller.client.schedule(FUNC, id=rule, every=0.2, queue=BULK)
    with stage.watch() as watch, _hostile(stage, watch) as writer:
        for bait in baits:
            victim = rng.choice([*far, *rng.sample(good, _FAR)])
            _spoil(writer, rng, f"{RQ}:job:{bait}-{due_ms}", victim, f"{victim}-{waiting[victim]}")
        made_ms = int(watch.zscore(KEYS.due_normal(), rule) or due_ms)
        for number in range(1, 20):  # jobs of runs to come
            writer.hset(f"{RQ}:job:{rule}-{made_ms + 200 * number}", "status", "finished")
        stage.wait(max(due_ms - now_us() // 1000, 0) / 1000 + 0.5)
        caller.client.cancel(rule)
    told = (change for entry in log_in(stage.redis.tcp_url) for change in changes(entry))
    forged = {change.id for change in told if change.what in _FORGED} & {*good, *far}
    assert not forged, f"the log says for a worker that these are no more: {sorted(forged)[:5]}"


def _put(caller: Caller, ids: list[str], due_ms: int) -> None:
    rows: list[ScheduleRow] = [
        {"func": FUNC, "id": id, "at": from_ms(due_ms), "queue": BULK, "allow_past": True} for id in ids
    ]
    caller.call("put", ids, lambda: caller.client.schedule_many(rows), due_ms=due_ms)


def _hostile(stage: Stage, watch: redis.Redis) -> redis.Redis:
    """Return a connection of a worker of deploy/redis/users.acl."""
    rights = rights_of([Role.WORKER], KEYS).rule.split()
    ask: Any = watch.execute_command
    ask("ACL", "SETUSER", "hostile", "reset", "on", *rights, f">{_PASSWORD}")
    writer = connect(stage.redis.tcp_url.replace("://", f"://hostile:{_PASSWORD}@"))
    try:
        writer.zcard(KEYS.due_normal())
    except redis.exceptions.NoPermissionError:
        return writer
    raise AssertionError("a worker may read what is due")


def _spoil(writer: redis.Redis, rng: random.Random, job: str, victim: str, run: str) -> None:
    """Spoil *job* with a text that names *victim*."""
    forged = [f"q\n{victim} normal 1900000000000 pwned", f"x {run}=canceled", f"x\n{run} failed {{}}"]
    others: list[str | bytes] = ["q\n!", b"\xff\n", f"x\0{run}", "", "1" + "0" * 300, "nan", "A" * 1_000_000]

    def write() -> None:
        field, text = (
            rng.choice((_FIELDS, _FORGEABLE)[rng.randrange(2)]),
            rng.choice((forged, others)[rng.randrange(2)]),
        )
        writer.hset(job, field, text)
        if field == "origin" and 0 < len(text) < 1000:
            shown = text if isinstance(text, bytes) else text.encode()
            writer.set(f"{RQ}:queue:".encode() + shown, "no list")

    def retype() -> None:
        writer.delete(job)
        ways: list[Callable[[], object]] = [partial(writer.set, job, "x"), partial(writer.rpush, job, "x")]
        rng.choice(ways)()

    how: list[Callable[[], object]] = [write, write, write, write, retype, lambda: writer.delete(job)]
    rng.choice(how)()
