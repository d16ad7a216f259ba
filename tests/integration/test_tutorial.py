"""Pages, followed by a reader: the tutorial with a real daemon and worker; each shown command and piece of Python."""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import click
import pytest
import redis
from click.testing import CliRunner
from rq import Queue

from tests.builders.daemons import DaemonThread, archive_of_its_own
from tests.builders.leaders import know
from tests.builders.workers import work_off
from tests.clocks import now_ms, set_back
from tests.documents import PROJECT, pages, programs
from tests.faults.overdue import become_due
from tests.prefix import RQ
from tests.waiting import ENDS_S, eventually
from zsched import AsyncClient, Client
from zsched.cli import program
from zsched.cli.program import DONE, UNHEALTHY
from zsched.config.settings import ArchiveSettings
from zsched.core.occurrences.lateness import LATE_MS

pytestmark = pytest.mark.once

PAGE = "docs/tutorial.md"
SMALLER = {"range(1_000)": "range(4)", "timedelta(seconds=10)": "timedelta(hours=1)"}  # in campaign.py
LATER = "120"  # minutes until an event begins: the test lets its reminder become due
HEALTHY = "healthy: one daemon leads, no standby; nothing is overdue; 1 archive follows"
QUEUES = ("email", "campaign")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = "<!-- not run: "  # before a piece of Python, with the reason
PYTHON = re.compile(rf"^(?:{NOT_RUN}[^>]*-->\n+)?```python\n.*?^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`zsched ([a-z-]+[^`]*)`")
ENDS = ("|", "||", "&&", "&", ";", ">", ">>", "<")
INCOMPLETE = (click.MissingParameter, click.BadOptionUsage)  # what a sentence may leave out: `zsched why`


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
        """Run the tests of the page, by no settings of a folder above, and return the output of pytest."""
        self.take("pytest -q")
        options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", ".", "-c", os.devnull)
        return self._run(sys.executable, "-m", "pytest", *options)

    def _run(self, *command: str) -> str:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ENDS_S)
        assert 0 == ran.returncode, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def reader(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Return a reader in a folder with the page's files. The campaign is smaller, and begins when the test says so."""
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
    assert "zsched worker --with-daemon email" in reader.page

    with DaemonThread(redis_url):
        reader.zsched("status | head -1", HEALTHY)

        reader.python("service.py concert 180", "Scheduled(id='reminder-concert', outcome='created'")
        reader.python(
            "service.py concert 60.5",
            "Scheduled(id='reminder-concert', outcome='updated'",
            instead=f"service.py concert {LATER}",
        )
        become_due(redis_client, "reminder-concert")
        reader.python("digests.py")
        reader.zsched("ls", "digest-ada     active", "09:00:00-05:00", "digest-ji-woo  active", "09:00:00+09:00")
        reader.zsched("run digest-ada", "digest-ada-")
        assert "Many(created=4, updated=0, unchanged=0, errors=0)\n" == reader.python("campaign.py")
        reader.python("service.py gig 60.3", "id='reminder-gig'", instead=f"service.py gig {LATER}")
        become_due(redis_client, "reminder-gig", *(f"spring-user-{n}" for n in range(4)))

        eventually(lambda: [3, 4] == [redis_client.llen(f"{RQ}:queue:{name}") for name in QUEUES])
        assert "rq worker -c tasks campaign" in reader.page
        printed = reader.work("-c", "tasks", *QUEUES)
        for text in ("concert begins at ", "gig begins at ", "digest for ada\n", "spring offer for user-3\n"):
            assert text in printed
        reader.zsched("why reminder-concert", "created by ", "changed by ", "fired for ", "succeeded after ")
        reader.zsched("why spring-user-999 | head -1", "RAN: run ", "succeeded after ", instead="why spring-user-3")
        reader.zsched("why reminder-gig | head -1", "RAN: run ", "succeeded after ", "having waited ")
    assert [] == reader.left


def test_the_tests_of_the_product_pass(reader: Reader) -> None:
    reader.begin(5)

    assert "2 passed" in reader.test()
    assert "2 passed" in reader.page
    assert [] == reader.left


def test_a_stopped_worker_with_its_daemon_and_a_flushed_redis_are_reported_and_survived(
    reader: Reader, redis_client: redis.Redis, redis_url: str
) -> None:
    reader.begin(6)
    know(redis_client)
    archive = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=archive)) as first:
        first.wait_for("archive_bootstrapped")

    with set_back(redis_client, 60_000):  # so that the put comes in time
        reader.python("service.py talk 60.1", "id='reminder-talk'", instead="service.py talk 60")
    reader.zsched("status", "UNHEALTHY: no daemon is leading: none of this namespace is running", code=UNHEALTHY)
    reader.zsched("why reminder-talk", "OVERDUE: due ", "; no daemon is leading")
    due = Client.from_url(redis_url).get("reminder-talk").next_at
    assert due is not None
    eventually(lambda: now_ms(redis_client) > due.timestamp() * 1000 + LATE_MS)

    reader.left.append("python digests.py")  # of step 3
    reader.python("digests.py")
    with DaemonThread(redis_url, archive=ArchiveSettings(path=archive)) as second:
        eventually(lambda: redis_client.llen(f"{RQ}:queue:email"))
        work_off(Queue("email", connection=redis_client), redis_client)
        reader.zsched("why reminder-talk", " late: no daemon led from then until ", "  run reminder-talk-")

        reader.take("redis-cli -p 6400 flushall && zsched ls")
        redis_client.flushall()
        second.wait_for("recovery_done")
        reader.zsched("status", HEALTHY, "warning: Redis lost something and was rebuilt at ", " UTC: 2 restored\n")
        reader.zsched("why digest-ada", "restored, due ", ": Redis had lost it", "next ")
    assert [] == reader.left


