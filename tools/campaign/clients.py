"""
Clients that write all the time and record the replies; whatever happens to Redis, they continue.

An id belongs to one thread, so its calls have an order. A put that raised is sent again with the same id, which its
message allows. A call that is never acknowledged stays *unknown*.
"""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tools.campaign.calls import Call, Ledger, now_us
from tools.campaign.receipts import FAIL, FUNC, LINGER
from tools.campaign.workers import BULK, QUEUE
from zsched import Client, ScheduleOptions, ScheduleRow
from zsched.core.clock import from_ms
from zsched.core.options.choices import Priority
from zsched.errors import InvalidSchedule, ScheduleExists, ScheduleNotFound, ZschedError

CALENDAR = "closed"  # that some rules name in exclude: minutes of the day, which change all the time
QUEUED = "-queued"  # ends the id of a rule with overlap="queue"
DONE_BY, DONE_BY_S = "-by", 2  # ends the id of a one-shot with done_by, which is so many seconds
TIMEOUT_S = 2.0
_HOUR_MS = 3_600_000
_RECENT = 40  # one-shots that things are done to
_LANES = tuple(Priority)
_REFUSALS = (InvalidSchedule, ScheduleExists, ScheduleNotFound)


class Caller:
    """A client that records each call with its reply."""

    def __init__(self, name: str, url: str, ledger: Ledger) -> None:
        self.name, self._ledger = name, ledger
        self.client = Client.from_url(url, timeout_s=TIMEOUT_S)
        self.outcome = self.word = ""  # of the last call
        self._number = 0

    def call(self, verb: str, ids: str | Iterable[str], action: Callable[[], Any], **facts: Any) -> Any:
        """Call *action*, and record it for each of *ids*. Return its result, or None if it raised."""
        began, result, outcome, word = now_us(), None, "done", ""
        try:
            result = action()
        except _REFUSALS as error:
            outcome, word = "refused", type(error).__name__
        except ZschedError as error:
            outcome, word = "unknown", f"{type(error).__name__}: {error}"[:160]
        except Exception as error:
            outcome, word = "crashed", repr(error)
        ended = now_us()
        each: dict[str, Any] = facts.pop("each", {})
        told: dict[str, Any] = {}
        for id in [ids] if isinstance(ids, str) else ids:
            told = facts | each.get(id, {}) | _told(result)
            self._ledger.add(Call(verb, id, began, ended, outcome, **{"word": word} | told))
        self.outcome, self.word = outcome, told.get("word", word)
        return result if outcome == "done" else None

    def conclude(self, call: Callable[[], Any]) -> None:
        """Repeat *call* until it is answered."""
        for _ in range(100):
            call()
            if self.outcome in ("done", "refused"):
                return
            threading.Event().wait(0.1)

    def pause(self, id: str) -> None:
        self.call("pause", id, lambda: self.client.pause(id, "for a while"))

    def resume(self, id: str) -> None:
        self.call("resume", id, lambda: self.client.resume(id))

    def cancel(self, id: str) -> None:
        self.call("cancel", id, lambda: self.client.cancel(id))

    def new_id(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"


class Writer(Caller, ABC):
    """One thread of calls through one client. ``rest_s`` is the pause between two steps."""

    rest_s = 0.1

    def __init__(self, name: str, url: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name, url, ledger)
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self) -> None:
        """Stop writing; the call in flight ends first."""
        self._stopping.set()
        self._thread.join(60)

    @abstractmethod
    def step(self) -> None:
        """Do one thing of this client."""

    def settle(self) -> None:  # most clients have nothing to undo
        """
        Undo everything that nobody would ever complete, so that every due schedule gets its turn. Call it after
        ``stop``.
        """

    def insist(self, call: Callable[[], Any], tries: int = 30) -> Any:
        """Repeat *call* like ``conclude``, unless this client is stopped meanwhile."""
        for _ in range(tries):
            result = call()
            if self.outcome in ("done", "refused") or self._stopping.wait(0.1):
                return result
        return None

    def _run(self) -> None:
        while not self._stopping.wait(self._random.uniform(0.5, 1.5) * self.rest_s):
            self.step()


