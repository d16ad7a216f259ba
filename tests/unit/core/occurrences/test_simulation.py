"""A simulation of queues and workers, by hand and beside a clock that ticks through the seconds."""

from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.builders import schedules
from zsched.core.model import Schedule
from zsched.core.occurrences.future import Expected
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.policy import Policy
from zsched.core.occurrences.simulation import Simulation
from zsched.core.options.choices import Overlap

OVERLAP, EXPIRED, CANCELLED, FIRED = Outcome.OVERLAP, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.FIRED


def minutely(id: str, overlap: Overlap = Overlap.SKIP, limit: int = 100, **options: Any) -> Schedule:
    """Return a recurring schedule in the queue q, whose function has its id."""
    options = {"queue": "q", "func": id, "next_ms": 0, "kind": "every", **options}
    return schedules.schedule(id, policy=Policy(overlap=overlap, overlap_limit=limit), **options)


def every_s(one: Schedule, step_s: int, end_s: int) -> list[Expected]:
    return [Expected(at * 1000, one.id, at * 1000, one) for at in range(step_s, end_s, step_s)]


def simulated(one: Schedule, took_s: int, workers: int = 1, end_s: int = 600) -> tuple[dict[Outcome, int], int, int]:
    """Return the outcomes of ten minutes, the longest wait in seconds, and the open runs."""
    simulation = Simulation({"q": workers}, {one.func: took_s * 1000}, 0)
    simulation.run(every_s(one, 60, end_s), end_s * 1000)
    told = simulation.schedules[one.id]
    return dict(+told.outcomes), told.waited_ms // 1000, told.open


@pytest.mark.parametrize(
    ("overlap", "outcomes", "open_runs"),
    [
        (Overlap.SKIP, {FIRED: 3, OVERLAP: 6}, 0),  # 60, 240, 420: each is over at 210, 390, 570
        (Overlap.ALLOW, {FIRED: 9}, 2),  # those of 480 and 540
        (Overlap.QUEUE, {FIRED: 4}, 6),  # 60, 210, 360, 510
        (Overlap.CANCEL_PREVIOUS, {FIRED: 1, CANCELLED: 8}, 1),
    ],
)
def test_the_policy_for_overlapping_runs_decides_what_becomes_of_occurrences(
    overlap: Overlap, outcomes: dict[Outcome, int], open_runs: int
) -> None:
    found, _, still_open = simulated(minutely("a", overlap), took_s=150, workers=0)

    assert outcomes == found
    assert open_runs == still_open


def test_occurrences_beyond_the_limit_of_waiting_runs_are_skipped() -> None:
    found, waited_s, still_open = simulated(minutely("a", Overlap.QUEUE, 2), took_s=150)

    assert {FIRED: 4, OVERLAP: 3} == found
    assert (270, 3) == (waited_s, still_open)  # one runs and two wait


def test_a_run_that_no_worker_starts_in_time_expires_and_the_next_one_follows() -> None:
    found, waited_s, _ = simulated(minutely("a", Overlap.ALLOW, expires_ms=90_000), took_s=100)

    assert {FIRED: 6, EXPIRED: 2} == found
    assert waited_s <= 90


def test_a_run_that_waits_longer_than_the_patience_keeps_no_other_back() -> None:
    blocker, one = minutely("long", Overlap.ALLOW), minutely("a")
    simulation = Simulation({"q": 1}, {"long": 10_000_000}, 0)

    simulation.run([Expected(1000, "long", 1000, blocker), *every_s(one, 1800, 7300)], 7_300_000)

    assert {OVERLAP: 2} == dict(+simulation.schedules["a"].outcomes)  # at 3600 and 7200
    assert 2 == simulation.schedules["a"].open


def test_a_queue_without_a_number_of_workers_starts_each_run_at_once() -> None:
    simulation, one = Simulation({}, {"a": 1_000_000}, 0), minutely("a", Overlap.ALLOW)

    simulation.run(every_s(one, 1, 100), 100_000)

    assert (99, 0) == (simulation.schedules["a"].number(), simulation.schedules["a"].waited_ms)
    assert 0 == simulation.backlog("q").peak


