"""The trimmer on a real Redis: trimmed and kept parts of the log, and its behaviour without the right."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.builders.daemons import DaemonThread, archive_of_its_own
from tests.builders.leaders import Leader, know
from tests.integration.reruns.ends import archived
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.archive import History
from zsched.config.settings import ArchiveSettings
from zsched.core.clock import ManualClock
from zsched.daemon.upkeep import Trimmer
from zsched.embedded import EmbeddedRedis
from zsched.errors import Stale
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log

pytestmark = pytest.mark.redis
LOG = Keys("default").log()
NODE = 100  # entries that Redis forgets at once, at most (stream-node-max-entries)
START_MS = 1_767_225_600_000  # the time of the entry with seq 0
ROUND_MS = 10_000  # between two looks whether something is to be trimmed


class Trimming:
    """
    A leader with a trimmer. The entry with seq n was written n seconds after START_MS, except the entry of the term.
    """

    def __init__(self, url: str, client: redis.Redis, clock: ManualClock, **settings: Any) -> None:
        know(client)
        self.redis, self.leader = client, Leader(url)
        log = Log(self.leader.wire, Keys("default"))
        self.trimmer = Trimmer(self.leader.dispatch, log, ArchiveSettings(**settings), clock)
        client.delete(LOG)

    def write(self, seqs: range, body: bytes = b"-", epoch: int = 1) -> None:
        with self.redis.pipeline(transaction=False) as pipeline:
            for seq in seqs:
                entry = {"kind": "cancel", "t": (START_MS + seq * 1000) * 1000, "rows": 1, body: 5}
                pipeline.xadd(LOG, entry, id=f"{epoch}-{seq}")
            pipeline.execute()

    def trim(self, at_s: int) -> None:
        """Trim at *at_s* after START_MS, by the server's clock."""
        self.trimmer.trim_if_due(self.leader.term, START_MS + at_s * 1000)

    def seqs(self) -> list[int]:
        return [int(id.partition(b"-")[2]) for id, _ in self.redis.xrange(LOG)]

    def close(self) -> None:
        self.leader.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def an_hour(redis_url: str, redis_client: redis.Redis, clock: ManualClock) -> Iterator[Trimming]:
    """A trimmer that keeps an hour of the log."""
    with closing(Trimming(redis_url, redis_client, clock, log_keep_s=3600)) as trimming:
        yield trimming


@pytest.fixture
def a_mebibyte(redis_url: str, redis_client: redis.Redis, clock: ManualClock) -> Iterator[Trimming]:
    """A trimmer that keeps one MiB of the log."""
    with closing(Trimming(redis_url, redis_client, clock, log_keep_s=86_400, log_keep_mib=1)) as trimming:
        yield trimming


# -- what stays ---------------------------------------------------------------------------------------


def test_entries_older_than_an_hour_are_trimmed_and_all_others_stay(an_hour: Trimming) -> None:
    an_hour.write(range(1, 1001))

    an_hour.trim(at_s=3600 + 700)

    left = an_hour.seqs()
    assert list(range(left[0], 1001)) == left
    assert 700 - NODE < left[0] <= 700


def test_entries_of_earlier_epochs_are_trimmed_by_age(an_hour: Trimming) -> None:
    an_hour.write(range(1, 301))
    an_hour.write(range(301, 302), epoch=2)
    an_hour.write(range(302, 1001), epoch=7)

    an_hour.trim(at_s=3600 + 700)

    assert 700 - NODE < an_hour.seqs()[0] <= 700


def test_a_log_within_its_age_and_size_is_not_trimmed(an_hour: Trimming) -> None:
    an_hour.write(range(1, 1001))

    an_hour.trim(at_s=3601)

    assert list(range(1, 1001)) == an_hour.seqs()


def test_entries_beyond_the_size_are_trimmed_oldest_first(a_mebibyte: Trimming) -> None:
    a_mebibyte.write(range(1, 401), b"x" * 10_000)  # about 4 MiB

    a_mebibyte.trim(at_s=401)

    left = a_mebibyte.seqs()
    assert list(range(left[0], 401)) == left
    assert 0.8 * 2**20 < a_mebibyte.redis.memory_usage(LOG, samples=0) < 1.1 * 2**20


@pytest.mark.parametrize("count", [1, 2, 250])
def test_the_last_entry_stays_however_old_it_is(an_hour: Trimming, count: int) -> None:
    an_hour.write(range(1, count + 1))

    an_hour.trim(at_s=100 * 3600)

    left = an_hour.seqs()
    assert count == left[-1]
    assert len(left) <= NODE


@pytest.mark.parametrize("count", [1, 3])
def test_the_last_entry_stays_however_large_it_is(a_mebibyte: Trimming, count: int) -> None:
    a_mebibyte.write(range(1, count + 1), b"x" * 3 * 2**20)

    a_mebibyte.trim(at_s=10)

    assert [count] == a_mebibyte.seqs()


def test_an_empty_log_is_left_alone(an_hour: Trimming) -> None:
    an_hour.trim(at_s=3600)

    assert 0 == an_hour.redis.exists(LOG)


# -- when ---------------------------------------------------------------------------------------------


