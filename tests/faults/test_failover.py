"""
Daemons that end, and workers that die between two steps: nothing is lost, and nothing is pushed twice.

Short by default; ``ZSCHED_TEST_LONG=1`` makes it 20,000 one-shots.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders.daemons import Start
from tests.faults.leases import lapse, leader_and_standby
from tests.faults.overlap import Stage
from tests.faults.streams import schedule_stream
from tests.ledger import assert_dense, await_queued, doubles, entries, fired
from tests.prefix import RQ
from tests.waiting import eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

RUNS = 20_000 if os.environ.get("ZSCHED_TEST_LONG") == "1" else 5_000  # one a millisecond
SCHEDULES, BEHIND = 40, 5  # 240 kills: each run is the last of its worker
# One worker after the other, forked as that takes milliseconds; it is killed when it would ring.
DYING_WORKERS = """
import os, signal, sys
import redis
from zsched.rq import SimpleWorker

def die(*_):
    client.rpush("killed", worker.name)
    os.kill(os.getpid(), signal.SIGKILL)

redis.Redis.publish = die
print("ready", flush=True)
while os.getppid() > 1:
    child = os.fork()
    if not child:
        client = redis.Redis.from_url(sys.argv[1])
        worker = SimpleWorker(["default"], connection=client)
        worker.work(burst=True, logging_level="ERROR")
        os._exit(0)
    os.waitpid(child, 0)
"""


def assert_each_once_and_never_early(watch: redis.Redis, expected: list[str]) -> None:
    runs, told = await_queued(watch, len(expected)), fired(watch)
    assert [] == doubles(runs)
    assert set(expected) == set(runs)
    assert [] == doubles([run for run, _ in told])
    assert [] == [run for run, t in told if t < int(run.rpartition("-")[2]) * 1000]
    assert_dense(watch)


@pytest.mark.parametrize("lease_ms", ["1000", "60000"])
def test_every_run_is_queued_once_after_kill_9_of_the_leader(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis, lease_ms: str
) -> None:
    leader, _ = leader_and_standby(start_daemon, server.url, watch, DAEMON_LEASE_MS=lease_ms)
    expected = schedule_stream(Client.from_url(server.url), watch, RUNS)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

    leader.send(signal.SIGKILL)
    if lease_ms == "60000":  # else it lapses by itself, maybe even before
        lapse(watch)

    assert_each_once_and_never_early(watch, expected)
    assert -signal.SIGKILL == leader.wait()


def test_a_clean_stop_hands_over_at_once(start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis) -> None:
    leader, standby = leader_and_standby(start_daemon, server.url, watch)
    expected = schedule_stream(Client.from_url(server.url), watch, 2_000)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > 500)

    leader.send(signal.SIGTERM)

    standby.wait_for("term_began")  # a daemon that waits for a lease to lapse comes too late
    assert_each_once_and_never_early(watch, expected)
    assert 0 == leader.wait()
    assert 1 == len(leader.of("term_ended"))


def test_a_suspended_leader_that_resumes_logs_its_lost_term_and_repeats_no_run(
    start_daemon: Start, server: EmbeddedRedis, watch: redis.Redis
) -> None:
    leader, standby = leader_and_standby(start_daemon, server.url, watch)
    expected = schedule_stream(Client.from_url(server.url), watch, RUNS)
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > RUNS // 4)

    leader.send_to_all(signal.SIGSTOP)
    lapse(watch)
    standby.wait_for("term_began")
    taken_over = watch.llen(f"{RQ}:queue:default")
    eventually(lambda: watch.llen(f"{RQ}:queue:default") > min(taken_over + RUNS // 4, RUNS - 1))
    leader.send_to_all(signal.SIGCONT)

    leader.wait_for("term_lost")
    assert_each_once_and_never_early(watch, expected)
    assert 2 == len({entry.fields["daemon"] for entry in entries(watch, "term")})
    assert 0 == len(standby.of("term_lost"))


@pytest.fixture
def stage(guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(guard, redis_url, tmp_path)
    yield stage
    stage.close()


@pytest.mark.once
def test_a_waiting_run_starts_although_a_worker_died_before_it_rang_and_no_run_is_lost_or_doubled(
    stage: Stage, guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    stage.daemon()
    ids = [f"s{n}" for n in range(SCHEDULES)]
    for id in ids:
        stage.schedule(id, "queue", every=0.5, seconds=0.0, overlap_limit=1 + BEHIND)
    eventually(lambda: stage.waiting() == SCHEDULES * BEHIND)
    for id in ids:
        stage.client.pause(id)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "TASKS_REDIS": redis_url}
    guard.spawn([sys.executable, "-c", DYING_WORKERS, redis_url], env=env, stdout=subprocess.DEVNULL)

    eventually(lambda: redis_client.llen("killed") == SCHEDULES * (1 + BEHIND), 120)
    eventually(lambda: all(len(stage.spans(id)) == 1 + BEHIND for id in ids))

    for id in ids:
        runs = stage.runs(id)
        assert 1 + BEHIND == len(runs)
        assert runs == [span.run_id for span in stage.spans(id)]
        assert runs[1:] == [change.run_id for change in stage.released(id)]
