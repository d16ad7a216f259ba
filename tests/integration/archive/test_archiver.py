"""The archiver's thread with a real Redis: its reaction to a file that is damaged while it runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonThread, archive_of_its_own
from tests.faults.leases import end_hold
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.archive import Archive
from zsched.config.settings import ArchiveSettings
from zsched.core.entry import Position
from zsched.daemon import archiver as module
from zsched.daemon.follower import Follower
from zsched.daemon.merge import Merge
from zsched.daemon.own_archive import OwnArchive
from zsched.errors import ArchiveCorrupt, ArchiveFailed, RedisUnavailable
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.log import Log

KEYS = Keys("default")


@pytest.fixture
def archivers(link: Link) -> Archivers:
    return Archivers(link, KEYS)


def test_an_archive_corrupted_at_run_time_is_kept_and_its_report_removed(
    redis_url: str, client: Client, archivers: Archivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(archive_of_its_own())
    with DaemonThread(redis_url, archive=ArchiveSettings(path=str(path))) as daemon:
        before = eventually(lambda: following(archivers))

        monkeypatch.setattr(Follower, "step", damaged_once(Follower.step))
        client.schedule("app.tasks.run", id="a", after=3600)
        told = daemon.wait_for("archive_corrupt")
        [after] = eventually(lambda: following(archivers) - before)
        assert {after} == {one.archive for one in archivers.reports()}

    assert Path(told["kept"]).exists()
    assert path.exists()


def test_an_archive_that_keeps_failing_after_a_loss_does_not_stop_firing(
    redis_url: str, redis_client: redis.Redis, client: Client, archivers: Archivers, monkeypatch: pytest.MonkeyPatch
) -> None:

    def bad_sector(merge: Merge) -> Iterator[int]:
        raise ArchiveFailed("disk I/O error")

    with DaemonThread(redis_url, lease_ms=5000) as daemon:  # the data set gets a name after a lease
        client.schedule("app.tasks.run", id="a", after=3600)
        eventually(lambda: following(archivers))
        client.schedule("app.tasks.run", id="b", after=3600, durable=True)
        monkeypatch.setattr(Merge, "run", bad_sector)
        redis_client.flushall()
        daemon.wait_for("recovery_began", 3)
        client.schedule("app.tasks.run", id="due", after=0)
        eventually(lambda: daemon.archivist.archiver._failed >= module._MOST_FAILURES)
        end_hold(redis_client, daemon)

        eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))


def test_a_bug_is_logged_with_its_traceback_and_a_disk_failure_without(
    redis_url: str, client: Client, archivers: Archivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonThread(redis_url) as daemon:
        eventually(lambda: following(archivers))

        with monkeypatch.context() as failing:
            failing.setattr(Follower, "step", raising(ArchiveFailed("disk I/O error")))
            client.schedule("app.tasks.run", id="a", after=3600)
            daemon.wait_for("archive_failed")
            eventually(lambda: daemon.archivist.archiver._failed > 2)
            assert [] == daemon.of("archiver_crashed")

            failing.setattr(Follower, "step", raising(KeyError("a bug")))
            assert daemon.wait_for("archiver_crashed")["exc_info"]
        eventually(lambda: following(archivers))
        assert 1 == len(daemon.of("archiver_crashed"))


def test_an_archive_refused_at_run_time_gives_no_name_to_a_data_set(
    redis_url: str, redis_client: redis.Redis, client: Client, archivers: Archivers
) -> None:
    with DaemonThread(redis_url) as daemon:
        archiver = daemon.archivist.archiver
        client.schedule("app.tasks.run", id="a", after=3600)
        eventually(lambda: following(archivers) and names_of(archivers) and archiver.position)

        with redis_client.pipeline() as another:  # another data set comes in its place
            another.hset(KEYS.meta(), "gen", "another")
            another.xtrim(KEYS.log(), maxlen=0, approximate=False)
            another.execute()
        eventually(lambda: {ArchiveState.REFUSED} == {one.state for one in archivers.reports()})

        assert names_of(archivers) is None


def test_an_archive_opened_alone_joins_later(
    redis_url: str, client: Client, archivers: Archivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_own, tries = OwnArchive.open, list[Wire]()

    def not_at_first(own: OwnArchive, wire: Wire) -> Archive:
        tries.append(wire)
        if len(tries) == 1:
            raise RedisUnavailable("cannot reach Redis")
        return open_own(own, wire)

    monkeypatch.setattr(OwnArchive, "open", not_at_first)
    with DaemonThread(redis_url) as daemon:
        client.schedule("app.tasks.run", id="a", after=3600)

        eventually(lambda: daemon.archivist.archiver.position)
        assert eventually(lambda: names_of(archivers))


def test_a_new_archive_learns_the_name_of_the_data_set_as_soon_as_the_leader_gives_it(
    redis_url: str, archivers: Archivers
) -> None:
    with DaemonThread(redis_url, lease_ms=400) as daemon:  # timing: as long it waits for reports
        named = daemon.wait_for("data_set_named")

        assert named["name"] == eventually(lambda: names_of(archivers))


def test_an_archive_frees_its_memory_once_after_a_backlog(
    redis_url: str, client: Client, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests, rest = list[Position | None](), Archive.rest

    def rested(archive: Archive) -> None:
        rest(archive)
        rests.append(archive.position)

    monkeypatch.setattr(Archive, "rest", rested)
    monkeypatch.setattr(module, "_MUCH", 10)
    monkeypatch.setattr(Archive, "check_step", lambda *_: True)  # it never ends; its end frees memory, too
    with DaemonThread(redis_url):
        eventually(lambda: rests)  # after it was opened
        earlier = len(rests)
        for number in range(10):
            client.schedule("app.tasks.run", id=f"s{number}", after=3600)
        eventually(lambda: len(rests) > earlier)
        client.schedule("app.tasks.run", id="one", after=3600, durable=True)

    last = Log(link, KEYS).last()
    assert last is not None
    assert earlier + 1 == len(rests)
    assert rests[-1] is not None
    assert rests[-1].order < last.position.order


def names_of(archivers: Archivers) -> str | None:
    """Return the name of the data set that the only archive reports."""
    return next((one.names for one in archivers.reports()), None)


def raising(error: Exception) -> Callable[..., bool]:
    """Return a step that raises *error*."""

    def instead(follower: Follower, *arguments: float) -> bool:
        raise error

    return instead


def following(archivers: Archivers) -> set[str]:
    """Return the archives that are reported as following."""
    return {one.archive for one in archivers.reports() if one.state is ArchiveState.FOLLOWING}


def damaged_once(step: Callable[..., bool]) -> Callable[..., bool]:
    """Return a *step* that finds the file damaged the first time."""
    steps = []

    def instead(follower: Follower, *arguments: float) -> bool:
        steps.append(follower)
        if len(steps) == 1:
            raise ArchiveCorrupt("history entry 1 is not what was written")
        return step(follower, *arguments)

    return instead