def test_the_trimmer_checks_the_log_once_per_interval(an_hour: Trimming, clock: ManualClock) -> None:
    an_hour.write(range(1, 1001))
    an_hour.trim(at_s=0)

    clock.advance(ROUND_MS - 1)
    an_hour.trim(at_s=3600 + 700)
    before = an_hour.seqs()
    clock.advance(1)
    an_hour.trim(at_s=3600 + 700)

    assert 1 == before[0]
    assert 700 - NODE < an_hour.seqs()[0] <= 700


def test_a_large_backlog_is_trimmed_in_portions_without_a_pause(an_hour: Trimming) -> None:
    an_hour.write(range(1, 12_001))
    lengths = []

    for _ in range(4):
        an_hour.trim(at_s=3600 + 12_000)
        lengths.append(len(an_hour.seqs()))

    assert [7000, 2000, True, True] == [*lengths[:2], *(length <= NODE for length in lengths[2:])]


def test_a_deposed_leader_is_refused_a_trim(an_hour: Trimming) -> None:
    an_hour.write(range(1, 1001))
    an_hour.redis.set(Keys("default").lease(), "somebody-else")

    with pytest.raises(Stale):
        an_hour.trim(at_s=100 * 3600)

    assert 1000 == len(an_hour.seqs())


# -- where it may not ---------------------------------------------------------------------------------


@pytest.fixture
def without_right(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> Iterator[str]:
    """The URL of a user who may do everything but trim."""
    redis_client.acl_setuser("careful", enabled=True, passwords=["+secret"], keys=["*"], channels=["*"])
    allow_all_but(redis_client, "xtrim")
    yield redis_server.tcp_url.replace("//", "//careful:secret@")
    redis_client.acl_deluser("careful")


def allow_all_but(client: redis.Redis, *commands: str) -> None:
    client.acl_setuser("careful", enabled=True, categories=["+@all"], commands=[f"-{command}" for command in commands])


def refusals(client: redis.Redis) -> int:
    """Return the number of refused XTRIM calls."""
    return sum(int(entry["count"]) for entry in client.acl_log() if entry["object"].lower() == "xtrim")


@pytest.mark.parametrize(("right", "kept"), [("xtrim", 1000), ("memory", 1)])  # without memory: by age alone
def test_a_refused_trim_is_logged_once_and_the_leader_continues(
    without_right: str, redis_client: redis.Redis, clock: ManualClock, right: str, kept: int
) -> None:
    allow_all_but(redis_client, right)
    with closing(Trimming(without_right, redis_client, clock)) as trimming, capture_logs() as told:
        trimming.write(range(1, 1001))
        for _ in range(3):
            trimming.trim(at_s=100 * 3600)
            clock.advance(ROUND_MS)

        assert 0 == trimming.leader.fire().runs  # over the same connection
        assert kept <= len(trimming.seqs()) < kept + NODE
    assert ["log_not_trimmed"] == [event["event"] for event in told]


def test_the_trimmer_trims_as_soon_as_its_user_has_the_right(
    without_right: str, redis_client: redis.Redis, clock: ManualClock
) -> None:
    with closing(Trimming(without_right, redis_client, clock)) as trimming:
        trimming.write(range(1, 1001))
        trimming.trim(at_s=100 * 3600)

        allow_all_but(redis_client)
        clock.advance(ROUND_MS)
        trimming.trim(at_s=100 * 3600)

        assert len(trimming.seqs()) <= NODE


def test_a_daemon_without_the_right_to_trim_logs_it_once_and_fires(
    without_right: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    redis_client.acl_log_reset()
    client, archive = Client.from_url(without_right), ArchiveSettings(path=archive_of_its_own(), log_keep_s=1)
    with DaemonThread(without_right, archive=archive, renew_ms=100) as daemon:
        client.schedule("app.run", id="first", after=0)
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 1)
        eventually(lambda: refusals(redis_client) >= 2)

        client.schedule("app.run", id="second", after=0)
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 2)
    assert 1 == len(daemon.of("log_not_trimmed"))
    assert [] == daemon.of("redis_refused")


def test_an_archive_has_every_entry_that_its_daemon_trimmed(
    redis_url: str, redis_client: redis.Redis, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first trim waits for the archive: on a busy machine it may be more than a second behind."""
    know(redis_client)
    trim, is_archived = Trimmer.trim_if_due, threading.Event()
    monkeypatch.setattr(Trimmer, "trim_if_due", lambda *given: is_archived.is_set() and trim(*given))
    client, archive = Client.from_url(redis_url), ArchiveSettings(path=archive_of_its_own(), log_keep_s=1)
    with DaemonThread(redis_url, archive=archive, renew_ms=100) as daemon:
        daemon.wait_for("archive_bootstrapped")
        for n in range(300):
            client.schedule("app.run", id=f"id-{n}", after=3600)
        archived(link)
        is_archived.set()

        eventually(lambda: redis_client.xlen(LOG) <= NODE)
    with History(Path(str(archive.path))) as history, closing(Link.from_url(redis_url, 5.0).open()) as wire:
        last = Log(wire, Keys("default")).last()
        assert last is not None
        assert last.position == history.position
    assert [] == daemon.of("log_not_trimmed")
    assert 1 == len(daemon.of("archive_bootstrapped"))
    assert [] == daemon.of("archive_left_behind")
