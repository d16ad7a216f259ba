"""The kinds of log entries: one class for each, which is all that a reader needs; and what an entry touches."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from tests.builders.entries import at, entry, put, put_recurring, restore, row_fields
from tests.builders.records import DUE_MS
from tests.states import state_of
from tests.unit.core.recovering import RUN, SUFFIX, T_US, one_shot
from zsched.archive import Archive, History
from zsched.core.entry import Entry, UnknownEntry
from zsched.core.log.kinds import KINDS, ParsedEntry, changes, kinds_telling, kinds_telling_only, parse, touches
from zsched.core.log.rows import OneShotsFired, Row
from zsched.core.occurrences.changes import Change, runs_of
from zsched.core.occurrences.outcomes import OUTCOMES, What
from zsched.core.occurrences.recent import LogCounter
from zsched.metrics.meter import LogTally, Names

NOW_MS = at(9).t_us // 1000
_LOGS = re.compile(r"^-- LOGS\s+(.*(?:\n--\s{8}.*)*)", re.MULTILINE)
FIRE = [
    "runs", f"a-{RUN} b-1-{RUN}", "uncertain", f"a-{RUN}", "skipped", f"c-{RUN}", "expired", f"x-{RUN}",
    "cancelled", f"d-{RUN}=canceled",
]  # fmt: skip
ADVANCE = row_fields(
    "advance",
    f"r fired {DUE_MS} {DUE_MS + 5} {DUE_MS + 9} -",
    f"s quarantined {DUE_MS} - - - no queue",
    f"m passed - {DUE_MS + 5} {DUE_MS + 9} missed:{DUE_MS - 5}:{DUE_MS}:2",
)
REPLAN = row_fields("replan", f"r {DUE_MS} {DUE_MS + 5} {DUE_MS + 6} -", f"s-1 {DUE_MS} 5 5 -")
END = row_fields("end", f"a-{RUN} succeeded {{}}", f"a-r-{RUN}-r1 failed {{}}")
AGAIN = row_fields("again", f"a-{RUN} 2 its worker died", f"a-r-{RUN}-r1 3 its worker died")
BAD = row_fields("quarantine", f"e low {DUE_MS} its hash is gone", "no-id! high 1.5 why not")

TOUCHED: dict[str, tuple[Entry, list[tuple[str, str]]]] = {
    "put": (put(7, "a", "b-1"), [(id, run) for id in ("a", "b-1") for run in ("", RUN)]),
    "put_recurring": (put_recurring(7, "r", "s"), [("r", ""), ("s", "")]),
    "enqueue": (entry(7, "enqueue", "rows", 1, f"a-1-{RUN}", "0 0 -"), [("a-1", ""), ("a-1", RUN)]),
    "run_now": (entry(7, "run_now", "id", "r", "run", f"r-{RUN}-r1", "last", 1), [("r", ""), ("r", f"{RUN}-r1")]),
    "backfill": (entry(7, "backfill", "id", "r", "runs", f"r-{RUN} r-{RUN}-r7"), [("r", RUN), ("r", f"{RUN}-r7")]),
    "fire": (entry(7, "fire", *FIRE), [(id, run) for id in ("a", "b-1", "c", "x", "d") for run in ("", RUN)]),
    "fire of nothing": (entry(7, "fire"), []),
    "advance": (entry(7, "advance", *ADVANCE), [("r", ""), ("r", RUN), ("s", ""), ("s", RUN), ("m", "")]),
    "quarantine": (entry(7, "quarantine", *BAD), [("e", "")]),
    "cancel": (entry(7, "cancel", "rows", 1, "a", DUE_MS), [("a", ""), ("a", RUN)]),
    "cancel of an ended one": (entry(7, "cancel", "rows", 1, "a", "-"), [("a", "")]),
    "pause": (entry(7, "pause", "note", "why", "rows", 1, "a", f"low {DUE_MS}"), [("a", "")]),
    "resume": (entry(7, "resume", "rows", 1, "a", f"low {DUE_MS}"), [("a", "")]),
    "skip": (entry(7, "skip", "note", "", "rows", 1, "r", f"skip {DUE_MS} 5 6 skip={DUE_MS} -"), [("r", "")]),
    "replan": (entry(7, "replan", "of", "tzdata", "old", "", "new", "2026a", *REPLAN), [("r", ""), ("s-1", "")]),
    "named_texts": (entry(7, "named_texts", *row_fields("named_texts", "calendar:kr 5 {}", "known_failure:a 6 -")), []),
    "state": (entry(7, "state", "rows", 2, "r", "failures=2,skips=1", "s", "-"), []),
    "end": (entry(7, "end", *END), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "again": (entry(7, "again", *AGAIN), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "stop": (entry(7, "stop", "runs", f"a-{RUN}"), [("a", RUN)]),
    "unblock": (entry(7, "unblock", "rows", 1, f"a-{RUN}", "a-1 was stopped"), [("a", RUN)]),
    "deadline": (entry(7, "deadline", *row_fields("deadline", f"a-{RUN} {DUE_MS} 1 failed", f"r-{RUN} 5 0 x")), []),
    "merged": (entry(7, "merged", "archive", "archive-1", "rows", 1, "1-2", "3"), []),
    "term": (entry(7, "term", "daemon", "d", "server", "s"), []),
}


@pytest.mark.parametrize("name", TOUCHED)
def test_an_entry_touches_the_schedules_and_runs_that_it_names(name: str) -> None:
    given, keys = TOUCHED[name]

    assert [(key, T_US) for key in keys] == list(touches(given, SUFFIX))


def test_a_restore_touches_its_rows_at_the_times_of_their_original_changes() -> None:
    given = restore(
        7,
        one_shot(t_us=5),
        one_shot("gone", "", t_us=6, id="r"),
        one_shot("open", t_us=7),
        one_shot("skipped", t_us=8, id="b"),
    )

    expected = [(("a", ""), 5), (("a", RUN), 5), (("r", ""), 6), (("a", RUN), 7), (("b", RUN), 8)]
    assert expected == list(touches(given, SUFFIX))


def test_every_kind_of_log_entry_is_in_the_table() -> None:
    logged = {name for name, kind in KINDS.items() if kind.is_logged}

    assert logged == {name.partition(" ")[0] for name in TOUCHED} | {"restore"}


BROKEN = [entry(7, "conjure"), entry(7, "put", "lane", "low"), entry(7, "pause"), entry(7, "run_now", "id", "r"),
          entry(7, "backfill", "runs", "r"),
          entry(7, "advance", "rows", 1, "r", "fired"), entry(7, "end", "rows", 1, "r"),
          entry(7, "again", "rows", 2, f"r-{RUN}", "2", "", "w"), entry(7, "quarantine", "row", "x"),
          entry(7, "cancel", "id", "a"), entry(7, "enqueue"), entry(7, "replan", "rows", 1, "r", "5 6"),
          entry(7, "restore", "reason", "lost", "archive", "x", "shapes", 0, "rows", 1, "a")]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.kind)
def test_a_malformed_entry_is_reported_as_unknown(broken: Entry) -> None:
    with pytest.raises(UnknownEntry):
        list(touches(broken, SUFFIX))


def test_every_kind_that_a_script_logs_has_a_class_and_every_class_a_script() -> None:
    scripts = [path for path in (resources.files("zsched") / "lua").iterdir() if path.name.endswith(".lua")]
    headers = [header for path in scripts for header in _LOGS.findall(path.read_text())]
    logged = {kind for header in headers for kind in re.findall(r"^(?:--\s+)?([a-z_]+):", header, re.MULTILINE)}

    assert {name for name, kind in KINDS.items() if kind.is_logged} == logged - {"nothing"}


def test_a_second_class_for_a_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="'put'"):

        class _Another(ParsedEntry, kind="put"):
            pass


@pytest.mark.parametrize("name", [*TOUCHED, "restore"])
def test_an_entry_touches_the_schedules_that_it_names(name: str) -> None:
    given = restore(7, one_shot(), one_shot("gone", "", t_us=6, id="r")) if name == "restore" else TOUCHED[name][0]

    told = {change.id for change in changes(given, SUFFIX)}

    touched = set() if given.kind == "deadline" else told  # it changes none of them: no history wins by it
    assert touched == {id for (id, _), _ in touches(given, SUFFIX)}
    assert told == {id for row in parse(given, SUFFIX).rows() for id in row.ids()}


@pytest.fixture
def conjured() -> Iterator[Entry]:
    """An entry of a kind that exists only in this test: its class is all that there is of it."""

    class Conjured(ParsedEntry, kind="conjure", whats={What.FIRED}):
        def rows(self) -> Iterable[Row]:
            yield OneShotsFired(self._keys(b"out_of_a_hat"))

        def changes(self) -> Iterator[Change]:
            for key in self._keys(b"out_of_a_hat"):
                yield self._change_of(key, What.FIRED, "by magic")

    yield entry(8, "conjure", "out_of_a_hat", f"a-{RUN}")

    del KINDS[Conjured.kind]


def test_an_entry_of_a_new_kind_is_read_with_nothing_but_its_class(conjured: Entry, tmp_path: Path) -> None:
    with closing(Archive(tmp_path / "archive.db", "shop")) as archive:
        assert [] == archive.append([put(7, "a"), conjured])
        archive.commit()
        folded = [(row.key, row.place) for row in state_of(archive)]
    with History(tmp_path / "archive.db") as history:
        told = history.of_schedule("a", 10)[0]

    assert [(("a", RUN), "open")] == folded
    assert [What.PUT, What.FIRED] == [change.what for change in told]
    assert [("a", ""), ("a", RUN)] == [key for key, _ in touches(conjured, SUFFIX)]
    assert "conjure" in kinds_telling(*OUTCOMES)


def test_an_entry_of_a_new_kind_is_counted_and_found_with_nothing_but_its_class(conjured: Entry) -> None:
    counter, tally = LogCounter(SUFFIX), LogTally(SUFFIX, Names(10))
    tally.began(conjured.position.epoch)

    counter.add(conjured, NOW_MS)
    tally.archived([conjured])

    assert 1 == counter.summary(NOW_MS).stretches[0].happened[What.FIRED]
    assert 1 == tally.outcomes["fired"]
    assert [f"a-{RUN}"] == [run.id for run in runs_of(changes(conjured, SUFFIX))]


def test_an_entry_kind_of_archives_is_unknown_in_the_log() -> None:
    forged = entry(7, "scan", "a", "", "due", "low", "-", "0")

    with pytest.raises(Exception, match="unknown kind 'scan'"):
        list(changes(forged))


UNCERTAIN = [(What.FIRED, "uncertain"), (What.SKIPPED, "uncertain")]
RESTORED = [(What.RESTORED, ""), (What.PUSHED_AGAIN, ""), (What.SKIPPED, "uncertain")]


@pytest.mark.parametrize(
    ("given", "happened"),
    [
        (put_recurring(7, "r", "s"), [(What.PUT, "")] * 2),
        (TOUCHED["put"][0], [(What.PUT, "")] * 2),
        (TOUCHED["fire"][0], [*UNCERTAIN, (What.FIRED, ""), (What.EXPIRED, ""), (What.CANCELLED, "")]),
        (TOUCHED["end"][0], []),
        (restore(7, one_shot(), one_shot("open"), one_shot("skipped")), RESTORED),
    ],
    ids=lambda given: given.kind if isinstance(given, Entry) else "",
)
def test_an_entry_counts_its_changes(given: Entry, happened: list[tuple[What, str]]) -> None:
    assert Counter(happened) == parse(given, SUFFIX).counts().happened


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.whats])
def test_a_kind_declares_exactly_the_changes_that_it_reports(name: str) -> None:
    whats = KINDS[name].whats

    assert name in kinds_telling_only(whats)
    assert not any(name in kinds_telling_only(whats - {what}) for what in whats)