class Ones(Writer):
    """One-shots: soon or much later, put again, moved, cancelled, paused and resumed."""

    rest_s = 0.12

    def __init__(self, name: str, url: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name, url, ledger, seed)
        self._known: dict[str, int] = {}  # id → due ms, the newest last
        self._paused: set[str] = set()

    def step(self) -> None:
        doings = [self._new] * 7 + [self._after, self._move, self._again, self._cancel, self._pause, self._pause]
        self._random.choice(doings)()
        if len(self._paused) > 3:
            self._unpause(min(self._paused))

    def settle(self) -> None:
        for id in sorted(self._paused):  # those gone for good refuse it
            self.conclude(lambda id=id: self.resume(id))  # type: ignore[misc]

    def _new(self) -> None:
        self._put(self.new_id() + (DONE_BY if self._random.random() < 0.4 else ""), self._time_ms())

    def _put(self, id: str, due_ms: int) -> None:
        options: ScheduleOptions = {
            "id": id,
            "at": from_ms(due_ms),
            "allow_past": True,
            "queue": QUEUE,
            "priority": self._random.choice(_LANES),
            "on_uncertain": "skip" if self._random.random() < 0.2 else "refire",
            "durable": self._random.random() < 0.15,
            "done_by": DONE_BY_S if id.endswith(DONE_BY) else None,
        }
        facts = {"due_ms": due_ms, "is_durable": options["durable"], "is_skip": options["on_uncertain"] == "skip"}

        def put() -> Any:
            return self.call("put", id, lambda: self.client.schedule(FUNC, **options), **facts)

        if self.insist(put) is not None:
            self._known[id] = due_ms
            for old in list(self._known)[:-_RECENT]:
                del self._known[old]

    def _after(self) -> None:
        id, after_s = self.new_id(), self._random.randint(0, 3000) / 1000
        schedule, func = self.client.schedule, self._random.choice((FUNC, FAIL))
        self.call("put", id, lambda: schedule(func, id=id, after=after_s, queue=QUEUE), is_relative=True)

    def _move(self) -> None:
        """Move a one-shot that is not due for a while to another time."""
        if later := self._later():
            self._put(self._random.choice(later), self._time_ms())

    def _again(self) -> None:
        """Repeat a put of a one-shot that may have run already."""
        if self._known:
            id = self._random.choice(list(self._known))
            self._put(id, self._known[id])

    def _cancel(self) -> None:
        if later := self._later():
            id = self._random.choice(later)
            self.insist(lambda: self.cancel(id))
            del self._known[id]

    def _pause(self) -> None:
        if later := self._later():
            id = self._random.choice(later)
            self.pause(id)
            self._paused.add(id)

    def _unpause(self, id: str) -> None:
        self.insist(lambda: self.resume(id))
        if self.outcome == "done":  # that there is none may be said by a Redis that is about to get it back
            self._paused.discard(id)

    def _later(self) -> list[str]:
        now_ms = now_us() // 1000
        return [id for id, due_ms in self._known.items() if due_ms > now_ms + 1_000 and id not in self._paused]

    def _time_ms(self) -> int:
        return now_us() // 1000 + self._random.randint(0, 5_000) + (_HOUR_MS if self._random.random() < 0.15 else 0)


class Batches(Writer):
    """``schedule_many``, a batch a second, and now and then something to run at once."""

    rest_s = 0.8

    def step(self) -> None:
        ids = [self.new_id() for _ in range(self._random.randint(10, 60))]
        durable, now_ms = self._random.random() < 0.3, now_us() // 1000
        dues = {id: now_ms + self._random.randint(0, 4_000) for id in ids}
        options: ScheduleOptions = {"queue": BULK, "allow_past": True, "durable": durable}
        rows: list[ScheduleRow] = [{"func": FUNC, "id": id, "at": from_ms(dues[id]), **options} for id in ids]
        each = {id: {"due_ms": due_ms} for id, due_ms in dues.items()}
        many = self.client.schedule_many
        self.insist(lambda: self.call("put", ids, lambda: many(rows), each=each, is_durable=durable))
        id = self.new_id()
        self.call("enqueue", id, lambda: self.client.enqueue(FUNC, id=id, queue=QUEUE))


