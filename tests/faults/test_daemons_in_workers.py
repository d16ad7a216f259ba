"""Daemons inside workers: two of any number of workers have one, whatever is killed, hangs or ends."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.leaders import know
from tests.builders.workers import RqWorkers
from tests.faults.streams import schedule_stream
from tests.ledger import assert_dense, await_queued, doubles, fired
from tests.waiting import ENDS_S, eventually
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys
from zsched.storage.overview import DaemonRole

pytestmark = pytest.mark.once

KEYS = Keys("default")
ROUNDS, STREAM = 10, 400
_ROLES = DaemonRole.LEADS, DaemonRole.STANDS_BY
TASKS = """
import redis, os
def note(word): redis.Redis.from_url(os.environ["TASKS_REDIS"]).rpush("done", word)
"""


def children(pid: int) -> list[int]:
    """Return the living children of *pid*. (The kernel's own lists of children may lack some while others end.)"""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _stat(int(name)) == ("alive", pid)]


def is_gone(pid: int) -> bool:
    """Return True if *pid* has ended."""
    return _stat(pid)[0] == "gone"


def _stat(pid: int) -> tuple[str, int]:
    """Return whether *pid* is alive or gone, and its parent."""
    with suppress(OSError):
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return "gone" if state in "ZX" else "alive", int(parent)
    return "gone", 0


def _is_daemon(pid: int) -> bool:
    with suppress(OSError):
        return b"\0--host\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


class Fleet:
    """Workers that run with a daemon, by their names."""

    def __init__(self, guard: Guard, server: EmbeddedRedis, folder: Path) -> None:
        self._guard, self._url = guard, server.url
        self.shared = RqWorkers(guard, server.url, folder, TASKS)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str, queue: str = "own") -> None:
        """Start workers of *queue* with these names."""
        for name in names:
            self.workers[name] = self.shared.start(
                "--with-daemon", "--name", name, queue, module="zsched.cli", ZSCHED_REDIS_URL=self._url
            )

    def daemons(self) -> dict[str, int]:
        """Return the daemons that run now, by worker."""
        found = {name: [each for each in children(one.pid) if _is_daemon(each)] for name, one in self.workers.items()}
        return {name: pids[0] for name, pids in found.items() if pids}

    def processes(self, name: str) -> list[int]:
        """Return a worker, its daemon and the daemon's archivist."""
        daemon = self.daemons()[name]
        return [self.workers[name].pid, daemon, *children(daemon)]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of that name of all workers and daemons."""
        found = [json.loads(line) for line in self.shared.log.splitlines() if line.startswith("{") and line[-1] == "}"]
        return [event for event in found if event["event"] == name]


@pytest.fixture
def fleet(guard: Guard, server: EmbeddedRedis, tmp_path: Path) -> Fleet:
    return Fleet(guard, server, tmp_path)


@pytest.fixture
def client(server: EmbeddedRedis) -> Iterator[Client]:
    client = Client.from_url(server.url)
    yield client
    client._link.pool.disconnect()


def seated(watch: redis.Redis) -> set[str]:
    """Return the ids of the daemons with a seat."""
    return {each.decode() for each in watch.zrange(KEYS.seats(), 0, -1)}


def leader(client: Client) -> str | None:
    """Return the name of the worker whose daemon leads."""
    return next((one.worker for one in client._overview().of_role(DaemonRole.LEADS)), None)


def await_pair(fleet: Fleet, client: Client, watch: redis.Redis) -> tuple[str, str]:
    """
    Wait until one living daemon leads and another stands by. Return their workers. (Redis knows a dead one as the
    leader until its lease ends.)
    """

    def pair() -> tuple[str, str] | None:
        overview, alive = client._overview(), set(fleet.daemons())
        leads, stands_by = ([one.worker or "" for one in overview.of_role(role)] for role in _ROLES)
        return (leads[0], stands_by[0]) if len(leads) == len(stands_by) == 1 and {*leads, *stands_by} == alive else None

    eventually(lambda: len(seated(watch)) == 2)
    found = eventually(pair)
    assert found
    return found


def test_ten_workers_have_two_daemons_before_and_after_a_flush(
    fleet: Fleet, client: Client, watch: redis.Redis
) -> None:
    fleet.start(*(f"w{number}" for number in range(10)))

    eventually(lambda: len(fleet.events("daemon_waits")) == 8 or len(fleet.daemons()) > 2, ENDS_S)
    pair, waiting = await_pair(fleet, client, watch), []
    client.schedule("app.task", id="a", after=3600, durable=True)
    before = fleet.daemons(), seated(watch)
    for name in fleet.workers.keys() - {
        *pair
    }:  # they would wait for five seconds, which may be short on a busy machine
        waiting.append(fleet.workers[name].pid)
        os.kill(waiting[-1], signal.SIGSTOP)
    watch.flushall()
    eventually(lambda: seated(watch) == before[1])
    for pid in waiting:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: watch.zscore(KEYS.due_normal(), "a"))

    assert before[0] == fleet.daemons()
    assert 8 == len(fleet.events("daemon_waits"))
    assert 2 == len(fleet.events("daemon_started"))


def test_a_host_that_hangs_loses_its_seat_and_its_daemon_ends_when_it_returns(
    fleet: Fleet, client: Client, watch: redis.Redis
) -> None:
    fleet.start("a", "b", "c")
    hung, other = await_pair(fleet, client, watch)
    [third] = {"a", "b", "c"} - {hung, other}
    processes = fleet.processes(hung)
    [seat] = [one.id for one in client._overview().of_role(DaemonRole.LEADS)]

    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    watch.zrem(KEYS.seats(), seat)  # as if it had lapsed
    eventually(lambda: set(fleet.daemons()) == {hung, other, third} and leader(client) in (other, third))
    now = seated(watch)
    for pid in processes:
        os.kill(pid, signal.SIGCONT)

    eventually(lambda: is_gone(processes[1]))
    assert 1 == len(fleet.events("seat_lost"))
    eventually(lambda: {other, third} == set(fleet.daemons()))
    assert now == seated(watch)
    assert fleet.workers[hung].poll() is None
    fleet.workers[other].send_signal(signal.SIGTERM)  # the seat that it leaves goes to the host that had hung
    eventually(lambda: {hung, third} == set(fleet.daemons()))


def test_runs_are_queued_once_while_the_leaders_worker_is_killed_ten_times(
    fleet: Fleet, client: Client, watch: redis.Redis
) -> None:
    know(watch)
    fleet.start("first-a", "first-b")
    expected: list[str] = []
    for number in range(ROUNDS):
        leads, _ = await_pair(fleet, client, watch)
        processes = fleet.processes(leads)
        rows = schedule_stream(client, watch, STREAM, every_ms=2, start_ms=200)
        expected += rows
        await_queued(watch, len(expected) - STREAM // 2)

        os.kill(processes[0], signal.SIGKILL)

        await_queued(watch, len(expected))
        eventually(lambda pids=processes: all(map(is_gone, pids)))  # type: ignore[misc]
        del fleet.workers[leads]
        watch.delete(KEYS.seats())  # as if the seat of the dead one had lapsed; the living one keeps its own
        fleet.start(f"again-{number}")

    runs, told = await_queued(watch, len(expected)), fired(watch)
    assert [] == doubles(runs)
    assert set(expected) == set(runs) == {run for run, _ in told}
    assert [] == doubles([run for run, _ in told])
    assert [] == [run for run, t in told if t < int(run.rpartition("-")[2]) * 1000]
    assert_dense(watch)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_worker_that_is_stopped_stops_its_daemon_in_order(
    fleet: Fleet, client: Client, watch: redis.Redis, number: signal.Signals
) -> None:
    fleet.start("a", "b")
    leads, standby = await_pair(fleet, client, watch)
    worker, processes = fleet.workers[leads], fleet.processes(leads)

    os.killpg(worker.pid, number)  # as a terminal does it

    assert 0 == worker.wait(ENDS_S)
    assert [True, True] == [is_gone(pid) for pid in processes[1:]]
    assert 1 == len(fleet.events("daemon_stopped")) == len(fleet.events("term_ended"))
    assert 1 == len(seated(watch))
    eventually(lambda: leader(client) == standby)


def test_a_daemon_that_dies_is_started_again_while_its_worker_works(
    fleet: Fleet, client: Client, watch: redis.Redis
) -> None:
    fleet.start("a")
    first = eventually(fleet.daemons)["a"]

    os.kill(first, signal.SIGKILL)
    client.enqueue("tasks.note", args=("works",), queue="own")

    eventually(lambda: watch.lrange("done", 0, -1) == [b"works"])
    eventually(lambda: fleet.daemons().get("a") not in (None, first))
    [failed] = fleet.events("thread_failed")
    assert "the daemon inside this worker ended with exit code -9; its events say why" == failed["reason"]
    client.schedule("tasks.note", args=("fired",), queue="own", after=0)
    eventually(lambda: watch.lrange("done", 0, -1) == [b"works", b"fired"])


def test_a_highly_available_start_is_two_commands_and_six_processes_and_a_plain_worker_works_beside_it(
    fleet: Fleet, client: Client, watch: redis.Redis
) -> None:
    fleet.start("a", "b")
    await_pair(fleet, client, watch)
    plain = fleet.shared.start("plain")

    for queue in ("own", "plain"):
        client.schedule("tasks.note", args=(queue,), queue=queue, after=0)

    eventually(lambda: set(watch.lrange("done", 0, -1)) == {b"own", b"plain"})
    processes = [pid for name in ("a", "b") for pid in fleet.processes(name)]
    assert 6 == len(set(processes))
    assert plain.pid not in processes
