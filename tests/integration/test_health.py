"""
Daemons that may not lead, or lead without effect: the answers of /readyz and the messages to a service manager, until
all is well again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.faults.ledger import connect
from tests.faults.processes import DaemonProcess, eventually
from tests.faults.threads import know
from tests.integration.asking import ANYWHERE, Answer, ask, pages_of
from tests.integration.service_manager import Manager
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.overview import DaemonRole, DaemonSeen

pytestmark = pytest.mark.once
META = "zsched:{default}:meta"


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server, connect(server.url) as client:
        know(client)
        yield server


@pytest.fixture
def watch(own_redis: EmbeddedRedis) -> Iterator[redis.Redis]:
    with connect(own_redis.url) as client:
        yield client


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Guard() as guard:
        manager = Manager(tmp_path / "manager", guard)
        yield manager
        manager.close()


def start(manager: Manager, server: EmbeddedRedis) -> DaemonProcess:
    return manager.start(server.url, METRICS_LISTEN=ANYWHERE)


def evict(watch: redis.Redis) -> None:
    watch.config_set("maxmemory", "1gb")
    watch.config_set("maxmemory-policy", "allkeys-lru")


def keep(watch: redis.Redis) -> None:
    watch.config_set("maxmemory-policy", "noeviction")


def follow(watch: redis.Redis) -> None:
    watch.replicaof("127.0.0.1", "1")  # nobody is there


def promote(watch: redis.Redis) -> None:
    watch.replicaof("NO", "ONE")


def forbid(watch: redis.Redis) -> None:
    watch.execute_command("ACL", "SETUSER", "default", "-set")


def allow(watch: redis.Redis) -> None:
    watch.execute_command("ACL", "SETUSER", "default", "+set")


def upgrade(watch: redis.Redis) -> None:
    watch.hset(META, "format", 99)


def go_back(watch: redis.Redis) -> None:
    watch.hdel(META, "format")


@pytest.mark.parametrize(
    ("hurt", "event", "reason", "mend"),
    [
        (evict, "leading_refused", "maxmemory-policy allkeys-lru may evict schedules", keep),
        (follow, "leading_refused", "it is a replica", promote),
        (forbid, "redis_refused", "refused:", allow),
        (upgrade, "redis_refused", "in format 99", go_back),
    ],
)
def test_readyz_of_a_daemon_that_may_not_lead_is_503_with_the_reason(
    own_redis: EmbeddedRedis,
    watch: redis.Redis,
    manager: Manager,
    hurt: Callable[[redis.Redis], None],
    event: str,
    reason: str,
    mend: Callable[[redis.Redis], None],
) -> None:
    hurt(watch)
    daemon = start(manager, own_redis)
    where = pages_of(daemon)

    daemon.wait_for(event)
    eventually(lambda: reason in ask(where, "/readyz").text)
    assert 503 == ask(where, "/readyz").status
    assert 200 == ask(where, "/healthz").status
    manager.wait_for_status("may not lead: ")
    manager.wait_for_status(reason)

    mend(watch)
    eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and daemon.of("term_began"))
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    manager.wait_for_status("leading in epoch ")


def test_readyz_of_a_leader_without_redis_is_503_with_the_reason(own_redis: EmbeddedRedis, manager: Manager) -> None:
    daemon = start(manager, own_redis)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))

    own_redis.stop()
    daemon.wait_for("redis_lost")

    eventually(lambda: ask(where, "/readyz").text.startswith("cannot reach Redis at "))  # when it has tried again
    assert 503 == ask(where, "/readyz").status


def test_a_daemon_that_may_not_lead_reports_the_reason_until_it_may(
    own_redis: EmbeddedRedis, watch: redis.Redis, tmp_path: Path
) -> None:
    client = Client.from_url(own_redis.url)
    with Guard() as guard:
        leads = DaemonProcess(guard, own_redis.url, DAEMON_ALLOW_EVICTION="true")
        leads.wait_for("term_began")
        evict(watch)

        DaemonProcess(guard, own_redis.url).wait_for("leading_refused")
        barred = eventually(lambda: of_role(client, DaemonRole.BARRED))

        assert "maxmemory-policy allkeys-lru may evict schedules" in (barred.may_not_lead or "")
        keep(watch)
        eventually(lambda: watch.publish("zsched:{default}:wake", "lease") and of_role(client, DaemonRole.STANDS_BY))
        assert [None, None] == [one.may_not_lead for one in client.overview().daemons]


def of_role(client: Client, role: DaemonRole) -> DaemonSeen | None:
    """Return the daemon with that role."""
    return next((one for one in client.overview().daemons if one.role is role), None)


def test_readyz_of_a_leader_that_redis_refuses_is_503_with_the_reason(
    own_redis: EmbeddedRedis, watch: redis.Redis, manager: Manager
) -> None:
    daemon = start(manager, own_redis)
    where = pages_of(daemon)
    daemon.wait_for("term_began")
    daemon.send(signal.SIGSTOP)
    Client.from_url(own_redis.url).schedule("builtins.len", id="one", after=0)

    watch.config_set("maxmemory", "1")
    daemon.send(signal.SIGCONT)
    daemon.wait_for("redis_refused")
    eventually(lambda: "refuses writes: it is full" in ask(where, "/readyz").text)
    assert 503 == ask(where, "/readyz").status
    manager.wait_for_status("leading in epoch 1, but Redis at ")

    watch.config_set("maxmemory", "0")
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    manager.wait_for_status("leading in epoch 1; 0 due; 0 waiting")
    assert [] == daemon.of("term_lost")
