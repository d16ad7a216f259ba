"""An archive begins or comes back when the log no longer goes back far enough: it reads the state of Redis."""

import signal
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import redis

from tests.builders.daemons import HeldArchivist, Start
from tests.builders.leaders import know
from tests.builders.proxies import Proxy
from tests.faults.archives import (
    KEYS,
    assert_state_is_redis_own,
    await_caught_up,
    fact,
    history,
    log_in,
    reading,
    repeated,
    state_of,
    stop,
    wire_to,
)
from tests.faults.life import Life
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.archive import Archive, History
from zsched.core.clock import SystemClock
from zsched.core.entry import Entry
from zsched.core.occurrences.outcomes import What
from zsched.daemon.follower import Follower
from zsched.embedded import EmbeddedRedis


@contextmanager
def living(life: Life) -> Iterator[None]:
    """Let clients write all the time inside the block."""
    ending, errors = threading.Event(), []

    def live() -> None:
        try:
            while not ending.is_set():
                life.step()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    assert [] == errors


def lived(start_daemon: Start, url: str, watch: redis.Redis, steps: int, seed: int) -> Life:
    """Start a leader, and let clients do *steps*."""
    start_daemon(url).wait_for("term_began")
    life = Life(url, watch, seed=seed, soon_ms=1_000)
    for _ in range(steps):
        life.step()
    return life


