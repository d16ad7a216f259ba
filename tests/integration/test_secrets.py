"""Redis's password and the arguments of runs are in no output; only workers run payloads."""

import json
import os
import pickle
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import redis
from click.testing import CliRunner
from rq import Queue

from tests.builders.bombs import Bomb
from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonProcess, archive_of_its_own
from tests.builders.leaders import know
from tests.builders.workers import work_off
from tests.integration.asking import a_daemon, ask, pages_of
from tests.prefix import RQ
from tests.waiting import WITHIN_S, eventually
from zsched import Client, RedisRefused, RedisUnavailable
from zsched.archive.body import unpack
from zsched.archive.file import connect_to_read
from zsched.cli import program
from zsched.cli.program import USAGE
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once

SECRET = "s3cr3t/@:#?w0rd"
FORMS = {SECRET, quote(SECRET, safe=""), quote_plus(SECRET), json.dumps(SECRET)[1:-1], "s3cr3t", "w0rd"}
COMMANDS = (
    "status",
    "status --json",
    "ls",
    "why nothing",
    "history",
    "doctor",
    "doctor --json",
    "archive recover --dry-run",
)
FAR = datetime(2031, 7, 1, tzinfo=UTC)
ARGUMENT, ENDED, ERROR = "s3cret-argument", "s3cret-of-an-ended-run", "s3cret-of-a-task"
EACH = ("show", "why", "next")
ALL = (
    "status", "status --json", "ls", "ls --json", "history", "history --json", "log", "log --json", "export", "doctor",
    "archive recover --dry-run",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tcp=True, config={"requirepass": f'"{SECRET}"'}) as server:
        yield server


Way = Callable[[EmbeddedRedis, Path], dict[str, str]]


def by_url(server: EmbeddedRedis, folder: Path) -> dict[str, str]:
    return {"ZSCHED_REDIS_URL": server.tcp_url.replace("://", f"://default:{quote(SECRET, safe='')}@")}


def by_query(server: EmbeddedRedis, folder: Path) -> dict[str, str]:
    return {"ZSCHED_REDIS_URL": f"{server.url}&password={quote_plus(SECRET)}"}


def by_settings(server: EmbeddedRedis, folder: Path) -> dict[str, str]:
    (folder / "zsched.toml").write_text(f"[redis]\nurl = {json.dumps(by_url(server, folder)['ZSCHED_REDIS_URL'])}\n")
    return {"ZSCHED_CONFIG": str(folder / "zsched.toml")}


def by_file(server: EmbeddedRedis, folder: Path) -> dict[str, str]:
    """Give the password in a file, and a user's name in the URL, as with an ACL."""
    (folder / "password").write_text(SECRET + "\n")
    url = server.tcp_url.replace("://", "://default@")
    return {"ZSCHED_REDIS_URL": url, "ZSCHED_REDIS_PASSWORD_FILE": str(folder / "password")}


def by_credential(server: EmbeddedRedis, folder: Path) -> dict[str, str]:
    """Give the password as a credential of systemd."""
    (folder / "redis-password").write_text(SECRET)
    return {"ZSCHED_REDIS_URL": server.tcp_url, "CREDENTIALS_DIRECTORY": str(folder)}


WAYS = (by_url, by_query, by_settings, by_file, by_credential)


