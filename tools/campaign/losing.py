"""
Faults that take history from Redis: it returns older, empty, or as a replica that lacked some writes.

Each fault reports the moment of the loss (``Stage.lost``). A change that was acknowledged shortly before may be in no
archive yet; every earlier change must come back.
"""

import random
import shutil

import redis

from tests.builders.proxies import Proxy
from tests.builders.redises import connect
from tests.faults.archives import await_caught_up, is_leader
from tests.waiting import eventually
from tools.campaign.returning import fired_but_not_archived
from tools.campaign.server import Server
from tools.campaign.stage import Stage

_BEHIND = 5_000  # bytes that a replica may be behind and count as synchronous


def cut_aof(stage: Stage, rng: random.Random) -> None:
    with stage.watch() as watch:
        watch.config_set("appendfsync", "always")
    stage.redis.kill()
    stage.lost("aof-cut", brings_back=True)
    stage.redis.cut_aof(rng.randint(1, 200))
    stage.redis.start()


def older_aof(stage: Stage, rng: random.Random) -> None:
    stage.redis.copy_files(stage.folder / "older")
    stage.wait(rng.uniform(0.5, 3.0))
    stage.redis.kill()
    stage.lost("older-aof", brings_back=True)
    stage.redis.put_files_back(stage.folder / "older")
    stage.redis.start()


def older_aof_election(stage: Stage, rng: random.Random) -> None:
    stage.redis.copy_files(stage.folder / "older")
    stage.wait(rng.uniform(0.5, 3.0))
    leader = stage.leader()
    stage.redis.kill()
    stage.lost("older-aof-election", brings_back=True)
    stage.kill(leader)
    stage.redis.put_files_back(stage.folder / "older")
    stage.redis.start()
    stage.wait(rng.uniform(0.0, 2.0))


def older_rdb(stage: Stage, rng: random.Random) -> None:
    older = stage.folder / "older.rdb"
    with stage.watch() as watch:
        watch.save()
        shutil.copy(stage.redis.folder / "dump.rdb", older)
    stage.wait(rng.uniform(0.5, 3.0))
    stage.redis.kill()
    stage.lost("older-rdb", brings_back=True)
    stage.redis.put_rdb_back(older)
    stage.redis.start()


def flush(stage: Stage, rng: random.Random) -> None:
    with stage.watch() as watch:
        watch.flushall()
    stage.lost("flushall")


def flush_election(stage: Stage, rng: random.Random) -> None:
    leader = stage.leader()
    with stage.watch() as watch:
        stage.kill(leader)
        stage.wait(rng.uniform(0.0, 0.5))
        watch.flushall()
    stage.lost("flushall-election")
    stage.wait(rng.uniform(0.0, 2.0))


def flush_burst(stage: Stage, rng: random.Random) -> None:
    """
    Flush Redis between the fires and their archiving: a slow network keeps the fires from the archives, which have the
    puts. Pushed runs come back as waiting, and must be pushed again with a mark.
    """
    fired_but_not_archived(stage, "burst")
    with stage.watch() as watch:
        watch.flushall()
    stage.lost("flushall-burst")
    stage.daemons_net.mend()


def flush_alone(stage: Stage, rng: random.Random) -> None:
    """Flush Redis while no standby could take the free lease: the leader itself must notice the loss."""
    stage.end(stage.standby())
    flush_burst(stage, rng)
    stage.wait(3.5)


def promote(stage: Stage, rng: random.Random) -> None:
    """
    Promote a replica. Writes between the cut of the link and the promotion exist only on the old primary and in the
    archives.
    """
    primary, replica = stage.redis, Server(stage.guard)
    assert primary.port is not None
    replica.start()
    with Proxy(primary.port) as link, stage.watch() as old:
        new = connect(replica.tcp_url)
        new.replicaof("127.0.0.1", link.port)
        eventually(lambda: _is_synced(new, old), within_s=30)
        stage.wait(rng.uniform(0.2, 1.0))
        link.half_open = True
        stage.wait(rng.uniform(0.3, 1.5))
        new.replicaof("NO", "ONE")
        stage.lost("replica-promoted", brings_back=True)
        stage.move_to(replica)
        new.close()


def _is_synced(new: redis.Redis, old: redis.Redis) -> bool:
    told = new.info()
    is_busy = told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"]
    if told.get("master_link_status") != "up" or is_busy:
        return False
    return bool(old.info()["master_repl_offset"] - told["slave_repl_offset"] < _BEHIND)


def empty_first(stage: Stage, rng: random.Random) -> None:
    """
    Empty Redis while no daemon is present that knows the lost data, until the second daemon comes. If the first daemon
    has named the data set anew by then, the second daemon is refused, and an operator follows the error message.
    """
    await_caught_up(stage.redis.tcp_url, *[seat.archive for seat in stage.seats])
    empty, full = stage.standby(), stage.leader()
    stage.end(empty)
    stage.keep(empty)
    for path in stage.folder.glob(f"{empty.archive.name}*"):
        path.unlink()
    stage.await_archives(1)
    stage.end(full)
    with stage.watch() as watch:
        watch.flushall()
        stage.lost("empty-archive-first")
        stage.start(empty)
        eventually(lambda: is_leader(empty.process, watch))
        stage.wait(rng.uniform(0.5, 2.0))
    if stage.is_refused(full):
        stage.recover_from(full)
