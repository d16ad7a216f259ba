"""A tracker and lost runs by hand, the traces of workers, and the ends in the log and in an archive."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis

from tests.builders.leaders import KEYS, Leader
from tests.prefix import RQ
from tests.waiting import WITHIN_S
from zsched import Client
from zsched.archive import Archive
from zsched.archive.runs import OpenRuns
from zsched.core.clock import SystemClock
from zsched.core.entry import Entry, Position
from zsched.core.log.kinds import changes
from zsched.core.log.lives import EndEntry
from zsched.core.occurrences.changes import Change
from zsched.core.runs.job import rq_time
from zsched.core.runs.run import Run
from zsched.daemon.follower import Follower
from zsched.daemon.lost import LostRuns
from zsched.daemon.tracker import Tracker
from zsched.storage.connection import Link
from zsched.storage.log import Log

FUNC = "app.tasks.run"
ALL = 1_000_000


def opened(path: str | Path) -> set[str]:
    """Return the ids of the schedules with open runs in the archive."""
    with OpenRuns(Path(path)) as runs:
        return {run.schedule_id for run in runs.next(None, ALL, ALL)[0]}


def ends(link: Link) -> list[str]:
    """Return ``<run id> <status>`` of every row of every ``end`` entry in the log."""
    return [f"{run.id} {run.status.value}" for run in recorded(link)]


def recorded(link: Link) -> list[Run]:
    """Return the rows of all ``end`` entries."""
    return [run for entry in entries(link) for run in EndEntry(entry).ended_runs()]


def entries(link: Link, kind: str = "end") -> list[Entry]:
    """Return the log's entries of that kind."""
    return [entry for entry in Log(link, KEYS).entries() if entry.kind == kind]


def agains(link: Link) -> list[Change]:
    """Return the rows of all ``again`` entries; ``count`` is the attempt."""
    return [change for entry in entries(link, "again") for change in changes(entry)]


class Tracking:
    """
    A leader with a tracker by hand, a ``client``, and the archive that the tracker reads, which follows only when it is
    called.
    """

    def __init__(self, redis_client: redis.Redis, url: str, path: Path) -> None:
        self.redis, self.url, self.client = redis_client, url, Client.from_url(url, timeout_s=WITHIN_S)
        self.leader, self.path, self.follows = Leader(url), path, True
        self.link = Link.from_url(url, WITHIN_S)
        self.wire = self.link.open()
        self._archive = Archive(path, "default")
        self._following = self.link.open()
        self._follower = Follower(self._archive, self._following, KEYS, SystemClock())
        self.tracker = self.another()

    def another(self) -> Tracker:
        """Return a new tracker without any knowledge."""
        return Tracker(self, KEYS).over(self.wire)  # type: ignore[arg-type]  # it has what is asked of an archiver

    def reconnect(self) -> None:
        """Give the tracker a new connection in the same term, like the ``ChoreThread``."""
        self.wire.close()
        self.wire = self.link.open()
        self.tracker.over(self.wire)

    def wait_until(self, seen: Position | None, within_s: float) -> None:
        """Wait like the archiver, but follow only now."""
        self.follow()

    def follow(self) -> None:
        while self.follows and not self._follower.step():
            pass

    def rebuild(self) -> None:
        """Let the archive begin again with the state of Redis."""
        self._archive.leave_behind()

    @property
    def position(self) -> Position | None:
        return self._archive.position

    def as_of(self) -> Position:
        assert self.position is not None
        return self.position

    def step(self) -> bool:
        """Let the archive follow, then do a step of the tracker."""
        self.follow()
        return self.tracker.step(self.leader.term)

    def close(self) -> None:
        self.leader.close()
        self.wire.close()
        self._following.close()
        self._archive.close()
        self.link.pool.disconnect()


class Losing(Tracking):
    """A leader with a tracker and its lost runs by hand, and the archive that they read."""

    def __init__(self, redis_client: redis.Redis, url: str, path: Path, patience: tuple[int, int]) -> None:
        super().__init__(redis_client, url, path)
        self.be_patient(patience)

    def be_patient(self, patience: tuple[int, int]) -> None:
        """Set the delays after which a missing run counts as lost."""
        self.lost = LostRuns(self, KEYS, self.tracker).over(self.wire)  # type: ignore[arg-type]  # likewise
        self.lost.queued_s, self.lost.missing_s = patience

    def reconnect(self) -> None:
        """Give tracker and lost runs a new connection in the same term, like the ``ChoreThread``."""
        super().reconnect()
        self.lost.over(self.wire)

    def step(self) -> bool:
        """Do a step of the tracker and then of the lost runs, after the archive followed."""
        is_more = super().step()
        self.lost.step(self.leader.term)
        return is_more


def finish(redis_client: redis.Redis, *runs: str, lifetime_s: int = 500, late_s: int = 0) -> None:
    """Finish runs like RQ's worker, *late_s* ago."""
    now_s = redis_client.time()[0] - late_s
    with redis_client.pipeline() as pipeline:
        for run in runs:
            pipeline.hset(KEYS.rq.job(run), mapping={"status": "finished", "ended_at": rq_time(now_s * 1000)})
            pipeline.zadd(f"{RQ}:finished:default", {run: now_s + lifetime_s})
        pipeline.execute()


def taken(client: redis.Redis, run_id: str | None) -> str:
    """Take *run_id* from its queue like a worker that dies afterwards."""
    client.lrem(f"{RQ}:queue:default", 1, run_id or "")
    return run_id or ""


def ago(client: redis.Redis, *run_ids: str | None) -> None:
    """Set the push times of the runs to an hour ago, one after the other."""
    then = datetime.now(UTC) - timedelta(hours=1)
    for number, run_id in enumerate(run_ids):
        at = then + timedelta(seconds=number)
        client.hset(KEYS.rq.job(run_id or ""), "enqueued_at", at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def lapse(client: redis.Redis, run_id: str) -> None:
    """Let the heartbeat of the worker of *run_id* lapse, as if two minutes had passed."""
    for member in client.zrange(f"{RQ}:wip:default", 0, -1):
        if member.startswith(run_id.encode()):
            client.zadd(f"{RQ}:wip:default", {member: client.time()[0] - 60})
            client.delete(f"{RQ}:execution:".encode() + member)
    earlier = datetime.now(UTC) - timedelta(minutes=2)
    client.hset(KEYS.rq.job(run_id), "last_heartbeat", earlier.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
