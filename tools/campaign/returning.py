"""
Faults of a loss while daemons are absent: a daemon returns when the other is slow, or continues in data that others
restored.

Each shows one rule of recovery: waiting for a following archive that corrects, the hold, and the fence.
"""

import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.faults.archives import KEYS
from tests.prefix import RQ
from tests.waiting import eventually
from tools.campaign.calls import now_us
from tools.campaign.clients import Caller
from tools.campaign.receipts import FUNC
from tools.campaign.stage import Seat, Stage
from tools.campaign.workers import BULK
from zsched import ScheduleRow
from zsched.archive.body import position_of
from zsched.archive.recall import recalling
from zsched.core.clock import SystemClock, from_ms
from zsched.daemon.merge import Merge
from zsched.storage.connection import Link

_FEW = 20  # schedules
_BURST = 500
_HOLD_MS = 200
_SLOW_S = 0.05  # for each reply to a daemon


def put(stage: Stage, name: str, number: int, in_ms: int) -> tuple[Caller, list[str], int]:
    """Put one-shots, due in *in_ms*. Return the client, their ids and their due time."""
    caller = Caller(f"{name}{now_us() // 1000}", stage.redis.tcp_url, stage.ledger)
    with stage.watch() as watch:
        due_ms = int(watch.time()[0]) * 1000 + in_ms
    ids = [caller.new_id() for _ in range(number)]
    rows: list[ScheduleRow] = [
        {"func": FUNC, "id": id, "at": from_ms(due_ms), "queue": BULK, "allow_past": True} for id in ids
    ]
    caller.call("put", ids, lambda: caller.client.schedule_many(rows), due_ms=due_ms)
    return caller, ids, due_ms


def fired_but_not_archived(stage: Stage, name: str) -> None:
    """Let a burst fire while a slow network keeps the fires from the archives, which have the puts."""
    _, ids, due_ms = put(stage, name, _BURST, 2_500)
    stage.await_archives(sum(seat.is_running for seat in stage.seats))
    stage.daemons_net.delay_s = _SLOW_S
    jobs = [f"{RQ}:job:{id}-{due_ms}" for id in (ids[0], ids[-1])]
    with stage.watch() as watch:
        eventually(lambda: any(watch.hget(job, "status") != b"scheduled" for job in jobs))


def return_while_slow(stage: Stage, rng: random.Random) -> None:
    """
    Cancel schedules while a daemon is away. The cancels must hold although the daemon that knows of them reports
    slowly.
    """
    knowing, late = stage.leader(), stage.standby()
    caller, ids, _ = put(stage, "away", _FEW, 1_700_000)
    stage.await_archives(2)
    stage.end(late)
    for id in ids:
        caller.cancel(id)
    stage.await_archives(1)
    with stage.watch() as watch:
        watch.flushall()
    stage.lost("returns-while-slow")
    eventually(lambda: stage.caught_up() == [knowing])
    with _slowed(stage, knowing, rng.uniform(2.0, 6.0)):
        stage.start(late)
        late.process.wait_for("redis_history_lost")


@contextmanager
def _slowed(stage: Stage, seat: Seat, seconds: float) -> Iterator[None]:
    """Stop the daemon on *seat* during the block and *seconds* more, as on an overloaded machine."""
    seat.process.send_to_all(signal.SIGSTOP)
    yield
    stage.wait(seconds)
    seat.process.send_to_all(signal.SIGCONT)


def pause_over_flush(stage: Stage, rng: random.Random) -> None:
    """Let the leader continue after the other daemon restored the lost data and fired the due schedules."""
    leader, other = stage.leader(), stage.standby()
    put(stage, "meanwhile", _BURST, 3_000)
    stage.await_archives(2)
    with _slowed(stage, leader, rng.uniform(0.0, 2.0)):
        with stage.watch() as watch:
            watch.flushall()
        stage.lost("leader-paused-flushall")
        other.process.wait_for("recovery_done", len(other.process.of("recovery_done")) + 1)


def cancelled_before_older_rdb(stage: Stage, rng: random.Random) -> None:
    """
    Restore an older RDB in which cancelled schedules are due: they must not fire before an archive has removed them
    (the hold).
    """
    older: Path = stage.folder / "older.rdb"
    caller, ids, due_ms = put(stage, "undone", _FEW, 6_000)
    with stage.watch() as watch:
        watch.save()
        shutil.copy(stage.redis.folder / "dump.rdb", older)
    for id in ids:
        caller.cancel(id)
    stage.await_archives(2)
    stage.wait(max(due_ms - now_us() // 1000, 0) / 1000)
    stage.await_archives(1)
    stage.redis.kill()
    stage.lost("older-rdb-cancelled", brings_back=True)
    stage.redis.put_rdb_back(older)
    stage.redis.start()


def fire_on_its_way(stage: Stage, rng: random.Random) -> None:
    """
    Kill the leader and flush Redis while a fire call is still on the network. An archive restores the pushed runs, and
    no daemon leads yet, so no doubt is set. The fire call must find that its term is over (the fence).
    """
    leader = stage.leader()
    stage.end(next(seat for seat in stage.seats if seat is not leader))
    fired_but_not_archived(stage, "on-its-way")
    stage.daemons_net.keeps = _is_fire
    eventually(lambda: stage.daemons_net.kept)
    stage.kill(leader)
    with stage.watch() as watch:
        watch.flushall()
    stage.lost("fire-on-its-way")
    _put_back(stage, leader.archive)
    stage.wait(2 * _HOLD_MS / 1000)
    stage.daemons_net.mend()
    stage.wait(0.5)


def _is_fire(request: bytes) -> bool:
    """Return True if *request* calls fire.lua: no other script has both keys."""
    return all(f"\r\n{key}\r\n".encode() in request for key in (KEYS.limits(), KEYS.deadlines(), KEYS.quarantine()))


def _put_back(stage: Stage, path: Path) -> None:
    """Recover from the archive at *path* like ``zsched archive recover``, with a short hold."""
    link = Link.from_url(stage.redis.tcp_url, 5.0)
    with closing(link.open()) as wire, recalling(path, "default", SystemClock()) as (recall, facts):
        merge = Merge(recall, wire, KEYS, position_of(facts.get("position")), hold_for_ms=_HOLD_MS)
        merge.compare()
        for _ in merge.run():
            pass
    link.pool.disconnect()
