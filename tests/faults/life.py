"""Schedules through their life: all operations of clients at random, the same for the same seed."""

import random
import time
import uuid
from contextlib import suppress
from typing import Any

import redis

from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.errors import InvalidSchedule, ScheduleExists, ScheduleInPast, ScheduleNotFound, TriggerError

_LANES = ["high", "normal", "low"]
_LATER_MS = 3_600_000
_RECENT = 500  # one-shots that things are done to
_REFUSALS = (InvalidSchedule, ScheduleExists, ScheduleInPast, ScheduleNotFound, TriggerError)


class Life:
    """
    ``step`` does one random operation; ``scheduled`` counts the schedules that were made. At most *rules* recur at a
    time, *bulk* rows are put at once, and a schedule due soon is due within *soon_ms*.
    """

    def __init__(
        self, url: str, watch: redis.Redis, seed: int, *, rules: int = 40, bulk: int = 60, soon_ms: int = 4_000
    ) -> None:
        self.scheduled = 0
        self._client, self._watch, self._random = Client.from_url(url), watch, random.Random(seed)
        self._most_rules, self._bulk, self._soon_ms = rules, bulk, soon_ms
        self._ones: list[str] = []
        self._rules: list[str] = []

    def live(self, number: int, for_s: float) -> None:
        """Make *number* schedules, evenly over *for_s*."""
        made = self.scheduled
        began_s = time.monotonic()
        while self.scheduled - made < number:
            self.step()
            share = (self.scheduled - made) / number
            until_s = began_s + share * for_s
            eventually(lambda until_s=until_s: time.monotonic() >= until_s)  # type: ignore[misc]

    def step(self) -> None:
        """Do a random operation; a refusal is fine."""
        make = [self._put, self._put, self._put_many, self._rule, self._rule]
        change = [self._pause, self._pause, self._resume, self._skip, self._cancel, self._again, self._again]
        with suppress(*_REFUSALS):
            self._random.choice([*make, *change, self._run_now, self._run_now, self._enqueue])()

    def settle(self) -> None:
        """Return when nothing recurs any more and every schedule due soon has fired."""
        for number, id in enumerate(self._rules):
            with suppress(*_REFUSALS):
                if number % 2:
                    self._client.pause(id, "the end")
                else:
                    self._client.cancel(id)
        eventually(lambda: not self._is_something_due())

    def _is_something_due(self) -> bool:
        until_ms = self._now_ms() + _LATER_MS // 2
        return any(self._watch.zcount(f"zsched:{{default}}:due:{lane}", "-inf", until_ms) for lane in _LANES)

    # -- what clients do --------------------------------------------------------------------------

    def _put(self) -> None:
        id = self._new_id()
        self._client.schedule("app.task", id=id, at=self._time(), args=(self._word(),), **self._options())
        self._made(id)

    def _put_many(self) -> None:
        ids, options = [self._new_id() for _ in range(self._bulk)], self._options()
        self._client.schedule_many({"func": "app.task", "id": id, "at": self._time(), **options} for id in ids)
        self._made(*ids)

    def _rule(self) -> None:
        if len(self._rules) >= self._most_rules:
            id = self._rules.pop(self._random.randrange(len(self._rules)))
            self._client.cancel(id)
        id, every = self._new_id(), self._random.randint(200, 1000) / 1000
        self._client.schedule("app.tick", id=id, every=every, count=self._random.choice([None, None, 3]))
        self._rules.append(id)
        self.scheduled += 1

    def _again(self) -> None:
        """Put another time or rule under an id that was given before."""
        if self._rules and self._random.random() < 0.5:
            self._client.schedule("app.tick", id=self._random.choice(self._rules), every=0.7, args=(self._word(),))
        else:
            self._client.schedule("app.task", id=self._one(), at=self._time(), **self._options())

    def _pause(self) -> None:
        self._client.pause(self._one(), self._random.choice(["", "until the sale is over"]))

    def _resume(self) -> None:
        self._client.resume(self._one())

    def _skip(self) -> None:
        self._client.resume(self._one(), "skip")

    def _cancel(self) -> None:
        self._client.cancel(self._one())

    def _run_now(self) -> None:
        self._client.run_now(self._one())

    def _enqueue(self) -> None:
        if self._random.random() < 0.5:
            self._client.enqueue("app.task", (self._word(),), id=self._one())
        else:
            id = self._new_id()
            self._client.enqueue("app.task", (self._word(),), id=id)
            self._made(id)

    # -- with what --------------------------------------------------------------------------------

    def _made(self, *ids: str) -> None:
        self.scheduled += len(ids)
        self._ones = [*self._ones, *ids][-_RECENT:]

    def _one(self) -> str:
        """Return an id that was given before, or an unknown id."""
        known = [*self._ones, *self._rules * 3]
        return self._random.choice(known) if known else "nobody"

    def _new_id(self) -> str:
        return uuid.UUID(int=self._random.getrandbits(128)).hex

    def _word(self) -> str:
        return "w" * self._random.randint(1, 40)

    def _time(self) -> Any:
        after_ms = self._random.randint(0, self._soon_ms) + (_LATER_MS if self._random.random() < 0.2 else 0)
        return from_ms(self._now_ms() + after_ms)

    def _options(self) -> dict[str, Any]:
        return {"priority": self._random.choice(_LANES), "allow_past": True}

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000
