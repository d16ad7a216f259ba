"""Faults after which Redis still holds everything that it acknowledged: processes, networks, refusals, disks."""

import random
import signal

from tests.faults.archives import KEYS
from tests.faults.disks import LimitedFiles
from tests.waiting import eventually
from tools.campaign.stage import LEASE_MS, Stage

_KEPT = 20  # entries that trimming leaves


def kill_leader(stage: Stage, rng: random.Random) -> None:
    stage.kill(stage.leader())
    stage.wait(rng.uniform(0.1, 1.5) * LEASE_MS / 1000)


def kill_standby(stage: Stage, rng: random.Random) -> None:
    stage.kill(stage.standby())
    stage.wait(rng.uniform(0.1, 1.0))


def pause_leader(stage: Stage, rng: random.Random) -> None:
    """Pause the leader; it continues after another daemon has led for a while."""
    leader = stage.leader()
    leader.process.send_to_all(signal.SIGSTOP)
    stage.wait(rng.uniform(1.3, 2.5) * LEASE_MS / 1000)
    leader.process.send_to_all(signal.SIGCONT)
    stage.wait(0.5)


def kill_redis_always(stage: Stage, rng: random.Random) -> None:
    _kill_redis(stage, rng, "always")


def kill_redis_everysec(stage: Stage, rng: random.Random) -> None:
    """Kill the process of Redis but not the machine, so the kernel keeps all of its writes."""
    _kill_redis(stage, rng, "everysec")


def _kill_redis(stage: Stage, rng: random.Random, fsync: str) -> None:
    with stage.watch() as watch:
        watch.config_set("appendfsync", fsync)
        stage.wait(rng.uniform(0.1, 0.6))
    stage.redis.kill()
    stage.wait(rng.uniform(0.0, 0.8))
    stage.redis.start()


def pause_redis(stage: Stage, rng: random.Random) -> None:
    stage.redis.suspend()
    stage.wait(3.0)
    stage.redis.resume()


def cut_replies(stage: Stage, rng: random.Random) -> None:
    for net in stage.nets:
        net.cut_replies = 0.1
    stage.wait(rng.uniform(1.5, 3.0))


def cut_requests(stage: Stage, rng: random.Random) -> None:
    for net in stage.nets:
        net.cut_requests = 0.1
    stage.wait(rng.uniform(1.5, 3.0))


def slow_network(stage: Stage, rng: random.Random) -> None:
    for net in stage.nets:
        net.delay_s = rng.uniform(0.02, 0.12)
    stage.wait(rng.uniform(1.5, 3.0))


def half_open(stage: Stage, rng: random.Random) -> None:
    """Leave connections half open for longer than every timeout."""
    for net in stage.nets:
        net.half_open = True
    stage.wait(3.0)


def flush_scripts(stage: Stage, rng: random.Random) -> None:
    with stage.watch() as watch:
        for _ in range(3):
            watch.script_flush()
            stage.wait(rng.uniform(0.05, 0.4))


def fill_memory(stage: Stage, rng: random.Random) -> None:
    with stage.watch() as watch:
        watch.config_set("maxmemory", max(watch.info("memory")["used_memory"] - 50_000, 1))
        stage.wait(rng.uniform(1.0, 2.0))
        watch.config_set("maxmemory", 0)


def refuse_writes(stage: Stage, rng: random.Random) -> None:
    with stage.watch() as watch:
        watch.config_set("min-replicas-to-write", 1)
        stage.wait(rng.uniform(1.0, 2.0))
        watch.config_set("min-replicas-to-write", 0)


def fill_disk(stage: Stage, rng: random.Random) -> None:
    """Fill the disk: both archives stop, and the log continues."""
    disk = LimitedFiles(stage.folder)
    for seat in stage.seats:
        disk.fill(seat.process.archivist_pid)
    stage.wait(2.0)
    for seat in stage.seats:
        disk.free(seat.process.archivist_pid)
    stage.wait(1.0)


def trim_log(stage: Stage, rng: random.Random) -> None:
    """Trim the log while the standby is away: only the leader's archive has the trimmed entries."""
    seat = stage.standby()
    stage.end(seat)
    stage.wait(rng.uniform(0.5, 1.5))
    eventually(stage.caught_up)
    with stage.watch() as watch:
        watch.execute_command("XTRIM", KEYS.log(), "MAXLEN", _KEPT)
    stage.start(seat)
    stage.await_archives(2)
