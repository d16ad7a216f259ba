"""
The order of events: everything starts, clients write, faults strike one after the other. Then the faults end,
everything comes to rest, the daemons stop, and the witnesses are collected.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import redis

from tests.faults.archives import KEYS, differences, fact, held_in, history, is_leader, log_in, state_of
from tests.prefix import RQ
from tests.waiting import eventually
from tools.campaign import places, receipts
from tools.campaign.calls import last_cancel, now_us
from tools.campaign.clients import Batches, Caller, Ones, Rules, Writer
from tools.campaign.faults import Fault
from tools.campaign.stage import Stage
from tools.campaign.witnesses import Window, Witnesses
from tools.campaign.workers import BULK, ODD, QUEUE
from zsched.archive.body import position_of
from zsched.embedded import Guard

_WELL_S = 20.0  # from a fault's end until everything is well again
_REST_S = 45.0  # for what is due to be fired and received in the end
_DEAD_S = 100.0  # a run that Redis forgot in a worker is in the way until that worker counts as dead: 60 to 90 s
_OVERDUE_MS = 500  # what waits longer than this after its time shows that nobody fires
_LATER_MS = 1_800_000  # what is due later than this is not waited for

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """
    The plan of a campaign: the duration of the faults (None: each once), the seed of all randomness, the chosen faults,
    the size of a crowd.
    """

    seconds: float | None
    seed: int
    faults: list[Fault]
    crowd: int = 10_000
    code: Path | None = None  # the folder of the daemons' zsched, if it is not ours


class Campaign:
    """One run of *plan* in *folder*, which reports its steps through *tell*."""

    def __init__(self, plan: Plan, folder: Path, tell: Tell) -> None:
        self._plan, self._folder, self._tell = plan, folder, tell
        self._windows: list[Window] = []
        self._said: list[str] = []
        self._began = self._until = time.monotonic()

    def run(self) -> Witnesses:
        """Run the whole campaign; Ctrl-C ends the faults and continues with the end."""
        with Guard() as guard:
            stage = Stage(guard, self._folder, self._plan.seed, crowd=self._plan.crowd, code=self._plan.code)
            try:
                writers = self._begin(stage)
                with suppress(KeyboardInterrupt):
                    self._strike_all(stage)
                self._come_to_rest(stage, writers)
                return self._hear(stage)
            finally:
                stage.close()

    def _begin(self, stage: Stage) -> list[Writer]:
        for seat in stage.seats:
            stage.start(seat)
        stage.workers.look_after()
        problem = self._await_well(stage)
        if problem:
            told = [[event["event"] for event in seat.process.events[-3:]] for seat in stage.seats]
            self._said.append(f"at the beginning: {problem}; the daemons told {told}")
            self._say(self._said[-1])
        kinds: list[type[Writer]] = [Ones, Ones, Batches, Rules]
        names = [f"{kind.__name__.lower()}{n}" for n, kind in enumerate(kinds)]
        writers = [
            kind(name, stage.clients_net.url, stage.ledger, self._plan.seed)
            for kind, name in zip(kinds, names, strict=True)
        ]
        for writer in writers:
            writer.start()
        stage.wait(1.5)
        self._say(f"Redis {stage.redis.server.version}, two daemons, two workers, {len(writers)} clients are at work")
        return writers

    # -- faults -----------------------------------------------------------------------------------

    def _strike_all(self, stage: Stage) -> None:
        """Let the faults strike one after the other in an order given by the seed; each once before any repeats."""
        order, seconds = random.Random(self._plan.seed), self._plan.seconds
        until = time.monotonic() + (float("inf") if seconds is None else seconds)
        decks = (order.sample(self._plan.faults, len(self._plan.faults)) for _ in (count() if seconds else range(1)))
        for number, fault in enumerate(chain.from_iterable(decks)):
            if time.monotonic() >= until:
                return
            rng = random.Random(f"{self._plan.seed} {number} {fault.name}")
            self._strike(stage, fault, rng)
            stage.wait(rng.uniform(0.3, 1.5))

    def _strike(self, stage: Stage, fault: Fault, rng: random.Random) -> None:
        if fault.loses:
            stage.await_archives(1)
        from_us, began = now_us(), time.monotonic()
        try:
            fault.strike(stage, rng)
            problem = ""
        except (AssertionError, redis.RedisError, OSError) as error:
            problem = f"it could not strike: {error!r}"
        finally:
            struck_s = time.monotonic() - began
            stage.heal()
        problem = problem or self._await_well(stage)
        self._windows.append(Window(fault.name, from_us, now_us()))
        well_s = time.monotonic() - began - struck_s
        self._say(f"{fault.name:<22} {struck_s:5.1f} s, well after {well_s:5.2f} s  {problem}", stage)
        if problem:
            self._said.append(f"{fault.name}: {problem}")

    def _await_well(self, stage: Stage) -> str:
        """Wait until a daemon leads and fires and both archives follow. Return what is missing after the timeout."""
        with stage.watch() as watch:
            steps: list[tuple[Callable[[], object], str]] = [
                (lambda: eventually(lambda: _fires(stage, watch), _WELL_S), "nobody fires"),
                (lambda: eventually(lambda: len(stage.caught_up()) == 2, _WELL_S), "an archive does not follow"),
                (lambda: self._fire_one(stage, watch), "nobody fires what is due at once"),
            ]
            for step, problem in steps:
                try:
                    step()
                except AssertionError:
                    return f"{problem} within {_WELL_S:g} s"
        return ""

    def _fire_one(self, stage: Stage, watch: redis.Redis) -> None:
        """Put a one-shot that is due at once, and wait for its push: no hold delays it any more."""
        canary = Caller(f"canary{now_us()}", stage.redis.tcp_url, stage.ledger)
        put = partial(canary.client.schedule, receipts.FUNC, after=0, queue=BULK)

        def put_one() -> Any:
            id = canary.new_id()
            return canary.call("put", id, lambda: put(id=id), is_relative=True)

        told = eventually(put_one, _WELL_S)
        eventually(lambda: watch.hget(KEYS.rq.job(told.run_id), "status") != b"scheduled", _WELL_S)

    # -- the end ----------------------------------------------------------------------------------

    def _come_to_rest(self, stage: Stage, writers: Iterable[Writer]) -> None:
        """
        Stop the clients, bring everything back, let due schedules run and archives catch up; then stop daemons and
        workers.
        """
        self._say("the faults are over; clients stop", stage)
        for writer in writers:
            writer.stop()
        stage.heal()
        for writer in writers:
            writer.settle()
        self._until = time.monotonic() + _REST_S
        self._expect(lambda: not _is_due(stage), "what was due was not fired")
        self._expect(lambda: not _is_queued(stage), "what was pushed was not received")
        self._until = time.monotonic() + _DEAD_S
        self._expect(lambda: not _waits(stage) and not _is_queued(stage), "what waits for another run was not launched")
        stage.wait(1.0)
        self._expect(lambda: len(stage.caught_up()) == len(stage.seats), "an archive did not catch up")
        self._until = time.monotonic() + _REST_S
        self._expect(lambda: not stage.unsent(), "a run that did not succeed was not reported by the notifier")
        self._said += [f"two messages of the notifier have one id: {texts}" for texts in stage.unlike()]
        self._say(f"{len(stage.receiver.messages)} messages of the notifier, {len(stage.receiver.seen)} attempts")
        with stage.watch() as watch:
            seats = sorted(stage.seats, key=lambda seat: is_leader(seat.process, watch))
        for seat in seats:
            stage.end(seat)
        stage.workers.stop()
        stage.hand.stop()

    def _expect(self, look: Callable[[], bool], problem: str) -> None:
        try:
            eventually(look, max(self._until - time.monotonic(), 1.0))
        except AssertionError:
            self._said.append(f"{problem}, although it was quiet for long enough")
            self._say(self._said[-1])

    def _hear(self, stage: Stage) -> Witnesses:
        url, log = stage.redis.tcp_url, log_in(stage.redis.tcp_url)
        compared = 0
        for seat in stage.seats:
            if log and position_of(fact(seat.archive, "position")) == log[-1].position:
                compared += 1
                self._said += self._compare(stage, seat.archive)
            self._said += [
                f"daemon {seat.name}: {event['event']} {event.get('reason', '')}"
                for process in seat.processes
                for event in process.events
                if event["event"] in _NEVER
            ]
        if not compared:
            self._said.append("no archive has the log's last entry")
        with stage.watch() as watch:
            seq = watch.hget(KEYS.meta(), "seq")
            return Witnesses(
                calls=stage.ledger.calls(),
                receipts=receipts.read(stage.folder / "receipts.txt"),
                ends=receipts.read(receipts.ends_beside(stage.folder / "receipts.txt")),
                histories=[*stage.kept, *(history(seat.archive) for seat in stage.seats)],
                log=log_in(url),
                seq=int(seq) if seq else None,
                places=places.read(watch),
                losses=stage.losses,
                windows=self._windows,
                foreign=stage.foreign,
                said=self._said + stage.deaths,
                ended_us=now_us(),
            )

    def _compare(self, stage: Stage, path: Path) -> list[str]:
        """
        Return the differences between the archive's state and Redis. Runs that a worker had are no longer in RQ's
        lists.
        """
        held_there, kept_here = (
            {key: row for key, row in state.items() if row[0] != "open" and key[0] not in stage.foreign}
            for state in (held_in(stage.redis.tcp_url), state_of(path))
        )
        different = differences(held_there, kept_here, at_most=1000).items()
        told = {key: ", ".join(_differing(held, kept)) for key, (held, kept) in different}
        return [f"{path.name} differs from Redis in {key}: {what}" for key, what in told.items() if what]

    def _say(self, text: str, stage: Stage | None = None) -> None:
        done = ""
        if stage is not None:
            lines = (stage.folder / "receipts.txt").stat().st_size if (stage.folder / "receipts.txt").exists() else 0
            done = f"  [{len(stage.ledger.calls())} calls, {lines // 1024} KiB of receipts]"
        self._tell(f"{time.monotonic() - self._began:6.1f}  {text}{done}")


_NEVER = ("no_json", "daemon_failed", "log_entry_unknown", "archive_corrupt", "archiver_crashed", "archive_refused")


def _fires(stage: Stage, watch: redis.Redis) -> bool:
    """Return True if a daemon holds the lease and nothing is long overdue."""
    try:
        now_ms = int(watch.time()[0]) * 1000
        overdue = sum(watch.zcount(f"{KEYS.prefix}due:{lane}", "-inf", now_ms - _OVERDUE_MS) for lane in _LANES)
        return bool(watch.get(KEYS.lease())) and not overdue and any(is_leader(s.process, watch) for s in stage.seats)
    except redis.RedisError:
        return False


def _differing(held: tuple[Any, ...] | None, kept: tuple[Any, ...] | None) -> Iterator[str]:
    """Yield the differing parts of two rows of state: Redis's part and the archive's."""
    if held is None or kept is None:
        yield f"Redis has {'none' if held is None else held[0]}, the archive {'none' if kept is None else kept[0]}"
        return
    for name, mine, its in zip(_ROW, held, kept, strict=True):
        if isinstance(mine, dict):
            fields = [field for field in mine.keys() | its.keys() if mine.get(field) != its.get(field)]
            fields = [field for field in fields if field != "version" or field in its]  # a restore gives a new one
            yield from (f"{name} {field} {mine.get(field)!r} / {its.get(field)!r}" for field in sorted(fields))
        elif mine != its:
            yield f"{name} {mine!r} / {its!r}"


_ROW = ("place", "due", "nominal", "last", "note", "field", "lane", "own field", "state")


def _is_due(stage: Stage) -> bool:
    """Return True if a schedule waits that nobody cancelled. A cancelled rule that came back would fire for ever."""
    with stage.watch() as watch:
        until_ms = now_us() // 1000 + _LATER_MS
        lanes = (watch.zrangebyscore(f"{KEYS.prefix}due:{lane}", "-inf", until_ms) for lane in _LANES)
        due = {id.decode() for id in chain.from_iterable(lanes)}
    calls = [call for call in stage.ledger.calls() if call.id in due] if due else []
    return any(last_cancel([call for call in calls if call.id == id]) is None for id in due)


def _is_queued(stage: Stage) -> bool:
    with stage.watch() as watch:
        return any(watch.llen(f"{RQ}:queue:{queue}") for queue in (QUEUE, BULK, ODD))


def _waits(stage: Stage) -> bool:
    """Return True if a run waits for another run of its schedule."""
    with stage.watch() as watch:
        return bool(watch.keys(KEYS.waiting("*")))


_LANES = ("high", "normal", "low")
