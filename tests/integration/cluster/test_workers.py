"""RQ's workers on a Redis Cluster whose slot moves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.faults.clusters import PREFIX, Cluster
from tests.faults.ledger import connect, doubles
from tests.faults.processes import DaemonProcess, eventually
from tests.integration.cluster.ground import SETTINGS, start_worker, status_of
from tests.prefix import needs_prefix
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = needs_prefix


def test_a_worker_follows_the_slot_through_a_migration_and_a_failover(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SETTINGS).wait_for("hold_ended")
    os.mkfifo(tmp_path / "gate")
    worker = start_worker(guard, cluster.url, tmp_path)

    def finishes(id: str) -> None:
        run = client.schedule("clustertasks.answer", args=(1,), id=id, after=0).run_id
        eventually(lambda: status_of(cluster, run) == "finished", within_s=40)

    @contextmanager
    def busy(id: str) -> Iterator[None]:
        """Let the worker have a run inside the block, and finish it afterwards."""
        run = client.schedule("clustertasks.take", id=id, after=0).run_id
        eventually(lambda: status_of(cluster, run) == "started", within_s=40)
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
        {
            "func": "clustertasks.write",
            "id": f"w{n:03d}",
            "at": now + timedelta(milliseconds=20 * n),
            "allow_past": True,
        }
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


def test_a_task_makes_notes_and_schedules_its_next_run_through_its_workers_connection(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    DaemonProcess(guard, cluster.url, **SETTINGS).wait_for("hold_ended")
    start_worker(guard, cluster.url, tmp_path)

    client.schedule("clustertasks.chain", kwargs={"more": 1}, id="chain", after=0)

    eventually(lambda: [0, 1] == sorted(run.note["more"] for run in client.runs(status="succeeded")), within_s=40)


def test_a_started_run_is_stopped_by_a_command_to_its_worker(
    guard: Guard, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    start_worker(guard, cluster.url, tmp_path)
    os.mkfifo(tmp_path / "gate")
    run = client.enqueue("clustertasks.take").run_id
    assert run is not None
    eventually(lambda: status_of(cluster, run) == "started")

    assert "stopping" == client.cancel_run(run)

    eventually(lambda: status_of(cluster, run) in ("stopped", "canceled"))
