"""Namespaces on a real Redis for the tests of scripts: state in, call by keyword, state out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any

import redis

from tests.builders.entries import LogEntry
from tests.builders.progress import words_of
from tests.builders.records import JOB_FIELDS
from tests.waiting import WITHIN_S
from zsched.core.clock import LAST_MS
from zsched.core.entry import Entry
from zsched.core.options.checked import letters_in
from zsched.core.options.choices import Priority
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.scripts import Scripts

SERVER = "server-1"
LEASE_MS = 20_000  # no test takes so long
TOKEN = f"daemon-1:7:{LEASE_MS}:nonce-1"
EPOCH = 7
TERM = Term(TOKEN, EPOCH, SERVER, LEASE_MS, float("inf"), 0, 0)
HOUR_MS = 3_600_000

FIELDS = {name: text for name, text in JOB_FIELDS.items() if name != "data"}
OWN = {"func": "app.task"}
TEMPLATE = {name: text for name, text in JOB_FIELDS.items() if name != "zs"}


@dataclass(frozen=True)
class Fire:
    """The reply of fire.lua by name."""

    now_us: str
    next_ms: int | str
    looked: int
    runs: int
    skipped: list[str]
    expired: list[str]
    cancelled: list[str]
    quarantined: list[list[str]]
    uncertain: int
    recurring: list[list[str]]
    wrong: list[str]

    @property
    def now_ms(self) -> int:
        return int(self.now_us) // 1000


class Namespace:
    """A namespace, its keys, and its scripts. ``redis`` is a plain client that returns bytes."""

    def __init__(self, client: redis.Redis, url: str, namespace: str = "default", rq_prefix: str | None = None) -> None:
        self.redis, self.keys = client, Keys(namespace, rq_prefix)
        self.link = Link.from_url(url, WITHIN_S)
        self.scripts = Scripts(self.link, self.keys)
        self.trimmed = 0  # entries of the log, by ``trim``
        self.began_ms = self.server_ms

    def acting_as(self, by: str) -> Namespace:
        """Return the same namespace for calls that *by* asks for."""
        other = copy(self)
        other.scripts = Scripts(self.link, self.keys, by)
        return other

    def close(self) -> None:
        self.link.pool.disconnect()

    # -- time ---------------------------------------------------------------------------------

    @property
    def server_ms(self) -> int:
        """The server's TIME, rounded up."""
        seconds, micros = self.redis.time()
        return seconds * 1000 + -(-micros // 1000)

    def freeze(self, at_ms: int | None = None) -> None:
        """Stop the scripts' clock, now or at *at_ms*; ``pass_time`` moves it."""
        self.redis.hset(self.keys.meta(), "frozen_ms", self.now_ms if at_ms is None else at_ms)

    @property
    def now_ms(self) -> int:
        """The time that scripts see. A clock that runs is rounded up: a later script sees at least one ms less."""
        frozen_ms, offset_ms = self.redis.hmget(self.keys.meta(), "frozen_ms", "offset_ms")
        if frozen_ms is not None:
            return int(frozen_ms)
        return self.server_ms + int(offset_ms or 0)

    def pass_time(self, ms: int) -> None:
        """Move the scripts' clock."""
        is_frozen = self.redis.hexists(self.keys.meta(), "frozen_ms")
        self.redis.hincrby(self.keys.meta(), "frozen_ms" if is_frozen else "offset_ms", ms)

    def pass_until(self, ms: int) -> None:
        """Move the scripts' clock so that a later script sees *ms* or later."""
        self.pass_time(ms + 1 - self.now_ms)

    def is_life(self, key: str, given_s: int, since_ms: int) -> bool:
        """Return True if *key* got *given_s* to live after *since_ms* of the server: no more is left, and no less."""
        left_ms, passed_ms = int(self.redis.pttl(key)), self.server_ms - since_ms
        return left_ms == given_s if given_s < 0 else 0 <= given_s * 1000 - left_ms <= passed_ms + 2  # rounded times

    # -- state --------------------------------------------------------------------------------

    def lead(self, **meta: Any) -> None:
        """Write a term like acquire, long ago; *meta* replaces its fields."""
        self.redis.hset(self.keys.meta(), mapping={"epoch": EPOCH, "server": SERVER, "gen": "gen-1"} | meta)
        self.redis.set(self.keys.lease(), TOKEN, px=600_000)

    def places(self) -> dict[str, str]:
        """Return each id with its place and due time: "normal 17…", "normal:email 17…" throttled, "paused low 17…"."""
        found: dict[str, str] = {}
        lanes, throttled = [lane.value for lane in Priority], self.throttled()
        named = {f"{self.keys.prefix}due:{word}" for word in [*lanes, *throttled]}
        there = {key.decode() for key in self.redis.keys(f"{self.keys.prefix}due:*".replace("{", r"\{"))}
        assert there <= named  # who looks for what is throttled finds all of it
        for word in [*lanes, *throttled]:
            for member, score in self.redis.zrange(f"{self.keys.prefix}due:{word}", 0, -1, withscores=True):
                assert member.decode() not in found
                found[member.decode()] = f"{word} {score:.0f}"
        for place in ("paused", "quarantine"):
            for member, value in self.redis.hgetall(f"{self.keys.prefix}{place}").items():
                assert member.decode() not in found
                lane, due_ms = value.decode().split(" ")[:2]
                found[member.decode()] = f"{place} {lane} {due_ms}"
        return found

    def throttled(self) -> list[str]:
        """Return the words of the ZSETs besides the lanes that may hold schedules."""
        return (self.redis.hget(self.keys.meta(), "throttled") or b"").decode().split()

    def limits(self) -> dict[str, str]:
        return _texts(self.redis.hgetall(self.keys.limits()))

    def job(self, run: str) -> dict[str, str]:
        return _texts(self.redis.hgetall(self.keys.rq.job(run)))

    def schedule(self, id: str) -> dict[str, str]:
        """Return its fields, with the words of its progress in its place."""
        fields = _texts(self.redis.hgetall(self.keys.schedule(id)))
        return fields | words_of(id, fields.pop("progress", "- - - -"))

    def progress(self, id: str) -> str:
        """Return the progress of a recurring schedule as it is."""
        return (self.redis.hget(self.keys.schedule(id), "progress") or b"").decode("latin-1")

    def template(self, id: str) -> dict[str, str]:
        return _texts(self.redis.hgetall(self.keys.template(id)))

    def queue(self, name: str = "default") -> list[str]:
        """Return run ids in the order in which workers take them."""
        return [run.decode() for run in self.redis.lrange(self.keys.rq.queue(name), 0, -1)]

    def run(self, id: str, ms: int | str) -> str:
        return self.keys.run_id(id, ms)

    def keyspace(self) -> dict[bytes, Any]:
        """Return all keys in a comparable form."""
        return {key: self.redis.dump(key) for key in self.redis.keys("*")}

    @contextmanager
    def heard(self, channel: str) -> Iterator[list[bytes]]:
        """Collect the messages of *channel* until the block ends."""
        heard: list[bytes] = []
        with self.redis.pubsub(ignore_subscribe_messages=True) as listener:
            listener.subscribe(channel)
            listener.get_message(timeout=WITHIN_S)
            yield heard
            self.redis.publish(channel, "the end")
            while heard[-1:] != [b"the end"]:
                message = listener.get_message(timeout=WITHIN_S)
                assert message is not None
                heard.append(message["data"])
            heard.pop()

    # -- log ----------------------------------------------------------------------------------

    def entries(self) -> list[LogEntry]:
        return [LogEntry.of(id, texts) for id, texts in self.link.execute("XRANGE", self.keys.log(), "-", "+")]

    def parsed(self) -> list[Entry]:
        """Return the entries as an archive reads them."""
        return [Entry.of(id, texts) for id, texts in self.link.execute("XRANGE", self.keys.log(), "-", "+")]

    @property
    def last(self) -> LogEntry:
        return self.entries()[-1]

    def check_log(self) -> None:
        """
        Check the log: ids are <epoch>-<seq>; seq is dense from 1 (or the trimmed number) and equals the one in meta; t
        is TIME in µs and never goes back.
        """
        entries = self.entries()
        ids = [tuple(map(int, entry.id.split("-"))) for entry in entries]
        assert list(range(self.trimmed + 1, self.trimmed + len(ids) + 1)) == [seq for _, seq in ids]
        assert sorted(epoch for epoch, _ in ids) == [epoch for epoch, _ in ids]
        assert all(len(entry.t) == 16 and entry.t.isdigit() for entry in entries)
        if entries:
            assert str(self.trimmed + len(entries)).encode() == self.redis.hget(self.keys.meta(), "seq")

    # -- calls --------------------------------------------------------------------------------

    def call(self, name: str, rows: Any = (), **arguments: Any) -> list[Any]:
        """
        Call a script as the leader whose clock has not jumped, without an operation id, a version or a signed time,
        unless given. Return the reply without its OK, texts decoded.
        """
        usual = {"op": "-", "seen_version": "", "run_ms": "", "patience_ms": HOUR_MS}
        usual |= {"lacking": "", "place": "paused", "until_ms": ""}
        leader = {"token": TOKEN, "expected_server": SERVER, "clock_from_ms": 0, "clock_until_ms": LAST_MS}
        arguments = usual | leader | arguments
        return _decoded(self.scripts.call(name, rows=rows, **arguments))

    def put(
        self, *rows: tuple[str, Any] | tuple[str, Any, str] | tuple[str, Any, str, str], **options: Any
    ) -> list[tuple[str, str]]:
        """Put (id, due ms[, data[, its name]]) rows; return (word, due ms) per row."""
        return self.put_reply(*rows, **options)[1]

    def put_later(self, *ids: str, **options: Any) -> int:
        """Put one-shots that are due in an hour; return their due time."""
        due_ms = self.now_ms + HOUR_MS
        self.put(*((id, due_ms) for id in ids), **options)
        return due_ms

    def put_reply(
        self, *rows: Any, fields: dict[str, str] | None = None, op: str | None = None, **over: Any
    ) -> tuple[list[Any], list[tuple[str, str]]]:
        shared = flat(dict(sorted((fields or FIELDS).items())))
        texts = list(shared)
        for id, due_ms, *call in rows:
            data, name = *call, *("call", "data")[len(call) :]
            texts += (id, due_ms, name, data)
        arguments = {
            "lane": "normal", "if_exists": "replace", "enabled": "", "allow_past": 0, "op": op or "-",
            "field_size": len(shared),
        }  # fmt: skip
        reply = self.call("put", texts, **(arguments | over))
        return reply, list(zip(reply[2::2], reply[3::2], strict=True))

    def put_recurring(self, id: str = "r", next: Any = None, op: str | None = None, **row: Any) -> list[Any]:
        """Put one rule, see ``rule``; return word, now ms, version, due ms."""
        now_ms, version, word, due_ms = self.put_rules(self.rule(id, next, **row), op=op)
        return [word, now_ms, version, due_ms]

    def put_rules(self, *rows: list[Any], op: str | None = None, **over: Any) -> list[Any]:
        """Put *rows* of ``rule``; return now ms, the version of written rows, then per row word and due ms."""
        shapes: list[Any] = []
        texts: list[Any] = []
        for shape, *row in rows:
            if shape not in shapes:
                shapes.append(shape)
            texts += [shapes.index(shape) + 1, *row]
        arguments = {"op": op or "-", "shape_count": len(shapes)}
        given = [text for shape in shapes for text in shape]
        now_ms, change, *answers = self.call("put_recurring", [*given, *texts], **(arguments | over))
        return [now_ms, change.partition("/")[2], *answers]

    def rule(
        self, id: str = "r", next: Any = None, own: dict[str, str] | None = None,
        template: dict[str, str] | None = None, **row: Any,
    ) -> list[Any]:  # fmt: skip
        """Return a row of put_recurring, its shape first; by default of a rule whose next time is in an hour."""
        said = {
            "lane": "normal", "if_exists": "replace", "enabled": "", "seen_version": "", "trigger": "rule-1",
            "digest": "digest-1", "name": "data",
            "anchor_ms": "", "jitter_ms": 0, "next_ms": self.now_ms + HOUR_MS if next is None else next,
            "from_ms": 0, "until_ms": LAST_MS,
        }  # fmt: skip
        assert row.keys() <= said.keys()
        said |= row
        job = {"status": "queued"} | TEMPLATE | (template or {})
        data = job.pop("data")
        own = OWN | ({"policy": "e"} if "zs_expires" in job else {}) | (own or {})
        own_texts, texts = flat(own), flat(job)
        head = [said.pop(name) for name in ("lane", "if_exists", "enabled")]
        shape = [*head, len(own_texts), len(texts), *own_texts, *texts]
        names = ("anchor_ms", "next_ms", "jitter_ms", "from_ms", "until_ms")
        head = [said[name] for name in ("seen_version", "trigger", "digest", "name")]
        return [shape, id, *head, data, *(said[name] for name in names)]

    def enqueue(self, id: str, fields: dict[str, str] = TEMPLATE, **over: Any) -> list[Any]:
        return self.call("enqueue", flat(fields), id=id, **({"if_exists": "replace", "at_front": 0} | over))

    def fire(self, **over: Any) -> Fire:
        reply = self.fire_reply(**over)
        assert reply[0].isdigit(), reply
        reply[9] = [
            [texts[n], word, *texts[n + 1 : n + 6]] for word, *texts in reply[9] for n in range(0, len(texts), 6)
        ]
        return Fire(*reply)

    def fire_reply(self, **over: Any) -> list[Any]:
        return self.call("fire", **({"limit": 100} | over))

    def advance(
        self,
        *planned: tuple[Any, ...],
        overlap: str = "skip",
        overlap_limit: int = 100,
        jitter_ms: int = 0,
        **over: Any,
    ) -> list[str]:
        """
        Commit plans (recurring row of fire, fire ms or "", next ms or ""). A plan may have (first, last, count) of
        coalesced occurrences, or a text of passed ones; each is due *jitter_ms* after its time. Return a word per plan.
        """
        plans: dict[str, list[int]] = {}
        for number, (row, fire_ms, next_ms, *passed) in enumerate(planned):
            fire, then = ("-" if ms == "" else ms for ms in (fire_ms, next_ms))
            told = passed[0] if len(passed) == 1 else "coalesced:{}:{}:{}".format(*passed) if passed else "-"
            due = fire if fire == "-" else int(fire) + jitter_ms
            words = row[1], fire, due, overlap, overlap_limit, self._flags(row[0]), then, then, told
            plan = " ".join(map(str, words))
            plans.setdefault(plan, []).append(number)
        order = [*chain.from_iterable(plans.values())]
        texts = [f"{len(numbers)} {plan}" for plan, numbers in plans.items()]
        texts += [planned[number][0][n] for n in (0, 3) for number in order]
        words = dict(zip(order, self.call("advance", [len(plans), *texts], **over)[1].split(), strict=True))
        return [words[number] for number in range(len(planned))]

    def _flags(self, id: str) -> str:
        """Return the flags of a recurring schedule for its plan, as fire answers them."""
        key = self.keys.schedule(id)
        policy = self.redis.hget(key, "policy") if self.redis.type(key) == b"hash" else None
        return letters_in((policy or b"").decode("utf-8", "replace")) or "-"

    def limit(self, **per_second: float) -> None:
        """Set these limits of queues."""
        rows = [text for queue, rate in per_second.items() for text in (queue, f"{rate:g}")]
        self.call("limits", rows)

    def report(self, archive: str = "archive-1", entry: LogEntry | None = None, **over: Any) -> int:
        """Report that an archive has all up to *entry* on its disk; return TIME."""
        at = {"entry": entry.id, "entry_t": entry.t} if entry else {"entry": "-", "entry_t": 0}
        reply = self.call(
            "report", archive=archive, **({"state": "following", "about": "{}", "hold_for_ms": 0} | at | over)
        )
        return int(reply[0])

    def trim(self, first_kept: str, **over: Any) -> int:
        """Trim the log before id *first_kept*; return the number of removed entries."""
        arguments = {"first_kept": first_kept, "limit": 1000, "silent_ms": HOUR_MS} | over
        forgotten = int(self.call("trim", **arguments)[0])
        self.trimmed += forgotten
        return forgotten


def _texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def flat(fields: dict[str, str]) -> list[str]:
    """Return names and values in turn."""
    return [text for pair in fields.items() for text in pair]


def put_due(ns: Namespace, *ids: str, lane: str = "normal", age_ms: int = 1000, **fields: str) -> list[str]:
    """Put one-shots that are due since *age_ms*, a millisecond apart; return their run ids."""
    first_ms = ns.now_ms - age_ms
    rows = [(id, first_ms + n) for n, id in enumerate(ids)]
    ns.put(*rows, lane=lane, allow_past=1, fields=FIELDS | fields)
    return [f"{id}-{due_ms}" for id, due_ms in rows]
