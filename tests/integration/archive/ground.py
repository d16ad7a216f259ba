"""A namespace on a real Redis, all operations of a client and a leader, and an archive that follows."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from tests.builders.leaders import Leader, know
from tests.faults.clocks import now_ms
from tests.prefix import RQ
from zsched import Client, ScheduleRow
from zsched.archive import Archive
from zsched.core.clock import LAST_MS, SystemClock, from_ms
from zsched.core.log import Entry
from zsched.core.log.recovery import restored
from zsched.core.record import Record
from zsched.daemon.follower import Follower
from zsched.errors import (
    Garbled,
    InvalidSchedule,
    RedisUnavailable,
    ScheduleExists,
    ScheduleInPast,
    ScheduleNotFound,
    TriggerError,
)
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Window
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.scanner import Scanner

ALWAYS = Window(0, LAST_MS)
HOUR_MS = 3_600_000
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
NO_RULE = b"none"
IDS = ["a", "b", "a-1", "r", "x_y"]
# What changes in Redis as a run or schedule goes its way, and is told by other columns of the state than its record.
_MOVING = {"status", "created_at", "enqueued_at", "zs_uncertain", "zs_version"}
_MOVING_OWN = {"nominal", "last", "ended_at", "version"}  # a restore gives a version of its own

State = dict[
    tuple[str, str], tuple[Any, ...]
]  # id, run → place, due, nominal, last, note, fields, lane, own fields, state


class Scene(Leader):
    """One namespace: ``client``, a leader by hand, and ``follower`` with its ``archive`` in *folder*."""

    def __init__(self, redis_client: Any, url: str, folder: Path, namespace: str = "default") -> None:
        know(redis_client, namespace)
        super().__init__(url, Keys(namespace))
        self.redis, self.folder = redis_client, folder
        self.client = Client(self.link, namespace)
        self._archives: list[Archive] = []
        self.follow()

    def follow(self, name: str = "archive.db", **options: Any) -> Archive:
        """Let the archive *name* follow from now on."""
        self.archive = Archive(self.folder / name, self.keys.namespace, **options)
        self.follower = Follower(self.archive, self.wire, self.keys, SystemClock())
        self._archives.append(self.archive)
        return self.archive

    def reopen(self) -> None:
        """Close the archive and open it again."""
        self.archive.close()
        self._archives.remove(self.archive)
        self.follow(self.archive.path.name)

    def close(self) -> None:
        for archive in self._archives:
            archive.close()
        super().close()

    @property
    def now_ms(self) -> int:
        return now_ms(self.redis) + int(self.redis.hget(self.keys.meta(), "offset_ms") or 0)

    def pass_time(self, ms: int) -> None:
        """Move the scripts' clock."""
        self.redis.hincrby(self.keys.meta(), "offset_ms", ms)

    # -- what is compared -------------------------------------------------------------------------

    def in_redis(self) -> State:
        """Return the state of Redis in the words of the archive's state."""
        return held_by(self.wire, self.keys)

    def in_archive(self) -> State:
        """Return the state of the archive in the same words."""
        return archived_by(self.archive)

    def log(self) -> list[Entry]:
        """Return every entry of Redis's log."""
        return list(Log(self.wire, self.keys).entries())

    def queued(self) -> set[str]:
        """Return the run ids in RQ's queue."""
        return {run.decode() for run in self.redis.lrange(f"{RQ}:queue:default", 0, -1)}