class Rules(Writer):
    """
    Recurring schedules, a dozen at most: made, put again, given another payload, paused, run now, cancelled. Some have
    a calendar, which changes.
    """

    rest_s = 0.5
    most = 12

    def __init__(self, name: str, url: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name, url, ledger, seed)
        self._rules: dict[str, dict[str, Any]] = {}
        self._paused: set[str] = set()

    def step(self) -> None:
        if len(self._rules) < self.most:
            self._new()
        else:
            doings = [self._again, self._payload, self._run_now, self._leave_out, self._pause, self._cancel]
            doings += [self._calendar]
            self._random.choice(doings)()
        if len(self._paused) > 2:
            self._unpause(self._paused.pop())

    def settle(self) -> None:
        """End all recurrence: cancel some rules, leave some paused."""
        for n, id in enumerate(self._rules):
            end = self.pause if n % 2 else self.cancel
            self.conclude(lambda end=end, id=id: end(id))  # type: ignore[misc]

    def _new(self) -> None:
        every_ms = self._random.randint(30, 100) * 10
        is_skip = self._random.random() < 0.2
        options: dict[str, Any] = {"every": every_ms / 1000, "on_uncertain": "skip" if is_skip else "refire"}
        overlap = self._random.choices(("skip", "queue", "cancel_previous"), (6, 3, 1))[0]
        if overlap == "queue":
            options |= {"overlap_limit": 5}  # they are to be received soon after the end
        if self._random.random() < 0.4:
            options |= {"exclude": [CALENDAR], "on_excluded": self._random.choice(("skip", "next_open"))}
            self.insist(self._calendar)
        self._put(self.new_id() + (QUEUED if overlap == "queue" else ""), options | {"overlap": overlap})

    def _put(self, id: str, options: dict[str, Any]) -> None:
        facts = {"every_ms": round(options["every"] * 1000), "is_skip": options["on_uncertain"] == "skip"}
        schedule = self.client.schedule
        func = LINGER if id.endswith(QUEUED) else FUNC
        put = lambda: schedule(func, id=id, queue=QUEUE, **options)  # noqa: E731
        self._rules[id] = options  # also when that is not known, so that it is ended in the end
        self.insist(lambda: self.call("rule", id, put, **facts))

    def _again(self) -> None:
        id = self._any()
        self._put(id, self._rules[id])

    def _payload(self) -> None:
        id = self._any()
        self._put(id, self._rules[id] | {"args": ("x" * self._random.randint(1, 60),)})

    def _run_now(self) -> None:
        id = self._any()
        self.call("run_now", id, lambda: self.client.run_now(id))

    def _calendar(self) -> None:
        """Close one of the next minutes, or none."""
        begin = from_ms(now_us() // 1000) + timedelta(minutes=self._random.randint(0, 3))
        window = f"{begin:%H:%M}-{begin + timedelta(minutes=1):%H:%M}"
        self.call("calendar", CALENDAR, lambda: self.client.put_calendar(CALENDAR, windows=[window]))

    def _leave_out(self) -> None:
        id, number = self._any(), self._random.randint(1, 3)
        self.call("leave_out", id, lambda: self.client.skip(id, next=number))

    def _pause(self) -> None:
        id = self._any()
        self.pause(id)
        self._paused.add(id)

    def _unpause(self, id: str) -> None:
        if self._random.random() < 0.5:
            self.resume(id)
        else:
            self.call("skip", id, lambda: self.client.resume(id, "skip"))

    def _cancel(self) -> None:
        id = self._any()
        self.insist(lambda: self.cancel(id))
        if self.word == "cancelled":  # that there is none may be said by a Redis that is about to get it back
            del self._rules[id]
            self._paused.discard(id)

    def _any(self) -> str:
        return self._random.choice(list(self._rules))


def _told(result: Any) -> dict[str, Any]:
    """Return the parts of a reply that belong into the ledger."""
    if isinstance(result, str):
        return {"run_id": result} if result.rpartition("-")[2].isdigit() or "-r" in result else {"word": result}
    told: dict[str, Any] = {}
    with suppress(AttributeError):
        told["word"] = result.outcome
        if result.run_id:
            told["run_id"] = result.run_id
            told["due_ms"] = round(result.next_at.timestamp() * 1000)
    return told
