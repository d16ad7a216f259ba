"""The registry of the kinds of log entries: one class for each, which is all that a reader needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from tests.unit.core.recovering import DUE_MS, RULES, RUN, SUFFIX, entry, restore, row
from tests.unit.core.test_touches import TOUCHED
from zsched.archive import Archive, History
from zsched.core.changes import OUTCOMES, Change, What
from zsched.core.log import Entry, changes, kinds_telling, parse, touches
from zsched.core.log.kinds import KINDS, ParsedEntry, kinds_telling_only
from zsched.core.log.rows import OneShotsFired, Row
from zsched.core.lookback import Lookback, Wanted
from zsched.core.recent import Counting
from zsched.metrics.meter import LogTally, Names

_LOGS = re.compile(r"^-- LOGS\s+(.*(?:\n--\s{8}.*)*)", re.MULTILINE)


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
    given = restore(row(), row("gone", "", 6, "r")) if name == "restore" else TOUCHED[name][0]

    told = {change.id for change in changes(given, SUFFIX)}

    assert told == {touch.key[0] for touch in touches(given, SUFFIX)}
    assert told == {id for row in parse(given, SUFFIX).rows() for id in row.ids()}


@pytest.fixture
def conjured() -> Iterator[Entry]:
    """An entry of a kind that exists only in this test: its class is all that there is of it."""

    class Conjured(ParsedEntry, kind="conjure"):
        whats = frozenset({What.FIRED})

        def rows(self) -> Iterable[Row]:
            yield OneShotsFired(self._keys(b"out_of_a_hat"))

        def changes(self) -> Iterator[Change]:
            for key in self._keys(b"out_of_a_hat"):
                yield self._change_of(key, What.FIRED, "by magic")

    yield entry("conjure", "out_of_a_hat", f"a-{RUN}", seq=8)

    del KINDS[Conjured.kind]


def test_an_entry_of_a_new_kind_is_read_with_nothing_but_its_class(conjured: Entry, tmp_path: Path) -> None:
    put = entry("put", "lane", "low", "fields", 0, "rows", 1, "a", DUE_MS, "data", "call")

    with closing(Archive(tmp_path / "archive.db", "shop")) as archive:
        assert [] == archive.append([put, conjured])
        archive.commit()
        folded = [(live.key, live.place) for live, _ in archive.state()]
    with History(tmp_path / "archive.db") as history:
        told = history.of_schedule("a", 10)[0]

    assert [(("a", RUN), "open")] == folded
    assert [What.PUT, What.FIRED] == [change.what for change in told]
    assert [("a", ""), ("a", RUN)] == [touch.key for touch in touches(conjured, SUFFIX)]
    assert "conjure" in kinds_telling(*OUTCOMES)


def test_an_entry_of_a_new_kind_is_counted_with_nothing_but_its_class(conjured: Entry) -> None:
    counting, tally = Counting(SUFFIX), LogTally(SUFFIX, Names(10))
    tally.led(conjured.position.epoch)

    counting.see(conjured, DUE_MS + 1000)
    tally.see([conjured])

    assert 1 == counting.told(DUE_MS + 1000, is_all=True).stretches[0].happened[What.FIRED]
    assert 1 == tally.outcomes["fired"]


def test_an_entry_of_a_new_kind_is_found_when_looking_back(conjured: Entry) -> None:
    lookback = Lookback(Wanted(frozenset({What.FIRED}), frozenset(), 5))

    lookback.see(list(changes(conjured, SUFFIX)))

    assert [f"a-{RUN}"] == [occurrence.run_id for occurrence in lookback.found()]


def test_an_entry_kind_of_archives_is_unknown_in_the_log() -> None:
    forged = entry("scan", "a", "", "due", "low", "-", "0")

    with pytest.raises(Exception, match="unknown kind 'scan'"):
        list(changes(forged))


@pytest.mark.parametrize(
    ("given", "happened"),
    [
        (entry("put_recurring", *RULES), {(What.PUT, ""): 2}),
        (TOUCHED["put"][0], {(What.PUT, ""): 2}),
        (
            TOUCHED["fire"][0],
            {
                (What.FIRED, ""): 1,
                (What.FIRED, "uncertain"): 1,
                (What.SKIPPED, "uncertain"): 1,
                (What.EXPIRED, ""): 1,
                (What.CANCELLED, ""): 1,
            },
        ),
        (TOUCHED["end"][0], {}),
        (restore(row(), row("open"), row("skipped")), {
            (What.RESTORED, ""): 1, (What.PUSHED_AGAIN, ""): 1, (What.SKIPPED, "uncertain"): 1,
        }),
    ],
    ids=lambda given: given.kind if isinstance(given, Entry) else "",
)  # fmt: skip
def test_an_entry_counts_its_changes(given: Entry, happened: dict[tuple[What, str], int]) -> None:
    assert Counter(happened) == parse(given, SUFFIX).counts().happened


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.whats])
def test_a_kind_declares_exactly_the_changes_that_it_reports(name: str) -> None:
    whats = KINDS[name].whats

    assert name in kinds_telling_only(whats)
    assert not any(name in kinds_telling_only(whats - {what}) for what in whats)
