"""Answers of an archive to questions through Redis, malformed ones too; and the name of a data set by these answers."""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonThread
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.core.entry import Position
from zsched.core.occurrences.changes import Wanted
from zsched.core.occurrences.outcomes import OUTCOMES
from zsched.daemon.answerer import Answerer
from zsched.daemon.data_set import Namer
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.questions import Inbox, Question, ask_archives
from zsched.storage.server import Server

KEYS = Keys("default")
ALONE = Keys("alone")  # no daemon of another test, which ends a moment later, answers here
FUNC = "app.tasks.run"


ARGUMENTS = {"id": "a", "newest": 3, "is_limited": False}
GOOD: dict[str, Any] = {"id": "x", "about": "schedule", "arguments": ARGUMENTS, "seen": None}

NO_QUESTIONS = [
    "",
    "no json",
    "[" * 100_000,
    "[]",
    "7",
    json.dumps(GOOD | {"seen": [1]}),
    json.dumps(GOOD | {"seen": [1e999, 1, 1]}),
    json.dumps(GOOD | {"arguments": 7}),
    b"\xff\xfe",
]


def search(after: Any = None, **wanted: Any) -> tuple[str, dict[str, Any]]:
    good = {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3}
    return "search", {"wanted": good | wanted, "after": after}


NOT_UNDERSTOOD: list[tuple[str, dict[str, Any]]] = [
    ("the weather", {}),
    ("schedule", {}),
    ("schedule", {"id": 7, "newest": 3, "is_limited": False}),
    ("schedule", {"id": None, "newest": 3, "is_limited": False}),
    ("schedule", {"id": "\ud800", "newest": 3, "is_limited": False}),
    ("schedule", {"id": "a", "newest": "three", "is_limited": False}),
    ("schedule", {"id": "a", "newest": 3, "is_limited": False, "more": 1}),
    ("search", {"wanted": 7, "after": None}),
    search(whats=["enchanted"]),
    search(whats=7),
    search(facets=["", "", ""]),
    search(id=7),
    search(match="\ud800"),
    search(since_us=-1),
    search("then"),
    search(f"1-1-{10**30}-1-1"),
    ("waiting", {"facets": 7}),
    ("waiting", {"facets": ["", "", "", ["\ud800"], "", False]}),
    ("waiting", {"facets": ["", "", "", "", ""]}),
    ("entries", {"since_us": "then", "behind": None, "limit": 3}),
    ("entries", {"since_us": None, "behind": [1], "limit": 3}),
    ("entries", {"since_us": None, "behind": [10**30, 1, 1], "limit": 3}),
    ("entries", {"since_us": None, "behind": None, "limit": 10**30}),
]
NAMING_KEYS = Keys("naming")  # a daemon of an earlier test may still answer questions about "default"
LEASE_MS = 60_000
OLDER, NEWER = Position(1, 900, 1_000), Position(1, 9, 2_000)


def test_a_malformed_question_is_ignored(daemon: DaemonThread, client: Client, redis_client: redis.Redis) -> None:
    for text in NO_QUESTIONS:
        redis_client.rpush(KEYS.ask(), text)
    client.enqueue(FUNC, id="a")

    found = client.history()
    source = found.source

    assert (["a"], True) == ([change.id for change in found], source.archive is not None)


def test_an_unknown_question_is_answered_with_an_error(daemon: DaemonThread, client: Client, link: Link) -> None:
    client.schedule(FUNC, id="a", after=3600)
    ask = partial(ask_archives, link, KEYS)

    answers = [(about, ask(about, **arguments)) for about, arguments in NOT_UNDERSTOOD]

    assert [] == [(about, answer) for about, answer in answers if about not in (answer or {}).get("error", "")]
    assert client.why("a").source.archive is not None


