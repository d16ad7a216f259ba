"""The pages over HTTP, of an idle daemon."""

from __future__ import annotations

import socket

import pytest

from tests.faults.processes import eventually
from tests.integration.asking import Answer, ask, pages
from zsched.core.clock import ManualClock
from zsched.daemon import loop
from zsched.errors import ZschedError
from zsched.health.facts import DaemonHealth
from zsched.metrics import pages as module

# A host that every machine finds on loopback: the C library reads it, and as an address it is not well-formed.
A_HOST = "127.1"


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


# -- who asks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "localhost.evil.example", "", "[::1", "a b"])
def test_a_request_to_loopback_under_another_name_is_refused(host: str) -> None:
    """DNS rebinding: a page in a browser on this machine uses a name that was made to lead here."""
    with pages("unix:///nowhere") as where:
        for path in ("/metrics", "/healthz", "/readyz", "/elsewhere"):
            assert Answer(421, "ask for localhost or an address\n") == ask(where, path, Host=host)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9464", "localhost.", "127.0.0.1:9464", "[::1]:9464"])
def test_a_request_to_loopback_by_an_address_or_localhost_is_answered(host: str) -> None:
    with pages("unix:///nowhere") as where:
        assert 200 == ask(where, "/healthz", Host=host).status


def test_a_request_by_the_host_in_the_setting_is_answered_and_by_another_name_refused() -> None:
    with pages("unix:///nowhere", f"{A_HOST}:0") as where:  # which is where 127.0.0.1 is
        assert 200 == ask(where, "/healthz", Host=f"{A_HOST}:9464").status
        assert 421 == ask(where, "/healthz", Host="127.2").status
    with pages("unix:///nowhere") as where:
        assert 421 == ask(where, "/healthz", Host=A_HOST).status


def test_a_request_to_loopback_without_a_name_is_answered() -> None:
    with pages("unix:///nowhere") as where:
        host, _, port = where.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as asking:
            asking.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b"HTTP/1.0 200 OK" == asking.makefile("rb").readline().rstrip()


# -- where they are ----------------------------------------------------------------------------------


def test_an_ipv6_address_is_given_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")

    with pages("unix:///nowhere", "[::1]:0") as where:
        assert where.startswith("[::1]:")
        assert 200 == ask(where, "/healthz").status


def test_a_port_in_use_is_an_error_that_names_setting_and_value() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(ZschedError, match=rf"^\[metrics\] listen='{listen}': Address already in use; give an"):
            pages("unix:///nowhere", listen).__enter__()


def test_a_foreign_address_is_an_error_that_names_setting_and_value() -> None:
    with pytest.raises(ZschedError, match=r"^\[metrics\] listen='192\.0\.2\.1:9464': .+; give an address"):
        pages("unix:///nowhere", "192.0.2.1:9464").__enter__()
