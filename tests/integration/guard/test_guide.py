"""Guarded workers as docs and the command line start them."""

import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from rq import Worker

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.documents import PROJECT
from tests.integration.guard import tasks
from tests.integration.guard.forging import ROOT, TASKS, Forge, call
from tests.prefix import RQ
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.embedded.guard import Guard

Start = Callable[..., subprocess.Popen[bytes]]
PAGE = (PROJECT / "docs/how-to/sign-jobs.md").read_text()
OF_THE_GUIDE = """
import zsched

@zsched.task
def send(number: int) -> None:
    pass
"""
FORGED = "forged-1700000000000"
MORE = 10  # runs that end between two steps


@pytest.fixture
def start(forge: Forge, guard: Guard, tmp_path: Path) -> Start:
    """Start ``zsched worker`` with a file of settings; its output goes to ``worker.log``."""
    (tmp_path / "receipts").mkdir()
    (tmp_path / "worker.toml").write_text(
        f'[redis]\nurl = "{forge.url}"\n[worker]\nguard = "enforce"\ntask_modules = ["{TASKS}"]\n'
        f'[signing]\nkeys_file = "{tmp_path / "keys"}"\n'
    )

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {"PYTHONPATH": path, tasks.FOLDER: str(tmp_path / "receipts")}
        command = [sys.executable, "-m", "zsched.cli", "worker", "--config", str(tmp_path / "worker.toml"), *arguments]
        with (tmp_path / "worker.log").open("ab") as log:
            return guard.spawn(command, cwd=ROOT, env=env, stdout=log, stderr=log)

    return run


@pytest.mark.true_start
@pytest.mark.parametrize("options", [(), ("--simple",)])
def test_a_worker_obeys_the_settings_of_its_file(forge: Forge, start: Start, options: tuple[str, ...]) -> None:
    forge.enqueue("signed", queue="email")
    forge.push("forged-1700000000000", {"data": call("forged")}, "email")

    ended = start("--burst", *options, "email").wait(ENDS_S)

    assert (0, {"signed"}) == (ended, forge.receipts)
    assert "guard: enforce; 8 tasks are allowed; keys k2, k1, web1" in forge.log


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_worker_ends_clean(forge: Forge, start: Start, redis_client: redis.Redis, by: signal.Signals) -> None:
    worker = start("--name", "w")
    eventually(lambda: [one.name for one in Worker.all(connection=redis_client)] == ["w"])
    eventually(lambda: b"idle" == redis_client.hget(f"{RQ}:worker:w", "state"))

    worker.send_signal(by)

    assert 0 == worker.wait(WITHIN_S)
    assert [] == Worker.all(connection=redis_client)
    assert "Traceback" not in forge.log


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda file: file.with_name("keys").chmod(0o644), 2, "its mode is 0644: other users of this machine can"),
        (lambda file: file.write_text('[redis]\nurl = "redis://127.0.0.1:1/0"'), 1, "→ start Redis, or repair"),
    ],
    ids=["wrong settings", "no Redis"],
)
def test_a_worker_that_cannot_begin_says_so_in_a_line_or_two(
    forge: Forge, start: Start, tmp_path: Path, spoil: Callable[[Path], object], code: int, said: str
) -> None:
    spoil(tmp_path / "worker.toml")

    ended = start("--burst").wait(ENDS_S)

    assert (code, True) == (ended, len(forge.log.splitlines()) <= 2)  # the problem, and the remedy if it has its own
    assert said in forge.log


@pytest.mark.parametrize("options", [(), ("--simple",)])
def test_a_worker_with_another_serializer_than_the_namespace_does_not_start(
    redis_url: str, options: tuple[str, ...]
) -> None:
    Client.from_url(redis_url, "jsonic", serializer="json").schedule("app.task", id="a", after=3600)

    refused = Zsched(redis_url)("worker", "--burst", *options, "-n", "jsonic")

    said = "serializer='pickle': namespace 'jsonic' uses json; use serializer=\"json\" ([rq] serializer in settings)"
    assert (2, True) == (refused.exit_code, refused.stderr.startswith(f"zsched: {said}"))


