"""acquire.lua, renew.lua, release.lua, name.lua and adopt.lua: the terms of daemons, and the names of a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import LEASE_MS, Ground
from tests.prefix import RQ
from zsched.core.log import FORMAT
from zsched.errors import ServerChanged, Stale


def _acquire(ground: Ground, daemon: str = "one", nonce: str = "n1", **over: Any) -> list[Any]:
    arguments = {"server_id": "s1", "lease_ms": LEASE_MS, "gen": f"gen-{daemon}"}
    return ground.call("acquire", daemon=daemon, nonce=nonce, **(arguments | over))


def _meta(ground: Ground) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in ground.redis.hgetall(ground.keys.meta()).items()}


def test_the_first_term_on_a_new_redis_begins_with_doubt_and_hold(ground: Ground) -> None:
    token, epoch, now_ms, hold_ms, _ = _acquire(ground)

    assert (f"one:1:{LEASE_MS}:n1", 1, now_ms + LEASE_MS) == (token, epoch, hold_ms)
    expected = {
        "gen": "gen-one", "epoch": "1", "seq": "1", "server": "s1", "doubt": str(now_ms), "hold": str(hold_ms),
        "format": str(FORMAT), "rq_prefix": RQ,
    }  # fmt: skip
    assert expected == _meta(ground)
    assert token.encode() == ground.redis.get(ground.keys.lease())
    assert 0 < ground.redis.pttl(ground.keys.lease()) <= LEASE_MS


def test_a_new_term_writes_a_term_entry_and_entries_before_it_are_in_epoch_zero(ground: Ground) -> None:
    ground.put(("a", "+60000"))

    _, _, now_ms, *_ = _acquire(ground)

    entry = ground.last
    expected = {"daemon": "one", "server": "s1", "format": str(FORMAT)}
    assert ("1-2", "term", expected) == (entry.id, entry.kind, entry.fields)
    assert entry.t.startswith(str(now_ms))
    ground.put(("b", "+60000"))
    assert ["0-1", "1-2", "1-3"] == [entry.id for entry in ground.entries()]


def test_a_held_lease_is_busy_and_nothing_is_written(ground: Ground) -> None:
    _acquire(ground, "one")
    before = ground.keyspace()

    word, now_ms, left_ms = _acquire(ground, "two", "n2")

    assert "BUSY" == word
    assert now_ms <= ground.server_ms
    assert 0 <= LEASE_MS - left_ms <= ground.server_ms - ground.began_ms
    assert before.keys() == ground.keyspace().keys()
    assert 1 == len(ground.entries())


def test_a_takeover_on_the_same_server_raises_the_epoch_without_hold_or_doubt(ground: Ground) -> None:
    _, _, first_ms, first_hold_ms, _ = _acquire(ground, "one")
    ground.redis.delete(ground.keys.lease())

    token, epoch, _, hold_ms, _ = _acquire(ground, "two", "n2")

    assert (f"two:2:{LEASE_MS}:n2", 2, first_hold_ms) == (token, epoch, hold_ms)
    meta = _meta(ground)
    assert [str(first_ms), "2", "gen-one"] == [meta[name] for name in ("doubt", "epoch", "gen")]
    assert ["1-1", "2-2"] == [entry.id for entry in ground.entries()]


@pytest.mark.parametrize(
    ("daemon", "lease_ms", "px", "word"),
    [
        ("one", LEASE_MS, LEASE_MS, f"one:2:{LEASE_MS}:n2"),  # which holds it already
        ("two", 60_000, 60_000, "BUSY"),  # configured so long
        ("two", LEASE_MS, 3_600_000, f"two:2:{LEASE_MS}:n2"),  # impossible times to live
        ("two", LEASE_MS, None, f"two:2:{LEASE_MS}:n2"),
    ],
)
def test_a_lease_is_taken_over_by_its_holder_or_if_its_time_to_live_is_impossible(
    ground: Ground, daemon: str, lease_ms: int, px: int | None, word: str
) -> None:
    token, *_ = _acquire(ground, "one", lease_ms=lease_ms)
    ground.redis.set(ground.keys.lease(), token, px=px)

    assert word == _acquire(ground, daemon, "n2")[0]


def test_a_term_on_another_server_sets_doubt_and_hold(ground: Ground) -> None:
    _acquire(ground, "one")
    ground.redis.delete(ground.keys.lease())
    ground.redis.hset(ground.keys.meta(), mapping={"doubt": 5, "hold": 5})

    _, _, now_ms, hold_ms, _ = _acquire(ground, "two", "n2", server_id="s2")

    meta = _meta(ground)
    assert ["s2", str(now_ms), str(now_ms + LEASE_MS)] == [meta[name] for name in ("server", "doubt", "hold")]
    assert (now_ms + LEASE_MS, "gen-one") == (hold_ms, meta["gen"])


def test_the_next_epoch_is_above_the_log_when_meta_was_lost(ground: Ground) -> None:
    _acquire(ground, "one")
    ground.put(("a", "+60000"))
    ground.redis.delete(ground.keys.lease(), ground.keys.meta())

    _, epoch, *_ = _acquire(ground, "two", "n2")

    assert 2 == epoch
    assert ["1-1", "1-2", "2-3"] == [entry.id for entry in ground.entries()]
    assert "3" == _meta(ground)["seq"]


def test_a_rolled_back_redis_repeats_an_epoch_but_never_a_token(ground: Ground) -> None:
    first = _acquire(ground, "one", "n1")
    ground.redis.flushall()

    again = _acquire(ground, "one", "n2")

    assert first[1] == again[1]
    assert first[0] != again[0]


def test_acquire_is_refused_where_a_test_moved_the_clock(ground: Ground) -> None:
    ground.redis.hset(ground.keys.meta(), "offset_ms", 0)

    assert ["OFFSET"] == _acquire(ground)
    assert [] == ground.entries()


def test_a_renewed_lease_has_its_full_length_again(ground: Ground) -> None:
    token, *_ = _acquire(ground)
    ground.redis.pexpire(ground.keys.lease(), LEASE_MS // 2)

    [now_ms] = ground.call("renew", token=token, expected_server="s1", lease_ms=LEASE_MS)

    assert LEASE_MS // 2 < ground.redis.pttl(ground.keys.lease())
    assert now_ms <= ground.server_ms
    assert 1 == len(ground.entries())


def test_only_the_holder_on_its_server_renews_and_a_lapsed_lease_is_not_revived(ground: Ground) -> None:
    token, *_ = _acquire(ground)
    ground.redis.pexpire(ground.keys.lease(), LEASE_MS)

    with pytest.raises(Stale):
        ground.call("renew", token=f"two:1:{LEASE_MS}:n9", expected_server="s1", lease_ms=60_000)
    with pytest.raises(ServerChanged):
        ground.call("renew", token=token, expected_server="s2", lease_ms=60_000)
    assert ground.redis.pttl(ground.keys.lease()) <= LEASE_MS

    ground.redis.delete(ground.keys.lease())
    with pytest.raises(Stale):
        ground.call("renew", token=token, expected_server="s1", lease_ms=LEASE_MS)
    assert 0 == ground.redis.exists(ground.keys.lease())


def test_releasing_a_lease_deletes_it_and_wakes_the_standby(ground: Ground) -> None:
    token, *_ = _acquire(ground)

    with ground.heard(ground.keys.wake()) as heard:
        assert [] == ground.call("release", token=token)

    assert [b"lease"] == heard
    assert 2 == _acquire(ground, "two", "n2")[1]


def test_only_the_holder_releases(ground: Ground) -> None:
    token, *_ = _acquire(ground)

    with pytest.raises(Stale):
        ground.call("release", token=f"two:1:{LEASE_MS}:n9")
    assert token.encode() == ground.redis.get(ground.keys.lease())


# -- the names of a data set -------------------------------------------------------------------------


@pytest.fixture
def nameless(led: Ground) -> Ground:
    """A namespace with a leader in the first term of a complete log, with doubt and hold."""
    led.redis.hdel(led.keys.meta(), "gen")
    led.redis.hset(led.keys.meta(), mapping={"epoch": 1, "doubt": 5, "hold": 7})
    led.put(("a", "+60000"))
    return led


def _name(ground: Ground, gen: str = "new", is_new: int = 1, **over: Any) -> Any:
    return ground.call("name", **({"gen": gen, "is_new": is_new} | over))


def _named(ground: Ground, *fields: str) -> list[str | None]:
    return [value and value.decode() for value in ground.redis.hmget(ground.keys.meta(), fields)]


def _trim(ground: Ground) -> None:
    ground.put(("b", "+60000"))
    ground.trimmed = ground.redis.xtrim(ground.keys.log(), maxlen=1, approximate=False)


NAMED: dict[str, tuple[Callable[[Ground], Any], str, str | None]] = {  # and its name and doubt afterwards
    "new": (lambda ground: None, "new", None),
    "new beside an archive of another history": (lambda ground: None, "new", "5"),
    "in a later term": (lambda ground: ground.redis.hset(ground.keys.meta(), "epoch", 2), "new", "5"),
    "with a trimmed log": (_trim, "new", "5"),
    "with a name": (lambda ground: ground.redis.hset(ground.keys.meta(), "gen", "old"), "old", "5"),
}


@pytest.mark.parametrize("state", NAMED)
def test_only_a_new_data_set_loses_its_doubt_when_it_gets_a_name(nameless: Ground, state: str) -> None:
    prepare, name, doubt = NAMED[state]
    prepare(nameless)
    before = len(nameless.entries())

    assert [name] == _name(nameless, is_new=int("archive" not in state))
    assert [name, doubt, "7"] == _named(nameless, "gen", "doubt", "hold")
    assert before == len(nameless.entries())


@pytest.mark.parametrize(
    ("before", "after"), [(None, "mine"), ("mine", "mine"), ("old", "old mine"), ("mine2 old", "mine2 old mine")]
)
def test_a_data_set_that_adopted_another_has_both_names(ground: Ground, before: str | None, after: str) -> None:
    ground.redis.delete(ground.keys.meta())
    if before:
        ground.redis.hset(ground.keys.meta(), "gen", before)

    assert [after] == ground.call("adopt", gen="mine")
    assert [after] == ground.call("adopt", gen="mine")
    assert [after] == _named(ground, "gen")
