"""Workers and commands on a Redis Cluster, wherever its slot is."""

import os
import subprocess
import sys
from pathlib import Path

from tests.builders.clusters import ENV, PREFIX, Cluster
from tests.builders.redises import connect
from zsched.embedded.guard import Guard

# After each failover fire is held as long as a lease lasts; a term may end earlier.
SETTINGS = ENV | {"DAEMON_LEASE_MS": "2000", "DAEMON_RENEW_MS": "500"}  # timing: the length of the holds
TASKS = """
import zsched

def answer(number):
    return number

def take():
    open("gate").read()  # until the test opens it

def write():
    with open("ran", "a") as file:
        file.write(zsched.current_run().id + "\\n")

@zsched.task
def chain(more: int):
    zsched.current_run().note(more=more)
    if more:
        return zsched.Next(after=0.05, more=more - 1)
"""


def environment(**more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return env | {"RQ_KEY_PREFIX": PREFIX} | more


def start_worker(guard: Guard, url: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a real ``rq worker`` that follows the slot, as docs/how-to/run-on-redis-cluster.md does."""
    (folder / "clustertasks.py").write_text(TASKS)
    command = [sys.executable, "-m", "rq.cli", "worker", "--connection-class", "zsched.cluster.ClusterRedis"]
    with (folder / "worker.log").open("ab") as log:
        return guard.spawn(
            [*command, "-u", url, *arguments, "default"], stdout=log, stderr=log, env=environment(), cwd=folder
        )


def status_of(cluster: Cluster, run_id: str | None) -> str:
    """Return RQ's status of a run, wherever its slot is."""
    with connect(cluster.owner().tcp_url) as client:
        return (client.hget(f"{PREFIX}:job:{run_id}", "status") or b"").decode()
