"""Shared fixtures: a client, a link, the command line, a daemon with an archive, a scene, users of users.acl."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import redis
from playwright.sync_api import Browser, sync_playwright

from tests.breadth import everything
from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread, leading_daemon
from tests.builders.leaders import know
from tests.builders.redises import own_server
from tests.builders.scenes import Scene
from tests.builders.web import Web
from tests.integration.service_manager import Manager
from tests.integration.standing import lead, report
from tests.integration.users import GuardedRedis
from tests.waiting import WITHIN_S
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage import questions
from zsched.storage.connection import Link

OLDER_RQ = ("2.8", "2.12")  # the lowest of pyproject.toml's range, and the last before 3
INSTALL_S = 300

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDED: Final = "ZSCHED_TEST_CHROMIUM"  # set where its absence is a failure
_QUIET: Final = (
    "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--no-first-run",
)  # fmt: skip


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server without a hold, that the test may mistreat."""
    with own_server(tcp=True) as server:
        yield server


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """A service manager for daemons that the test starts."""
    with Guard() as guard:
        manager = Manager(tmp_path / "manager", guard)
        yield manager
        manager.close()


@pytest.fixture(scope="session", params=["installed", *OLDER_RQ])
def rq_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """
    A Python with the installed RQ, or with an older supported one. Each older one is in a separate virtual environment,
    if ``ZSCHED_TEST_RQ="2.8 2.12"`` names it (that needs pip's network).
    """
    if request.param == "installed":
        return sys.executable
    if request.param not in os.environ.get("ZSCHED_TEST_RQ", "").split():
        pytest.skip(
            f"set ZSCHED_TEST_RQ='{' '.join(OLDER_RQ)}' to install each into a venv of its own (needs the network)"
        )
    place = tmp_path_factory.mktemp("rq") / "venv"
    python = str(place / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=INSTALL_S)
    packages = [f"rq=={request.param}.*", "redis[hiredis]"]  # the latter as zsched requires it
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, timeout=INSTALL_S)
    return python


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRedis]:
    """A server under deploy/redis/users.acl, for the tests of one file."""
    with Guard() as guard:
        yield GuardedRedis(tmp_path_factory.mktemp("users"), guard)


@pytest.fixture
def guarded(guarded_server: GuardedRedis) -> GuardedRedis:
    """The server, empty."""
    guarded_server.empty()
    return guarded_server


@pytest.fixture
def operator(guarded: GuardedRedis) -> Iterator[redis.Redis]:
    with guarded.connect("operator") as operator:
        know(operator)
        yield operator


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> Iterator[Client]:
    """A client of the emptied server without a hold."""
    know(redis_client)
    client = Client.from_url(redis_url, timeout_s=2 * WITHIN_S, durable_timeout_s=WITHIN_S)
    yield client
    client._link.pool.disconnect()


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    """The command line on the emptied server."""
    return Zsched(redis_url)


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for archives, which only report."""
    monkeypatch.setattr(questions, "WAIT_S", 0.01)


@pytest.fixture
def led(redis_client: redis.Redis, unanswered: None) -> redis.Redis:
    """A client of a namespace with a leader."""
    return lead(redis_client)


@pytest.fixture
def well(led: redis.Redis) -> redis.Redis:
    """A client of a namespace in which all is well: a leader and a standby, both with an archive that follows."""
    report(led, "one", daemon="somebody")
    report(led, "two", daemon="d2")
    return led


@pytest.fixture
def link(redis_url: str) -> Iterator[Link]:
    """A link for readers of the storage layer."""
    link = Link.from_url(redis_url, 2 * WITHIN_S)
    yield link
    link.pool.disconnect()


@pytest.fixture(scope="module")
def web_server(redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A running ``zsched web`` for the tests of a file."""
    with Guard() as guard:
        yield Web(guard, redis_server.url, tmp_path_factory.mktemp("web"))


@pytest.fixture
def web(web_server: Web, redis_client: redis.Redis) -> Web:
    """The server without accounts, on an empty Redis."""
    web_server.accounts.path.unlink(missing_ok=True)
    return web_server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """
    A Chromium without a window, driven by Playwright, which runs an event loop meanwhile, so no other module may share
    it. Where there is none, the test is skipped, or fails if one is needed.
    """
    if CHROMIUM is None:
        message = "no chromium on PATH: apt-get install chromium"
        pytest.fail(message) if os.environ.get(NEEDED) else pytest.skip(message)
    flags = [*_QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]  # as root it cannot make one
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=WITHIN_S * 1000)
        yield browser
        browser.close()


@pytest.fixture
def daemon(client: Client, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonThread]:
    """A daemon that leads, with an archive that follows; a command line in this process waits for its answers."""
    monkeypatch.setenv("ZSCHED_REDIS_TIMEOUT_S", f"{2 * WITHIN_S:g}")
    with leading_daemon(redis_url) as daemon:
        yield daemon


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a ``scene`` in the namespace "default", and the first one of each file in another one, too."""
    if "scene" in metafunc.fixturenames:
        first = vars(metafunc.module).setdefault("_first_with_a_scene", metafunc.function)
        is_both = everything() or metafunc.function is first
        metafunc.parametrize("scene", ["default", "shop"] if is_both else ["default"], indirect=True)


@pytest.fixture
def scene(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, request: pytest.FixtureRequest, unanswered: None
) -> Iterator[Scene]:
    """A namespace with a leader by hand, and an archive that follows."""
    scene = Scene(redis_client, redis_url, tmp_path, request.param)
    yield scene
    scene.close()


@pytest.fixture
def anyio_backend() -> str:
    """Coroutines run with asyncio, by anyio's plugin."""
    return "asyncio"
