"""A reader follows the tutorial: the page's files in a folder, its commands, a real daemon and a real worker."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from rq import Queue

from tests.documents import PROJECT, programs
from tests.faults.clocks import now_ms
from tests.faults.processes import ENDS_S, DaemonProcess, archive_of_its_own, eventually
from tests.faults.threads import DaemonThread, know
from tests.prefix import RQ
from tests.rq_workers import work_off
from zsched import Client
from zsched.cli import program
from zsched.cli.program import DONE, UNHEALTHY, USAGE
from zsched.config.settings import ArchiveSettings
from zsched.core.lateness import LATE_MS
from zsched.embedded.guard import Guard
from zsched.storage import overview

pytestmark = pytest.mark.once

PAGE = "docs/tutorial.md"
SMALLER = {"range(1_000)": "range(4)", "timedelta(seconds=10)": "timedelta(seconds=0.5)"}  # in campaign.py
SOON = "60.005"  # minutes until an event begins: its reminder is due in 0.3 s
HEALTHY = "healthy: one daemon leads, nobody stands by; nothing is overdue; 1 archive follows"
QUEUES = ("email", "campaign")


class Reader:
    """
    A reader who types the commands of some steps. ``left`` has the commands that were not typed yet.

    *shown* are parts of a command's output. The page must show them too. *instead* is the same command with another
    number.
    """

    def __init__(self) -> None:
        self.page, self.left = (PROJECT / PAGE).read_text(), list[str]()

    def begin(self, *steps: int) -> None:
        """Begin with *steps*: collect their commands."""
        parts = {part[0]: part for part in re.split(r"^## ", self.page, flags=re.MULTILINE)}
        self.left = [line for step in steps for line in re.findall(r"^\$ (.*)$", parts[str(step)], re.MULTILINE)]

    def take(self, command: str) -> str:
        """Remove from ``left`` the first command with this beginning, and return it. The test itself does its work."""
        found = next(line for line in self.left if line.startswith(command))
        self.left.remove(found)
        return found

    def sed(self) -> None:
        """Type the next command of sed."""
        self._run("sh", "-c", self.take("sed "))

    def python(self, command: str, *shown: str, instead: str = "") -> str:
        """Run a program of the page in this process, and return its output."""
        self.take(f"python {command}")
        arguments = shlex.split(instead or command)
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
            patch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
        output = printed.getvalue()
        assert [] == [text for text in shown if text not in self.page or text not in output]
        return output

    def zsched(self, command: str, *shown: str, code: int = DONE, instead: str = "") -> None:
        """Run a command of zsched in this process, until its output and exit code are as the page says."""
        self.take(f"zsched {command}")
        assert [] == [text for text in shown if text not in self.page]
        arguments, seen = shlex.split((instead or command).partition(" | ")[0]), [""]

        def is_as_shown() -> bool:
            result = CliRunner().invoke(program, arguments)
            seen[0] = f"exit code {result.exit_code}: {result.output}"
            return code == result.exit_code and all(text in result.output for text in shown)

        try:
            eventually(is_as_shown)
        except AssertionError:
            raise AssertionError(seen[0]) from None

    def work(self, *arguments: str) -> str:
        """Start a worker that executes everything in its queues, and return its output."""
        return self._run(sys.executable, "-m", "rq.cli", "worker", "--burst", *arguments)

    def test(self) -> str:
        """Run the tests of the page, and return the output of pytest."""
        self.take("pytest -q")
        return self._run(
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", "."
        )

    def _run(self, *command: str) -> str:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ENDS_S)
        assert 0 == ran.returncode, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def reader(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Return a reader in a folder with the page's files. The campaign is smaller and begins sooner."""
    files = programs(PAGE)
    for text, smaller in SMALLER.items():
        assert text in files["campaign.py"]
        files["campaign.py"] = files["campaign.py"].replace(text, smaller)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ZSCHED_REDIS_URL", redis_url)
    monkeypatch.setenv("RQ_REDIS_URL", redis_url)
    monkeypatch.delitem(sys.modules, "tasks", raising=False)
    yield Reader()
    sys.modules.pop("tasks", None)


def test_the_reminder_moves_and_digests_and_the_campaign_are_sent(
    reader: Reader, redis_client: redis.Redis, redis_url: str
) -> None:
    reader.begin(1, 2, 3, 4)
    reader.take(". ./env.sh")
    know(redis_client)

    with DaemonThread(redis_url):
        reader.zsched("status | head -1", HEALTHY)

        reader.python("service.py concert 180", "Scheduled(id='reminder-concert', outcome='created'")
        reader.python(
            "service.py concert 60.5",
            "Scheduled(id='reminder-concert', outcome='updated'",
            instead=f"service.py concert {SOON}",
        )
        reader.zsched("ls")
        reader.python("digests.py")
        reader.zsched("ls", "digest-ada     active", "09:00:00-05:00", "digest-ji-woo  active", "09:00:00+09:00")
        reader.zsched(
            "next digest-ada --from 2027-03-13T00:00 -n 2",
            "2027-03-13 09:00:00-05:00  2027-03-13 14:00:00Z",
            "2027-03-14 09:00:00-04:00  2027-03-14 13:00:00Z",
        )
        reader.zsched("run digest-ada", "digest-ada-")
        assert "Many(created=4, updated=0, unchanged=0, errors=0)\n" == reader.python("campaign.py")
        reader.python("service.py gig 60.3", "id='reminder-gig'", instead=f"service.py gig {SOON}")

        eventually(lambda: [3, 4] == [redis_client.llen(f"{RQ}:queue:{name}") for name in QUEUES])
        assert "rq worker -c tasks campaign" in reader.page
        printed = reader.work("-c", "tasks", *QUEUES)
        for text in ("concert begins at ", "gig begins at ", "digest for ada\n", "spring offer for user-3\n"):
            assert text in printed
        reader.zsched("why reminder-concert", "created by ", "changed by ", "fired for ", "succeeded after ")
        reader.zsched("why spring-user-999", "fired for ", "succeeded after ", instead="why spring-user-3")
        reader.zsched("why reminder-gig", "fired for ", "succeeded after ", "having waited ")
    assert [] == reader.left


