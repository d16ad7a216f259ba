"""The name that a leader gives an unnamed data set, by the answers of the archives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from zsched.core.clock import ManualClock
from zsched.core.log import Position
from zsched.daemon.naming import Namer
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Lease, Term
from zsched.storage.questions import Knowledge, Question
from zsched.storage.server import Server

pytestmark = pytest.mark.redis
KEYS = Keys("naming")  # a daemon of an earlier test may still answer questions about "default"
LEASE_MS = 60_000
OLDER, NEWER = Position(1, 900, 1_000), Position(1, 9, 2_000)


class Knowing:
    """An archiver whose archive has the given knowledge."""

    has_looked = True

    def __init__(self) -> None:
        self.known: Knowledge | None = Knowledge(None, None, is_new=True)

    def knowledge(self) -> Knowledge | None:
        return self.known


class Naming:
    """A leader that does a step of naming on command, by a clock that moves on command."""

    def __init__(self, link: Link, client: redis.Redis) -> None:
        self.clock, self.archiver, self._redis = ManualClock(), Knowing(), client
        self._wire = link.open()
        term = Lease(self._wire, KEYS, Server.of(self._wire), self.clock, "leader", LEASE_MS).acquire()
        assert isinstance(term, Term)
        self.term = term
        self._namer = Namer(self._wire, KEYS, self.archiver, self.clock)  # type: ignore[arg-type]  # what it looks at

    def close(self) -> None:
        self._wire.close()

    def step(self, after_ms: float = 0) -> bool:
        """Do a step; return whether the data set has a name."""
        self.clock.advance(after_ms)
        return self._namer.step(self.term) is None

    def answer(self, gen: str | None, position: Position | None) -> None:
        """Take the waiting question, and answer it."""
        question = Question.parse(self._redis.lpop(KEYS.ask_names()))
        assert question is not None
        told = Knowledge(gen, position, is_new=False).to_dict()
        self._redis.rpush(KEYS.answer(question.id), json.dumps(told))

    @property
    def name(self) -> str | None:
        found = self._redis.hget(KEYS.meta(), "gen")
        return found.decode() if found else None


@pytest.fixture
def naming(link: Link, redis_client: redis.Redis) -> Iterator[Naming]:
    with closing(Naming(link, redis_client)) as naming:
        yield naming


@pytest.mark.parametrize("first_is_newer", [True, False])
def test_a_leader_uses_the_name_from_the_most_recent_archive(naming: Naming, first_is_newer: bool) -> None:
    told = [("new", NEWER), ("old", OLDER)]

    for gen, position in told if first_is_newer else reversed(told):
        assert not naming.step()
        naming.answer(gen, position)
    assert (False, None) == (naming.step(), naming.name)

    assert naming.step(after_ms=LEASE_MS)
    assert "new" == naming.name


@pytest.mark.parametrize(("own", "expected"), [(OLDER, "other"), (NEWER, "own"), (None, "other")])
def test_a_late_opened_archive_of_the_leader_counts_for_the_name(
    naming: Naming, own: Position | None, expected: str
) -> None:
    naming.step()
    naming.answer("other", Position(1, 5, 1_500))

    naming.archiver.known = Knowledge("own", own, is_new=False)
    naming.step(after_ms=LEASE_MS)

    assert expected == naming.name


def test_a_question_list_of_a_wrong_type_does_not_prevent_naming(naming: Naming, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.ask_names(), "foreign")

    assert not naming.step()
    assert naming.step(after_ms=LEASE_MS)

    assert naming.name
    assert b"foreign" == redis_client.get(KEYS.ask_names())
