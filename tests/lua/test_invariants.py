"""Random calls in random order: one place per schedule, one push per run, and nothing left over."""

import random
from collections import Counter

import pytest

from tests.breadth import some
from tests.builders.namespaces import FIELDS, HOUR_MS, Namespace
from tests.lua.test_pause_resume import plan_text
from tests.prefix import RQ
from zsched.core.occurrences.outcomes import outcome_of

IDS = ["a", "b", "a-1", "r", "x_y"]
STEPS = 250
MOST_STEPS = 5000


class Storm:
    """Random calls, and a check of the invariants after each."""

    def __init__(self, ns: Namespace, seed: int, *, is_limited: bool) -> None:
        self.ns, self.random, self.is_limited = ns, random.Random(seed), is_limited
        self.ops = self.was_throttled = 0

    def step(self) -> None:
        verbs = [self.put, self.put, self.rule, self.rule, self.pause, self.resume, self.skip, self.cancel]
        verbs += [self.run_now, self.backfill, self.enqueue, self.tick, self.tick, self.tick]
        verbs += [self.rq_cancels, self.lose_hash, self.wait]
        verbs += [self.limit] if self.is_limited else []
        self.random.choice(verbs)()

    def put(self) -> None:
        ids = self.random.sample(IDS, self.random.randint(1, 3))
        due = [self.ns.now_ms + self.random.choice([5, 50, HOUR_MS]) for _ in ids]
        rows = [(id, due_ms, self.random.choice(["one", "two"])) for id, due_ms in zip(ids, due, strict=True)]
        zs = self.random.choice(["1", "1f", "1s", "1fs"])
        self.ns.put(*rows, lane=self._lane(), if_exists=self._if_exists(), fields=FIELDS | {"zs": zs}, op=self._op())

    def rule(self) -> None:
        number = self.random.randint(1, 2)
        self.ns.put_recurring(
            self._id(), f"+{self.random.choice([5, 50, 5000])}", lane=self._lane(), trigger=f"rule-{number}",
            digest=f"digest-{number}-{self.random.randint(1, 2)}", if_exists=self._if_exists(), op=self._op(),
            own={"policy": self.random.choice(["", "f", "s"])},
        )  # fmt: skip

    def pause(self) -> None:
        self.ns.call("pause", [self._id()], note="n")

    def resume(self) -> None:
        self.ns.call("resume", [self._id(), ""], missed="fire")

    def skip(self) -> None:
        id = self._id()
        at = self.ns.places().get(id, "").split()
        version = self.ns.schedule(id).get("version", "-")
        next_ms = self.random.choice(["-", self.ns.now_ms + 77])
        plan = plan_text(at[-1] if at else "-", version, next_ms)
        self.ns.call("resume", [id, plan], missed="skip")

    def cancel(self) -> None:
        self.ns.call("cancel", [self._id()])

    def run_now(self) -> None:
        for op in [self._op() or "op-now"] * self.random.randint(1, 2):  # sent again
            self.ns.call("run_now", id=self._id(), op=op)

    def backfill(self) -> None:
        id, at_ms = self._id(), self.ns.now_ms - 60_000
        rows = [text for n in range(3) for text in (str(at_ms + n), self.random.choice(["once", "again"]))]
        version = self.ns.schedule(id).get("version", "")
        for op in [self._op() or "op-backfill"] * self.random.randint(1, 2):  # sent again
            self.ns.call("run_now", rows, id=id, seen_version=version, op=op)

    def enqueue(self) -> None:
        arguments = {"if_exists": self._if_exists(), "at_front": self.random.randint(0, 1)}
        self.ns.enqueue(self._id(), op=self._op() or "op-enqueue", **arguments)

    def tick(self) -> None:
        fired = self.ns.fire(limit=self.random.choice([1, 2, 100]))
        planned = [(row, int(row[2]), self.random.choice(["", fired.now_ms + 60])) for row in fired.recurring]
        if self.random.random() < 0.2:
            self.step()  # something comes between
        self.ns.advance(*planned)
        if self.random.random() < 0.2:
            self.ns.advance(*planned)  # sent again

    def rq_cancels(self) -> None:
        for run in self._waiting()[:1]:
            self.ns.redis.hset(f"{RQ}:job:{run}", "status", "canceled")

    def lose_hash(self) -> None:
        if self.random.random() < 0.3:
            for run in self._waiting()[:1]:
                self.ns.redis.delete(f"{RQ}:job:{run}")

    def limit(self) -> None:
        """Set another limit of the only queue, or remove it."""
        self.ns.limit(**self.random.choice([{"default": 0.01}, {"default": 0.02}, {"default": 1}, {"other": 1}]))

    def wait(self) -> None:
        self.ns.pass_time(self.random.choice([1, 60, 5000]))
        self.ns.redis.hset(self.ns.keys.meta(), "doubt", self.ns.now_ms - self.random.choice([0, 10_000]))

    def _id(self) -> str:
        return self.random.choice(IDS)

    def _lane(self) -> str:
        return self.random.choice(["high", "normal", "low"])

    def _if_exists(self) -> str:
        return self.random.choice(["replace", "replace", "replace", "keep", "error"])

    def _op(self) -> str | None:
        self.ops += 1
        return self.random.choice([None, f"op-{self.ops}"])

    def _waiting(self) -> list[str]:
        """Return run ids of waiting one-shots."""
        recurring = {member.decode() for member in self.ns.redis.smembers(self.ns.keys.recurring())}
        places = self.ns.places()
        return [f"{id}-{places[id].split()[-1]}" for id in sorted(places.keys() - recurring)]

    def check(self) -> None:
        ns = self.ns
        places = ns.places()  # asserts that no id has two, nor is where nobody looks
        assert {word.partition(":")[2] for word in ns.throttled()} <= ns.limits().keys()
        recurring = {member.decode() for member in ns.redis.smembers(ns.keys.recurring())}
        for prefix in (ns.keys.schedule_prefix(), ns.keys.template_prefix()):
            held = {key.decode().removeprefix(prefix) for key in ns.redis.keys(prefix.replace("{", r"\{") + "*")}
            assert recurring == held
        for id in recurring:
            state = ns.schedule(id)
            assert ("nominal" in state) == (id in places), (id, places, state)
            assert ("ended_at" in state) == (id not in places)
            assert "nominal" not in state or state["nominal"] == places[id].split()[-1]
        queue = ns.queue()
        assert [] == [run for run, times in Counter(queue).items() if times > 1]
        waiting = set(self._waiting())
        for key in ns.redis.keys(f"{RQ}:job:*"):
            run, status = key.decode().removeprefix(f"{RQ}:job:"), ns.redis.hget(key, "status")
            if status == b"scheduled":
                assert run in waiting, f"{run} waits in no lane"
            elif status == b"queued":
                assert run in queue
        ns.check_log()
        assert self._logged() == sorted(queue)

    def _logged(self) -> list[str]:
        """Return every run that the log says was pushed."""
        runs: list[str] = []
        for entry in self.ns.entries():
            fields = entry.fields if entry.kind in ("fire", "run_now", "backfill", "advance") else {}
            runs += fields.get("runs", "").split()
            runs += [fields["run"]] if entry.kind == "run_now" else []
            runs += [entry.texts[2]] if entry.kind == "enqueue" else []
            for row in entry.rows if entry.kind == "advance" else ():
                id, word, nominal_ms, *_ = row.split(" ")
                runs += [f"{id}-{nominal_ms}"] if outcome_of(word).is_pushed else []
        return sorted(runs)


@pytest.mark.parametrize(
    ("seed", "is_limited"),
    some([(seed, is_limited) for seed in range(6) for is_limited in (False, True)], (0, False), (1, True)),
)
def test_random_operations_keep_one_place_and_push_each_run_once(led: Namespace, seed: int, is_limited: bool) -> None:
    storm = Storm(led, seed, is_limited=is_limited)
    led.limit(**({"default": 0.01} if is_limited else {}))

    for n in range(MOST_STEPS):
        if n >= STEPS and (storm.was_throttled > 10 or not is_limited):  # what happens depends on the clock, too
            break
        storm.step()
        storm.was_throttled += any(":" in place for place in led.places().values())
        if n % 25 == 0:
            storm.check()

    storm.check()
    assert len(led.queue()) > 10
    assert (storm.was_throttled > 10) == is_limited
