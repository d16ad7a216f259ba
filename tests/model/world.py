"""
The world around the protocol: clients, a worker, time, and every possible fault.

A *history* is a list of events, one line of text: ``acquire A · put 2 0 · fire A · failover 1 · follow A ×3``.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from tests.model.daemon import Daemon
from tests.model.dataset import Dataset, State
from tests.model.invariants import Broken, Invariant, Witness, check_live, check_nothing_lost, check_same_state
from tests.model.rules import ALL_KEPT, Rule
from tests.model.scripts import LEASE, Redis

Event = tuple[str | int, ...]  # a verb, then whom or what it concerns

QUIET_TICKS = 60
QUIET_STEPS = [*["follow"] * 8, "fire", "fire", "follow"]  # of each daemon in each tick
RETAIN = 99  # entries that a trim keeps
AHEAD = 40  # ticks, of a clock that is set wrongly
BACK = 1000  # of t, when a clock is set back: more than a history has entries


class World:
    """One Redis, its daemons A, B, …, and their state."""

    def __init__(self, left_out: frozenset[Rule] = ALL_KEPT, retain: int = RETAIN, daemons: int = 2) -> None:
        self.retain = retain
        self.witness = Witness()
        self.redis = Redis(left_out, self.witness)
        self.daemons = {name: Daemon(name, self.redis) for name in names(daemons)}
        for daemon in self.daemons.values():
            daemon.peers = list(self.daemons.values())
        self.snapshot: Dataset | None = None
        self.version = 0
        self.due: dict[int, int] = {}  # a one-shot put again keeps its time, so its run is the same one
        self.steps = self.losses = self.restarts = self.ahead = 0
        self.held_since: int | None = None

    def play(self, event: Event) -> None:
        """Let *event* happen; an impossible event is ignored. Raises Broken."""
        self.steps += 1
        match event:
            case ("tick",):
                self.redis.now += 1
            case ("clock", "ahead" | "right" as to):
                self._set_clock(AHEAD if to == "ahead" else 0)
            case ("back",):
                self.redis.t -= BACK
            case ("put", int(id), int(delay)):
                self._put(id, delay)
            case ("cancel", int(id)):
                self.redis.cancel(id)
            case ("work",):
                if self.redis.data.queue:
                    self.witness.received.add(self.redis.data.queue.pop(0))
            case ("swap",):
                self._swap()
            case ("snapshot" | "restart" | "rollback" | "failover" | "flush", *count):
                self._happen_to_redis(event[0], *count)
            case ("pause" | "crash" | "new_disk" as verb, str(name)):
                self._happen_to_daemon(verb, self.daemons[name])
            case ("acquire" | "fire" | "track" | "trim" | "follow" as verb, str(name)):
                self._step(verb, self.daemons[name])
            case _:
                raise ValueError(f"no such event: {show([event])}")
        self._check_hold()

    def be_quiet(self, dead: str = "") -> None:
        """Bring all back but *dead*, let them work in turn until nothing changes, and check the promises."""
        for daemon in self.daemons.values():
            daemon.is_up, daemon.is_paused = daemon.name != dead, False
        alive = [daemon for daemon in self.daemons.values() if daemon.is_up]
        for _ in range(QUIET_TICKS):
            self.play(("tick",))
            for daemon in alive:
                if not daemon.leads:
                    self.play(("acquire", daemon.name))
                for verb in QUIET_STEPS:
                    self.play((verb, daemon.name))
        data = self.redis.data
        check_live(data, any(daemon.leads for daemon in alive), self.redis.is_held, self.redis.now)
        for daemon in alive:
            if daemon.is_refused and daemon.name in self.witness.missed:
                continue  # people have to say what is right
            check_same_state(daemon.name, daemon.archive, data)
            check_nothing_lost(daemon.name, daemon.archive.answerable.items(), data, self.witness)

    def _set_clock(self, ahead: int) -> None:
        """Let the server's clock jump; leases end by their own clock."""
        redis, by = self.redis, ahead - self.ahead
        redis.now, self.ahead = redis.now + by, ahead
        if redis.data.lease:
            redis.data.lease = redis.data.lease._replace(until=redis.data.lease.until + by)

    def _put(self, id: int, delay: int) -> None:
        record = self.redis.data.records.get(id)
        if id in self.witness.ended or (record and record.state is not State.PENDING):
            return
        self.version += 1
        self.redis.put(id, self.version, self.due.setdefault(id, self.redis.now + delay))

    def _happen_to_redis(self, verb: str | int, count: str | int = 0) -> None:
        """Take a snapshot, restart without loss, or lose data; after a flush the server process is the same."""
        redis = self.redis
        before: Dataset | None = None
        match verb:
            case "snapshot":
                self.snapshot = redis.data.copy()
            case "restart":
                redis.server += 1
                self.restarts += 1
            case "rollback":
                before = self.snapshot
            case "failover" if redis.recent:
                before = redis.recent[-min(int(count), len(redis.recent))]
            case "flush":
                before = Dataset()
        if before:
            redis.server += verb != "flush"
            redis.data = before.copy()
            redis.recent.clear()
            self.witness.history += 1
            self.losses += 1

    def _swap(self) -> None:
        """Replace Redis by another one with a different data set."""
        redis = self.redis
        redis.server += 1
        redis.t += 1
        redis.data = Dataset()
        redis.data.gen = redis.data.origin = redis.t
        redis.recent.clear()
        redis.put(0, self.version, redis.now + 999)
        self.losses += 1
        self.witness.missed |= {daemon.name for daemon in self.daemons.values() if daemon.archive.gens}
        for daemon in self.daemons.values():
            daemon.forget()

    def _happen_to_daemon(self, verb: str, daemon: Daemon) -> None:
        if verb == "pause":
            daemon.is_paused = not daemon.is_paused
            return
        if verb == "crash":
            daemon.is_up = not daemon.is_up
        daemon.forget()
        if verb == "new_disk":
            daemon.archive = type(daemon.archive)()

    def _step(self, verb: str, daemon: Daemon) -> None:
        if not daemon.is_up or daemon.is_paused:
            return
        daemon.connect()
        if verb == "trim":
            daemon.trim(self.retain)
        else:
            getattr(daemon, verb)()

    def _check_hold(self) -> None:
        """Check I6."""
        redis = self.redis
        if not redis.is_held:
            self.held_since = None
        elif self.held_since is None:
            self.held_since = redis.now
        elif not self.losses and redis.now - self.held_since > LEASE * (1 + self.restarts):
            raise Broken(Invariant.I6, "held longer than one lease though nothing was lost")


def names(count: int) -> str:
    """Return the names of *count* daemons."""
    return "ABCDEFGH"[:count]


def read(history: str) -> list[Event]:
    """Return the events of a line of text; the inverse of ``show``."""
    events: list[Event] = []
    for part in history.strip(" ·").split("·"):
        words = part.split()
        times = int(words.pop().removeprefix("×")) if words[-1].startswith("×") else 1
        events += [tuple(int(word) if word.isdigit() else word for word in words)] * times
    return events


def show(events: Sequence[Event]) -> str:
    """Return *events* as a line of text."""
    parts = []
    for event, same in groupby(events):
        times = len(list(same))
        parts.append(" ".join(map(str, event)) + (f" ×{times}" if times > 1 else ""))
    return " · ".join(parts)


def outcome(world: World, events: Iterable[Event], dead: str = "") -> Broken | None:
    """Play *events* in *world*, then be quiet; return the broken promise, if any."""
    try:
        for event in events:
            world.play(event)
        world.be_quiet(dead)
    except Broken as broken:
        return broken
    return None
