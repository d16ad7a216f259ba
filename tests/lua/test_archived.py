"""report.lua, archived.lua and trim.lua: the position of an archive, and the part of the log that is deleted."""

import pytest

from tests.builders.entries import LogEntry
from tests.builders.namespaces import HOUR_MS, Namespace

# -- report ------------------------------------------------------------------------------------------


def _reports(ns: Namespace) -> dict[str, str]:
    held = ns.redis.hgetall(ns.keys.archivers())
    return {archive.decode(): text.decode() for archive, text in held.items()}


def test_a_report_is_one_line_with_the_servers_time(ns: Namespace) -> None:
    ns.put(("a", "+1000"))

    told_ms = ns.report("archive-1", ns.last, about='{"host": "näme", "path": "/a b"}')

    entry = ns.last
    line = f'{entry.id} {entry.t} {told_ms} following {{"host": "näme", "path": "/a b"}}'
    assert {"archive-1": line} == _reports(ns)


def test_the_report_of_an_empty_archive_has_the_time_of_the_scripts_clock_and_no_entry(ns: Namespace) -> None:
    ns.freeze(1_800_000_000_000)
    before = ns.keyspace()

    assert 1_800_000_000_000 == ns.report("archive-1", None, state="bootstrapping")

    assert {"archive-1": "- 0 1800000000000 bootstrapping {}"} == _reports(ns)
    assert {ns.keys.archivers().encode()} == ns.keyspace().keys() - before.keys()


def test_a_report_replaces_only_the_last_report_of_its_own_archive(ns: Namespace) -> None:
    ns.put(("a", "+1000"))
    first = ns.last
    ns.report("archive-1", first)
    other_ms = ns.report("archive-2", first)
    ns.put(("b", "+1000"))

    told_ms = ns.report("archive-1", ns.last, state="failed")

    of_one = f"{ns.last.id} {ns.last.t} {told_ms} failed {{}}"
    of_two = f"{first.id} {first.t} {other_ms} following {{}}"
    assert {"archive-1": of_one, "archive-2": of_two} == _reports(ns)


# -- archived ----------------------------------------------------------------------------------------


ALIVE_MS = 30_000


def _archived(ns: Namespace, entry: LogEntry | None, **over: object) -> tuple[str, int]:
    """Return the word and the number of archives alive; without *entry* only the second counts."""
    at = {"entry": entry.id, "entry_ms": entry.t[:-3]} if entry else {"entry": "-", "entry_ms": 0}
    word, alive = ns.call("archived", **({"alive_ms": ALIVE_MS, "is_before": ""} | at | over))
    return word, alive


@pytest.fixture
def entries(ns: Namespace) -> list[LogEntry]:
    """Twelve entries: seq 9 and 10 differ in length; epoch 9 begins with the fifth, epoch 10 with the ninth."""
    for n in range(12):
        if n in (4, 8):
            ns.redis.hset(ns.keys.meta(), "epoch", {4: 9, 8: 10}[n])
        ns.put((f"id-{n}", "+60000"))
    return ns.entries()


@pytest.mark.parametrize("asked", range(12))
def test_an_entry_is_archived_if_it_or_a_later_was_reported(ns: Namespace, entries: list[LogEntry], asked: int) -> None:
    words = []
    for entry in entries:
        ns.report("archive-1", entry)
        words.append(_archived(ns, entries[asked])[0])

    assert ["waiting"] * asked + ["archived"] * (12 - asked) == words


def test_an_entry_is_archived_when_one_of_several_archives_has_it(ns: Namespace, entries: list[LogEntry]) -> None:
    assert ("waiting", 0) == _archived(ns, entries[0])
    ns.report("behind", entries[2])
    ns.report("ahead", entries[6])
    ns.report("empty", None)
    before = ns.keyspace()

    assert ("archived", 3) == _archived(ns, entries[6])
    assert ("waiting", 3) == _archived(ns, entries[7])
    assert before == ns.keyspace()


def test_only_an_archive_that_follows_and_reported_recently_is_alive(ns: Namespace, entries: list[LogEntry]) -> None:
    ns.report("silent", entries[0])
    ns.pass_time(ALIVE_MS + 1000)
    ns.report("following", entries[0])
    for state in ("bootstrapping", "failed", "refused", "outdated", "stopped"):
        ns.report(state, entries[0], state=state)

    assert ("waiting", 1) == _archived(ns, None)
    assert ("waiting", 2) == _archived(ns, None, alive_ms=2 * ALIVE_MS)


def test_an_archive_is_alive_again_once_it_reports_after_the_clock_was_set_back(ns: Namespace) -> None:
    ns.report("archive-1")
    ns.pass_time(-60_000)

    assert 0 == _archived(ns, None)[1]
    ns.report("archive-1")
    assert 1 == _archived(ns, None)[1]


def test_an_entry_stays_archived_when_its_archive_is_silent_or_failed(ns: Namespace, entries: list[LogEntry]) -> None:
    ns.report("archive-1", entries[3], state="failed")
    ns.pass_time(10 * ALIVE_MS)

    assert ("archived", 0) == _archived(ns, entries[3])


