"""Each thread of a daemon survives a bug: it is logged once, status shows it, and the thread works afterwards."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import SystemClock
from zsched.daemon import answerer, archiver, chores, loop, waker
from zsched.daemon.process import status_line
from zsched.errors import RedisUnavailable
from zsched.health.facts import DaemonHealth
from zsched.storage import answering
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.questions import ask_archives

BUG = KeyError("a bug")
TIMES = 3
KEYS = Keys("default")
Start = Callable[[], DaemonThread]


class Buggy:
    """
    An object that raises BUG the first TIMES that it is called or an attribute is read, and then acts like *sound*.
    """

    def __init__(self, sound: Any, error: Exception = BUG) -> None:
        self._sound, self._error, self.left = sound, error, TIMES

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._checked()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checked(), name)

    def _checked(self) -> Any:
        if self.left:
            self.left -= 1
            raise self._error
        return self._sound


def breaks(patch: pytest.MonkeyPatch, owner: type, name: str, error: Exception = BUG) -> Buggy:
    """Let a method of *owner* raise an error the first times; return its stand-in."""
    buggy = Buggy(getattr(owner, name), error)
    patch.setattr(owner, name, lambda self, *given: buggy(self, *given))
    return buggy


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_LONGEST_S", 0.01)
    monkeypatch.setattr(loop, "_STEADY_MS", float("inf"))  # what failed is reported until the end


@pytest.fixture
def start(redis_url: str, client: Client) -> Iterator[Start]:
    """A function that starts a daemon, and returns when it leads."""
    with ExitStack() as stack:

        def started() -> DaemonThread:
            daemon = stack.enter_context(DaemonThread(redis_url))
            daemon.wait_for("term_began")
            return daemon

        yield started


def failures(daemon: DaemonThread) -> list[Any]:
    return [each["thread"] for each in daemon.of("thread_failed")]


def test_the_waker_receives_messages_after_a_bug(
    start: Start, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    buggy, channel = breaks(monkeypatch, waker.Waker, "_listen"), KEYS.wake()

    daemon = start()
    eventually(lambda: not buggy.left and dict(redis_client.pubsub_numsub(channel))[channel.encode()] == 1)

    assert ["waker"] == failures(daemon)
    assert {"thread waker": "'a bug'"} == daemon.daemon._health.failing


def test_the_archiver_follows_after_a_bug(
    start: Start, client: Client, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    buggy = Buggy(archiver.Archivers)
    monkeypatch.setattr(archiver, "Archivers", buggy)

    daemon = start()
    eventually(Archivers(link, KEYS).alive)

    assert "created" == client.schedule("app.run", id="a", after=3600, durable=True).outcome
    assert ["archiver"] == failures(daemon)


def test_chores_are_done_after_a_bug(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    buggy, done, do = Buggy(chores.Server), set[str](), chores.ChoreThread._work
    monkeypatch.setattr(chores, "Server", buggy)
    monkeypatch.setattr(
        chores.ChoreThread, "_work", lambda self, chore, term: done.add(chore.name) or do(self, chore, term)
    )

    daemon = start()
    eventually(lambda: {"auditor", "lost", "slots", "tracker"} <= done)

    assert ["chores"] == failures(daemon)


def test_the_answerer_answers_after_a_bug(start: Start, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    buggy = breaks(monkeypatch, answerer.Answerer, "_serve")

    daemon = start()
    client.schedule("app.run", id="a", after=3600)
    eventually(lambda: not buggy.left and client.why("a").source.archive is not None)

    assert ["answerer"] == failures(daemon)


@pytest.mark.parametrize("bug", [KeyError("a bug"), TypeError("a bug"), AttributeError("a bug"), ValueError("a bug")])
def test_a_bug_while_answering_is_logged_and_sent_to_the_asker(
    start: Start, client: Client, link: Link, monkeypatch: pytest.MonkeyPatch, bug: Exception
) -> None:
    breaks(monkeypatch, answering.History, "of_schedule", bug)
    daemon = start()
    client.schedule("app.run", id="a", after=3600)
    eventually(Archivers(link, KEYS).alive)

    answers = [ask_archives(link, KEYS, "schedule", id="a", newest=3, is_limited=False) for _ in range(TIMES)]

    assert [] == [answer for answer in answers if "failed to answer 'schedule'" not in answer.get("error", "")]
    assert client.why("a").source.archive is not None
    assert ["schedule"] == [each["question"] for each in daemon.of("question_failed")]
    assert ["schedule"] == [each["question"] for each in daemon.of("question_back")]
    assert [] == failures(daemon)


def test_the_report_of_a_daemon_names_its_failing_threads(
    start: Start, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, answerer.Answerer, "_serve").left = 1_000_000
    monkeypatch.setattr(archiver, "REPORT_EVERY_MS", 50)

    start()

    eventually(lambda: [{"thread answerer": "'a bug'"}] == [dict(one.failing) for one in client._overview().daemons])


class Told:
    """A supervisor that keeps its messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def status(self, text: str) -> None:
        self.said.append(text)


class Blind:
    """A reader whose reads of Redis fail as *look* says."""

    def __init__(self, look: Buggy) -> None:
        self.overview = look


def gone() -> None:
    raise RedisUnavailable("gone")


def test_the_status_line_is_sent_after_a_bug() -> None:
    told, health = Told(), DaemonHealth(SystemClock())
    line = status_line(told, Blind(Buggy(gone)), health, "me")  # type: ignore[arg-type]

    line.start()
    eventually(lambda: told.said == ["gone"])
    line.stop()

    assert {"thread status": "'a bug'"} == health.failing
