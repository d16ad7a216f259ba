"""
Schedules of which another program has spoilt one field, among healthy ones; and the garbage that it wrote.

Each value depends on the seed and on its number only: ``ZSCHED_TEST_SEED`` gives other ones.
"""

import base64
import json
import os
import pickle
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import redis

from tests.prefix import RQ
from zsched import Client
from zsched.core.options.forms import Stored
from zsched.core.options.table import OPTIONS
from zsched.core.runs.job import JOB_FIELDS, OFFSET_FIELD, SIGNATURE_FIELD
from zsched.storage.keys import Keys
from zsched.storage.signing import SIGNED

JOBS: Final = int(os.environ.get("ZSCHED_TEST_GARBAGE", 300))
VIEWED: Final = 1000 if "ZSCHED_TEST_GARBAGE" in os.environ else 100  # schedules that each view of one shows
SEED: Final = int(os.environ.get("ZSCHED_TEST_SEED", 44))
AT: Final = datetime(2032, 2, 29, 12, tzinfo=UTC)
KEYS: Final = Keys("default")
FUNC: Final = "app.tasks.remind"
QUEUE: Final = "mail"
CANARIES: Final = 10
PER_CALL: Final = 1000

# What RQ reads and writes besides (RQ 3's Job.to_dict and Job.restore).
_OF_RQ: Final = (
    "allow_dependency_failures", "created_at", "data", "dependency_id", "dependency_ids", "description",
    "enqueue_at_front", "enqueue_at_front_on_retry", "exc_info", "group_id", "meta", "origin", "result", "serializer",
    "status", "ttl", "key_prefix",
)  # fmt: skip
_OURS: Final = (
    "zs", "zs_func", "zs_version", "zs_retries", "zs_result_ttl", "zs_failure_ttl", "zs_tags", "zs_owner", "zs_name",
    "zs_tz", "zs_deadline", "zs_uncertain", "zs_attempts", "zs_told", "zs_gone", "zs_next", "zs_stop", "zs_unique",
    "zs_state", "zs_id", "zs_kind", "zs_args", "zs_policy", "zs_trigger", OFFSET_FIELD, SIGNATURE_FIELD,
)  # fmt: skip

_WORKER: Final = (
    "birth", "death", "last_heartbeat", "queues", "state", "current_job", "hostname", "ip_address", "pid", "version",
    "python_version", "successful_job_count", "failed_job_count", "total_working_time", "zs_guard", "zs_warned",
)  # fmt: skip


def _option_fields(*places: Stored) -> set[str]:
    return {name for option in OPTIONS.values() if option.stored in places for name in option.field.split()}


JOB: Final = sorted({*_OF_RQ, *_OURS, *SIGNED, *JOB_FIELDS.values(), *_option_fields(Stored.JOB, Stored.RQ)})
OWN: Final = sorted(
    _option_fields(Stored.OWN, Stored.LABEL)
    | {"anchor", "created_at", "digest", "ended_at", "failures", "func", "lane", "policy", "progress"}
    | {"trigger", "updated_at", "id", "args", "kwargs"}
)

# -- garbage ----------------------------------------------------------------------------------------

_DEEP: Any = []
for _ in range(400):
    _DEEP = [_DEEP]
