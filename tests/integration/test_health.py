"""
Daemons that may not lead, or lead without effect: the answers of /readyz and the messages to a service manager, until
all is well again.
"""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess
from tests.builders.redises import connect
from tests.integration.asking import ANYWHERE, Answer, ask, pages, pages_of
from tests.integration.service_manager import Manager
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.daemon import loop
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.health.facts import DaemonHealth
from zsched.metrics import pages as module
from zsched.storage.overview import DaemonRole, DaemonSeen

pytestmark = pytest.mark.once
META = "zsched:{default}:meta"
# A host that every machine finds on loopback: the C library reads it, and as an address it is not well-formed.
A_HOST = "127.1"


@pytest.fixture
def watch(own_redis: EmbeddedRedis) -> Iterator[redis.Redis]:
    with connect(own_redis.url) as client:
        yield client


def start(manager: Manager, server: EmbeddedRedis) -> DaemonProcess:
    return manager.start(server.url, METRICS_LISTEN=ANYWHERE)


def evict(watch: redis.Redis) -> None:
    watch.config_set("maxmemory", "1gb")
    watch.config_set("maxmemory-policy", "allkeys-lru")


def keep(watch: redis.Redis) -> None:
    watch.config_set("maxmemory-policy", "noeviction")


class Trouble(NamedTuple):
    """A reason not to lead: how it begins and ends, and what is said of it."""

    hurt: Callable[[redis.Redis], object]
    mend: Callable[[redis.Redis], object]
    event: str
    reason: str
    said: str = "may not lead: "  # in the status line, before the reason


TROUBLES = {
    "eviction": Trouble(evict, keep, "leading_refused", "maxmemory-policy allkeys-lru may evict schedules"),
    "a replica of nobody": Trouble(
        lambda watch: watch.replicaof("127.0.0.1", "1"), lambda watch: watch.replicaof("NO", "ONE"),
        "leading_refused", "it is a replica", "Redis refuses writes: ",
    ),
    "missing rights": Trouble(
        lambda watch: watch.execute_command("ACL", "SETUSER", "default", "-set"),
        lambda watch: watch.execute_command("ACL", "SETUSER", "default", "+set"),
        "redis_refused", "refused:",
    ),
    "a newer format": Trouble(
        lambda watch: watch.hset(META, "format", 99), lambda watch: watch.hdel(META, "format"),
        "redis_refused", "in format 99",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_readyz_of_a_daemon_that_may_not_lead_is_503_with_the_reason(
    own_redis: EmbeddedRedis, watch: redis.Redis, manager: Manager, trouble: str
) -> None:
    hurt, mend, event, reason, said = TROUBLES[trouble]
    hurt(watch)
    daemon = start(manager, own_redis)
    where = pages_of(daemon)

    daemon.wait_for(event)
    eventually(lambda: reason in ask(where, "/readyz").text)
    assert 503 == ask(where, "/readyz").status
    assert 200 == ask(where, "/healthz").status
    manager.wait_for_status(said)
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


def test_every_view_names_a_policy_that_began_to_evict_under_a_leader(
    own_redis: EmbeddedRedis, watch: redis.Redis, manager: Manager
) -> None:
    daemon = start(manager, own_redis)
    daemon.wait_for("term_began")
    where, zsched = pages_of(daemon), Zsched(own_redis.url)
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))

    evict(watch)

    said = "may not lead: maxmemory-policy allkeys-lru may evict schedules"
    eventually(lambda: ask(where, "/readyz").text.startswith(said))
    assert 503 == ask(where, "/readyz").status
    [warning] = [one for one in zsched.json("status")["warnings"] if one["name"] == "eviction"]
    assert "maxmemory-policy allkeys-lru may drop schedules: by default no daemon begins to lead" == warning["problem"]
    assert warning["remedy"].endswith("CONFIG SET maxmemory-policy noeviction")
    assert "may drop schedules, so no daemon begins to lead" in zsched("doctor").stdout

    keep(watch)
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    assert "eviction" not in [one["name"] for one in zsched.json("status")["warnings"]]


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
        assert [None, None] == [one.may_not_lead for one in client._overview().daemons]


def of_role(client: Client, role: DaemonRole) -> DaemonSeen | None:
    """Return the daemon with that role."""
    return next((one for one in client._overview().daemons if one.role is role), None)


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
    manager.wait_for_status("Redis refuses writes: it is full")

    watch.config_set("maxmemory", "0")
    eventually(lambda: ask(where, "/readyz") == Answer(200, "leader\n"))
    manager.wait_for_status("leading in epoch 1; 0 due; 0 waiting")
    assert [] == daemon.of("term_lost")