class Storm:
    """Random operations on *scene*; the same *seed* gives the same operations."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene, self.random, self.client = scene, random.Random(seed), scene.client

    def run(self, number: int) -> None:
        """Do so many random operations."""
        for _ in range(number):
            self.step()

    def step(self) -> None:
        """Do a random operation; a refusal by the client is fine."""
        verbs = [self.put, self.put, self.put_many, self.rule, self.rule, self.again, self.pause, self.pause]
        verbs += [self.resume, self.skip, self.cancel, self.run_now, self.enqueue, self.update, self.wait, self.wait]
        verbs += [self.backfill, self.backfill]
        verbs += [self.tick, self.tick, self.tick, self.tick, self.lose_hash, self.rq_cancels, self.break_rule]
        refusals = (InvalidSchedule, ScheduleExists, ScheduleInPast, ScheduleNotFound, TriggerError)
        with suppress(*refusals):
            self.random.choice(verbs)()

    def put(self) -> None:
        self.client.schedule("app.task", id=self._id(), at=self._soon(), args=(self._word(),), **self._options())

    def put_many(self) -> None:
        ids = self.random.sample(IDS, 3)
        options = self._options()
        rows = [{"func": "app.task", "id": id, "at": self._soon(), **options} for id in ids]
        self.client.schedule_many(cast(list[ScheduleRow], rows), errors="return")

    def rule(self) -> None:
        rules: list[dict[str, Any]] = [
            {"every": 0.05}, {"every": 0.2}, {"every": 7}, {"cron": "* * * * *"}, {"every": 0.1, "count": 2},
        ]  # fmt: skip
        options = self._options() | self.random.choice(rules)
        self.client.schedule("app.task", id=self._id(), args=(self._word(),), **options)

    def again(self) -> None:
        """Put an existing schedule once more, unchanged."""
        schedule = self.client.get(self._id())
        if schedule.trigger is None and schedule.next_at is not None:
            self.client.schedule("app.task", id=schedule.id, at=schedule.next_at, allow_past=True)

    def pause(self) -> None:
        self.client.pause(self._id(), self.random.choice(["", "until the sale is over"]))

    def resume(self) -> None:
        self.client.resume(self._id())

    def skip(self) -> None:
        with suppress(RedisUnavailable):  # what the client says of one whose rule somebody broke
            self.client.resume(self._id(), "skip")

    def cancel(self) -> None:
        self.client.cancel(self._id())

    def run_now(self) -> None:
        self.client.run_now(self._id())

    def enqueue(self) -> None:
        self.client.enqueue(
            "app.task", (self._word(),), id=self._id(), if_exists=self.random.choice(["replace", "keep"])
        )

    def backfill(self) -> None:
        """Backfill by calling the script: no archive here answers which occurrences ran."""
        schedule, ms = self.client.get(self._id()), self.scene.now_ms - 60_000
        occurrences = [(ms + n, self.random.random() < 0.3) for n in range(self.random.randint(1, 3))]
        self.client._store.backfill(schedule.id, schedule.version or "", occurrences)

    def update(self) -> None:
        changes: list[dict[str, Any]] = [{"args": (self._word(),)}, {"priority": self._lane()}, {"at": self._soon()}]
        with suppress(Garbled):  # as in skip
            self.client.update(self._id(), **self.random.choice(changes))

    def tick(self) -> None:
        self.scene.tick(self.random.choice([1, 2, 100]))

    def wait(self) -> None:
        self.scene.pass_time(self.random.choice([1, 60, 5000, 90_000]))
        doubt_ms = self.scene.now_ms - self.random.choice([0, 10_000, 200_000])
        self.scene.redis.hset(self.scene.keys.meta(), "doubt", doubt_ms)

    def lose_hash(self) -> None:
        """Delete a waiting run's hash, so that fire quarantines its schedule."""
        if self.random.random() < 0.3:
            for run in self._waiting()[:1]:
                self.scene.redis.delete(self.scene.keys.rq.job(run))

    def rq_cancels(self) -> None:
        for run in self._waiting()[:1]:
            self.scene.redis.hset(self.scene.keys.rq.job(run), "status", "canceled")

    def break_rule(self) -> None:
        """Write a rule that cannot be planned, so that the leader quarantines its schedule."""
        id = self._id()
        if self.random.random() < 0.3 and self.scene.redis.exists(self.scene.keys.schedule(id)):
            self.scene.redis.hset(self.scene.keys.schedule(id), "trigger", NO_RULE)

    def _id(self) -> str:
        return self.random.choice(IDS)

    def _word(self) -> str:
        return self.random.choice(["one", "two"])

    def _lane(self) -> str:
        return self.random.choice(["high", "normal", "low"])

    def _soon(self) -> Any:
        return from_ms(self.scene.now_ms) + timedelta(milliseconds=self.random.choice([5, 50, 4000, HOUR_MS]))

    def _options(self) -> dict[str, Any]:
        return {
            "priority": self._lane(),
            "if_exists": self.random.choice(["replace", "replace", "replace", "keep", "error"]),
            "on_uncertain": self.random.choice(["refire", "skip"]),
            "enabled": self.random.choice([*[None] * 8, False, True]),
            "allow_past": True,
        }

    def _waiting(self) -> list[str]:
        keys = self.scene.keys
        recurring = self.scene.redis.smembers(keys.recurring())
        lanes = [self.scene.redis.zrange(keys.prefix + f"due:{lane}", 0, -1, withscores=True) for lane in
                 ("high", "normal", "low")]  # fmt: skip
        waiting = [(id, due) for lane in lanes for id, due in lane if id not in recurring]
        return [keys.run_id(id.decode(), f"{due:.0f}") for id, due in waiting]


def held_by(wire: Wire, keys: Keys) -> State:
    """Return the state of Redis as a bootstrap reads it, in the words of ``archived_by``."""
    held: State = {}
    scanner = Scanner(wire, keys)
    for _, rows in scanner.schedules(dict.fromkeys(scanner.ids())):
        held |= {(row.id, row.run): told(row) for row in rows}
    for _, rows in scanner.runs(dict.fromkeys(scanner.run_ids()), None):
        held |= {(row.id, row.run): told(row) for row in rows}
    return held


def archived_by(archive: Archive) -> State:
    """Return the state in *archive*."""
    return {(row.id, row.run): told(row) for row in archive.state()}


def told(record: Record) -> tuple[Any, ...]:
    """Return the parts of *record* that stay unchanged; for a pushed run only RQ's part."""
    job = {name: value for name, value in record.job_fields().items() if name.decode() not in _MOVING}
    place = record.place, record.due_ms, record.nominal_ms, record.last, record.note
    if record.place == "open":
        return *place, {name: value for name, value in job.items() if name != b"zs"}, "", {}, ""
    own = {name: value for name, value in record.own_fields().items() if name.decode() not in _MOVING_OWN}
    return *place, job, record.lane, own, record.state


def schedule(scene: Scene, *ids: str, **options: Any) -> None:
    """Put one-shots *ids*, due tomorrow unless *options* give a time."""
    for id in ids:
        scene.client.schedule("app.task", id=id, **({"at": SOON} | options))


def rows_put_back(scene: Scene) -> list[tuple[str, str]]:
    """Return (id, place) of all restores in the log."""
    return [(row.id, row.place) for one in scene.log() if one.kind == "restore" for row in restored(one)]


def assert_state_is_redis_own(scene: Scene) -> None:
    """Check that the archive has the state of Redis."""
    held, archived = scene.in_redis(), scene.in_archive()
    assert held.keys() == archived.keys(), held.keys() ^ archived.keys()
    for key, (*place, fields, lane, own, state) in held.items():
        is_broken = not fields or own.get(b"trigger") == NO_RULE  # by another writer: the archive has what was put
        record = archived[key][len(place) :] if is_broken else (fields, lane, own, state)
        assert (*place, *record) == archived[key], (key, (*place, *record), archived[key])
