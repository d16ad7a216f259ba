"""Answers of an archive to questions through Redis: malformed questions, limits, and archives that are not healthy."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.faults.processes import WITHIN_S, eventually
from tests.faults.threads import DaemonThread
from zsched import Client
from zsched.core.changes import OUTCOMES
from zsched.core.log import Position
from zsched.core.lookback import Wanted
from zsched.daemon.answerer import Answerer
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.questions import Inbox, Knowledge, Naming, Question, Questions

pytestmark = pytest.mark.redis

KEYS = Keys("default")

ALONE = Keys("alone")  # no daemon of another test, which ends a moment later, answers here

FUNC = "app.tasks.run"


GOOD: dict[str, Any] = {"id": "x", "about": "schedule", "arguments": {"id": "a", "newest": 3}, "seen": None}

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

NOT_UNDERSTOOD: list[tuple[str, dict[str, Any]]] = [
    ("the weather", {}),
    ("schedule", {}),
    ("schedule", {"id": 7, "newest": 3}),
    ("schedule", {"id": None, "newest": 3}),
    ("schedule", {"id": "\ud800", "newest": 3}),
    ("schedule", {"id": "a", "newest": "three"}),
    ("schedule", {"id": "a", "newest": 3, "more": 1}),
    ("search", {"whats": ["enchanted"], "statuses": [], "facets": ["", "", "", []], "limit": 3}),
    ("search", {"whats": 7, "statuses": [], "facets": ["", "", "", []], "limit": 3}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", ""], "limit": 3}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3, "id": 7}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3, "match": "\ud800"}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3, "since_us": -1}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3, "after": "then"}),
    ("search", {"whats": [], "statuses": [], "facets": ["", "", "", []], "limit": 3, "after": f"1-1-{10**30}-1-1"}),
    ("entries", {"since_us": "then", "limit": 3}),
    ("entries", {"behind": [1], "limit": 3}),
    ("entries", {"behind": [10**30, 1, 1], "limit": 3}),
    ("entries", {"limit": 10**30}),
]


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

    entries = questions.ask("entries", since_us=0, limit=10**6)
    none = questions.ask("entries", since_us=0, limit=-1)
    few = questions.ask("search", **wanted.to_dict())

    assert (100, 0, 1) == (len(entries["entries"]), len(none["entries"]), len(few["occurrences"]))  # type: ignore[index]


class Sick:
    """An archiver whose archive fails as soon as a question was taken."""

    path = Path("/nowhere")

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
    question = Question("x", "schedule", {"id": "a", "newest": 3}, Position(1, 2, 3))
    redis_client.rpush(KEYS.ask(), question.text)
    answerer = Answerer(Sick(), link, KEYS)  # type: ignore[arg-type]  # what it looks at
    with closing(link.open()) as wire:
        inbox = Inbox(wire, KEYS)

        answerer._serve(inbox)

    assert [question.text.encode()] == redis_client.lrange(KEYS.ask(), 0, -1)
    assert 0 < redis_client.pttl(KEYS.ask()) <= 30_000
    assert question == Question.parse(question.text.encode())


def test_an_unhealthy_archive_answers_only_questions_about_names(
    link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_client.rpush(ALONE.ask(), Question("x", "schedule", {"id": "a", "newest": 3}, None).text)
    naming, archiver = Naming(link, ALONE), Sick()
    naming.ask()
    naming.ask()  # nobody took the first one
    assert (1, False) == (redis_client.llen(ALONE.ask_names()), next(archiver._looks) is False)
    answerer = Answerer(archiver, link, ALONE)  # type: ignore[arg-type]  # what it looks at
    monkeypatch.setattr(answerer._loop, "pause", lambda for_s: None)

    with closing(link.open()) as wire:
        answerer._serve(Inbox(wire, ALONE))
        answerer._serve_names(Inbox(wire, ALONE))

    assert [Knowledge("g1", None, is_new=False)] == list(naming.answers())
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
    redis_client.rpush(KEYS.ask(), Question("x", "schedule", {"id": "a", "newest": 3}, None).text)
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
    question = Question("x", "schedule", {"id": "a", "newest": 3}, None)
    with closing(link.open()) as wire:
        Inbox(wire, KEYS).answer(question, {})

    assert 0 < redis_client.pttl(KEYS.answer("x")) <= 30_000
