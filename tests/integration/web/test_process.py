"""``zsched web`` as a process: where it listens, and its end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.integration.command_line import Zsched
from tests.integration.web.ground import Web
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, USAGE


def offline(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["web", *arguments])


@pytest.mark.true_start
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_answers_until_a_signal_ends_it_and_frees_its_port(
    start_web: Callable[..., Web], number: signal.Signals
) -> None:
    web = start_web()
    port = httpx.URL(web.url).port

    assert ["ok\n"] * 2 == [web.get(f"/{probe}").text for probe in ("healthz", "readyz")]
    assert DONE == web.stop(number), web.log.read_text()
    assert "Traceback" not in web.log.read_text()

    assert port is not None
    with socket.create_server(("127.0.0.1", port)) as taken:
        assert port == taken.getsockname()[1]


def test_a_port_in_use_is_an_error_with_the_remedy_that_systemd_tries_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        refused = offline("--listen", where)

    assert FAILED == refused.exit_code
    assert f"listen='{where}': Address already in use; give another port" in refused.stderr


HEADER = {"ZSCHED_WEB_PROXY_HEADER": "X-Forwarded-User"}
ADDRESSES = {"ZSCHED_WEB_PROXY_ADDRESSES": "127.0.0.1"}


@pytest.mark.parametrize(
    ("listen", "settings", "message"),
    [
        ("9181", {}, "write host:port"),
        ("127.0.0.1:", {}, "write host:port"),
        ("127.0.0.1:99999", {}, "write host:port"),
        ("http://localhost:1", {}, "write host:port"),
        ("::1:80", {}, "write host:port"),
        ("192.0.2.1:9181", {}, "listen='192.0.2.1:9181'"),  # of another machine
        ("0.0.0.0:0", {}, "[web] allow_plain = true"),  # that others reach
        ("127.0.0.1:0", HEADER, "proxy_addresses"),  # nobody may send the header
        ("127.0.0.1:0", {**ADDRESSES, "ZSCHED_WEB_PROXY_ROLE_HEADER": "X-Forwarded-Role"}, "proxy_header"),
    ],
)
def test_settings_that_cannot_be_served_are_a_usage_error(
    zsched: Zsched, listen: str, settings: dict[str, str], message: str
) -> None:
    refused = zsched("web", "--listen", listen, **settings)

    assert (USAGE, True) == (refused.exit_code, message in refused.stderr), refused.stderr
