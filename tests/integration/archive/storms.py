"""Random operations of clients, a leader, RQ and other writers."""

import random
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from tests.builders.leaders import HOUR_MS
from tests.builders.scenes import BROKEN_RULE, Scene
from zsched import ScheduleRow
from zsched.core.clock import from_ms
from zsched.errors import (
    Garbled,
    InvalidSchedule,
    RedisUnavailable,
    ScheduleExists,
    ScheduleInPast,
    ScheduleNotFound,
    TriggerError,
)

IDS = ["a", "b", "a-1", "r", "x_y"]


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
        occurrences = [
            (ms + n, "again" if self.random.random() < 0.3 else "once") for n in range(self.random.randint(1, 3))
        ]
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
            self.scene.redis.hset(self.scene.keys.schedule(id), "trigger", BROKEN_RULE)

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
