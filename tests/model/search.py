"""
The search for a history in which a promise breaks: random events, and the shortest list that still breaks it.

A seed stands for one world and one list of events, always the same while this module is unchanged.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.model.invariants import Broken
from tests.model.rules import ALL_KEPT, Rule
from tests.model.world import Event, World, names, outcome, show

SCHEDULES = 5
STEPS = ["acquire", "fire", "fire", "follow", "follow", "follow", "follow", "track", "trim"]
FAULTS = ["pause", "crash", "restart"]
LOSSES = ["rollback", "failover", "flush", "new_disk"]
SHRUNK = 40  # failing runs to shorten, per invariant: shortening is what takes long


@dataclass(frozen=True, slots=True)
class Run:
    """One world and its events."""

    seed: int
    events: tuple[Event, ...]
    dead: str  # who stays dead when all is quiet
    retain: int
    daemons: int = 2
    left_out: frozenset[Rule] = ALL_KEPT

    def play(self) -> tuple[Broken | None, World]:
        """Return the broken promise, if any, and the world afterwards."""
        world = World(self.left_out, self.retain, self.daemons)
        return outcome(world, self.events, self.dead), world

    def __str__(self) -> str:
        """The history, for people and for ``world.read``."""
        return show(self.events)


@dataclass(slots=True)
class Findings:
    """The result of a search. ``shortest`` has one run for each way in which a promise broke."""

    runs: int = 0
    events: int = 0
    steps: int = 0  # events, and those of the quiet time after them
    pushed_again: int = 0
    pushed_in_vain: int = 0
    broken: dict[str, int] = field(default_factory=dict)
    shortest: dict[tuple[str, str], tuple[Run, str]] = field(default_factory=dict)


def make_run(seed: int, left_out: frozenset[Rule] = ALL_KEPT, daemons: int = 2) -> Run:
    """Return the run of *seed*: one in four loses nothing, in some the last log entries are all that a trim leaves."""
    rng = random.Random(seed)
    dead, retain = rng.choice([*names(2), "", "", ""]), rng.choice([3, 8, 99, 99])
    return Run(seed, tuple(_events(rng, names(daemons))), dead, retain, daemons, left_out)


def search(seeds: Iterable[int], left_out: frozenset[Rule] = ALL_KEPT, daemons: int = 2) -> Iterator[Findings]:
    """Play the runs of *seeds*; yield the findings after each, always the same object."""
    findings = Findings()
    for seed in seeds:
        run = make_run(seed, left_out, daemons)
        broken, world = run.play()
        findings.runs += 1
        findings.events += len(run.events)
        findings.steps += world.steps
        findings.pushed_again += world.witness.pushed_again
        findings.pushed_in_vain += world.witness.pushed_in_vain
        if broken:
            name = broken.invariant.name
            findings.broken[name] = findings.broken.get(name, 0) + 1
            if findings.broken[name] <= SHRUNK:
                _note(findings, *shrink(run, broken))
        yield findings


def shrink(run: Run, broken: Broken) -> tuple[Run, Broken]:
    """Drop events, in pieces and then singly, while the same promise breaks."""
    size = max(1, len(run.events) // 2)
    while size:
        start = 0
        while start < len(run.events):
            shorter = replace(run, events=run.events[:start] + run.events[start + size :])
            also_broken, _ = shorter.play()
            if also_broken and also_broken.invariant is broken.invariant:
                run, broken = shorter, also_broken
            else:
                start += size
        size //= 2
    return run, broken


def _note(findings: Findings, run: Run, broken: Broken) -> None:
    way = broken.invariant.name, "".join(letter for letter in broken.what if letter.isalpha())
    if way not in findings.shortest or len(run.events) < len(findings.shortest[way][0].events):
        findings.shortest[way] = run, broken.what


def _events(rng: random.Random, who: str) -> Iterator[Event]:
    """Yield a few dozen events: faults singly and in bursts, clients, a worker, and mostly the daemons' steps."""
    if rng.random() < 0.3:
        yield from _return_from_away(rng, who)
    rate = rng.choice([0.02, 0.05, 0.1])
    faults = FAULTS + LOSSES if rng.random() < 0.75 else FAULTS
    again = rng.choice([0, 0.3])
    burst = 0  # events that a fault makes another one likelier in
    for _ in range(rng.choice([30, 60, 120])):
        burst = max(0, burst - 1)
        if rng.random() < rate or (burst and rng.random() < again):
            burst = 6 if faults is not FAULTS else 0
            yield _fault(rng, rng.choice(faults), who)
        else:
            yield _ordinary(rng, who)


def _return_from_away(rng: random.Random, who: str) -> Iterator[Event]:
    """
    Yield events in which one daemon is away while changes happen and all is lost, and returns when the others follow
    the new log and are slow. Four coincidences in a row: random events never had them in 33 million steps.
    """
    late = rng.choice(who)
    others = who.replace(late, "")
    yield from (("put", id, rng.choice([2, 999])) for id in range(SCHEDULES))
    yield from (_ordinary(rng, who, puts=4) for _ in range(rng.choice([20, 40])))
    yield ("crash", late)
    yield from (_ordinary(rng, others, puts=4, cancels=8) for _ in range(rng.choice([10, 20])))
    yield _fault(rng, rng.choice(["flush", "flush", "rollback", "failover"]), who)
    yield from (rng.choice([("follow", name), ("follow", name), ("tick",)]) for name in others * 16)
    yield ("crash", late)
    slowness = rng.choice([2, 10, 50])
    yield from (_ordinary(rng, late * slowness + others) for _ in range(rng.choice([20, 60])))


def _fault(rng: random.Random, verb: str, who: str) -> Event:
    if verb in ("pause", "crash", "new_disk"):
        return (verb, rng.choice(who))
    return (verb, rng.randint(1, 4)) if verb == "failover" else (verb,)


def _ordinary(rng: random.Random, who: str, puts: int = 14, cancels: int = 2) -> Event:
    """Return a random event: 14 % time passes, 18 % clients, 4 % worker, 2 % snapshot, else a daemon's next step."""
    verb = rng.choices(["tick", "put", "cancel", "work", "snapshot", "step"], [14, puts, cancels, 4, 2, 64])[0]
    if verb == "put":
        return ("put", rng.randrange(SCHEDULES), rng.choice([0, 1, 2, 4, 999]))
    if verb == "cancel":
        return ("cancel", rng.randrange(SCHEDULES))
    return (rng.choice(STEPS), rng.choice(who)) if verb == "step" else (verb,)
