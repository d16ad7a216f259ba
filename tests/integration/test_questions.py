"""Questions to an archive through Redis, by a client that cannot see its file; and what is told when none answers."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from tests.faults.processes import WITHIN_S, archive_of_its_own, eventually
from tests.faults.threads import STEADY, DaemonThread, know
from zsched import Client
from zsched.config import ArchiveSettings
from zsched.core.changes import OUTCOMES, What
from zsched.core.clock import from_ms
from zsched.core.log import Position
from zsched.core.lookback import Wanted
from zsched.core.story import Source
from zsched.daemon.answerer import Answerer
from zsched.errors import ArchiveError
from zsched.storage.archivers import Archivers
from zsched.storage.connection import Link
from zsched.storage.inquiry import Inquiry
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.questions import Inbox, Knowledge, Naming, Question, Questions

pytestmark = pytest.mark.redis
KEYS = Keys("default")
ALONE = Keys("alone")  # no daemon of another test, which ends a moment later, answers here
FUNC = "app.tasks.run"
IMPATIENT_S = 0.5  # of a client that waits 0.25 s for an answer


@pytest.fixture
def client(redis_client: redis.Redis, link: Link) -> Client:
    know(redis_client)
    return Client(link)


@pytest.fixture
def impatient(link: Link, redis_client: redis.Redis) -> Client:
    """A client that soon gives up."""
    return Client(Link(link.pool, link.where, IMPATIENT_S))


def archived(link: Link) -> Position:
    """The log's last position, as soon as an archive has it."""
    last = Log(link, KEYS).last()
    assert last is not None
    entry, entry_ms = last.position.id, last.position.t_us // 1000
    eventually(lambda: Archivers(link, KEYS).archived(entry, entry_ms) == "archived")
    return last.position


def forget_but(redis_client: redis.Redis, last: Position) -> None:
    """Redis forgets the log up to *last*, as a leader's trimming does."""
    redis_client.xtrim(KEYS.log(), minid=last.id, approximate=False)


def answer_with(redis_client: redis.Redis, answer: str) -> None:
    """Take one question, and answer so."""
    _, asked = redis_client.blpop([KEYS.ask()], 10)  # type: ignore[misc]
    redis_client.rpush(KEYS.answer(json.loads(asked)["id"]), answer)


# -- asked and answered -------------------------------------------------------------------------------


def test_an_answer_includes_the_askers_own_writes(client: Client, daemon: DaemonThread) -> None:
    for number in range(20):
        client.schedule(FUNC, id=f"s{number}", after=3600)

        story = client.why(f"s{number}")

        assert [What.PUT] == [change.what for change in story.changes]
        assert story.source.archive is not None


def test_an_answer_names_its_archive_and_its_last_entry(client: Client, redis_url: str, link: Link) -> None:
    path = archive_of_its_own()
    with DaemonThread(redis_url, archive=ArchiveSettings(path=path), **STEADY):
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule(FUNC, id="a", after=3600)
        last = archived(link)

        source = client.why("a").source

    assert source.archive is not None
    assert source.archive.endswith(f":{path}")
    assert (None, last.id, "") == (source.complete_since_ms, source.as_of, source.problem)


def test_history_includes_entries_trimmed_from_redis(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis
) -> None:
    client.enqueue(FUNC, id="old")
    client.enqueue(FUNC, id="new")
    forget_but(redis_client, archived(link))

    found, source = client.history()

    assert ["new", "old"] == [change.id for change in found]
    assert source.archive is not None