# -- commands and pieces of Python in all pages -------------------------------------------------------


def shell_commands(text: str) -> Iterator[list[str]]:
    """Yield the words behind ``zsched`` of each command in a page's blocks for a shell."""
    blocks = [block for language, block in BLOCK.findall(text) if language in ("", "sh", "shell", "bash")]
    for line in (line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()):
        if not line.isascii():  # a drawing, or an output
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:  # an output with an apostrophe
            continue
        starts = [n for n, word in enumerate(words) if word == "zsched"]
        for start in (n for n in starts if n == 0 or words[n - 1] in ENDS or "=" in words[n - 1]):
            end = next((n for n, word in enumerate(words[start:], start) if word in ENDS), len(words))
            yield words[start + 1 : end]


def mistake(words: list[str], allowed: tuple[type[click.UsageError], ...] = ()) -> str | None:
    """Return click's complaint about a command, which is parsed and not executed; None if it has none."""
    command: click.Command = program
    context, rest = None, list(words)
    try:
        while True:
            context = command.make_context(command.name, rest, parent=context)
            command, rest = context.command, [*context._protected_args, *context.args]
            if not isinstance(command, click.Group) or not rest:
                return None
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, name
            command = found
    except click.exceptions.Exit:  # --help and --version
        return None
    except allowed:
        return None
    except click.UsageError as error:
        return f"zsched {shlex.join(words)}: {error.format_message()}"


def relative(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_every_shown_command_is_accepted(page: Path) -> None:
    text = page.read_text()

    shown = [mistake(words) for words in shell_commands(text)]
    named = [mistake(words.split(), INCOMPLETE) for words in INLINE.findall(text) if not re.search(r"[\[…'\"<]", words)]
    assert [] == [each for each in shown + named if each]


def pieces(page: Path) -> list[str]:
    """
    Return the Python of a page that runs by itself. Files of programs (``# tasks.py``) are left out, because other
    tests run them, and so are pieces that a comment excludes.
    """
    texts = [found for found in PYTHON.findall(page.read_text()) if not found.startswith(NOT_RUN)]
    texts = [found.partition("\n")[2].rpartition("\n")[0] for found in texts]
    return [text for text in texts if not re.search(r"^# \w+\.py\b", text, re.MULTILINE)]


@pytest.mark.parametrize("page", [page for page in pages() if pieces(page)], ids=relative)
def test_every_piece_of_python_runs(
    page: Path, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(redis_client)
    client, module = Client.from_url(redis_url), ModuleType("shown")
    monkeypatch.setattr(Client, "from_url", lambda *_, **__: client)
    asynchronous = AsyncClient.from_url(redis_url)
    monkeypatch.setattr(AsyncClient, "from_url", lambda *_, **__: asynchronous)
    monkeypatch.setitem(sys.modules, "shown", module)  # where a task is found again
    next_year = str(datetime.now(UTC).year + 1)

    for text in pieces(page):
        coming = re.sub(r"\b20\d\d\b", next_year, text)  # the shown times are in the past some day
        exec(compile(coming, relative(page), "exec"), vars(module))
