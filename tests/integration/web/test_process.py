"""``zsched web`` as a process: where it listens, and its end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.integration.web.ground import Web
from zsched.cli import program
from zsched.cli.program import DONE, FAILED, USAGE

pytestmark = pytest.mark.redis


def offline(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["web", *arguments])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_answers_until_a_signal_ends_it_and_frees_its_port(
    start_web: Callable[..., Web], number: signal.Signals
) -> None:
    web = start_web()
    port = httpx.URL(web.url).port

    assert 200 == web.get("/healthz").status_code
    assert DONE == web.stop(number)

    assert port is not None
    with socket.create_server(("127.0.0.1", port)) as taken:
        assert port == taken.getsockname()[1]


def test_a_port_in_use_is_an_error_with_the_remedy_that_systemd_tries_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        refused = offline("--listen", where)

    assert FAILED == refused.exit_code
    assert f"listen='{where}': Address already in use; give another port" in refused.stderr


@pytest.mark.parametrize("listen", ["9181", "127.0.0.1:", "127.0.0.1:99999", "http://localhost:1", "::1:80"])
def test_an_invalid_address_is_a_usage_error(listen: str) -> None:
    refused = offline("--listen", listen)

    assert USAGE == refused.exit_code
    assert "write host:port" in refused.stderr


def test_an_address_of_another_machine_is_refused(web: Web) -> None:
    refused = web.zsched("web", "--listen", "192.0.2.1:9181")

    assert USAGE == refused.exit_code
    assert "listen='192.0.2.1:9181'" in refused.stderr