def test_the_file_of_schedules_is_applied_and_its_mistake_is_refused(reader: Reader, redis_client: redis.Redis) -> None:
    reader.begin(5)

    dry_run = "dry run, nothing was written: 2 created, 0 updated, 0 unchanged, 0 removed"
    reader.zsched("apply schedules.toml --dry-run", "report-sales: created\nreport-support: created\n", dry_run)
    reader.zsched("apply schedules.toml", "2 created, 0 updated, 0 unchanged, 0 removed")
    reader.sed()
    reader.zsched("apply schedules.toml", "  cron: 0 8 * * 1 → 0 7 * * 1\n0 created, 1 updated, 1 unchanged, 0 removed")
    reader.sed()
    reader.zsched(
        "apply schedules.toml",
        "[schedules.report-sales]: tema='sales': task tasks.report has no such parameter; did you mean team?",
        "zsched: nothing was applied: 2 mistakes in schedules.toml",
        code=USAGE,
    )
    reader.sed()

    assert programs(PAGE)["schedules.toml"].replace('"0 8 *', '"0 7 *') == Path("schedules.toml").read_text()
    assert [] == reader.left


def test_the_tests_of_the_product_pass(reader: Reader) -> None:
    reader.begin(6)

    printed = reader.test()

    assert "5 passed" in printed
    assert "5 passed" in reader.page
    assert [] == reader.left


def test_a_stopped_worker_a_killed_daemon_and_a_flushed_redis_are_reported_and_survived(
    reader: Reader, redis_client: redis.Redis, redis_url: str, guard: Guard
) -> None:
    reader.begin(7)
    know(redis_client)
    archive = archive_of_its_own()
    first = DaemonProcess(guard, redis_url, ARCHIVE_PATH=archive)
    first.wait_for("archive_bootstrapped")

    reader.python("service.py talk 60.1", "id='reminder-talk'", instead=f"service.py talk {SOON}")
    reader.zsched("status", HEALTHY, "nobody listens to queue email, where 1 job waits for ")
    reader.zsched("why reminder-talk", "RQ knows of no worker that listens to queue email")
    reader.work("email")
    reader.zsched("why reminder-talk", "RAN: run reminder-talk-", "succeeded after ", "having waited ")

    reader.zsched("status | grep pid", "leader       ", ", pid ")
    reader.take("kill -9")
    first.send(signal.SIGKILL)
    first.wait()
    redis_client.delete("zsched:{default}:lease")  # which lapses
    reader.python("service.py dinner 60.1", "id='reminder-dinner'", instead=f"service.py dinner {SOON}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "SILENT_MS", 500)  # instead of ten seconds
        patch.setenv("ZSCHED_REDIS_TIMEOUT_S", "0.5")  # why waits for half of it, as no archive answers
        reader.zsched("status", "UNHEALTHY: nobody leads: no daemon of this namespace is running", code=UNHEALTHY)
        remedy = "it waits for a daemon that leads\n  → see what is wrong: zsched status\n"
        reader.zsched("why reminder-dinner", "OVERDUE: due ", remedy)
    due = Client.from_url(redis_url).get("reminder-dinner").next_at
    assert due is not None
    eventually(lambda: now_ms(redis_client) > due.timestamp() * 1000 + LATE_MS)

    reader.left.append("python digests.py")  # of step 3
    reader.python("digests.py")
    with DaemonThread(redis_url, archive=ArchiveSettings(path=archive)) as second:
        eventually(lambda: redis_client.llen(f"{RQ}:queue:email"))
        work_off(Queue("email", connection=redis_client), redis_client)
        reader.zsched("why reminder-dinner", " late: no daemon led from then until ", "  run reminder-dinner-")

        reader.take("redis-cli -p 6400 flushall && zsched ls")
        redis_client.flushall()
        second.wait_for("recovery_done")
        reader.zsched("status", HEALTHY, "warning: Redis lost something and was rebuilt at ", " put back\n")
        reader.zsched("ls", "digest-ada     active", "digest-ji-woo  active")
        reader.zsched("why digest-ada", "put back, due ", ": Redis had lost it", "next ")
    assert [] == reader.left