@pytest.mark.parametrize("field", ["queue", "worker"])
@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\nb", "\x1b[31m", "\u200b", "\udcff", "x" * 129, "é" * 65, "-q", "a:intermediate"]
)
def test_a_worker_refuses_an_odd_name_with_its_field_its_value_and_the_remedy(
    redis_url: str, field: str, name: str
) -> None:
    arguments = ["--", name] if field == "queue" else ["--name", name]

    refused = Zsched(redis_url)("worker", "--burst", *arguments)

    remedy = "give a name of 1 to 128 printable characters without spaces, not beginning with -"
    assert (2, 1) == (refused.exit_code, len(refused.stderr.splitlines()))
    assert refused.stderr.startswith(f"zsched: {field}=")
    assert refused.stderr.endswith(f": not a usable {field} name; {remedy}\n")


@pytest.mark.parametrize(
    "names", [("a:b",), ("*",), ("é",), ("email,push",), ("email", "email"), ("x" * 128,), ("{a}",)]
)
def test_a_worker_takes_names_that_rq_takes(redis_url: str, names: tuple[str, ...]) -> None:
    worked = Zsched(redis_url)("worker", "--simple", "--burst", "--name", names[0].replace("é", "e"), *names)

    assert (0, "") == (worked.exit_code, worked.stdout)


def test_a_second_worker_of_a_name_is_refused_when_the_first_gives_a_sign_of_life(
    forge: Forge, start: Start, redis_client: redis.Redis
) -> None:
    start("--name", "w")
    eventually(lambda: b"idle" == redis_client.hget(f"{RQ}:worker:w", "state"))

    second = start("--name", "w")
    eventually(lambda: "is running: this one starts if the other is silent for " in forge.log)
    redis_client.hset(f"{RQ}:worker:w", "last_heartbeat", "a later one")

    assert 2 == second.wait(ENDS_S)
    assert "a worker named 'w' is running; give another name" in forge.log
    assert "Traceback" not in forge.log


def test_a_worker_starts_when_a_killed_one_of_its_name_was_silent_for_long_enough(
    forge: Forge, start: Start, redis_client: redis.Redis
) -> None:
    killed = start("--name", "w")
    eventually(lambda: b"idle" == redis_client.hget(f"{RQ}:worker:w", "state"))
    assert 90 >= redis_client.ttl(f"{RQ}:worker:w")
    killed.kill()
    killed.wait(ENDS_S)

    second = start("--name", "w")
    eventually(lambda: "is running: this one starts if the other is silent for " in forge.log)
    redis_client.pexpire(f"{RQ}:worker:w", 1)  # the time that RQ remembers it

    eventually(lambda: str(second.pid).encode() == redis_client.hget(f"{RQ}:worker:w", "pid"))