# -- pages of an idle daemon --------------------------------------------------------------------------


def test_a_daemon_whose_loop_is_stuck_is_not_alive() -> None:
    clock = ManualClock()
    health = DaemonHealth(clock)
    with pages("unix:///nowhere", clock=clock, health=health) as where:
        clock.advance(50_000)
        assert Answer(200, "the main loop ended a pass 50.0 s ago\n") == ask(where, "/healthz")

        clock.advance(30_000)
        assert Answer(503, "the main loop ended a pass 80.0 s ago\n") == ask(where, "/healthz")

        health.last_pass_ms = clock.monotonic_ms()
        assert 200 == ask(where, "/healthz").status


def test_an_unknown_path_answers_404_with_the_known_paths() -> None:
    with pages("unix:///nowhere") as where:
        assert Answer(404, "there are /metrics, /healthz, /readyz\n") == ask(where, "/elsewhere")
        assert 405 == ask(where, "/healthz", "POST").status
        assert Answer(200, "") == ask(where, "/healthz", "HEAD")


def test_a_daemon_that_starts_is_not_ready(redis_url: str) -> None:
    clock = ManualClock()
    health = DaemonHealth(clock)
    with pages(redis_url, clock=clock, health=health) as where:
        assert Answer(503, "it starts: Redis has not said yet whether it may lead\n") == ask(where, "/readyz")

        health.trouble = None
        assert Answer(200, "standby\n") == ask(where, "/readyz")

        health.leads = True
        assert Answer(200, "leader\n") == ask(where, "/readyz")


def test_the_pages_are_served_after_a_bug_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    health, bugs, check = DaemonHealth(clock), [KeyError("a bug")] * 2, module._Server.service_actions

    def buggy(server: module._Server) -> None:
        if bugs:
            raise bugs.pop()
        check(server)

    monkeypatch.setattr(loop, "_LONGEST_S", 0.01)
    monkeypatch.setattr(module._Server, "service_actions", buggy)
    with pages("unix:///nowhere", clock=clock, health=health) as where:
        eventually(lambda: not bugs)

        assert 200 == ask(where, "/healthz").status
    assert {"thread metrics": "'a bug'"} == health.failing


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "localhost.evil.example", "", "[::1", "a b"])
def test_a_request_to_loopback_is_answered_under_its_own_names_only(
    host: str,
) -> None:
    """DNS rebinding: a page in a browser on this machine uses a name that was made to lead here."""
    with pages("unix:///nowhere") as where:
        for path in ("/metrics", "/healthz", "/readyz", "/elsewhere"):
            assert Answer(421, "ask for localhost or an address\n") == ask(where, path, Host=host)
        for known in ("localhost", "LOCALHOST:9464", "localhost.", "127.0.0.1:9464", "[::1]:9464"):
            assert 200 == ask(where, "/healthz", Host=known).status


def test_a_request_by_the_host_in_the_setting_is_answered_and_by_another_name_refused() -> None:
    with pages("unix:///nowhere", f"{A_HOST}:0") as where:  # which is where 127.0.0.1 is
        assert 200 == ask(where, "/healthz", Host=f"{A_HOST}:9464").status
        assert 421 == ask(where, "/healthz", Host="127.2").status
    with pages("unix:///nowhere") as where:
        assert 421 == ask(where, "/healthz", Host=A_HOST).status


def test_a_request_to_loopback_without_a_name_is_answered() -> None:
    with pages("unix:///nowhere") as where:
        host, _, port = where.rpartition(":")
        with socket.create_connection((host, int(port)), WITHIN_S) as asking:
            asking.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b"HTTP/1.0 200 OK" == asking.makefile("rb").readline().rstrip()


def test_an_ipv6_address_is_given_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    with pages("unix:///nowhere", "[::1]:0") as where:
        assert where.startswith("[::1]:")
        assert 200 == ask(where, "/healthz").status


def test_a_foreign_address_is_an_error_that_names_setting_and_value() -> None:
    with pytest.raises(ZschedError, match=r"^\[metrics\] listen='192\.0\.2\.1:9464': .+; give an address"):
        pages("unix:///nowhere", "192.0.2.1:9464").__enter__()