_NUMBERS: Final = (
    "0", "-1", "-0", "+5", " 5", "5 ", "1_000", "0x7", "1.5", "1e3", "nan", "inf", "-inf", "1e999", "9" * 18, "9" * 400,
    "9" * 5000, "-" + "9" * 18, "-" + "9" * 30, "٣٤", "2147483648", "9223372036854775808", "253402300800000",
)  # fmt: skip
_TIMES: Final = (
    "2026-11-21T08:00:00.123456Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z",
    "2026-02-30T00:00:00.000000Z", "1969-12-31T23:59:59.000000Z", "10000-01-01T00:00:00.000000Z", "now", "-",
)  # fmt: skip
_TEXTS: Final = (
    b"", b" ", b"\xff\xfe\x00", b"\xed\xa0\x80", b"\xc3", b"\0", b"\x1b]0;mine\x07\x1b[2J", b"a\nb\r\nc\td",
    b"x" * 300_000,
    "\u202egnp.exe\u2028\ufeff".encode(), b"<script>alert(1)</script>", b"{{ 7 * 7 }}%s%d{0}", b"*", b"../..", b"once",
    b"1fsel", b"high", b"normal", "e\u0301\U0001f600".encode(),
)  # fmt: skip
_JSON: Final = (
    "[", "{", "nul", "null", "true", "5", '"x"', "[]", "{}", "[1, null, {}]", '["\\ud800"]', '{"\\ud800": "\\udfff"}',
    "[" * 100_000, '{"a":' * 5000, "[" * 400 + "]" * 400, '{"a": NaN, "b": 1e999}', "[-1]", '["x"]', "[1e400]",
    '{"func": 5}', '["\\u0000\\u001b[2J"]',
)  # fmt: skip
_SPEC: Final[dict[str, tuple[Any, ...]]] = {
    "kind": ("every", "cron", "rrule", "once", "", 5, None, [], {}),
    "expr": ("60000", "0 9 * * *", "FREQ=DAILY", "", "0", "-5", "9" * 30, 5, None, [1], "\ud800", "* " * 5000),
    "tz": ("UTC", "Asia/Seoul", "Mars/Base", "", 5, None, "\ud800", "../../etc/passwd", "x" * 5000),
    "starts_ms": (0, -1, "x", 1.5, 10**30, None, [], float("nan"), True),
    "ends_ms": (0, -(10**30), "x", float("inf"), {}),
    "count": (0, -1, "x", 10**30, 1.5, []),
    "gap": ("shift", "x", 5, None, []),
    "fold": ("both", "x", 5, {}),
    "jitter_ms": (5, -1, -1.5, "x", 10**30, float("nan"), None, []),
    "more": (1,),
}
_POLICY: Final[dict[str, tuple[Any, ...]]] = {
    "catch_up": ("all", "x", 5, None, []),
    "catch_up_window_ms": (-1, 10**30, "x", float("nan"), None, [], True),
    "catch_up_limit": (0, -1, 10**30, "x", 1.5, None),
    "overlap": ("queue", "x", 5, {}),
    "overlap_limit": (0, -1, 10**30, "x", None),
    "more": (1,),
}
_ARGS: Final[tuple[Any, ...]] = (
    (), ("\ud800",), ({"\ud800": ["\udfff"]},), (float("nan"),), (10**5000,), (b"\xff",), ({1, 2},), ({1: 2, None: 3},),
    (_DEEP,), (AT,), (timedelta(1),), ("\0\x1b[2J\u202e",), (os.system,), "text", 5, None, {"a": 1}, [[]],
    ("x" * 200_000,),
)  # fmt: skip
_KWARGS: Final[tuple[Any, ...]] = (
    {}, {"a": "\ud800"}, {"\ud800": 1}, {1: 2}, {"a": 10**5000}, {"a": _DEEP}, None, [], "x", 5, {"a": {b"k": 1}},
)  # fmt: skip


# What once failed, in the first one-shots and rules: their first fields, whatever the seed is.
_ONCE: Final[dict[str, bytes]] = {
    "zs_jitter": b"-1", "success_callback_name": b"", "created_at": b"\xb5026-11-29", "zs_name": b"x" * 300_000,
    "data": zlib.compress(json.dumps([FUNC, None, 5, []]).encode()), "retry_intervals": b"5", "timeout": b"1h",
}  # fmt: skip
_RULES: Final[dict[str, bytes]] = {
    "trigger": b'{"kind":"cron","expr":5,"tz":"UTC"}', "policy": b'{"catch_up_limit":"x"}',
    "progress": b"9" * 19 + b" - - 1-1-1",
    "tags": b'["\\ud800"]', "anchor": b"9" * 400, "func": b"x" * 300_000,
}  # fmt: skip


def garbage(random: random.Random, name: str, old: bytes) -> bytes:
    """Return a value for the field *name*, whose right value is *old*."""
    makers = [_number, _text, _json, _mutated, _call]
    if name in ("trigger", "policy"):
        makers += [_spoilt_object] * 5
    if name in ("data", "meta", "result"):
        makers += [_call] * 5
    if name.endswith("_at") or "heartbeat" in name:
        makers += [_time] * 2
    return random.choice(makers)(random, name, old)


def _number(random: random.Random, name: str, old: bytes) -> bytes:
    return random.choice(_NUMBERS).encode()