class Surroundings:
    """
    The output of every command and daemon started in it, as ``texts``. *given* are settings that contain the password.
    """

    def __init__(self, guard: Guard, given: dict[str, str], folder: Path) -> None:
        self._guard, self._folder, self._number = guard, folder, 0
        usual = {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")}
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "ZSCHED_ARCHIVE_PATH": archive_of_its_own()}
        self.env = usual | own | {"ZSCHED_LOG_FORMAT": "json", "ZSCHED_LOG_LEVEL": "debug"} | given
        self.texts: dict[str, str] = {}

    def run(self, command: str, may_be_misused: bool = False) -> None:
        """Run a command of zsched to its end."""
        hidden = dict.fromkeys(os.environ.keys() - self.env.keys())
        done = CliRunner().invoke(program, command.split(), env=hidden | self.env)
        self.texts[command] = done.output
        assert done.output, command
        assert may_be_misused or done.exit_code != USAGE, done.output

    def daemon(self, until: str, look: Callable[[], None] = lambda: None) -> None:
        """Run a daemon under systemd until it logs *until*; then call *look*, and end it."""
        log, manager = self._folder / "daemon.log", socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.bind(str(self._folder / "notify"))
        told = threading.Thread(target=self._hear, args=(manager,))
        told.start()
        env = self.env | {"NOTIFY_SOCKET": str(self._folder / "notify")}
        with log.open("wb") as stderr:
            process = self._guard.spawn([sys.executable, "-m", "zsched.cli", "daemon"], stderr=stderr, env=env)
        eventually(lambda: f'"{until}"' in log.read_text(), WITHIN_S)
        if process.poll() is None:
            self.texts["ps"] = Path(f"/proc/{process.pid}/cmdline").read_text()
            look()
            process.send_signal(signal.SIGTERM)
        process.wait(WITHIN_S)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"END", str(self._folder / "notify"))
        told.join(WITHIN_S)
        self.texts["events"] = log.read_text()

    def _hear(self, manager: socket.socket) -> None:
        """Record the messages to the service manager, which `systemctl status` shows to everybody."""
        with manager:
            heard = list(iter(lambda: manager.recv(65536), b"END"))
        self.texts["systemd"] = b"\n".join(heard).decode()

    def check(self) -> None:
        """Check that no output contains the password."""
        told = {source for source, text in self.texts.items() for form in FORMS if form in text}
        assert set() == told, {source: self.texts[source] for source in told}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def given(request: pytest.FixtureRequest, server: EmbeddedRedis, tmp_path: Path) -> dict[str, str]:
    way: Way = request.param
    return way(server, tmp_path)