def test_an_answer_is_limited_in_size(daemon: DaemonThread, client: Client, link: Link) -> None:
    for _ in range(120):
        client.enqueue(FUNC)
    ask = partial(ask_archives, link, KEYS)
    wanted = Wanted(frozenset(OUTCOMES), frozenset(), -1)

    entries = ask("entries", since_us=0, behind=None, limit=10**6)
    none = ask("entries", since_us=0, behind=None, limit=-1)
    few = ask("search", wanted=wanted, after=None)

    assert (100, 0, 1) == (len(entries["entries"]), len(none["entries"]), len(few["occurrences"]))  # type: ignore[index]


class Sick:
    """An archiver whose archive fails as soon as a question was taken."""

    path, daemon = Path("/nowhere"), {"daemon": "leader"}

    def __init__(self) -> None:
        self._looks = iter([True])  # before a question is taken; then it fails

    @property
    def is_healthy(self) -> bool:
        return next(self._looks, False)


@pytest.mark.parametrize(("timeout_s", "expected_s"), [(5.0, 2.0), (1.0, 0.5)])
def test_the_wait_for_a_question_ends_before_the_connection_times_out(
    redis_url: str, timeout_s: float, expected_s: float
) -> None:
    answerer = Answerer(Sick(), Link.from_url(redis_url, timeout_s), KEYS)  # type: ignore[arg-type]  # what it looks at

    assert expected_s == answerer._wait_s


def test_an_unhealthy_archive_returns_a_question_to_the_queue(link: Link, redis_client: redis.Redis) -> None:
    question = Question("x", "schedule", ARGUMENTS, Position(1, 2, 3))
    redis_client.rpush(ALONE.ask(), question.text)
    answerer = Answerer(Sick(), link, ALONE)  # type: ignore[arg-type]  # what it looks at
    with closing(link.open()) as wire:
        inbox = Inbox(wire, ALONE)

        answerer._serve(inbox)

    assert [question.text.encode()] == redis_client.lrange(ALONE.ask(), 0, -1)
    assert 0 < redis_client.pttl(ALONE.ask()) <= 30_000
    assert question == Question.parse(question.text.encode())


def test_an_unread_answer_expires(link: Link, redis_client: redis.Redis) -> None:
    question = Question("x", "schedule", ARGUMENTS, None)
    with closing(link.open()) as wire:
        Inbox(wire, KEYS).answer(question, {})

    assert 0 < redis_client.pttl(KEYS.answer("x")) <= 30_000


# -- the name of an unnamed data set ------------------------------------------------------------------


class NamingLeader:
    """A leader that does a step of naming on command, by a clock that moves on command."""

    def __init__(self, link: Link, client: redis.Redis, *, has_archive: bool = True) -> None:
        self.clock, self._redis, self._link = ManualClock(), client, link
        if has_archive:
            Archivers(link, NAMING_KEYS).report("of leader", None, ArchiveState.FAILED, {"daemon": "leader"})
        self._namer = Namer(NAMING_KEYS, "leader", self.clock)
        self._connect()

    def close(self) -> None:
        self._wire.close()

    def reconnect(self) -> None:
        """Begin another term over another connection."""
        self.close()
        self._connect()

    def _connect(self) -> None:
        self._wire = self._link.open()
        term = Lease(self._wire, NAMING_KEYS, Server.of(self._wire), self.clock, "leader", LEASE_MS).acquire()
        assert isinstance(term, Term)
        self.term = term
        self._namer.over(self._wire)

    def step(self, after_ms: float = 0) -> bool:
        """Do a step; return whether the data set has a name."""
        self.clock.advance(after_ms)
        return self._namer.step(self.term) is None

    def remember(self, names: str) -> None:
        """Have led the data set *names* before."""
        self._namer.remember(names)

    def report(self, names: str | None, position: Position | None, daemon: str = "another") -> None:
        """Report as the archive of *daemon* that Redis lost what it has."""
        about = {"daemon": daemon, "names": names} if names else {"daemon": daemon}
        Archivers(self._link, NAMING_KEYS).report(f"of {daemon}", position, ArchiveState.LOST, about)

    @property
    def name(self) -> str | None:
        found = self._redis.hget(NAMING_KEYS.meta(), "gen")
        return found.decode() if found else None