def _time(random: random.Random, name: str, old: bytes) -> bytes:
    return random.choice(_TIMES).encode()


def _text(random: random.Random, name: str, old: bytes) -> bytes:
    return random.choice([*_TEXTS, random.randbytes(random.randint(1, 60))])


def _json(random: random.Random, name: str, old: bytes) -> bytes:
    return random.choice(_JSON).encode()


def _mutated(random: random.Random, name: str, old: bytes) -> bytes:
    """Return *old* with a byte changed, left out or put in, or its beginning."""
    place = random.randrange(len(old) + 1)
    middle = random.choice([b"", random.randbytes(1), old[place : place + 1] * 2])
    return random.choice([old[:place], old[:place] + middle + old[place + 1 :]])


def _call(random: random.Random, name: str, old: bytes) -> bytes:
    """Return a payload, or a part of one, of either serializer."""
    func = random.choice([FUNC, FUNC, "", 5, None, "\ud800.x", "a.b" * 100_000])
    call: Any = (func, None, random.choice(_ARGS), random.choice(_KWARGS))
    call = random.choice([call, call, list(call), call[:3], (*call, 5), call[2], call[3], {"a": call[2]}])
    try:
        raw = json.dumps(call).encode() if random.random() < 0.5 else pickle.dumps(call, random.choice([0, 2, 4, 5]))
    except (TypeError, ValueError, RecursionError):
        raw = pickle.dumps(call)
    raw = zlib.compress(raw) if random.random() < 0.5 else raw
    return random.choice([raw, raw, raw[: random.randrange(len(raw) + 1)], raw + b"x", base64.b64encode(raw)])


def _spoilt_object(random: random.Random, name: str, old: bytes) -> bytes:
    values = _SPEC if name == "trigger" else _POLICY
    letters, brace, rest = old.partition(b"{")  # the flags of a policy
    found = json.loads(brace + rest or b"{}")
    for key in random.sample(sorted(values), random.choice([1, 1, 2])):
        found[key] = random.choice(values[key])
        if random.random() < 0.1:
            del found[key]
    return letters + json.dumps(found).encode()


# -- schedules --------------------------------------------------------------------------------------

Reader = Callable[[], Any]