def steps() -> dict[int, str]:
    """Return the numbered parts of the page."""
    found = re.findall(r"^## (\d)\. .*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    texts = re.split(r"^## \d\. ", PAGE, flags=re.MULTILINE)[1:]
    return {int(number): text.partition("\n## ")[0] for number, text in zip(found, texts, strict=True)}


class Company:
    """Two workers, services that enqueue, and a recurring schedule, in a folder."""

    def __init__(self, url: str, folder: Path, guard: Guard, client_of_redis: redis.Redis) -> None:
        self.url, self.folder, self._guard, self.redis = url, folder, guard, client_of_redis
        self.client = Client.from_url(url)
        self.pushed, self._is_over = 0, threading.Event()
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "tasks.py").write_text(OF_THE_GUIDE)

    def run(self, command: str) -> str:
        """Run a command of the page in the folder; return its output."""
        own = {"ZSCHED_REDIS_URL": self.url, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        env = self._environment() | own | {"ZSCHED_SIGNING_KEYS_FILE": "signing-keys"}
        ran = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert 0 == ran.returncode, ran.stdout + ran.stderr
        return ran.stdout

    def restart_workers(self, settings: str) -> None:
        """Restart both workers, one after the other, with *settings* in worker.toml."""
        (self.folder / "worker.toml").write_text(settings)
        for name in ("w1", "w2"):
            if (before := self._workers.pop(name, None)) is not None:
                before.send_signal(signal.SIGTERM)
                assert 0 == before.wait(WITHIN_S)
            env = self._environment() | {"ZSCHED_CONFIG": "worker.toml", "ZSCHED_REDIS_URL": self.url}
            command = [sys.executable, "-m", "zsched.cli", "worker", "--simple", "--name", name, "email"]
            with (self.folder / f"{name}.log").open("ab") as log:
                self._workers[name] = self._guard.spawn(command, cwd=self.folder, env=env, stdout=log, stderr=log)
            eventually(lambda name=name: self.is_at_work(name))

    def is_at_work(self, name: str) -> bool:
        """Return whether the present worker *name* works, and so stops at a signal; its predecessor's hash remains."""
        pid, state = self.redis.hmget(f"{RQ}:worker:{name}", "pid", "state")
        return pid == str(self._workers[name].pid).encode() and state in (b"idle", b"busy")

    def wait(self) -> None:
        """Wait until as many runs as are in the queue have ended, and some more."""
        goal = self.count("finished") + self.redis.llen(f"{RQ}:queue:email") + MORE
        eventually(lambda: self.count("finished") >= goal)

    def count(self, registry: str) -> int:
        return int(self.redis.zcard(f"{RQ}:{registry}:email"))

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Enqueue runs inside the block, by the present client."""

        def push() -> None:
            while not self._is_over.wait(0.05):  # timing: a pace, and no deadline
                self.client.enqueue("tasks.send", kwargs={"number": self.pushed}, queue="email")
                self.pushed += 1

        thread = threading.Thread(target=push)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def told(self) -> int:
        """Return how many jobs the workers would have refused."""
        return sum(int(self.redis.hget(f"{RQ}:worker:{name}", "zs_warned") or 0) for name in self._workers)

    def _environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": os.pathsep.join([str(PROJECT), str(self.folder), os.environ.get("PYTHONPATH", "")])}
        return {name: value for name, value in os.environ.items() if not name.startswith("ZSCHED_")} | own


def block(text: str, language: str) -> str:
    """Return the first block of *language* in *text*."""
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.once
def test_workers_come_from_off_to_enforce_without_an_interruption(
    redis_url: str, redis_client: redis.Redis, tmp_path: Path, guard: Guard
) -> None:
    know(redis_client)
    page, company = steps(), Company(redis_url, tmp_path, guard, redis_client)
    (tmp_path / "zsched").write_text(f'#!/bin/sh\nexec {sys.executable} -m zsched.cli "$@"\n')
    (tmp_path / "zsched").chmod(0o755)
    warn = block(page[4], "toml")
    company.client.schedule("tasks.send", kwargs={"number": 0}, id="beat", every=1, queue="email", overlap="allow")
    company.client.schedule("tasks.send", kwargs={"number": 0}, id="far", after=86_400, queue="email")

    with DaemonThread(redis_url) as daemon, company.traffic():
        daemon.wait_for("term_began")
        company.restart_workers('[worker]\nguard = "off"\n')
        company.wait()

        company.run(block(page[1], "sh"))
        assert "signing-keys" == tomllib.loads(block(page[2], "toml"))["signing"]["keys_file"]
        assert 'signing_keys_file="signing-keys"' in block(page[2], "python")
        company.client = Client.from_url(redis_url, signing_keys_file=str(tmp_path / "signing-keys"))
        plan, signed = map(company.run, re.findall(r"^\$ (.*)$", page[3], re.MULTILINE))
        assert ("2 schedules would be signed", "2 schedules signed") == (plan.splitlines()[-1], signed.strip())

        company.restart_workers(warn)
        company.wait()
        before = company.told()
        company.wait()
        assert before == company.told()  # nothing new is reported

        company.restart_workers(warn.replace("warn", "enforce"))
        company.redis.hset(f"{RQ}:job:{FORGED}", mapping={"data": call("x", "tasks.send"), "origin": "email"})
        company.redis.rpush(f"{RQ}:queue:email", FORGED)
        company.client.run_now("far")
        company.wait()
        company.wait()
        pushed = company.pushed
        eventually(lambda: company.count("finished") > pushed)

    assert [FORGED] == [id.decode() for id in redis_client.zrange(f"{RQ}:failed:email", 0, -1)]