@pytest.fixture
def naming(link: Link, redis_client: redis.Redis) -> Iterator[NamingLeader]:
    with closing(NamingLeader(link, redis_client)) as naming:
        yield naming


@pytest.mark.parametrize("first_is_newer", [True, False])
def test_a_leader_uses_the_name_from_the_most_recent_archive(naming: NamingLeader, first_is_newer: bool) -> None:
    told = [("new", NEWER), ("old", OLDER)]

    for names, position in told if first_is_newer else reversed(told):
        assert not naming.step()
        naming.report(names, position, daemon=names)
    assert (False, None) == (naming.step(), naming.name)

    assert naming.step(after_ms=LEASE_MS)
    assert "new" == naming.name


@pytest.mark.parametrize(("own", "expected"), [(OLDER, "other"), (NEWER, "own"), (None, "other")])
def test_the_archive_of_the_leader_counts_like_the_others(
    naming: NamingLeader, own: Position | None, expected: str
) -> None:
    naming.report("other", Position(1, 5, 1_500))
    naming.report("own", own, daemon="leader")

    assert not naming.step()
    assert naming.step(after_ms=LEASE_MS)

    assert expected == naming.name


def test_a_leader_waits_longer_for_its_own_archive(link: Link, redis_client: redis.Redis) -> None:
    with closing(NamingLeader(link, redis_client, has_archive=False)) as naming:
        assert not naming.step()
        assert not naming.step(after_ms=LEASE_MS)
        naming.report("own", OLDER, daemon="leader")

        assert naming.step()
        assert "own" == naming.name


def test_the_name_from_a_restore_ends_the_wait_and_is_remembered(
    naming: NamingLeader, redis_client: redis.Redis
) -> None:
    assert not naming.step()
    redis_client.hset(NAMING_KEYS.meta(), "gen", "restored")
    assert naming.step()

    redis_client.flushall()
    naming.reconnect()
    assert not naming.step()
    assert naming.step(after_ms=2 * LEASE_MS)
    assert "restored" == naming.name


@pytest.mark.parametrize("names", ["", "  ", 5, None, ["a"]])
def test_a_report_with_an_unreadable_name_is_ignored(naming: NamingLeader, names: Any) -> None:
    naming.report("known", OLDER)
    naming.report(names, NEWER, daemon="third")

    naming.step()
    assert naming.step(after_ms=LEASE_MS)

    assert "known" == naming.name


def test_a_restore_before_the_leader_names_the_data_set_gives_its_name(
    naming: NamingLeader, redis_client: redis.Redis
) -> None:
    naming.step()
    redis_client.hset(NAMING_KEYS.meta(), "gen", "restored")

    assert naming.step(after_ms=LEASE_MS)
    assert "restored" == naming.name


def test_a_leader_whose_connections_break_names_the_data_set_in_the_same_time(naming: NamingLeader) -> None:
    naming.step()
    naming.report("known", OLDER)

    for _ in range(9):
        naming.reconnect()
        assert not naming.step(after_ms=LEASE_MS / 10)
    naming.reconnect()

    assert naming.step(after_ms=LEASE_MS / 10)
    assert "known" == naming.name


def test_a_leader_without_reports_gives_the_name_of_its_last_term(naming: NamingLeader) -> None:
    naming.remember("led before")
    naming.step()

    assert naming.step(after_ms=LEASE_MS)
    assert "led before" == naming.name


def test_naming_begins_again_when_redis_was_emptied(naming: NamingLeader, redis_client: redis.Redis) -> None:
    naming.step()
    naming.step(after_ms=LEASE_MS / 2)

    redis_client.delete(NAMING_KEYS.meta(), NAMING_KEYS.log(), NAMING_KEYS.lease())
    naming.reconnect()

    assert not naming.step(after_ms=LEASE_MS / 2)
    assert naming.step(after_ms=LEASE_MS / 2)
    assert naming.name
