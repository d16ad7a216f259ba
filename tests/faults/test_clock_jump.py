"""The Redis server's clock jumps: schedules that are due only by a wrong clock are held until the clock is steady."""

import shutil
import struct
import subprocess
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.redises import connect
from tests.clocks import now_ms
from tests.ledger import assert_dense, entries, queued
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.daemon import tick
from zsched.embedded import EmbeddedRedis
from zsched.storage.scripts import load

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, to shift the clock of a redis-server")
HOUR_MS = 3_600_000
SLOW_LOG = 10_000  # entries


class SkewedRedis:
    """A redis-server whose clock the test sets."""

    def __init__(self, server: EmbeddedRedis, file: Path) -> None:
        self.url, self._file = server.url, file

    def skew(self, ms: int) -> None:
        """Move the clock by *ms* from now on."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("l", ms))


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("shim") / "clock_skew.so"
    source = Path(__file__).parent / "clock_skew.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
    return built


@pytest.fixture
def skewed(shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkewedRedis]:
    file = tmp_path / "skew"
    file.write_bytes(struct.pack("l", 0))
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(shim))
        environment.setenv("SKEW_FILE", str(file))
        server = EmbeddedRedis()
        server.start()
    with server, connect(server.url) as client:
        know(client)
        yield SkewedRedis(server, file)


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A leader that does not believe the time after a jump, until the test undoes that."""
    monkeypatch.setattr(tick, "STEADY_MS", float(HOUR_MS))
    return monkeypatch


def test_a_corrected_jump_forward_fires_no_run_early(skewed: SkewedRedis, doubtful: pytest.MonkeyPatch) -> None:
    with connect(skewed.url) as watch, DaemonThread(skewed.url) as daemon:
        daemon.wait_for("term_began")
        Client.from_url(skewed.url).schedule("app.run", id="later", after=1800)

        skewed.skew(HOUR_MS)
        jumped = daemon.wait_for("clock_jumped")
        skewed.skew(0)
        doubtful.undo()
        eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and len(daemon.of("clock_jumped")) == 2)

        assert HOUR_MS == pytest.approx(jumped["by_ms"], abs=10_000)
        assert [] == queued(watch)
        assert 1 == watch.zcard("zsched:{default}:due:normal")


@pytest.mark.usefixtures("doubtful")
def test_a_standby_that_takes_over_after_a_jump_fires_no_run_early(skewed: SkewedRedis) -> None:
    with connect(skewed.url) as watch:
        watch.set("zsched:{default}:lease", "other:1:60000:n", px=60_000)
        Client.from_url(skewed.url).schedule("app.run", id="later", after=1800)
        watch.config_set("slowlog-log-slower-than", 0)
        watch.config_set("slowlog-max-len", SLOW_LOG)
        with DaemonThread(skewed.url) as standby:
            eventually(lambda: has_campaigned(watch))  # and so has seen the clock before the jump

            skewed.skew(HOUR_MS)  # the other's lease lapses by this
            # Valkey may still answer the first attempt by the time before the jump.
            eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and standby.of("clock_jumped"))

            assert [] == queued(watch)


def has_campaigned(watch: redis.Redis) -> bool:
    """Return True if a daemon has asked for the lease, by the slow log: the first call finds no script there yet."""
    sha = sha1(load("acquire", RQ).text.encode()).hexdigest()
    return sum(sha in str(entry["command"]) for entry in watch.slowlog_get(SLOW_LOG)) > 1


def test_a_daemon_continues_by_the_new_time_after_a_lasting_jump(
    skewed: SkewedRedis, doubtful: pytest.MonkeyPatch
) -> None:
    with connect(skewed.url) as watch, DaemonThread(skewed.url) as daemon:
        daemon.wait_for("term_began")
        Client.from_url(skewed.url).schedule("app.run", id="later", after=1800)

        skewed.skew(HOUR_MS)
        daemon.wait_for("clock_jumped")
        assert [] == queued(watch)

        doubtful.undo()
        eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and queued(watch))
        assert_dense(watch)
    assert 1 == len(daemon.of("clock_jumped"))


def test_a_jump_backward_blocks_neither_election_nor_dispatch(skewed: SkewedRedis) -> None:
    skewed.skew(HOUR_MS)
    with connect(skewed.url) as watch, DaemonThread(skewed.url) as daemon:
        daemon.wait_for("term_began")
        client = Client.from_url(skewed.url)

        skewed.skew(0)
        daemon.wait_for("clock_jumped")
        client.schedule("app.run", id="soon", after=0)
        client.schedule("app.run", id="tick", every=0.5)

        eventually(lambda: len(queued(watch)) >= 2)
        assert_dense(watch)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at-the-first-acquire", "at-a-restart"])
def test_schedules_put_after_a_clock_was_corrected_are_not_uncertain(skewed: SkewedRedis, is_restarted: bool) -> None:
    with connect(skewed.url) as watch:
        if not is_restarted:
            skewed.skew(HOUR_MS)
            watch.flushall()
    with connect(skewed.url) as watch, DaemonThread(skewed.url, lease_ms=5_000) as daemon:  # so long is a hold
        daemon.wait_for("term_began")
        if is_restarted:
            skewed.skew(HOUR_MS)
            watch.hset("zsched:{default}:meta", "server", "another, before the restart")
            daemon.wait_for("term_began", 2)
            # on a busy machine a term may lapse before the restart: then it is the next one that doubts
            eventually(lambda: int(watch.hget("zsched:{default}:meta", "doubt") or 0) > now_ms(watch) - 60_000)
        skewed.skew(0)
        daemon.wait_for("clock_jumped", 1 + is_restarted)
        if is_restarted:
            eventually(lambda: entries(watch, "fire"))  # the first pass of a leader by the right clock
        else:
            daemon.wait_for("data_set_named")  # nothing was lost before it got its name
        client = Client.from_url(skewed.url)

        for id in ("one", "two"):
            client.schedule("app.run", id=id, after=0, on_uncertain="skip")
        client.schedule("app.run", id="tick", every=1, overlap="allow", on_uncertain="skip")

        eventually(lambda: len(queued(watch)) >= 4)
        assert {"one", "two", "tick"} == {run.rpartition("-")[0] for run in queued(watch)}
        assert not any(watch.hget(f"{RQ}:job:{run}", "zs_uncertain") for run in queued(watch))
        assert [] == [entry for entry in entries(watch, "fire") if "skipped" in entry.fields]
        assert is_restarted == len([entry for entry in entries(watch, "fire") if "doubt" in entry.fields])
        assert_dense(watch)
