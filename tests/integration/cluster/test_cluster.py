"""The parts around a daemon on a Redis Cluster: RQ's workers, the doctor, the command line, a recovery by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.faults.clusters import PREFIX, SLOT, SOON, Cluster
from tests.faults.ledger import connect, doubles
from tests.faults.processes import DaemonProcess, archive_of_its_own, eventually
from tests.integration.doctor.ground import examined, only
from tests.integration.users import fill_in_passwords, refusals
from tests.integration.web.ground import PASSWORD, Web
from tests.prefix import needs_prefix
from zsched import Client, ConfigError, RedisRefused
from zsched.cluster import ClusterRedis
from zsched.embedded.guard import Guard
from zsched.health.check import Severity

pytestmark = needs_prefix

TASKS = """
import time

import zsched

def answer(number):
    return number

def take(seconds):
    time.sleep(seconds)

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


def run_cli(cluster: Cluster, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zsched.cli", "-u", cluster.url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment(**more))


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return Client.from_url(cluster.url, rq_prefix=PREFIX)


@pytest.fixture
def cluster(guard: Guard) -> Cluster:
    return Cluster(guard, replicas=1)


def test_a_worker_follows_the_slot_through_a_migration_and_a_failover(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    daemon = DaemonProcess(guard, cluster.url, **SOON)
    daemon.wait_for("hold_ended")
    worker = start_worker(guard, cluster.url, tmp_path)

    def finishes(id: str, func: str = "clustertasks.answer", argument: float = 1) -> None:
        run = client.schedule(func, args=(argument,), id=id, after=0.01).run_id
        eventually(lambda: status_of(cluster, run) == "finished", within_s=40)

    def busy(id: str) -> str | None:
        run = client.schedule("clustertasks.take", args=(2,), id=id, after=0.01).run_id
        eventually(lambda: status_of(cluster, run) == "started", within_s=40)
        return run

    finishes("before")
    idle_owner = cluster.fail_over()
    finishes("idle-failover")
    run = busy("busy-failover")
    cluster.fail_over()
    eventually(lambda: status_of(cluster, run) == "finished")
    assert idle_owner is not cluster.owner()
    cluster.move(cluster.another())
    finishes("idle-migration")
    run = busy("busy-migration")
    cluster.move(cluster.another())
    eventually(lambda: status_of(cluster, run) == "finished")
    finishes("after")

    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
    assert 4 == sum(run.status == "succeeded" for id in ("before", "idle-failover", "idle-migration", "after")
                    for run in client.runs(id))  # fmt: skip


def test_workers_run_each_run_once_while_its_slot_moves_and_its_queue_is_often_empty(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SOON).wait_for("hold_ended")
    worker = start_worker(guard, cluster.url, tmp_path, "--worker-class", "rq.worker.SimpleWorker")
    ran = tmp_path / "ran"
    now = datetime.now(UTC) + timedelta(seconds=2)
    rows = [
        {"func": "clustertasks.write", "id": f"w{n:03d}", "at": now + timedelta(milliseconds=20 * n)}
        for n in range(300)
    ]
    assert 300 == client.schedule_many(rows).created
    eventually(lambda: ran.exists() and len(ran.read_text().split()) > 50)

    cluster.move(cluster.another())
    eventually(lambda: len(ran.read_text().split()) > 150, within_s=40)
    cluster.move(cluster.another())

    expected = {f"w{n:03d}" for n in range(300)}
    eventually(lambda: expected <= {run.partition("-")[0] for run in ran.read_text().split()}, within_s=60)
    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
    runs = ran.read_text().split()
    with connect(cluster.owner().tcp_url) as owner:
        marked = {run for run in runs if owner.hexists(f"{PREFIX}:job:{run}", "zs_uncertain")}
    assert set(doubles(runs)) <= marked
    sys.stdout.write(f"measured: {len(marked)} of 300 runs marked, {len(doubles(runs))} ran twice\n")


def test_a_task_makes_notes_and_schedules_its_next_run_through_its_workers_connection(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SOON).wait_for("hold_ended")
    start_worker(guard, cluster.url, tmp_path)

    client.schedule("clustertasks.chain", kwargs={"more": 1}, id="chain", after=0.01)

    eventually(lambda: [0, 1] == sorted(run.note["more"] for run in client.runs(status="succeeded")), within_s=40)


def test_a_started_run_is_stopped_by_a_command_to_its_worker(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    start_worker(guard, cluster.url, tmp_path)
    run = client.enqueue("clustertasks.take", (60,)).run_id
    assert run is not None
    eventually(lambda: status_of(cluster, run) == "started")

    assert "stopping" == client.cancel_run(run)

    eventually(lambda: status_of(cluster, run) in ("stopped", "canceled"))


def test_rqs_connection_class_refuses_a_plain_url_and_a_prefix_without_hash_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RQ_KEY_PREFIX", "rq")

    with pytest.raises(ConfigError, match=r"prefix 'rq' spreads its keys over all slots .* set RQ_KEY_PREFIX to"):
        ClusterRedis.from_url("redis+cluster://h")
    with pytest.raises(ConfigError, match=r"redis://\*\*\*@h.* not that of a Redis Cluster; write redis\+cluster://"):
        ClusterRedis.from_url("redis://:secret@h/0")


def test_a_plain_connection_to_a_node_is_refused_with_the_remedy(cluster: Cluster, client: Client) -> None:
    client.schedule("app.run", id="a", every=60)
    node = cluster.another()

    plain = Client(redis.Redis(port=node.port), rq_prefix=PREFIX)

    with pytest.raises(Exception, match=r"which is elsewhere; name some of its nodes, \[redis\] url = redis\+cluster"):
        plain.get("a")


def test_the_doctor_reports_whether_the_slot_is_whole_or_moving(guard: Guard, cluster: Cluster, client: Client) -> None:
    client.schedule("app.run", id="a", every=60)

    def found() -> dict[str, Any]:
        return examined(cluster.url, rq={"prefix": PREFIX})

    whole = found()
    owner, other = cluster.owner(), cluster.another()
    cluster.tell(owner, "SETSLOT", SLOT, "MIGRATING", cluster.id_of(other))
    moving = found()
    cluster.tell(owner, "SETSLOT", SLOT, "STABLE")

    assert f"slot {SLOT} of the Redis Cluster is whole; 6 nodes answer" == only(whole["slot"], Severity.OK).text
    assert f"slot {SLOT} is being moved key by key" in only(moving["slot"], Severity.WARNING).text
    for check in ("role", "rights", "databases", "rq-scheduler", "rq's cron"):
        assert not any(one.severity in (Severity.PROBLEM, Severity.SKIPPED) for one in whole[check]), whole[check]
    workers = only(whole["workers"], Severity.WARNING).remedy
    assert f"RQ_KEY_PREFIX='{PREFIX}' RQ_REDIS_URL={cluster.url} rq worker --connection-class" in workers


def test_the_pages_of_rq_dashboard_follow_the_slot(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    pytest.importorskip("flask")
    client.schedule("app.run", id="a", every=60)
    web = Web(guard, cluster.url, tmp_path, ZSCHED_RQ_PREFIX=PREFIX)
    added = ("users", "add", "ann", "--role", "viewer", "--arguments", "--password-file", "-")
    assert 0 == web.run_with(PASSWORD, *added).returncode
    with web.stranger() as browser:
        assert 303 == browser.post("/login", data={"name": "ann", "password": PASSWORD}).status_code

        def answers() -> bool:
            return "queues" in browser.get("/rq/0/data/queues.json").json()

        assert answers()
        cluster.move(cluster.another())
        assert answers()


def test_a_recovery_by_hand_restores_what_a_node_lost(guard: Guard, cluster: Cluster, client: Client) -> None:
    archive = archive_of_its_own()
    manual = {"ARCHIVE_PATH": archive, "ARCHIVE_RECOVERY": "manual"}
    daemon = DaemonProcess(guard, cluster.url, **SOON, **manual)
    daemon.wait_for("hold_ended")
    for n in range(20):
        client.schedule("app.run", id=f"k{n}", every=3600, durable=True)
    with connect(cluster.owner().tcp_url) as owner:
        owner.flushall()
    daemon.wait_for("recovery_awaited")

    settings = {f"ZSCHED_{name}": value for name, value in (SOON | manual).items()}
    recovered = run_cli(cluster, "recover", **settings)

    assert 0 == recovered.returncode, recovered.stderr
    assert {f"k{n}" for n in range(20)} == {one.id for one in client.list()}
    listed = run_cli(cluster, "ls", "--json", **settings)
    assert 20 == len(json.loads(listed.stdout))


def test_the_users_of_the_acl_file_have_the_rights_that_a_cluster_needs(guard: Guard, tmp_path: Path) -> None:
    users = fill_in_passwords(tmp_path, PREFIX)
    lines = users.read_text().splitlines()
    nodes = "user default on nopass ~* &* +@all"  # the test's own, and between nodes
    users.write_text("\n".join([nodes, *(line for line in lines if not line.startswith("user default "))]) + "\n")
    cluster = Cluster(guard, replicas=1, aclfile=str(users))

    def url(user: str) -> str:
        password = (tmp_path / f"{user}.password").read_text().strip()
        return cluster.url.replace("://", f"://{user}:{password}@")

    DaemonProcess(guard, url("zsched-daemon"), **SOON).wait_for("hold_ended")
    start_worker(guard, url("zsched-worker"), tmp_path)
    client = Client.from_url(url("zsched-client"), rq_prefix=PREFIX)

    def finishes(id: str) -> None:
        run = client.schedule("clustertasks.answer", args=(1,), id=id, after=0.01, durable=True).run_id
        eventually(lambda: status_of(cluster, run) == "finished", within_s=40)

    finishes("before")
    cluster.fail_over()
    finishes("after-failover")
    cluster.move(cluster.another())
    finishes("after-migration")

    refused = list[str]()
    for server in cluster.servers:
        with connect(server.tcp_url) as node:
            refused += refusals(node)
    assert [] == refused
    with pytest.raises(RedisRefused, match=r"refused user or password; check the URL"):
        Client.from_url(cluster.url.replace("://", "://zsched-client:wrong@"), rq_prefix=PREFIX).get("before")
