"""The users of deploy/redis/users.acl on a Redis Cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.clusters import PREFIX, Cluster
from tests.faults.ledger import connect
from tests.faults.processes import DaemonProcess, eventually
from tests.integration.cluster.ground import SETTINGS, start_worker, status_of
from tests.integration.users import fill_in_passwords, refusals
from tests.prefix import needs_prefix
from zsched import Client, RedisRefused
from zsched.embedded.guard import Guard

pytestmark = needs_prefix


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