def test_an_archive_that_joins_a_trimmed_log_has_the_state_of_redis(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    life = lived(start_daemon, redis_url, redis_client, 200, 1)
    life.settle()
    redis_client.xtrim(KEYS.log(), maxlen=20, approximate=False)
    first = log_in(redis_url)[0].position

    joined = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    told = joined.wait_for("archive_bootstrapped")
    [report] = await_caught_up(redis_url, path)
    stop(joined)
    assert first.seq > 1
    assert str(first.t_us) == told["complete_since"] == report.about["complete_since"] == fact(path, "complete_since")
    assert len(assert_state_is_redis_own(redis_url, path)) > 200
    assert log_in(redis_url) == history(path)


def test_an_archive_that_joins_a_log_trimmed_by_age_bootstraps(start_daemon: Start, redis_url: str, path: Path) -> None:
    settings = {"ARCHIVE_LOG_KEEP_S": "1", "DAEMON_RENEW_MS": "100"}  # after a renewal it trims
    start_daemon(redis_url, **settings).wait_for("term_began")
    client = Client.from_url(redis_url)
    for n in range(150):  # more than a node of a stream
        client.schedule("app.task", id=f"s{n}", after=3600)

    eventually(lambda: log_in(redis_url)[0].position.seq > 1)
    joined = start_daemon(redis_url, ARCHIVE_PATH=str(path), ARCHIVE_LOG_KEEP_S="1")

    assert joined.wait_for("archive_begins")["complete"] is False
    assert joined.wait_for("archive_bootstrapped")["complete_since"].isdigit()
    await_caught_up(redis_url, path)
    stop(joined)
    assert {(f"s{n}", "due") for n in range(150)} == {
        (key[0], row[0]) for key, row in assert_state_is_redis_own(redis_url, path).items()
    }


def test_an_archive_joins_while_clients_write_and_another_daemon_fires(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    life = lived(start_daemon, redis_url, redis_client, 150, 2)
    redis_client.xtrim(KEYS.log(), maxlen=20, approximate=False)

    with living(life):
        joined = start_daemon(redis_url, ARCHIVE_PATH=str(path))
        joined.wait_for("archive_bootstrapped")
        pushed = redis_client.llen(f"{RQ}:queue:default")
        eventually(lambda: redis_client.llen(f"{RQ}:queue:default") > pushed + 100)
    life.settle()

    await_caught_up(redis_url, path)
    stop(joined)
    assert_state_is_redis_own(redis_url, path)
    assert log_in(redis_url) == history(path)[-len(log_in(redis_url)) :]
    assert [] == repeated(history(path))
    assert [] == joined.of("archiver_crashed")
    assert [] == joined.of("redis_history_lost") + joined.of("archive_failed")


def test_a_run_pushed_in_a_bootstrap_is_unchanged(redis_url: str, redis_client: redis.Redis, path: Path) -> None:
    client = Client.from_url(redis_url)
    client.schedule("app.task", id="rule", every=3600, args=("old",))
    client.schedule("app.task", id="another", every=3600)
    redis_client.xtrim(KEYS.log(), maxlen=1, approximate=False)
    with wire_to(redis_url) as wire, closing(Archive(path, "default")) as archive:
        copy = archive.copy

        def copy_while_clients_write(entries: Iterable[Entry]) -> None:
            copy(entries)  # where the log ends is known by now, and nothing was read yet
            client.run_now("rule")
            client.schedule("app.task", id="rule", every=3600, args=("new",))

        archive.copy = copy_while_clients_write  # type: ignore[method-assign]  # to be in the middle of it
        assert Follower(archive, wire, KEYS, SystemClock()).step()

    assert 3 == len(assert_state_is_redis_own(redis_url, path))


def test_an_archive_left_behind_by_trimming_bootstraps_and_keeps_its_history(
    start_daemon: Start, redis_url: str, redis_client: redis.Redis, path: Path
) -> None:
    away = start_daemon(redis_url, ARCHIVE_PATH=str(path))
    away.wait_for("term_began")
    client = Client.from_url(redis_url)
    client.schedule("app.task", id="old", after=0)
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default"))
    old_log = log_in(redis_url)
    await_caught_up(redis_url, path)
    stop(away)
    lived(start_daemon, redis_url, redis_client, 150, 3).settle()
    redis_client.xtrim(KEYS.log(), maxlen=10, approximate=False)

    back = start_daemon(redis_url, ARCHIVE_PATH=str(path))

    left = back.wait_for("archive_left_behind")
    told = back.wait_for("archive_bootstrapped")
    await_caught_up(redis_url, path)
    stop(back)
    log, archived = log_in(redis_url), history(path)
    assert (old_log[-1].position.id, log[0].position.id) == (left["had"], left["log_begins"])
    assert str(log[0].position.t_us) == told["complete_since"] == fact(path, "complete_since")
    assert [*old_log, *log] == archived
    assert_state_is_redis_own(redis_url, path)
    with History(path) as read:
        changes, _ = read.of_schedule("old", 10)
    assert [What.PUT, What.FIRED] == [change.what for change in changes][:2]
    assert [] == back.of("redis_history_lost")


def test_a_bootstrap_interrupted_by_kill_9_is_completed_by_the_next_start(start_daemon: Start, tmp_path: Path) -> None:
    path, number = tmp_path / "away.db", 3_000
    with EmbeddedRedis(tcp=True) as server, redis.Redis.from_url(server.url, protocol=2) as watch:
        assert server.port is not None
        know(watch)
        client = Client.from_url(server.url)
        first = start_daemon(server.url, ARCHIVE_PATH=str(path))
        first.wait_for("term_began")
        for n in range(5):
            client.schedule("app.task", id=f"old{n}", after=3600)
        await_caught_up(server.url, path)
        stop(first)
        old_state, old_log = state_of(path), log_in(server.url)
        rows = ({"func": "app.task", "id": f"new{n}", "after": 3600} for n in range(number))
        assert number == client.schedule_many(rows).created
        client.cancel("old0")
        watch.xtrim(KEYS.log(), maxlen=5, approximate=False)

        with Proxy(server.port) as slow:
            slow.keeps = lambda _: is_in_the_middle_of_a_bootstrap(path)  # it gets no further
            killed = start_daemon(slow.url, ARCHIVE_PATH=str(path), REDIS_TIMEOUT_S=str(WITHIN_S))
            eventually(lambda: slow.kept)
            archivist = HeldArchivist(killed)
            killed.send(signal.SIGKILL)
            killed.wait()
            eventually(archivist.has_ended)
        interrupted = is_in_the_middle_of_a_bootstrap(path), len(killed.of("archive_bootstrapped"))
        left = state_of(path)
        next_one = start_daemon(server.url, ARCHIVE_PATH=str(path))

        next_one.wait_for("archive_bootstrapped")
        await_caught_up(server.url, path)
        stop(next_one)
        assert (True, 0) == interrupted
        assert 5 == len(old_state)
        assert old_state == left
        assert 4 + number == len(assert_state_is_redis_own(server.url, path))
        assert [*old_log, *log_in(server.url)] == history(path)


def is_in_the_middle_of_a_bootstrap(path: Path) -> bool:
    """Return True if a part of a new state is on disk and the old state still counts."""
    try:
        with reading(path) as db:
            begun = db.execute("SELECT count(*) FROM fact WHERE name = 'boot_n'").fetchone()[0]
            lives = db.execute("SELECT count(DISTINCT life) FROM live").fetchone()[0]
    except sqlite3.OperationalError:  # its writer opens it at this moment
        return False
    return bool(begun) and lives == 2
