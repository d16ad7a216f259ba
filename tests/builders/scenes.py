"""A namespace on a real Redis, all operations of a client and a leader, and an archive that follows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.builders.leaders import Leader, know
from tests.clocks import now_ms, pass_time
from tests.prefix import RQ
from tests.states import State, archived_by, held_by
from zsched import Client
from zsched.archive import Archive
from zsched.core.clock import SystemClock
from zsched.core.entry import Entry
from zsched.core.log.puts import restored
from zsched.daemon.follower import Follower
from zsched.storage.keys import Keys
from zsched.storage.log import Log

BROKEN_RULE = b"none"  # which another writer left
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


class Scene(Leader):
    """One namespace: ``client``, a leader by hand, and ``follower`` with its ``archive`` in *folder*."""

    def __init__(self, redis_client: Any, url: str, folder: Path, namespace: str = "default") -> None:
        know(redis_client, namespace)
        super().__init__(url, Keys(namespace))
        self.redis, self.folder = redis_client, folder
        self.client = Client(self.link, namespace)
        self._archives: list[Archive] = []
        self.follow()

    def follow(self, name: str = "archive.db", **options: Any) -> Archive:
        """Let the archive *name* follow from now on."""
        self.archive = Archive(self.folder / name, self.keys.namespace, **options)
        self.follower = Follower(self.archive, self.wire, self.keys, SystemClock())
        self._archives.append(self.archive)
        return self.archive

    def reopen(self) -> None:
        """Close the archive and open it again."""
        self.archive.close()
        self._archives.remove(self.archive)
        self.follow(self.archive.path.name)

    def close(self) -> None:
        for archive in self._archives:
            archive.close()
        super().close()

    @property
    def now_ms(self) -> int:
        return now_ms(self.redis) + int(self.redis.hget(self.keys.meta(), "offset_ms") or 0)

    def pass_time(self, ms: int) -> None:
        """Move the scripts' clock."""
        pass_time(self.redis, timedelta(milliseconds=ms), self.keys)

    # -- what is compared -------------------------------------------------------------------------

    def in_redis(self) -> State:
        """Return the state of Redis in the words of the archive's state."""
        return held_by(self.wire, self.keys)

    def in_archive(self) -> State:
        """Return the state of the archive in the same words."""
        return archived_by(self.archive)

    def log(self) -> list[Entry]:
        """Return every entry of Redis's log."""
        return list(Log(self.wire, self.keys).entries())

    def queued(self) -> set[str]:
        """Return the run ids in RQ's queue."""
        return {run.decode() for run in self.redis.lrange(f"{RQ}:queue:default", 0, -1)}


def schedule(scene: Scene, *ids: str, **options: Any) -> None:
    """Put one-shots *ids*, due tomorrow unless *options* give a time."""
    for id in ids:
        scene.client.schedule("app.task", id=id, **({"at": SOON} | options))


def rows_put_back(scene: Scene) -> list[tuple[str, str]]:
    """Return (id, place) of all restores in the log."""
    return [(row.id, row.place) for one in scene.log() if one.kind == "restore" for row in restored(one)]


def assert_state_is_redis_own(scene: Scene) -> None:
    """Check that the archive has the state of Redis."""
    held, archived = scene.in_redis(), scene.in_archive()
    assert held.keys() == archived.keys(), held.keys() ^ archived.keys()
    for key, (*place, fields, lane, own, state) in held.items():
        is_broken = not fields or own.get(b"trigger") == BROKEN_RULE  # by another writer: the archive has what was put
        record = archived[key][len(place) :] if is_broken else (fields, lane, own, state)
        assert (*place, *record) == archived[key], (key, (*place, *record), archived[key])
