"""archived.lua: checks if an entry is on some archive's disk."""

from __future__ import annotations

import pytest

from tests.lua.ground import Entry, Ground

ALIVE_MS = 30_000


def _archived(ground: Ground, entry: Entry | None, **over: object) -> tuple[str, int]:
    """Return the word and the number of archives alive; without *entry* only the second counts."""
    at = {"entry": entry.id, "entry_ms": entry.t[:-3]} if entry else {"entry": "-", "entry_ms": 0}
    word, alive = ground.call("archived", **({"alive_ms": ALIVE_MS} | at | over))
    return word, alive


@pytest.fixture
def entries(ground: Ground) -> list[Entry]:
    """Twelve entries: seq 9 and 10 differ in length; epoch 9 begins with the fifth, epoch 10 with the ninth."""
    for n in range(12):
        if n in (4, 8):
            ground.redis.hset(ground.keys.meta(), "epoch", {4: 9, 8: 10}[n])
        ground.put((f"id-{n}", "+60000"))
    return ground.entries()


def test_an_entry_is_not_archived_before_an_archive_has_reported(ground: Ground, entries: list[Entry]) -> None:
    assert ("waiting", 0) == _archived(ground, entries[0])


@pytest.mark.parametrize("asked", range(12))
def test_an_entry_is_archived_when_that_entry_or_a_later_one_was_reported(
    ground: Ground, entries: list[Entry], asked: int
) -> None:
    words = []
    for entry in entries:
        ground.report("archive-1", entry)
        words.append(_archived(ground, entries[asked])[0])

    assert ["waiting"] * asked + ["archived"] * (12 - asked) == words


def test_an_entry_is_archived_when_one_of_several_archives_has_it(ground: Ground, entries: list[Entry]) -> None:
    ground.report("behind", entries[2])
    ground.report("ahead", entries[6])
    ground.report("empty", None)

    assert ("archived", 3) == _archived(ground, entries[6])
    assert ("waiting", 3) == _archived(ground, entries[7])


def test_only_an_archive_that_follows_and_reported_recently_is_alive(ground: Ground, entries: list[Entry]) -> None:
    ground.report("silent", entries[0])
    ground.pass_time(ALIVE_MS + 1000)
    ground.report("following", entries[0])
    for state in ("bootstrapping", "failed", "refused", "outdated", "stopped"):
        ground.report(state, entries[0], state=state)

    assert ("waiting", 1) == _archived(ground, None)
    assert ("waiting", 2) == _archived(ground, None, alive_ms=2 * ALIVE_MS)


def test_an_archive_is_alive_again_once_it_reports_after_the_clock_was_set_back(ground: Ground) -> None:
    ground.report("archive-1")
    ground.pass_time(-60_000)

    assert 0 == _archived(ground, None)[1]
    ground.report("archive-1")
    assert 1 == _archived(ground, None)[1]


def test_an_entry_stays_archived_when_its_archive_is_silent_or_failed(ground: Ground, entries: list[Entry]) -> None:
    ground.report("archive-1", entries[3], state="failed")
    ground.pass_time(10 * ALIVE_MS)

    assert ("archived", 0) == _archived(ground, entries[3])


def test_an_entry_that_the_log_does_not_have_is_lost(ground: Ground, entries: list[Entry]) -> None:
    gone = Entry("10-13", "put", entries[-1].t, [])
    ground.report("archive-1", gone)

    assert ("LOST", 1) == _archived(ground, gone)


def test_an_entry_with_another_time_is_of_another_history_and_lost(ground: Ground, entries: list[Entry]) -> None:
    ground.report("archive-1", entries[5])
    other_ms = int(entries[5].t[:-3]) - 1

    assert ("LOST", 1) == _archived(ground, entries[5], entry_ms=other_ms)


def test_a_trimmed_entry_is_lost(ground: Ground, entries: list[Entry]) -> None:
    ground.report("archive-1", entries[-1])
    ground.trimmed = ground.redis.xtrim(ground.keys.log(), minid=entries[4].id, approximate=False)

    assert "LOST" == _archived(ground, entries[3])[0]
    assert "archived" == _archived(ground, entries[4])[0]


@pytest.mark.parametrize(
    ("entry", "entry_t"), [("10-11", "1767225600000000"), ("10-13", "1767225600000000"), ("77-1", "1")]
)
def test_a_report_of_another_history_archives_nothing(
    ground: Ground, entries: list[Entry], entry: str, entry_t: str
) -> None:
    ground.report("archive-1", Entry(entry, "put", entry_t, []))

    assert ("waiting", 1) == _archived(ground, entries[0])


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "x 0 0 following {}", "1-x 5 5 following {}", "10-12 a b following", "-1-5 1 1 following {}",
        "99999999999999999999-1 1 1 following {}",
    ],
)  # fmt: skip
def test_a_corrupted_report_hides_no_other_report(ground: Ground, entries: list[Entry], text: str) -> None:
    ground.redis.hset(ground.keys.archivers(), "foreign", text)
    ground.report("archive-1", entries[6])

    assert "archived" == _archived(ground, entries[6])[0]
    assert "waiting" == _archived(ground, entries[7])[0]


def test_asking_for_archived_entries_writes_nothing(ground: Ground, entries: list[Entry]) -> None:
    ground.report("archive-1", entries[6])
    before = ground.keyspace()

    _archived(ground, entries[6])

    assert before == ground.keyspace()
