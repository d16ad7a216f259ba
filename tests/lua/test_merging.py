"""restore.lua, merged.lua and report.lua's hold, as a merge calls them: not past the log's end, and under a hold."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.namespaces import HOUR_MS, LEASE_MS, Namespace
from tests.builders.records import DUE_MS, one_shot, open_run, rule
from tests.lua.restoring import hold, merged, restore, seen
from tests.prefix import RQ
from tests.unit.core.log.test_kinds import TOUCHED
from zsched.core.entry import Position
from zsched.storage.scripts import load


@pytest.mark.parametrize("other", [{"seen_entry": "7-99"}, {"seen_t": "5"}, {"seen_entry": "-", "seen_t": 0}])
@pytest.mark.parametrize("call", [lambda g, **o: restore(g, one_shot(), rule(), **o), merged])
def test_a_merge_is_refused_if_the_log_grew_since_the_comparison(
    led: Namespace, call: Any, other: dict[str, Any]
) -> None:
    led.put(("b", "+1000"))
    before = led.keyspace()

    reply = call(led, **other)

    assert "AGAIN" == reply[0]
    assert before == led.keyspace()


# What the table of core does not have: other rows than the first, names that are alike, entries without ids.
BEHIND: dict[str, tuple[tuple[str, ...], bool]] = {  # texts of an entry, and whether it touches schedule a
    "another put": (("put", "lane", "low", "fields", "0", "rows", "1", "b", "5", "data", "x"), False),
    "another rule": (("put_recurring", "shapes", "0", "rows", "1", "a-1", "1 5", "data", "x"), False),
    "another fire": (("fire", "runs", f"a-1-{DUE_MS} ab-{DUE_MS}"), False),
    "a fire of a namespace": (("fire", "runs", f"a-{DUE_MS}-nshop"), True),
    "a quarantine": (("quarantine", "rows", "2", "b", "low 5", "", "why", "a", "low 5", "", "why"), True),
    "an enqueue": (("enqueue", "rows", "2", f"b-{DUE_MS}", "0 1 -", "x", "y", f"a-{DUE_MS}-r2", "0 0 -"), True),
    "a released run": (("unblock", "rows", "2", f"b-{DUE_MS}", "why", f"a-{DUE_MS}", "why"), True),
    "another released run": (("unblock", "rows", "1", f"b-{DUE_MS}", f"a-{DUE_MS} was stopped"), False),
    **{f"a {verb}": ((verb, "rows", "2", "b", "low 5", "a", "low 5"), True) for verb in ("cancel", "pause", "resume")},
    "a term, which says no ids": (("term", "daemon", "d", "server", "s"), True),
    "arguments that name it": (
        ("put", "lane", "a", "fields", "1", "x", "a", "rows", "1", "b", "5", "data", "a"),
        False,
    ),
    "another archive's restore": (("restore", "reason", "lost", "archive", "archive-2", "rows", "0"), True),
    "a merge": (("merged", "archive", "archive-2", "rows", "1", "1-1", "5"), True),
    "something unknown": (("teleport", "to", "b"), True),
}


@pytest.mark.parametrize("what", BEHIND)
@pytest.mark.parametrize("is_own", [False, True])
def test_a_later_entry_refuses_a_restore_only_if_it_changes_a_restored_schedule(
    led: Namespace, what: str, is_own: bool
) -> None:
    (kind, *texts), touches = BEHIND[what]

    assert touches == is_compared_again(led, "a", ["kind", kind, "t", str(led.now_ms * 1000), *texts], is_own=is_own)


@pytest.mark.parametrize("name", TOUCHED)
def test_lua_finds_the_changed_schedules_in_every_kind_of_entry(led: Namespace, name: str) -> None:
    given = TOUCHED[name][0]
    ids = {key[0] for key in TOUCHED[name][1]}

    assert all(is_compared_again(led, id, given.texts) for id in ids)
    assert not ids or not is_compared_again(led, "nobody", given.texts)


def is_compared_again(led: Namespace, id: str, texts: Sequence[str | bytes], *, is_own: bool = False) -> bool:
    """
    Return whether an entry of *texts* after the comparison prevents the restore of schedule *id*. *is_own*: the entry
    before it is a restore, whose id and time meta has.
    """
    if is_own:
        restore(led, one_shot(id="first"))
    else:
        led.put(("first", "+1000"))
    compared = seen(led)
    epoch, seq = led.last.id.split("-")
    led.redis.execute_command("XADD", led.keys.log(), f"{epoch}-{int(seq) + 1}", *texts)
    led.redis.hset(led.keys.meta(), "seq", int(seq) + 1)
    is_again = restore(led, one_shot(id=id), **compared)[0] == "AGAIN"
    assert is_again == (id not in led.places())
    return is_again


@pytest.mark.parametrize(("number", "is_much"), [(100, False), (101, True)])
def test_a_restore_is_refused_when_too_many_entries_came_later(led: Namespace, number: int, is_much: bool) -> None:
    led.put(("first", "+1000"))
    compared = seen(led)
    for n in range(number):
        led.put((f"b{n}", "+1000"))

    assert is_much == (restore(led, one_shot(), **compared)[0] == "AGAIN")


def test_a_restore_is_refused_when_the_log_became_empty(led: Namespace) -> None:
    before = led.keyspace()

    assert "AGAIN" == restore(led, one_shot(), seen_entry="7-1", seen_t=5)[0]
    assert before == led.keyspace()


def test_a_restore_after_a_restore_is_refused_when_the_log_became_empty_between_them(led: Namespace) -> None:
    restore(led, one_shot(id="b"))
    compared = seen(led)
    led.redis.delete(led.keys.log())
    before = led.keyspace()

    assert "AGAIN" == restore(led, one_shot(), **compared)[0]
    assert before == led.keyspace()


def test_a_restore_after_a_restore_reads_only_later_entries(led: Namespace) -> None:
    def reads_of(id: str) -> int:
        led.redis.config_resetstat()
        restore(led, one_shot(id=id))
        return int(led.redis.info("commandstats")["cmdstat_xrange"]["calls"])

    led.put(("b", "+1000"))
    after_a_put, after_a_restore = reads_of("a"), reads_of("c")

    assert {"a", "b", "c"} == led.places().keys()
    assert after_a_put - 1 == after_a_restore


def test_a_restore_is_refused_when_the_last_restore_has_that_id_and_another_time(led: Namespace) -> None:
    restore(led, one_shot(id="b"))

    assert "AGAIN" == restore(led, one_shot(), seen_t="5")[0]


def test_a_restore_holds_fire(led: Namespace) -> None:
    led.put(("b", 5), allow_past=1)

    restore(led, one_shot())

    assert ["HELD", hold(led)] == led.fire_reply()[::2]
    led.pass_time(LEASE_MS)
    assert 1 == led.fire().runs


@pytest.mark.parametrize("how", ["restore", "report"])
def test_a_hold_is_never_shortened_and_an_impossible_hold_is_replaced(led: Namespace, how: str) -> None:
    def hold_for(ms: int) -> None:
        restore(led, one_shot(), hold_for_ms=ms) if how == "restore" else led.report(hold_for_ms=ms)

    hold_for(0)
    assert 0 == hold(led)
    hold_for(2000)
    first = hold(led)
    assert led.now_ms + 2000 == first
    hold_for(1500)
    assert first == hold(led)
    led.redis.hset(led.keys.meta(), "hold", led.now_ms + HOUR_MS)
    hold_for(2000)
    assert led.now_ms + 2000 == hold(led)


def test_a_restore_wakes_a_sleeping_daemon(led: Namespace) -> None:
    with led.heard(led.keys.wake()) as heard:
        restore(led, one_shot(id="b", due_ms=DUE_MS + 5), one_shot(), one_shot("paused", "p", note="5 "))

    assert [str(DUE_MS).encode()] == heard


def test_a_merged_entry_lists_the_histories_that_redis_contains(led: Namespace) -> None:
    reply = merged(led, Position(1, 2, 3), Position(4, 5, 6))

    assert [led.last.id, led.last.t] == reply[1:]
    assert ({"archive": "archive-1"}, ["1-2 3", "4-5 6"]) == (led.last.fields, led.last.rows)
    assert 0 == hold(led)


def test_a_merged_entry_can_be_written_into_an_empty_redis(ns: Namespace) -> None:
    merged(ns, Position(1, 2, 3))

    assert ("0-1", "merged") == (ns.last.id, ns.last.kind)


def test_a_run_is_restored_without_a_set_of_queues(led: Namespace) -> None:
    led.redis.set(f"{RQ}:queues", "a text")

    restore(led, one_shot(), open_run(id="c"))

    assert [f"c-{DUE_MS}"] == led.queue()


def test_a_restorer_needs_no_lease() -> None:
    assert not {"lease"} & {key for name in ("restore", "merged", "report") for key in load(name).keys}