class Clock:
    """The same rules, told again: each second the runs end, then occurrences happen, then workers take jobs."""

    def __init__(self, workers: int, took_s: dict[str, int]) -> None:
        self.free, self.took_s = workers, took_s
        self.jobs: list[tuple[int, Schedule]] = []
        self.running: list[tuple[int, int, Schedule]] = []  # end, due, schedule
        self.behind: dict[str, deque[int]] = {}
        self.told: Counter[tuple[str, Outcome]] = Counter()

    def outcomes(self) -> dict[str, dict[Outcome, int]]:
        found: dict[str, dict[Outcome, int]] = {}
        for (id, outcome), number in (+self.told).items():
            found.setdefault(id, {})[outcome] = number
        return found

    def is_open(self, one: Schedule) -> bool:
        return any(each.id == one.id for *_, each in [*self.jobs, *self.running])

    def pass_second(self, now_s: int, occurrences: list[Schedule]) -> None:
        for run in [run for run in self.running if run[0] == now_s]:
            self.running.remove(run)
            self.free += 1
            self.follow(now_s, run[2])
            self.take(now_s)
        for one in occurrences:
            policy = one.policy
            waiting = self.behind.setdefault(one.id, deque())
            if policy.overlap is Overlap.ALLOW or not self.is_open(one):
                self.jobs.append((now_s, one))
            elif policy.overlap is Overlap.SKIP or (
                policy.overlap is Overlap.QUEUE and len(waiting) == policy.overlap_limit
            ):
                self.told[one.id, OVERLAP] += 1
            elif policy.overlap is Overlap.QUEUE:
                waiting.append(now_s)
            else:
                self.cancel(now_s, one)
                self.jobs.append((now_s, one))
            self.take(now_s)

    def cancel(self, now_s: int, one: Schedule) -> None:
        self.told[one.id, CANCELLED] += 1
        self.jobs = [job for job in self.jobs if job[1].id != one.id]
        for run in [run for run in self.running if run[2].id == one.id]:
            self.told[one.id, FIRED] -= 1
            self.running.remove(run)
            self.free += 1
            self.take(now_s)

    def follow(self, now_s: int, one: Schedule) -> None:
        if self.behind.get(one.id):
            self.jobs.append((self.behind[one.id].popleft(), one))

    def take(self, now_s: int) -> None:
        while self.free and self.jobs:
            due_s, one = self.jobs.pop(0)
            if one.expires_ms is not None and now_s * 1000 > due_s * 1000 + one.expires_ms:
                self.told[one.id, EXPIRED] += 1
                self.follow(now_s, one)
                continue
            self.free -= 1
            self.told[one.id, FIRED] += 1
            self.running.append((now_s + self.took_s[one.id], due_s, one))
            self.running.sort(key=lambda run: run[0])


@st.composite
def many(draw: st.DrawFn) -> list[tuple[Schedule, int, int]]:
    """Draw schedules with their steps and durations in seconds."""
    return [
        (
            minutely(
                f"s{number}",
                draw(st.sampled_from(Overlap)),
                draw(st.integers(1, 3)),
                expires_ms=draw(st.none() | st.integers(1, 200).map(lambda s: s * 1000)),
            ),
            draw(st.integers(5, 100)),
            draw(st.integers(1, 200)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=examples(200), deadline=None)
@given(many(), st.integers(1, 4))
def test_a_simulation_agrees_with_a_clock_that_ticks_through_the_seconds(
    given: list[tuple[Schedule, int, int]], workers: int
) -> None:
    end_s, took_s = 900, {one.id: took_s for one, _, took_s in given}
    clock = Clock(workers, took_s)
    for now_s in range(1, end_s):
        clock.pass_second(now_s, [one for one, step_s, _ in given if now_s % step_s == 0])
    simulation = Simulation({"q": workers}, {id: each * 1000 for id, each in took_s.items()}, 0)

    simulation.run(sorted(each for one, step_s, _ in given for each in every_s(one, step_s, end_s)), end_s * 1000)

    assert {id: {} for id in took_s} | clock.outcomes() == {
        id: dict(+told.outcomes) for id, told in simulation.schedules.items()
    }
