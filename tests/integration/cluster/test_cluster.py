"""The parts around a daemon on a Redis Cluster: doctor, commands, pages, users, workers, a recovery by hand."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.clusters import ENV, PREFIX, SLOT, Cluster
from tests.builders.daemons import DaemonProcess, archive_of_its_own
from tests.builders.redises import connect
from tests.builders.web import Web
from tests.integration.cluster.running import SETTINGS, environment, start_worker, status_of
from tests.integration.doctor.examining import examined, only
from tests.integration.users import fill_in_passwords, refusals
from tests.ledger import doubles
from tests.prefix import needs_prefix
from tests.waiting import ENDS_S, eventually
from zsched import Client, ConfigError, RedisRefused
from zsched.cluster import ClusterRedis
from zsched.embedded.guard import Guard
from zsched.health.facts import Severity
from zsched.storage.archivers import Archivers

pytestmark = needs_prefix


def run_cli(cluster: Cluster, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zsched.cli", "-u", cluster.url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S, check=False, env=environment(**more))


def test_rqs_connection_class_refuses_plain_urls_and_prefixes_without_a_tag(monkeypatch: pytest.MonkeyPatch) -> None:
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

    cluster.configure("cluster-replica-no-failover", "yes")
    eventually(lambda: b"nofailover" in bytes(cluster.tell(cluster.owner(), "NODES")))  # no sign of a failure
    whole = found()
    cluster.configure("cluster-replica-no-failover", "no")
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


def test_pages_of_rq_dashboard_follow_the_slot(guard: Guard, cluster: Cluster, client: Client, tmp_path: Path) -> None:
    pytest.importorskip("flask")
    client.schedule("app.run", id="a", every=60)
    web = Web(guard, cluster.url, tmp_path, ZSCHED_RQ_PREFIX=PREFIX)
    with web.browser("ann", "viewer", sees_arguments=True) as browser:

        def answers() -> bool:
            return "queues" in browser.get("/rq/0/data/queues.json").json()

        assert answers()
        cluster.move(cluster.another())
        assert answers()


def test_a_recovery_by_hand_restores_what_a_node_lost(guard: Guard, cluster: Cluster, client: Client) -> None:
    archive = archive_of_its_own()
    manual = {"ARCHIVE_PATH": archive, "ARCHIVE_RECOVERY": "manual"}
    daemon = DaemonProcess(guard, cluster.url, **SETTINGS, **manual)
    daemon.wait_for("hold_ended")
    for n in range(20):
        client.schedule("app.run", id=f"k{n}", every=3600, durable=True)
    with connect(cluster.owner().tcp_url) as owner:
        owner.flushall()
    eventually(lambda: any(one.awaits_people for one in Archivers(client._link, client._keys).reports()))

    settings = {f"ZSCHED_{name}": value for name, value in (ENV | manual).items()}
    recovered = run_cli(cluster, "archive", "recover", **settings)

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

    DaemonProcess(guard, url("zsched-daemon"), **SETTINGS).wait_for("hold_ended")
    start_worker(guard, url("zsched-worker"), tmp_path)
    client = Client.from_url(url("zsched-client"), rq_prefix=PREFIX)

    def finishes(id: str) -> None:
        run = client.schedule("clustertasks.answer", args=(1,), id=id, after=0, durable=True).run_id
        eventually(lambda: status_of(cluster, run) == "finished")

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


def test_a_worker_follows_the_slot_through_a_migration_and_a_failover(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SETTINGS).wait_for("hold_ended")
    os.mkfifo(tmp_path / "gate")
    worker = start_worker(guard, cluster.url, tmp_path)

    def finishes(id: str) -> None:
        run = client.schedule("clustertasks.answer", args=(1,), id=id, after=0).run_id
        eventually(lambda: status_of(cluster, run) == "finished")

    @contextmanager
    def busy(id: str) -> Iterator[None]:
        """Let the worker have a run inside the block, and finish it afterwards."""
        run = client.schedule("clustertasks.take", id=id, after=0).run_id
        eventually(lambda: status_of(cluster, run) == "started")
        yield
        (tmp_path / "gate").write_text("")
        eventually(lambda: status_of(cluster, run) == "finished")

    finishes("before")
    idle_owner = cluster.fail_over()
    finishes("idle-failover")
    with busy("busy-failover"):
        cluster.fail_over()
    assert idle_owner is not cluster.owner()
    cluster.move(cluster.another())
    finishes("idle-migration")
    with busy("busy-migration"):
        cluster.move(cluster.another())
    finishes("after")

    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
    assert 4 == sum(run.status == "succeeded" for id in ("before", "idle-failover", "idle-migration", "after")
                    for run in client.runs(id))  # fmt: skip


def test_workers_run_each_run_once_while_its_slot_moves_and_its_queue_is_often_empty(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SETTINGS).wait_for("hold_ended")
    worker = start_worker(guard, cluster.url, tmp_path, "--worker-class", "rq.worker.SimpleWorker")
    ran = tmp_path / "ran"
    now = datetime.now(UTC)
    rows: list[Any] = [
        {"func": "clustertasks.write", "id": f"w{n:03d}", "at": now + timedelta(milliseconds=20 * n)}
        | {"allow_past": True}
        for n in range(300)
    ]
    assert 300 == client.schedule_many(rows).created
    eventually(lambda: ran.exists() and len(ran.read_text().split()) > 50)

    cluster.move(cluster.another())
    eventually(lambda: len(ran.read_text().split()) > 150)
    cluster.move(cluster.another())

    expected = {f"w{n:03d}" for n in range(300)}
    eventually(lambda: expected <= {run.partition("-")[0] for run in ran.read_text().split()})
    assert worker.poll() is None, (tmp_path / "worker.log").read_text()
    runs = ran.read_text().split()
    with connect(cluster.owner().tcp_url) as owner:
        marked = {run for run in runs if owner.hexists(f"{PREFIX}:job:{run}", "zs_uncertain")}
    assert set(doubles(runs)) <= marked


def test_a_task_makes_notes_and_schedules_its_next_run_through_its_workers_connection(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SETTINGS).wait_for("hold_ended")
    start_worker(guard, cluster.url, tmp_path)

    client.schedule("clustertasks.chain", kwargs={"more": 1}, id="chain", after=0)

    eventually(lambda: [0, 1] == sorted(run.note["more"] for run in client.runs(status="succeeded")))


def test_a_command_to_its_worker_stops_a_run(guard: Guard, cluster: Cluster, client: Client, tmp_path: Path) -> None:
    start_worker(guard, cluster.url, tmp_path)
    os.mkfifo(tmp_path / "gate")
    run = client.enqueue("clustertasks.take").run_id or ""
    eventually(lambda: status_of(cluster, run) == "started")

    assert "stopping" == client.cancel_run(run)

    eventually(lambda: status_of(cluster, run) in ("stopped", "canceled"))