def test_history_can_be_filtered_by_schedule_or_status(
    client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    for id in ("a", "b", "a"):
        client.enqueue(FUNC, id=id)
    client.schedule(FUNC, id="a", after=3600)
    client.cancel("a")

    of_a, _ = client.history("a")
    enqueued, _ = client.history(status="enqueued", limit=2)

    assert [What.CANCELLED, What.ENQUEUED, What.ENQUEUED] == [change.what for change in of_a]
    assert ["a", "b"] == [change.id for change in enqueued]


# -- the log, page by page ----------------------------------------------------------------------------


def test_log_returns_the_whole_archive_in_order(
    client: Client, daemon: DaemonThread, link: Link, redis_client: redis.Redis
) -> None:
    for number in range(230):
        client.schedule(FUNC, id=f"s{number}", after=3600)
    random = Random(7)  # what RQ cannot compress
    for number in range(50):  # 5 MB: more than one answer holds
        client.schedule(FUNC, id=f"large{number}", after=3600, args=(random.randbytes(100_000),))
    expected = [entry.position for entry in Log(link, KEYS).entries()]
    forget_but(redis_client, archived(link))

    everything, source = client.log(from_ms(0))
    newest, _ = client.log(limit=150)

    assert source.archive is not None
    assert expected == [entry.position for entry in everything]
    assert expected[-150:] == [entry.position for entry in newest]


def test_log_without_an_answering_archive_comes_from_redis(
    impatient: Client, redis_client: redis.Redis, link: Link
) -> None:
    client = impatient
    for number in range(5):
        client.schedule(FUNC, id=f"s{number}", after=3600)
    positions = [entry.position for entry in Log(link, KEYS).entries()]
    forget_but(redis_client, positions[1])

    newest, source = client.log(limit=3)
    since, _ = client.log(from_ms(positions[2].t_us // 1000 + 1))

    assert positions[2:] == [entry.position for entry in newest]
    assert [one for one in positions if one.t_us >= (positions[2].t_us // 1000 + 1) * 1000] == [
        entry.position for entry in since
    ]
    assert Source(None, positions[1].t_us // 1000, positions[-1].id, "no archive answered within 0.25 s") == source


def test_log_after_a_loss_includes_the_lost_entries(
    redis_url: str, impatient: Client, client: Client, link: Link, redis_client: redis.Redis
) -> None:
    with DaemonThread(redis_url, **STEADY) as daemon:
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule(FUNC, id="before", after=3600)
        lost = Log(link, KEYS).first()
        archived(link)
        redis_client.flushall()
        daemon.wait_for("recovery_done")
        eventually(lambda: Archivers(link, KEYS).alive())
        client.schedule(FUNC, id="after", after=3600)
        held = [entry.position for entry in Log(link, KEYS).entries()]

        told, source = client.log(from_ms(0))
        positions = [entry.position for entry in told]
        newest, _ = client.log(limit=len(held) + 1)
        newest_positions = [entry.position for entry in newest]
    _, alone = impatient.log(from_ms(0))

    assert lost is not None
    assert (lost.position, held) == (positions[0], positions[-len(held) :])
    assert held[0].seq == 1 < len(positions) - len(held)
    assert positions[-len(held) - 1 :] == newest_positions
    assert (True, None) == (source.archive is not None, source.complete_since_ms)
    assert (None, held[0].t_us // 1000) == (alone.archive, alone.complete_since_ms)


def test_log_ignores_an_archive_that_begins_later_than_redis(client: Client, redis_client: redis.Redis) -> None:
    client.schedule(FUNC, id="a", after=3600)
    source = {"archive": "host:/a.db", "complete_since": str(2**60), "as_of": "0-1"}
    somebody = threading.Thread(target=answer_with, args=(redis_client, json.dumps({"source": source, "entries": []})))

    somebody.start()
    told, where = client.log(from_ms(0))
    somebody.join()

    assert (None, "", ["put"]) == (where.archive, where.problem, [entry.kind for entry in told])


def test_log_raises_an_error_if_the_archive_stops_answering(
    redis_url: str, client: Client, link: Link, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonThread(redis_url, **STEADY):
        eventually(lambda: Archivers(link, KEYS).alive())
        for number in range(120):
            client.schedule(FUNC, id=f"s{number}", after=3600)
        forget_but(redis_client, archived(link))
        entries, source = client.log(from_ms(0))
        next(entries)
    monkeypatch.setattr("zsched.storage.questions.WAIT_S", 0.05)

    assert source.archive is not None
    with pytest.raises(ArchiveError, match="is missing here"):
        list(entries)


def test_following_continues_after_redis_lost_entries(client: Client, redis_client: redis.Redis) -> None:
    for _ in range(3):
        client.enqueue(FUNC)
    following = client.follow_log()

    client.enqueue(FUNC, id="before")
    before = next(following)
    redis_client.flushall()
    client.enqueue(FUNC, id="after")
    after = next(following)

    assert (b"before", b"after") == (before.body[1][:6], after.body[1][:5])


# -- nobody answers -----------------------------------------------------------------------------------


def test_why_and_history_use_redis_own_log_if_no_archive_answers(
    impatient: Client, redis_client: redis.Redis, link: Link
) -> None:
    impatient.schedule(FUNC, id="a", after=3600)
    impatient.enqueue(FUNC, id="b")

    story = impatient.why("a")
    found, source = impatient.history()

    assert [What.PUT] == [change.what for change in story.changes]
    assert ["b"] == [change.id for change in found]
    assert story.source == source
    first = Log(link, KEYS).first()
    assert first is not None
    assert Source(None, first.position.t_us // 1000, "0-2", "no archive answered within 0.25 s", True) == source
    assert 0 == redis_client.exists(KEYS.ask())  # the question was taken back


def test_a_long_story_is_cut_in_the_middle(impatient: Client, link: Link) -> None:
    for number in range(10):
        impatient.schedule(FUNC, id="a", after=3600 + number)

    chronicle = Inquiry(Link(link.pool, link.where, IMPATIENT_S), KEYS).chronicle("a", newest=4)

    assert (5, 5) == (len(chronicle.changes), chronicle.left_out)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("{", "no archive answered"),
        ("[" * 100_000, "no archive answered"),
        ("[]", "no archive answered"),
        ("{}", "not one that this version understands"),
        ('{"changes": [{"what": "enchanted"}], "source": {}}', "not one that this version understands"),
        ('{"error": "the disk is full"}', "the disk is full"),
    ],
)
def test_an_unreadable_answer_counts_as_no_answer(
    impatient: Client, redis_client: redis.Redis, answer: str, problem: str
) -> None:
    impatient.enqueue(FUNC, id="a")

    somebody = threading.Thread(target=answer_with, args=(redis_client, answer))
    somebody.start()
    found, source = impatient.history()
    somebody.join()

    assert ["a"] == [change.id for change in found]
    assert problem in source.problem


# -- other writers and sick archives ------------------------------------------------------------------

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
    ("occurrences", {"whats": ["enchanted"], "limit": 3}),
    ("occurrences", {"whats": 7, "limit": 3}),
    ("entries", {"since_us": "then", "limit": 3}),
    ("entries", {"behind": [1], "limit": 3}),
    ("entries", {"behind": [10**30, 1, 1], "limit": 3}),
    ("entries", {"limit": 10**30}),
]


def test_a_malformed_question_is_ignored(daemon: DaemonThread, client: Client, redis_client: redis.Redis) -> None:
    for text in NO_QUESTIONS:
        redis_client.rpush(KEYS.ask(), text)
    client.enqueue(FUNC, id="a")

    found, source = client.history()

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
    few = questions.ask("runs", **wanted.to_dict())

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


def test_the_limits_of_history_are_checked(client: Client) -> None:
    for wrong in ({"limit": 0}, {"limit": True}, {"limit": 1001}, {"status": "paused"}, {"id": "no id"}):
        with pytest.raises(ValueError, match="give"):
            client.history(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aware"):
        client.log(from_ms(0).replace(tzinfo=None) + timedelta(days=1))
