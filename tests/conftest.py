"""
Fixtures of all tests: a private redis-server for the session, an empty database for each test.

Nothing here talks to a server that it did not start itself, nor writes into the user's home.
"""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator

import pytest
import redis
import structlog
from hypothesis import settings

from tests.builders.receivers import Receiver
from tests.builders.redises import connect
from tests.suite import starts
from tests.waiting import WITHIN_S
from zsched.archive.places import state_folder
from zsched.daemon import answerer
from zsched.embedded import EmbeddedRedis, find_server
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.storage import folded, questions, reader

_SHOWN = 12_000  # characters of a log

pytest_plugins = ["tests.suite.costs", "tests.suite.forks"]

# The same examples in every run: a test that fails now and then is a bug of its own. `make check` tries a quarter.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("quick", settings.get_profile("same"), max_examples=25)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """
    Give archives without a path a folder of this session, also archives of child processes. Let children receive Ctrl-C
    even if it is ignored, as in a background job of a shell without job control: children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    state, environment = tempfile.TemporaryDirectory(prefix="zsched-state-"), pytest.MonkeyPatch()
    environment.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each child would compile all of zsched anew
    environment.setenv("XDG_STATE_HOME", state.name)
    environment.delenv("STATE_DIRECTORY", raising=False)
    config.add_cleanup(starts.install().close)
    config.add_cleanup(state.cleanup)
    config.add_cleanup(environment.undo)


def pytest_report_header() -> str:
    try:
        server = find_server()
    except ZschedError as error:
        return f"redis-server: {error}"
    return f"redis-server: {server}, {server.path}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "redis_server" in getattr(item, "fixturenames", ()):
            item.add_marker("redis")


def pytest_collection_finish() -> None:
    """
    Exempt the collected tests from garbage collection: they stay until the end, so the collector need not scan them
    repeatedly.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give tests with the mark ``true_start`` true starts."""
    starts.WarmPopen.is_warm = item.get_closest_marker("true_start") is None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the logs that processes of a failed test wrote into its folder."""
    report = yield
    if report.failed and "tmp_path" in (given := getattr(item, "funcargs", {})):
        report.sections += [
            (path.name, path.read_text(errors="replace")[-_SHOWN:]) for path in given["tmp_path"].glob("*.log")
        ]
    return report


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Archives answer with all that the asker saw, askers wait for half of their timeout, readers read to the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "WAIT_S", WITHIN_S)
        patch.setattr(answerer, "_CATCH_UP_S", WITHIN_S)
        for each in (folded, reader):
            patch.setattr(each, "_LOOKED_FOR_MS", WITHIN_S * 1000)
        yield


@pytest.fixture(scope="session", autouse=True)
def state_of_this_process() -> None:
    """Archives without a path are in a folder of this process; a worker of the suite shares none with another."""
    os.environ["XDG_STATE_HOME"] += f"/{os.getpid()}"
    os.mkdir(os.environ["XDG_STATE_HOME"], 0o700)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedRedis]:
    """The session's own redis-server, on a unix socket (``url``) and a loopback port (``tcp_url``)."""
    with EmbeddedRedis(tcp=True) as server:
        yield server


@pytest.fixture(autouse=True)
def events_as_nobody_set_them_up() -> Iterator[None]:
    """Reset structlog after a test (also the configuration that capture_logs leaves behind)."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def signals_as_the_test_found_them() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM after a test: one of RQ's workers in this process leaves its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> str:
    """The session's server, emptied for this test."""
    return redis_server.url


@pytest.fixture
def redis_client(request: pytest.FixtureRequest, redis_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """
    A plain client (bytes, RESP 2, no retries) of the session's server, emptied for this test. The archives that earlier
    tests left of it go too.
    """
    assert request.node.get_closest_marker("redis"), "a test that asks for this fixture by its name needs the mark"
    for place in (redis_server.folder.name, str(redis_server.port)):
        for left in state_folder(os.environ).glob(f"*-{place}-*"):
            shutil.rmtree(left)
    with connect(redis_server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def guard() -> Iterator[Guard]:
    """A guard that holds every process of the test."""
    with Guard() as guard:
        yield guard


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of the notifier's messages."""
    receiver = Receiver()
    yield receiver
    receiver.close()