@dataclass
class Garbage:
    """A namespace with *number* schedules, each with one field of garbage, and canaries among them."""

    redis: redis.Redis
    client: Client
    number: int
    at: datetime = AT
    every_s: int = 0  # of the rules, instead of a calendar's
    seed: int = SEED
    spoilt: dict[str, tuple[str, str, bytes | None, bytes]] = field(default_factory=dict)  # key, field, old, new
    rows: list[Any] = field(default_factory=list)  # of the put
    canaries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return [*self.spoilt, *self.canaries]

    def put(self) -> None:
        """Put one-shots and rules in turn, ten of which stay healthy; a fifth is paused or in quarantine."""
        every, rows, canaries = max(self.number // CANARIES, 1), self.rows, list[str]()
        for n in range(self.number):
            rows.append(self._row(f"v{n:05}", n))
            if n % every == 0:
                canaries.append(f"v{n:05}-healthy")
                rows.append(self._row(canaries[-1], n // every))
        many = self.client.schedule_many(rows)
        assert [] == many.errors
        paused = [id for id in map(_id, rows) if id not in canaries and int(id[1:]) % 10 in (7, 8)]
        for at in range(0, len(paused), 100):
            self.client._store.pause(paused[at : at + 100], "for a while")
        for id in paused[::3]:
            value = self.redis.hget(KEYS.paused(), id)
            self.redis.hdel(KEYS.paused(), id)
            self.redis.hset(KEYS.quarantine(), id, value or "")
        self.canaries = {one.id: one.to_dict() for one in self.client._get_many(canaries)}
        self._spoil([_id(row) for row in rows if _id(row) not in self.canaries])
        self._spoil_rq()

    def _spoil_rq(self) -> None:
        """Register workers, each with one field of garbage, and garbage among the queues and the ids of jobs."""
        right = dict.fromkeys(_WORKER, b"5") | {"queues": b"other", "state": b"idle", "version": b"2.8"}
        del right["death"]
        for n, name in enumerate(_WORKER * 3):
            chance = random.Random(f"{self.seed}-w{n}")
            key, text = f"{RQ}:worker:w{n}", garbage(chance, "", b"other")[:1000]
            self.redis.hset(key, mapping=right | {name: garbage(chance, name, right.get(name, b""))})
            self.redis.sadd(f"{RQ}:workers", key)
            self.redis.sadd(f"{RQ}:queues", f"{RQ}:queue:".encode() + text)
            self.redis.rpush(f"{RQ}:queue:other", text)
            for registry in ("finished", "failed", "wip", "deferred", "scheduled"):
                self.redis.zadd(f"{RQ}:{registry}:other", {text: n})

    def _row(self, id: str, n: int) -> dict[str, Any]:
        more: dict[str, Any] = {
            "func": FUNC, "id": id, "queue": QUEUE, "args": (n,), "kwargs": {"to": "x"}, "tags": ["sale"],
            "owner": "shop", "name": "A name", "description": "A description", "retry": {"max": 3, "interval": [5]},
            "result_ttl": 5, "timeout": 60, "meta": {"a": 1}, "on_success": "app.tasks.wipe", "expires_after": "1d",
        }  # fmt: skip
        if n % 2:
            rule = {"every": self.every_s} if self.every_s else {"cron": f"{n % 60} 9 * * *", "tz": "Asia/Seoul"}
            return {"jitter": 5, "pause_after_failures": 3, "overlap": "queue", "catch_up": "all"} | rule | more
        return {"at": self.at + timedelta(seconds=n % 60), "jitter": 5} | more

    def _spoil(self, ids: Sequence[str]) -> None:
        known = {True: list(_RULES.items()), False: list(_ONCE.items())}
        for n, id in enumerate(ids):
            chance = random.Random(f"{self.seed}-{n}")
            is_rule = bool(self.redis.sismember(KEYS.recurring(), id))
            if known[is_rule]:
                key, (name, new) = KEYS.schedule(id) if is_rule else self._job(id), known[is_rule].pop()
                self.spoilt[id] = key, name, self.redis.hget(key, name), new
                continue
            is_own = is_rule and chance.random() < 0.5
            key = KEYS.schedule(id) if is_own else KEYS.template(id) if is_rule else self._job(id)
            names = OWN if is_own else JOB
            # A field that zsched or RQ writes, each as often; now and then a name of a wrong kind.
            name = names[(n // 2 * 7 + chance.randrange(7)) % len(names)] if chance.random() < 0.98 else "\x1b\udcff"
            old = self.redis.hget(key, name.encode(errors="surrogateescape"))
            self.spoilt[id] = key, name, old, garbage(chance, name, old or b"")
        for id in ids:
            self._write(id, spoils=True)

    def _job(self, id: str) -> str:
        found = self.client._reader.find(id)
        assert found is not None
        return KEYS.rq.job(KEYS.run_id(id, found.next_ms or 0))

    def _write(self, id: str, *, spoils: bool) -> None:
        key, name, old, new = self.spoilt[id]
        name_bytes = name.encode(errors="surrogateescape")
        value = new if spoils else old
        self.redis.hdel(key, name_bytes) if value is None else self.redis.hset(key, name_bytes, value)

    def culprit(self, reader: Reader) -> str:
        """Return the one schedule, as a text, whose garbage alone lets *reader* fail. All are spoilt again then."""
        left = list(self.spoilt)
        while len(left) > 1:
            half, rest = left[: len(left) // 2], left[len(left) // 2 :]
            self._write_all(half, spoils=False)
            if _fails(reader):
                left = rest
            else:
                self._write_all(half, spoils=True)
                self._write_all(rest, spoils=False)
                left = half
        self._write_all(self.spoilt, spoils=True)
        return self.told(left[0])

    def told(self, id: str) -> str:
        """Return what is wrong with schedule *id*."""
        if id in self.canaries:
            return f"{id}: it is healthy"
        key, name, _, new = self.spoilt[id]
        return f"{id}: {name} of {key} is {new[:200]!r} ({len(new)} bytes)"

    def _write_all(self, ids: Iterable[str], *, spoils: bool) -> None:
        for id in ids:
            self._write(id, spoils=spoils)


def _id(row: dict[str, Any]) -> str:
    return str(row["id"])


def _fails(reader: Reader) -> bool:
    try:
        reader()
    except Exception:
        return True
    return False