@pytest.mark.parametrize("which", ["never written", "of another history", "trimmed"])
def test_an_entry_that_the_log_does_not_have_is_lost(ns: Namespace, entries: list[LogEntry], which: str) -> None:
    entry = LogEntry("10-13", "put", entries[-1].t, []) if which == "never written" else entries[3]
    other_time = {"entry_ms": int(entry.t[:-3]) - 1} if which == "of another history" else {}
    ns.report("archive-1", entry if which == "never written" else entries[-1])
    if which == "trimmed":
        ns.trimmed = ns.redis.xtrim(ns.keys.log(), minid=entries[4].id, approximate=False)

    assert ("LOST", 1) == _archived(ns, entry, **other_time)
    assert ("waiting" if which == "never written" else "archived", 1) == _archived(ns, entries[4])


def test_the_entry_before_another_is_archived_waiting_or_of_another_history(
    ns: Namespace, entries: list[LogEntry]
) -> None:
    ns.report("archive-1", entries[8])

    def before(n: int, **over: object) -> str:
        return _archived(ns, entries[n], **({"is_before": "1"} | over))[0]

    assert ["LOST", *["archived"] * 9, "waiting", "waiting"] == [before(n) for n in range(12)]
    assert "LOST" == before(9, entry_ms=int(entries[8].t[:-3]) - 1)
    later = LogEntry("10-99", "put", entries[9].t, [])
    assert ("LOST", 1) == _archived(ns, later, is_before="1")


@pytest.mark.parametrize(
    ("entry", "entry_t"), [("10-11", "1767225600000000"), ("10-13", "1767225600000000"), ("77-1", "1")]
)
def test_a_report_of_another_log_counts_nothing(
    ns: Namespace, entries: list[LogEntry], entry: str, entry_t: str
) -> None:
    ns.report("archive-1", LogEntry(entry, "put", entry_t, []))

    assert ("waiting", 1) == _archived(ns, entries[0])


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "x 0 0 following {}", "1-x 5 5 following {}", "10-12 a b following", "-1-5 1 1 following {}",
        "99999999999999999999-1 1 1 following {}",
    ],
)  # fmt: skip
def test_a_corrupted_report_hides_no_other_report(ns: Namespace, entries: list[LogEntry], text: str) -> None:
    ns.redis.hset(ns.keys.archivers(), "foreign", text)
    ns.report("archive-1", entries[6])

    assert "archived" == _archived(ns, entries[6])[0]
    assert "waiting" == _archived(ns, entries[7])[0]


# -- trim --------------------------------------------------------------------------------------------


NODE = 100  # stream-node-max-entries


def _fill(ns: Namespace, number: int) -> None:
    for n in range(number):
        ns.put((f"id-{n}", "+60000"))


@pytest.mark.parametrize("kept", [320, 350])  # the last one
def test_trimming_keeps_the_named_entry_and_all_later_entries(led: Namespace, kept: int) -> None:
    assert (0, 0) == (led.trim("7-1"), led.redis.exists(led.keys.log()))
    _fill(led, 350)
    all_ids = [entry.id for entry in led.entries()]

    forgotten = led.trim(f"7-{kept}")

    assert kept - 1 - NODE < forgotten <= kept - 1
    assert all_ids[forgotten:] == [entry.id for entry in led.entries()]


def test_a_trim_removes_at_most_its_limit_and_the_next_trim_continues(led: Namespace) -> None:
    _fill(led, 650)

    forgotten = [led.trim("7-600", limit=200) for _ in range(4)]

    assert [True, True, True] == [200 - NODE < number <= 200 for number in forgotten[:3]]
    assert 599 - NODE < sum(forgotten) <= 599


def test_entries_of_earlier_epochs_are_trimmed_whatever_their_seq(led: Namespace) -> None:
    _fill(led, 250)
    led.redis.hset(led.keys.meta(), "epoch", 10)
    _fill(led, 250)

    forgotten = led.trim("10-251")

    assert 250 - NODE < forgotten <= 250


def test_trimming_is_not_logged_and_changes_nothing_but_the_log(led: Namespace) -> None:
    _fill(led, 250)
    before = led.keyspace()

    led.trim("7-250")

    log = led.keys.log().encode()
    assert {key: value for key, value in before.items() if key != log} == {
        key: value for key, value in led.keyspace().items() if key != log
    }
    assert "put" == led.last.kind


def test_the_report_of_an_archive_that_is_silent_for_longer_than_the_limit_is_deleted(led: Namespace) -> None:
    led.report("silent")
    led.pass_time(HOUR_MS // 2)
    led.report("alive")
    led.pass_time(HOUR_MS // 2)

    led.trim("7-1", silent_ms=HOUR_MS)
    assert {b"silent", b"alive"} == set(led.redis.hkeys(led.keys.archivers()))
    led.pass_time(1)
    led.trim("7-1", silent_ms=HOUR_MS)

    assert [b"alive"] == led.redis.hkeys(led.keys.archivers())


def test_corrupted_reports_are_deleted(led: Namespace) -> None:
    led.report("alive")
    led.redis.hset(led.keys.archivers(), mapping={"foreign": "nonsense", "empty": "", "no number": "1-1 5 x following"})

    led.trim("7-1")

    assert [b"alive"] == led.redis.hkeys(led.keys.archivers())
