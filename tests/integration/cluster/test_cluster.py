"""The parts around a daemon on a Redis Cluster: the doctor, the command line, pages, a recovery by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.faults.clusters import ENV, PREFIX, SLOT, Cluster
from tests.faults.ledger import connect
from tests.faults.processes import ENDS_S, DaemonProcess, archive_of_its_own
from tests.integration.cluster.ground import SETTINGS, environment
from tests.integration.doctor.ground import examined, only
from tests.integration.web.ground import Web
from tests.prefix import needs_prefix
from zsched import Client, ConfigError
from zsched.cluster import ClusterRedis
from zsched.embedded.guard import Guard
from zsched.health.check import Severity

pytestmark = needs_prefix


def run_cli(cluster: Cluster, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zsched.cli", "-u", cluster.url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S, check=False, env=environment(**more))


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
    daemon.wait_for("recovery_awaited")

    settings = {f"ZSCHED_{name}": value for name, value in (ENV | manual).items()}
    recovered = run_cli(cluster, "recover", **settings)

    assert 0 == recovered.returncode, recovered.stderr
    assert {f"k{n}" for n in range(20)} == {one.id for one in client.list()}
    listed = run_cli(cluster, "ls", "--json", **settings)
    assert 20 == len(json.loads(listed.stdout))