def test_the_normal_output_never_contains_the_password(given: dict[str, str], guard: Guard, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra ops")
    around = Surroundings(guard, given, tmp_path)
    around.env["ZSCHED_METRICS_LISTEN"] = "127.0.0.1:0"

    def look() -> None:
        eventually(lambda: '"term_began"' in (tmp_path / "daemon.log").read_text())
        events = map(json.loads, (tmp_path / "daemon.log").read_text().rpartition("\n")[0].splitlines())
        (metrics,) = (event["listen"] for event in events if event["event"] == "metrics_served")
        for command in COMMANDS:
            around.run(command)
        for path in ("metrics", "readyz"):
            with urllib.request.urlopen(f"http://{metrics}/{path}", timeout=WITHIN_S) as answer:
                around.texts[path] = answer.read().decode()

    around.daemon("archive_begins", look)

    around.check()
    assert '"term_began"' in around.texts["events"]
    assert "READY=1" in around.texts["systemd"]
    assert json.loads(around.texts["status --json"])["leader"]


@pytest.mark.parametrize(
    ("is_stopped", "until", "told"),
    [(True, "redis_lost", "cannot reach Redis"), (False, "daemon_failed", "refused user or password")],
    ids=["unreachable", "refused"],
)
def test_a_redis_that_is_unreachable_or_refuses_is_reported_without_the_password(
    given: dict[str, str], server: EmbeddedRedis, guard: Guard, tmp_path: Path, is_stopped: bool, until: str, told: str
) -> None:
    around = Surroundings(guard, given, tmp_path)
    with redis.Redis.from_url(server.url, password=SECRET) as administrator:
        server.stop() if is_stopped else administrator.config_set("requirepass", "other")
        try:
            for command in COMMANDS:
                around.run(command)
            around.daemon(until)
        finally:
            server.start() if is_stopped else administrator.config_set("requirepass", SECRET)

    around.check()
    assert told in around.texts["status"]


@pytest.mark.parametrize("mistake", ["redsi://", "redis:/", "redis//", ""])
def test_an_invalid_url_is_reported_without_the_password(mistake: str, guard: Guard, tmp_path: Path) -> None:
    around = Surroundings(guard, {"ZSCHED_REDIS_URL": f"{mistake}me:{SECRET}@host:6379/0"}, tmp_path)

    around.run("status", may_be_misused=True)
    around.run("daemon", may_be_misused=True)

    around.check()
    assert "ZSCHED_REDIS_URL" in around.texts["status"]


@pytest.mark.parametrize("password", [SECRET, "wrong"])
def test_errors_of_a_client_never_repeat_the_password(server: EmbeddedRedis, password: str) -> None:
    told = []

    for url in (server.tcp_url, server.tcp_url.replace("/0", "/99"), "redis://127.0.0.1:1/0"):
        try:
            Client.from_url(url.replace("://", f"://default:{quote(password, safe='')}@")).schedule("app.f", after=5)
        except (RedisRefused, RedisUnavailable) as error:
            chain: BaseException | None = error
            while chain is not None:
                told.append(f"{chain} {chain!r}")
                chain = chain.__cause__ or chain.__context__

    assert len(told) >= 2
    assert not [text for text in told if password in text or quote(password, safe="") in text]


# -- arguments and payloads ---------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The path of the file that a bomb makes."""
    return tmp_path / "ran"


@pytest.fixture
def archive() -> str:
    return archive_of_its_own()


@pytest.fixture
def daemon(
    redis_url: str, redis_client: redis.Redis, guard: Guard, archive: str, link: Link
) -> Iterator[DaemonProcess]:
    know(redis_client)
    daemon = a_daemon(guard, redis_url, ARCHIVE_PATH=archive, LOG_LEVEL="debug")
    eventually(Archivers(link, Keys("default")).alive)
    yield daemon
    if not daemon.has_ended:
        daemon.stop()


def test_a_daemon_and_the_command_line_run_no_payload_from_redis(
    client: Client, redis_client: redis.Redis, redis_url: str, daemon: DaemonProcess, ran: Path
) -> None:
    zsched, bomb, each = Zsched(redis_url), Bomb(Path.touch, ran), {"overlap": "allow", "catch_up": "all"}
    waits = client.schedule("app.task", args=(bomb,), id="waits", at=FAR, durable=True)
    client.schedule("app.task", kwargs={"x": bomb}, id="daily", cron="0 9 * * *", durable=True)
    client.schedule("app.task", args=(bomb,), id="ticks", every=0.1, count=3, **each, durable=True)
    client.enqueue("app.task", args=(bomb,), id="now", durable=True)
    redis_client.hset(f"{RQ}:job:{waits.run_id}", "meta", pickle.dumps({"x": bomb}))
    eventually(lambda: redis_client.llen(f"{RQ}:queue:default") == 4)

    for command in [*ALL, *(f"{each} {id}" for each in EACH for id in ("waits", "daily", "ticks", "now"))]:
        zsched(*command.split())
    zsched("set", "waits", "--kwargs", '{"a": 1}')
    zsched("pause", "daily")
    zsched("resume", "daily")
    redis_client.flushall()
    daemon.wait_for("recovery_done")
    eventually(lambda: {"waits", "daily"} <= {one.id for one in client.list()})
    zsched("cancel", "waits", "daily")

    assert not ran.exists()
    pickle.loads(pickle.dumps(bomb))  # as a worker would
    assert ran.exists()


def test_arguments_are_only_in_the_archive_and_in_no_event_metric_or_story(
    client: Client, redis_client: redis.Redis, redis_url: str, daemon: DaemonProcess, archive: str
) -> None:
    where, zsched = pages_of(daemon), Zsched(redis_url)
    client.schedule("builtins.len", args=(ARGUMENT,), id="waits", at=FAR, durable=True)
    client.schedule("builtins.len", kwargs={"x": ARGUMENT}, id="daily", cron="0 9 * * *", durable=True)
    client.enqueue("builtins.len", args=(ENDED,), id="now", durable=True)
    failed = client.enqueue("builtins.int", args=(ERROR,), id="fails", durable=True)
    work_off(Queue("default", connection=redis_client), redis_client)
    eventually(lambda: all(any(run.is_over for run in client.runs(id)) for id in ("now", "fails")))
    eventually(lambda: ERROR in zsched("status").output)  # its end is recorded

    told = {command: zsched(*command.split()).output for command in ALL if command != "export" and "ls" not in command}
    told |= {id: zsched("why", id).output for id in ("waits", "daily", "now")}
    told |= {path: ask(where, path).text for path in ("/metrics", "/healthz", "/readyz")}
    views = [zsched(*view.split()).output for view in ("why fails", "history fails", "status", f"show {failed.run_id}")]
    daemon.stop()
    told["events"] = json.dumps(daemon.events)
    with closing(connect_to_read(Path(archive))) as db:
        kept = b" ".join(chain.from_iterable(unpack(body) for (body,) in db.execute("SELECT body FROM entry")))

    assert [] == [source for source, text in told.items() if ARGUMENT in text or ENDED in text]
    assert 'queue="default"' in told["/metrics"]  # names of queues it does tell
    for view in views:  # what the task put into its error
        assert f"invalid literal for int() with base 10: '{ERROR}'" in view
    assert [] == [word for word in (ARGUMENT, ENDED, ERROR) if word.encode() not in kept]
