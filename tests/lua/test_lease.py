"""acquire.lua, renew.lua, release.lua, name.lua and adopt.lua: the terms of daemons, and the names of a data set."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.namespaces import LEASE_MS, Namespace
from tests.prefix import RQ
from zsched.core.entry import FORMAT
from zsched.errors import ServerChanged, Stale


def _acquire(ns: Namespace, daemon: str = "one", nonce: str = "n1", **over: Any) -> list[Any]:
    arguments = {"server_id": "s1", "lease_ms": LEASE_MS}
    return ns.call("acquire", daemon=daemon, nonce=nonce, **(arguments | over))


def _meta(ns: Namespace) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in ns.redis.hgetall(ns.keys.meta()).items()}


def test_the_first_term_on_a_new_redis_begins_with_doubt_and_hold(ns: Namespace) -> None:
    token, epoch, now_ms, hold_ms, _ = _acquire(ns)

    assert (f"one:1:{LEASE_MS}:n1", 1, now_ms + LEASE_MS) == (token, epoch, hold_ms)
    expected = {
        "epoch": "1", "seq": "1", "server": "s1", "doubt": str(now_ms), "hold": str(hold_ms),
        "format": str(FORMAT), "rq_prefix": RQ,
    }  # fmt: skip
    assert expected == _meta(ns)
    assert token.encode() == ns.redis.get(ns.keys.lease())
    assert 0 < ns.redis.pttl(ns.keys.lease()) <= LEASE_MS


def test_a_new_term_writes_a_term_entry_and_entries_before_it_are_in_epoch_zero(ns: Namespace) -> None:
    ns.put(("a", "+60000"))

    _, _, now_ms, *_ = _acquire(ns)

    entry = ns.last
    expected = {"daemon": "one", "server": "s1", "format": str(FORMAT)}
    assert ("1-2", "term", expected) == (entry.id, entry.kind, entry.fields)
    assert entry.t.startswith(str(now_ms))
    ns.put(("b", "+60000"))
    assert ["0-1", "1-2", "1-3"] == [entry.id for entry in ns.entries()]


def test_a_held_lease_is_busy_and_nothing_is_written(ns: Namespace) -> None:
    _acquire(ns, "one")
    before = ns.keyspace()

    word, now_ms, left_ms = _acquire(ns, "two", "n2")

    assert "BUSY" == word
    assert now_ms <= ns.server_ms
    assert 0 <= LEASE_MS - left_ms <= ns.server_ms - ns.began_ms
    assert before.keys() == ns.keyspace().keys()
    assert 1 == len(ns.entries())


def test_a_takeover_on_the_same_server_raises_the_epoch_without_hold_or_doubt(ns: Namespace) -> None:
    _, _, first_ms, first_hold_ms, _ = _acquire(ns, "one")
    ns.redis.delete(ns.keys.lease())

    token, epoch, _, hold_ms, _ = _acquire(ns, "two", "n2")

    assert (f"two:2:{LEASE_MS}:n2", 2, first_hold_ms) == (token, epoch, hold_ms)
    meta = _meta(ns)
    assert [str(first_ms), "2"] == [meta[name] for name in ("doubt", "epoch")]
    assert ["1-1", "2-2"] == [entry.id for entry in ns.entries()]


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
    ns: Namespace, daemon: str, lease_ms: int, px: int | None, word: str
) -> None:
    token, *_ = _acquire(ns, "one", lease_ms=lease_ms)
    ns.redis.set(ns.keys.lease(), token, px=px)

    assert word == _acquire(ns, daemon, "n2")[0]


def test_a_term_on_another_server_sets_doubt_and_hold(ns: Namespace) -> None:
    _acquire(ns, "one")
    ns.redis.delete(ns.keys.lease())
    ns.redis.hset(ns.keys.meta(), mapping={"doubt": 5, "hold": 5})

    _, _, now_ms, hold_ms, _ = _acquire(ns, "two", "n2", server_id="s2")

    meta = _meta(ns)
    assert ["s2", str(now_ms), str(now_ms + LEASE_MS)] == [meta[name] for name in ("server", "doubt", "hold")]
    assert now_ms + LEASE_MS == hold_ms


def test_the_next_epoch_is_above_the_log_when_meta_was_lost(ns: Namespace) -> None:
    _acquire(ns, "one")
    ns.put(("a", "+60000"))
    ns.redis.delete(ns.keys.lease(), ns.keys.meta())

    _, epoch, *_ = _acquire(ns, "two", "n2")

    assert 2 == epoch
    assert ["1-1", "1-2", "2-3"] == [entry.id for entry in ns.entries()]
    assert "3" == _meta(ns)["seq"]


def test_a_rolled_back_redis_repeats_an_epoch_but_never_a_token(ns: Namespace) -> None:
    first = _acquire(ns, "one", "n1")
    ns.redis.flushall()

    again = _acquire(ns, "one", "n2")

    assert first[1] == again[1]
    assert first[0] != again[0]


def test_acquire_is_refused_where_a_test_moved_the_clock(ns: Namespace) -> None:
    ns.redis.hset(ns.keys.meta(), "offset_ms", 0)

    assert ["OFFSET"] == _acquire(ns)
    assert [] == ns.entries()


def test_a_renewed_lease_has_its_full_length_again(ns: Namespace) -> None:
    token, *_ = _acquire(ns)
    ns.redis.pexpire(ns.keys.lease(), LEASE_MS // 2)

    [now_ms] = ns.call("renew", token=token, expected_server="s1", lease_ms=LEASE_MS)

    assert LEASE_MS // 2 < ns.redis.pttl(ns.keys.lease())
    assert now_ms <= ns.server_ms
    assert 1 == len(ns.entries())


def test_only_the_holder_on_its_server_renews_and_a_lapsed_lease_is_not_revived(ns: Namespace) -> None:
    token, *_ = _acquire(ns)
    ns.redis.pexpire(ns.keys.lease(), LEASE_MS)

    with pytest.raises(Stale):
        ns.call("renew", token=f"two:1:{LEASE_MS}:n9", expected_server="s1", lease_ms=60_000)
    with pytest.raises(ServerChanged):
        ns.call("renew", token=token, expected_server="s2", lease_ms=60_000)
    assert ns.redis.pttl(ns.keys.lease()) <= LEASE_MS

    ns.redis.delete(ns.keys.lease())
    with pytest.raises(Stale):
        ns.call("renew", token=token, expected_server="s1", lease_ms=LEASE_MS)
    assert 0 == ns.redis.exists(ns.keys.lease())


def test_releasing_a_lease_deletes_it_and_wakes_the_standby(ns: Namespace) -> None:
    token, *_ = _acquire(ns)

    with ns.heard(ns.keys.wake()) as heard:
        assert [] == ns.call("release", token=token)

    assert [b"lease"] == heard
    assert 2 == _acquire(ns, "two", "n2")[1]


def test_only_the_holder_releases(ns: Namespace) -> None:
    token, *_ = _acquire(ns)

    with pytest.raises(Stale):
        ns.call("release", token=f"two:1:{LEASE_MS}:n9")
    assert token.encode() == ns.redis.get(ns.keys.lease())


# -- the names of a data set -------------------------------------------------------------------------


@pytest.fixture
def nameless(led: Namespace) -> Namespace:
    """A namespace with a leader in the first term of a complete log, with doubt and hold."""
    led.redis.hdel(led.keys.meta(), "gen")
    led.redis.hset(led.keys.meta(), mapping={"epoch": 1, "doubt": 5, "hold": 7})
    led.put(("a", "+60000"))
    return led


def _name(ns: Namespace, gen: str = "new", is_new: int = 1, **over: Any) -> Any:
    return ns.call("name", **({"gen": gen, "is_new": is_new} | over))


def _named(ns: Namespace, *fields: str) -> list[str | None]:
    return [value and value.decode() for value in ns.redis.hmget(ns.keys.meta(), fields)]


def _trim(ns: Namespace) -> None:
    ns.put(("b", "+60000"))
    ns.trimmed = ns.redis.xtrim(ns.keys.log(), maxlen=1, approximate=False)


NAMED: dict[str, tuple[Callable[[Namespace], Any], str, str | None]] = {  # and its name and doubt afterwards
    "new": (lambda ns: None, "new", None),
    "new beside an archive of another history": (lambda ns: None, "new", "5"),
    "after a loss": (lambda ns: ns.redis.hset(ns.keys.meta(), "lost", 5), "new", "5"),
    "in a later term": (lambda ns: ns.redis.hset(ns.keys.meta(), "epoch", 2), "new", "5"),
    "with a trimmed log": (_trim, "new", "5"),
    "with a name": (lambda ns: ns.redis.hset(ns.keys.meta(), "gen", "old"), "old", "5"),
}


@pytest.mark.parametrize("state", NAMED)
def test_only_a_new_data_set_loses_its_doubt_when_it_gets_a_name(nameless: Namespace, state: str) -> None:
    prepare, name, doubt = NAMED[state]
    prepare(nameless)
    before = len(nameless.entries())

    assert [name] == _name(nameless, is_new=int("archive" not in state))
    assert [name, doubt, "7"] == _named(nameless, "gen", "doubt", "hold")
    assert before == len(nameless.entries())


@pytest.mark.parametrize(
    ("before", "after"), [(None, "mine"), ("mine", "mine"), ("old", "old mine"), ("mine2 old", "mine2 old mine")]
)
def test_a_data_set_that_adopted_another_has_both_names(ns: Namespace, before: str | None, after: str) -> None:
    ns.redis.delete(ns.keys.meta())
    if before:
        ns.redis.hset(ns.keys.meta(), "gen", before)

    assert [after] == ns.call("adopt", gen="mine")
    assert [after] == ns.call("adopt", gen="mine")
    assert [after] == _named(ns, "gen")
