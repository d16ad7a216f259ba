"""Answers of an archive to questions through Redis, malformed ones too; and the name of a data set by these answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.core.clock import ManualClock
from zsched.core.log import Position
from zsched.core.occurrences.outcomes import OUTCOMES
from zsched.core.occurrences.search import Wanted
from zsched.daemon.answerer import Answerer
from zsched.daemon.naming import Namer
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.questions import Inbox, Knowledge, Naming, Question, Questions
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
    questions = Questions(link, KEYS)

    answers = [(about, questions.ask(about, **arguments)) for about, arguments in NOT_UNDERSTOOD]

    assert [] == [(about, answer) for about, answer in answers if about not in (answer or {}).get("error", "")]
    assert client.why("a").source.archive is not None


def test_an_answer_is_limited_in_size(daemon: DaemonThread, client: Client, link: Link) -> None:
    for _ in range(120):
        client.enqueue(FUNC)
    questions = Questions(link, KEYS)
    wanted = Wanted(frozenset(OUTCOMES), frozenset(), -1)

    entries = questions.ask("entries", since_us=0, behind=None, limit=10**6)
    none = questions.ask("entries", since_us=0, behind=None, limit=-1)
    few = questions.ask("search", wanted=wanted, after=None)

    assert (100, 0, 1) == (len(entries["entries"]), len(none["entries"]), len(few["occurrences"]))  # type: ignore[index]


class Sick:
    """An archiver whose archive fails as soon as a question was taken."""

    path, daemon = Path("/nowhere"), {"daemon": "leader"}

    def __init__(self) -> None:
        self._looks = iter([True])  # before a question is taken; then it fails

    @property
    def is_healthy(self) -> bool:
        return next(self._looks, False)

    def knowledge(self) -> Knowledge:
        return Knowledge("g1", None, is_new=False)


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


def test_an_unhealthy_archive_answers_only_questions_about_names(
    link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_client.rpush(ALONE.ask(), Question("x", "schedule", ARGUMENTS, None).text)
    naming, archiver = Naming(link, ALONE), Sick()
    naming.ask()
    naming.ask()  # nobody took the first one
    assert (1, False) == (redis_client.llen(ALONE.ask_names()), next(archiver._looks) is False)
    answerer = Answerer(archiver, link, ALONE)  # type: ignore[arg-type]  # what it looks at
    monkeypatch.setattr(answerer._loop, "pause", lambda for_s: None)

    with closing(link.open()) as wire:
        answerer._serve(Inbox(wire, ALONE))
        answerer._serve_names(Inbox(wire, ALONE))

    assert [Knowledge("g1", None, is_new=False, daemon="leader")] == list(naming.answers())
    assert (0, 1) == (redis_client.llen(ALONE.ask_names()), redis_client.llen(ALONE.ask()))


def test_a_long_history_question_does_not_delay_a_names_question(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def look(self: Answerer, path: Path, question: Question) -> dict[str, Any]:
        began.set()
        may_end.wait()
        return {}

    monkeypatch.setattr(Answerer, "_answer", look)
    redis_client.rpush(KEYS.ask(), Question("x", "schedule", ARGUMENTS, None).text)
    assert began.wait(WITHIN_S)
    naming = Naming(link, KEYS)

    naming.ask()

    try:
        assert eventually(lambda: list(naming.answers()))
    finally:
        may_end.set()


@pytest.mark.parametrize(
    "told", [b"", b"nonsense", b"[1]", b"{}", b'{"gen": 5, "position": null, "is_new": true}',
             b'{"gen": " ", "position": null, "is_new": true}', b'{"gen": "a", "position": [1], "is_new": true}']
)  # fmt: skip
def test_an_unreadable_answer_about_names_is_ignored(link: Link, redis_client: redis.Redis, told: bytes) -> None:
    naming = Naming(link, ALONE)
    naming.ask()
    question = Question.parse(redis_client.lindex(ALONE.ask_names(), 0))
    assert question is not None
    good = Knowledge("g1", Position(1, 2, 3), is_new=True)
    redis_client.rpush(ALONE.answer(question.id), told, json.dumps(good.to_dict()))

    assert [good] == list(naming.answers())


def test_an_unread_answer_expires(link: Link, redis_client: redis.Redis) -> None:
    question = Question("x", "schedule", ARGUMENTS, None)
    with closing(link.open()) as wire:
        Inbox(wire, KEYS).answer(question, {})

    assert 0 < redis_client.pttl(KEYS.answer("x")) <= 30_000


# -- the name of an unnamed data set ------------------------------------------------------------------


class NamingLeader:
    """A leader that does a step of naming on command, by a clock that moves on command."""

    def __init__(self, link: Link, client: redis.Redis) -> None:
        self.clock, self._redis, self._link = ManualClock(), client, link
        trouble = {"daemon": "leader", "trouble": "its disk is full"}  # so nobody waits for its archive
        Archivers(link, NAMING_KEYS).report("own", None, ArchiveState.FAILED, trouble)
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

    def answer(self, gen: str | None, position: Position | None, daemon: str = "another") -> None:
        """Take the waiting question, and answer it as the archive of *daemon*."""
        question = Question.parse(self._redis.lpop(NAMING_KEYS.ask_names()))
        assert question is not None
        told = Knowledge(gen, position, is_new=False, daemon=daemon).to_dict()
        self._redis.rpush(NAMING_KEYS.answer(question.id), json.dumps(told))

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

    for gen, position in told if first_is_newer else reversed(told):
        assert not naming.step()
        naming.answer(gen, position)
    assert (False, None) == (naming.step(), naming.name)

    assert naming.step(after_ms=LEASE_MS)
    assert "new" == naming.name


@pytest.mark.parametrize(("own", "expected"), [(OLDER, "other"), (NEWER, "own"), (None, "other")])
def test_a_late_opened_archive_of_the_leader_counts_for_the_name(
    naming: NamingLeader, own: Position | None, expected: str
) -> None:
    naming.step()
    naming.answer("other", Position(1, 5, 1_500))

    naming.step()
    naming.answer("own", own, daemon="leader")

    assert naming.step()  # it waits for no more answers

    assert expected == naming.name


def test_a_leader_whose_connections_break_names_the_data_set_in_the_same_time(naming: NamingLeader) -> None:
    naming.step()
    naming.answer("known", OLDER)

    for _ in range(9):
        naming.reconnect()
        assert not naming.step(after_ms=LEASE_MS / 10)
    naming.reconnect()

    assert naming.step(after_ms=LEASE_MS / 10)
    assert "known" == naming.name


def test_naming_begins_again_when_redis_was_emptied(naming: NamingLeader, redis_client: redis.Redis) -> None:
    naming.step()
    naming.answer("known", OLDER)
    naming.step(after_ms=LEASE_MS / 2)

    redis_client.delete(NAMING_KEYS.meta(), NAMING_KEYS.log(), NAMING_KEYS.lease())
    naming.reconnect()

    assert not naming.step(after_ms=LEASE_MS / 2)
    assert naming.step(after_ms=LEASE_MS / 2)
    assert "known" != naming.name


def test_a_question_list_of_a_wrong_type_does_not_prevent_naming(
    naming: NamingLeader, redis_client: redis.Redis
) -> None:
    redis_client.set(NAMING_KEYS.ask_names(), "foreign")

    assert not naming.step()
    assert naming.step(after_ms=LEASE_MS)

    assert naming.name
    assert b"foreign" == redis_client.get(NAMING_KEYS.ask_names())
