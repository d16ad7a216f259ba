"""trim.lua: deletes the oldest part of the log. Redis deletes node by node, of at most 100 entries."""

from __future__ import annotations

from tests.lua.ground import HOUR_MS, Ground

NODE = 100  # stream-node-max-entries


def _fill(ground: Ground, number: int) -> None:
    for n in range(number):
        ground.put((f"id-{n}", "+60000"))


def test_trimming_keeps_the_named_entry_and_all_later_entries(led: Ground) -> None:
    _fill(led, 350)
    all_ids = [entry.id for entry in led.entries()]

    forgotten = led.trim("7-320")

    left = [entry.id for entry in led.entries()]
    assert 319 - NODE < forgotten <= 319
    assert all_ids[forgotten:] == left


def test_a_trim_removes_at_most_its_limit_and_the_next_trim_continues(led: Ground) -> None:
    _fill(led, 650)

    forgotten = [led.trim("7-600", limit=200) for _ in range(4)]

    assert [True, True, True] == [200 - NODE < number <= 200 for number in forgotten[:3]]
    assert 599 - NODE < sum(forgotten) <= 599


def test_the_last_entry_stays_when_it_is_the_one_to_keep(led: Ground) -> None:
    _fill(led, 250)

    led.trim(led.last.id)

    assert "7-250" == led.last.id


def test_entries_of_earlier_epochs_are_trimmed_whatever_their_seq(led: Ground) -> None:
    _fill(led, 250)
    led.redis.hset(led.keys.meta(), "epoch", 10)
    _fill(led, 250)

    forgotten = led.trim("10-251")

    assert 250 - NODE < forgotten <= 250


def test_an_empty_log_stays_empty(led: Ground) -> None:
    assert 0 == led.trim("7-1")
    assert 0 == led.redis.exists(led.keys.log())


def test_trimming_is_not_logged_and_changes_nothing_but_the_log(led: Ground) -> None:
    _fill(led, 250)
    before = led.keyspace()

    led.trim("7-250")

    log = led.keys.log().encode()
    assert {key: value for key, value in before.items() if key != log} == {
        key: value for key, value in led.keyspace().items() if key != log
    }
    assert "put" == led.last.kind


def test_reports_of_long_silent_archives_are_deleted(led: Ground) -> None:
    led.report("silent")
    led.pass_time(HOUR_MS)
    led.report("alive")
    led.pass_time(HOUR_MS // 2)

    led.trim("7-1", silent_ms=HOUR_MS)

    assert [b"alive"] == led.redis.hkeys(led.keys.archivers())


def test_the_report_of_an_archive_silent_for_exactly_the_limit_is_kept(led: Ground) -> None:
    led.report("silent")
    led.pass_time(HOUR_MS)

    led.trim("7-1", silent_ms=HOUR_MS)
    assert [b"silent"] == led.redis.hkeys(led.keys.archivers())
    led.pass_time(1)
    led.trim("7-1", silent_ms=HOUR_MS)

    assert [] == led.redis.hkeys(led.keys.archivers())


def test_corrupted_reports_are_deleted(led: Ground) -> None:
    led.report("alive")
    led.redis.hset(led.keys.archivers(), mapping={"foreign": "nonsense", "empty": "", "no number": "1-1 5 x following"})

    led.trim("7-1")

    assert [b"alive"] == led.redis.hkeys(led.keys.archivers())
