"""The report by which a leader sees that its archive has followed the log into its term."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from tests.builders.leaders import KEYS, Leader
from zsched.core.entry import Position
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.lease import term_of
from zsched.storage.log import Log


@pytest.fixture
def leader(redis_url: str) -> Iterator[Leader]:
    with closing(Leader(redis_url)) as leader:
        yield leader


def has_followed(leader: Leader, position: Position | None, state: ArchiveState, daemon: str = "d1") -> bool:
    """Return the leader's answer after a report of *daemon*'s archive."""
    archivers = Archivers(leader.wire, KEYS)
    archivers.report("a1", position, state, {"daemon": daemon})
    return archivers.has_followed("d1", leader.term)


def last(leader: Leader) -> Position:
    entry = Log(leader.wire, KEYS).last()
    assert entry is not None
    return entry.position


def test_a_leader_waits_until_its_own_archive_has_the_entry_of_the_term(leader: Leader) -> None:
    position = last(leader)
    before = Position(position.epoch - 1, position.seq, position.t_us)
    another = Position(position.epoch, position.seq, position.t_us - 1)  # of a history that Redis lost

    assert not Archivers(leader.wire, KEYS).has_followed("d1", leader.term)
    assert not has_followed(leader, None, ArchiveState.FOLLOWING)
    assert not has_followed(leader, before, ArchiveState.FOLLOWING)
    assert not has_followed(leader, another, ArchiveState.FOLLOWING)
    assert not has_followed(leader, position, ArchiveState.FOLLOWING, daemon="d2")
    assert has_followed(leader, position, ArchiveState.FOLLOWING)


@pytest.mark.parametrize("state", [each for each in ArchiveState if each is not ArchiveState.FOLLOWING])
def test_a_leader_does_not_wait_for_an_archive_in_another_state(leader: Leader, state: ArchiveState) -> None:
    assert has_followed(leader, None, state)


def test_a_report_from_before_the_term_does_not_count(leader: Leader, redis_client: redis.Redis) -> None:
    redis_client.hset(KEYS.archivers(), "a1", f'- 0 {leader.term.now_ms - 1} lost {{"daemon": "d1"}}')

    assert not Archivers(leader.wire, KEYS).has_followed("d1", leader.term)


def test_an_archivist_sees_the_term_of_its_own_daemon(leader: Leader, redis_client: redis.Redis) -> None:
    own = term_of("leader", leader.link, KEYS)

    assert own is not None
    assert (leader.term.fence, leader.term.epoch) == (own.fence, own.epoch)
    assert own is term_of("leader", leader.link, KEYS, own)
    assert term_of("another", leader.link, KEYS) is None
    redis_client.set(KEYS.lease(), "leader:7")  # by another writer
    assert term_of("leader", leader.link, KEYS, own) is None
    redis_client.delete(KEYS.lease())
    assert term_of("leader", leader.link, KEYS) is None
