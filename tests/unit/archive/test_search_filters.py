"""Searches by facets, outcomes, ids and times: against a reading of the whole history, and page by page."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from tests.breadth import some
from tests.builders import entries
from tests.builders.entries import SECOND_US, T_US, at, cancel, entry
from tests.builders.records import DUE_MS, job, open_run
from tests.unit.archive.contents import SteppingClock, archived, change, prune, rows
from tests.unit.archive.many import CUSTOMERS, customer, first_page, id_of, measured, wanted, write
from zsched.archive import Archive, History
from zsched.archive.index import LENGTHS, PREFIX_IDS, prefix_row, ranges
from zsched.archive.search import Search
from zsched.core.clock import ManualClock
from zsched.core.entry import Entry
from zsched.core.facets import Facets
from zsched.core.occurrences.changes import Change, Wanted
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run import Run, RunStatus
from zsched.errors import ArchiveCorrupt

PREFIX_TABLE: Final = "CREATE TABLE prefix(length, first_n, last_n, bits, sum, PRIMARY KEY (length, first_n))"
MAIL, FAX = Facets("app.mail", "mail", "ann", ("acme", "vip")), Facets("app.fax", "fax", "bob")


def run(id: str, due_ms: int = DUE_MS) -> str:
    return f"{id}-{due_ms}"


def put(seq: int, facets: Facets, *ids: str, due_ms: int = DUE_MS) -> Entry:
    """Return a put of one-shots with *facets*."""
    fields = ["origin", facets.queue, "description", facets.func, "zs_owner", facets.owner]
    fields += ["zs_tags", "[" + ",".join(f'"{tag}"' for tag in facets.tags) + "]"]
    texts = [text for id in ids for text in (id, due_ms, "data", b"call")]
    return entry(seq, "put", "lane", "low", "fields", len(fields) // 2, *fields, "rows", len(ids), *texts)


def put_rule(seq: int, facets: Facets, id: str) -> Entry:
    """Return a put of a rule with *facets*."""
    own = ["func", facets.func, "owner", facets.owner, "tags", '["acme"]' if facets.tags else "[]"]
    shape = ["shapes", 1, "lane", "high", "schedule", 3, *own, "template", 1, "origin", facets.queue]
    words = f"1 {DUE_MS} {DUE_MS} 5 5 - - - - digest"
    return entry(seq, "put_recurring", *shape, "rows", 1, id, words, "trigger", "every 60000", "data", b"call")


def fire(seq: int, *ids: str, **more: str) -> Entry:
    return entries.fire(seq, *map(run, ids), **more)


def advance(seq: int, id: str, word: str = "fired", why: str = "") -> Entry:
    words = f"{word} {DUE_MS} {DUE_MS + 60_000} {DUE_MS + 60_000} -"
    return entry(seq, "advance", "rows", 1, id, words, *(["", why] if why else []))


def end(seq: int, **statuses: RunStatus) -> Entry:
    return entries.end(seq, *(Run(run(id), status, T_US) for id, status in statuses.items()))


def found(path: Path, wanted: Wanted) -> list[Change]:
    """Return all results of a search, page by page, each page by another reader."""
    results: list[Change] = []
    cursor: str | None = None
    while True:
        with History(path) as history:
            part = Search(history, wanted, SteppingClock(0)).next_part(cursor)
        results += part.occurrences
        if (cursor := part.after) is None:
            return results


def ids(path: Path, *words: Any, **conditions: Any) -> list[str]:
    return [one.id for one in found(path, wanted(*words, **conditions))]


@pytest.fixture
def of_two_queues(path: Path) -> Path:
    """An archive with a run of each queue in one entry, and both of its runs failed."""
    entries = [put(1, MAIL, "a", "b"), put(2, FAX, "c"), fire(3, "a", "c")]
    entries += [end(4, a=RunStatus.FAILED, c=RunStatus.FAILED), fire(5, "b"), end(6, b=RunStatus.SUCCEEDED)]
    return archived(path, entries)


@pytest.mark.parametrize(
    ("facets", "expected"),
    [
        ({"queue": "mail"}, ["b", "a"]),
        ({"func": "app.fax"}, ["c"]),
        ({"owner": "ann"}, ["b", "a"]),
        ({"tags": ("vip",)}, ["b", "a"]),
        ({"queue": "mail", "func": "app.fax"}, []),
        ({"queue": "none"}, []),
    ],
)
def test_facets_distinguish_runs_of_one_entry(of_two_queues: Path, facets: dict[str, Any], expected: list[str]) -> None:
    failed = [id for id in expected if id != "b"]

    assert expected == ids(of_two_queues, **facets)
    assert failed == ids(of_two_queues, RunStatus.FAILED, **facets)
    assert [id for id in expected if id == "b"] == ids(of_two_queues, RunStatus.SUCCEEDED, **facets)


def test_a_result_has_its_facets(of_two_queues: Path) -> None:
    assert {"a": MAIL, "b": MAIL, "c": FAX} == {one.id: one.facets for one in found(of_two_queues, wanted())}


def test_the_facets_of_a_run_are_those_at_its_time(path: Path) -> None:
    later = put(3, FAX, "a", due_ms=DUE_MS + 1)
    archived(path, [put(1, MAIL, "a"), fire(2, "a"), later, entry(4, "fire", "runs", run("a", DUE_MS + 1))])

    assert [("1-4", FAX), ("1-2", MAIL)] == [(one.entry, one.facets) for one in found(path, wanted())]
    assert ["1-2"] == [one.entry for one in found(path, wanted(queue="mail"))]


def test_outcomes_of_a_rule_have_the_facets_of_its_record(path: Path) -> None:
    skip = advance(4, "r", "overlap", run("r"))
    archived(path, [put_rule(1, MAIL, "r"), put_rule(2, FAX, "s"), advance(3, "r"), skip, advance(5, "s", "expired")])

    assert ["r", "r"] == ids(path, queue="mail", tags=("acme",))
    assert ["r"] == ids(path, What.SKIPPED, queue="mail")
    assert [] == ids(path, What.SKIPPED, queue="fax")
    assert ["s"] == ids(path, What.EXPIRED, RunStatus.EXPIRED, owner="bob")


@pytest.mark.parametrize(
    ("outcome", "word"), [("skipped", What.SKIPPED), ("expired", What.EXPIRED), ("cancelled", What.CANCELLED)]
)
def test_one_shots_that_did_not_run_are_found_by_facets_and_outcome(path: Path, outcome: str, word: What) -> None:
    mark = f"{run('b')}=canceled" if outcome == "cancelled" else run("b")
    archived(path, [put(1, MAIL, "a"), put(2, FAX, "b"), fire(3, "a", **{outcome: mark})])

    assert ["b"] == ids(path, word, queue="fax")
    assert [] == ids(path, word, queue="mail")


def test_a_cancelled_schedule_is_found_by_its_facets(path: Path) -> None:
    archived(path, [put(1, MAIL, "a"), cancel(2, "a")])

    assert ["a"] == ids(path, What.CANCELLED, RunStatus.CANCELLED, tags=("acme",))


def test_entries_of_a_bootstrap_are_found_by_facets(path: Path) -> None:
    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.copy([put(1, FAX, "a"), fire(2, "a"), end(3, a=RunStatus.FAILED)])
        archive.scan([open_run(id="b", job=job(origin="mail"))], at(3))
        archive.end_bootstrap(str(T_US))

    assert ["a"] == ids(path, queue="fax")
    assert ["a"] == ids(path, RunStatus.FAILED, queue="fax")
    assert ["b"] == ids(path, RunStatus.QUEUED, queue="mail")
    assert [] == ids(path, RunStatus.FAILED, queue="mail")


def test_corrupted_facets_are_reported(of_two_queues: Path) -> None:
    change(of_two_queues, "UPDATE facet SET body = x'00' WHERE n = 3")

    with pytest.raises(ArchiveCorrupt, match="facets of history entry 3"):
        found(of_two_queues, wanted(queue="mail"))


def test_open_runs_are_found_newest_first_and_page_by_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [put(1, MAIL, "a", "b", "c"), put(2, FAX, "d"), fire(3, "b", "a"), fire(4, "d"), fire(5, "c")]
    archived(path, [*entries, end(6, c=RunStatus.SUCCEEDED)])
    monkeypatch.setattr("zsched.archive.search._MOST", 1)

    assert ["d", "a", "b"] == ids(path, RunStatus.QUEUED)
    assert ["a", "b"] == ids(path, RunStatus.RUNNING, queue="mail")
    assert ["fired"] * 3 == [one.what.value for one in found(path, wanted(RunStatus.QUEUED))]


def test_open_runs_of_a_large_state_are_found_by_their_pushes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"s{number}" for number in range(2000)]
    archived(path, [put(1, MAIL, "a", "b", *many), fire(2, "a"), fire(3, "b"), end(4, a=RunStatus.SUCCEEDED)])
    monkeypatch.setattr("zsched.archive.search._LOOKED_FOR_OPEN_MS", -1.0)
    monkeypatch.setattr("zsched.archive.search._OPCODES", 10)

    assert ["b"] == ids(path, RunStatus.QUEUED)


IDS: Final = [f"{kind}-{name}-{number}" for kind in ("mail", "fax") for name in ("acme", "bolt") for number in range(4)]
BAD: Final = (RunStatus.FAILED, RunStatus.LOST, RunStatus.EXPIRED)


def life(chance: random.Random) -> Iterator[Entry]:
    """Yield a log of one-shots: put, fired, skipped or cancelled, ended in any way, and put again for later."""
    waiting, open = dict[str, int](), dict[str, int]()
    for seq in range(1, 150):
        step = chance.choice(["put", "fire", "fire", "end", "end", "cancel"])
        free = [id for id in IDS if id not in waiting and id not in open]
        some = chance.sample(sorted(waiting), min(len(waiting), chance.randrange(1, 4)))
        if step == "put" and free:
            chosen = chance.sample(free, min(3, len(free)))
            yield put(seq, chance.choice([MAIL, FAX, MAIL._replace(queue="late")]), *chosen, due_ms=DUE_MS + seq)
            waiting |= dict.fromkeys(chosen, DUE_MS + seq)
        elif step == "fire" and some:
            is_left = len(some) > 1 and chance.random() < 0.3
            fired = some[1:] if is_left else some
            fields = {"runs": " ".join(run(id, waiting[id]) for id in fired)}
            fields |= {chance.choice(["skipped", "expired"]): run(some[0], waiting[some[0]])} if is_left else {}
            yield entry(seq, "fire", **fields)
            open |= {id: waiting[id] for id in fired}
            for id in some:
                del waiting[id]
        elif step == "end" and open:
            ended = chance.sample(sorted(open), min(len(open), chance.randrange(1, 4)))
            statuses = [chance.choice([*BAD, *[RunStatus.SUCCEEDED] * 3]) for _ in ended]
            yield entries.end(seq, *(Run(run(id, open[id]), is_) for id, is_ in zip(ended, statuses, strict=True)))
            for id in ended:
                del open[id]
        elif step == "cancel" and some:
            yield entry(seq, "cancel", "rows", 1, some[0], waiting.pop(some[0]))


QUERIES: Final = [
    *(wanted(), wanted(RunStatus.FAILED), wanted(RunStatus.EXPIRED, What.EXPIRED), wanted(RunStatus.SUCCEEDED)),
    *(wanted(What.CANCELLED, RunStatus.CANCELLED), wanted(RunStatus.FAILED, RunStatus.LOST, queue="mail")),
    *(wanted(queue="fax"), wanted(tags=("vip",), owner="ann"), wanted(What.SKIPPED, What.EXPIRED, queue="late")),
    *(wanted(match=match) for match in ("mail-acme*", "*bolt*", "fax-a??e-[12]", "nobody-here*")),
    *(wanted(RunStatus.FAILED, match="mail-a*", queue="mail"), wanted(RunStatus.LOST, id="fax-bolt-1")),
    wanted(id="mail-acme-2"),
]


def expected(log: Sequence[Entry], query: Wanted) -> list[tuple[str, str]]:
    """Return id and entry of each result by a plain reading of *log*, the newest first."""
    facets, ends = dict[str, Facets](), dict[tuple[str, str], str]()
    results = []
    pushes = dict[str, str]()
    for one in log:
        texts = [text.decode() for text in one.body]
        if one.kind == "put":
            count = int(texts[3])
            own = dict(zip(texts[4 : 4 + 2 * count : 2], texts[5 : 4 + 2 * count : 2], strict=True))
            tags = tuple(tag for tag in own["zs_tags"].strip("[]").replace('"', "").split(",") if tag)
            put_as = Facets(own["description"], own["origin"], own["zs_owner"], tags)
            facets |= dict.fromkeys(texts[6 + 2 * count :: 4], put_as)
        elif one.kind == "fire":
            fields = dict(zip(texts[::2], texts[1::2], strict=True))
            for name in ("runs", "skipped", "expired"):
                for run_id in fields.get(name, "").split():
                    id = run_id.rpartition("-")[0]
                    pushes[id] = one.position.id
                    results.append((one, id, "fired" if name == "runs" else name, facets[id], ""))
        elif one.kind == "cancel":
            results.append((one, texts[2], "cancelled", facets[texts[2]], ""))
        elif one.kind == "end":
            for run_id, status in zip(texts[2::4], texts[3::4], strict=True):
                id = run_id.rpartition("-")[0]
                ends[id, pushes[id]] = status
                results.append((one, id, "end", facets[id], status))
    statuses = {status.value for status in query.statuses}
    shown = []
    for one, id, outcome, of, status in reversed(results):
        if not (fnmatchcase(id, query.match or "*") and query.id in (None, id) and of.has(query.facets)):
            continue
        by_end = outcome == "end" and status in statuses and status != "succeeded"
        by_push = (
            outcome == "fired" and "succeeded" in statuses and ends.get((id, one.position.id), "") in ("succeeded", "")
        )
        if by_end or by_push or outcome in {what.value for what in query.whats}:
            shown.append((id, one.position.id))
    return shown


def of_end(one: Change) -> str:
    """Return the entry of a result's outcome: of its end if it was found by that."""
    return "-".join(one.cursor.split("-")[:2])


@pytest.mark.parametrize("seed", some(range(6), 0, 1))
@pytest.mark.parametrize("piece", [1, 1000])
def test_a_search_finds_all_that_a_full_read_finds(
    path: Path, seed: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zsched.archive.index.PREFIX_IDS", 5)
    monkeypatch.setattr("zsched.archive.archive.PREFIX_IDS", 5)
    log = list(life(random.Random(seed)))
    with closing(Archive(path, "default")) as archive:
        for first in range(0, len(log), piece):
            archive.append(log[first : first + piece])
            archive.commit()
            if first < len(log) // 2:
                archive.index_step(1000, ManualClock())

    for query in QUERIES:
        for limit in (1, 3, 1000):
            results = found(path, replace(query, limit=limit))
            assert expected(log, query) == [(one.id, of_end(one)) for one in results], (query, limit)


def test_since_and_until_bound_a_search(path: Path) -> None:
    ids_of = list("abcdefgh")
    archived(path, [put(1, MAIL, *ids_of), *(fire(seq, id) for seq, id in enumerate(ids_of, 2))])
    query = replace(wanted(), since_us=T_US + 4 * SECOND_US, until_us=T_US + 7 * SECOND_US)

    assert ["e", "d", "c"] == [one.id for one in found(path, query)]
    assert ["e", "d", "c"] == [one.id for one in found(path, replace(query, facets=MAIL))]
    assert ["d"] == [one.id for one in found(path, replace(query, id="d"))]


def test_a_search_continues_in_another_archive(path: Path, tmp_path: Path) -> None:
    log = [put(1, MAIL, "a", "b", "c", "d"), fire(2, "a", "b", "c"), fire(3, "d")]
    archived(path, log)
    other = archived(tmp_path / "other" / "archive.db", [put(seq, FAX, "x") for seq in ()] + log[1:])

    with History(path) as history:
        first = Search(history, wanted(limit=2), SteppingClock(0)).next_part()
    with History(other) as history:
        second = Search(history, wanted(limit=2), SteppingClock(0)).next_part(first.after)

    assert (["d", "c"], ["b", "a"]) == tuple([one.id for one in part.occurrences] for part in (first, second))


def test_a_filter_of_prefixes_has_all_of_them_and_few_others() -> None:
    chance = random.Random(1)
    ids_of = [f"{chance.getrandbits(128):032x}" for _ in range(4096)]
    others = [f"{chance.getrandbits(128):032x}" for _ in range(4096)]
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(PREFIX_TABLE)
        db.executemany("INSERT INTO prefix VALUES (?, ?, ?, ?, ?)", [prefix_row(one, 1, 9, ids_of) for one in LENGTHS])

        hits = [sum(bool(ranges(db, id[:13], 1, 9)) for id in some) for some in (ids_of, others)]

    assert 4096 == hits[0]
    assert hits[1] < 4096 / 20


def test_prefixes_wait_for_enough_ids_and_for_the_end_of_a_bootstrap(path: Path) -> None:
    clock, ids_of = ManualClock(), [f"s{number}" for number in range(PREFIX_IDS)]
    counts = []
    with closing(Archive(path, "default")) as archive:
        for entries in ([put(1, MAIL, *ids_of), fire(2, *ids_of[:-1])], [fire(3, ids_of[-1]), put(4, MAIL, *ids_of)]):
            archive.append(entries)
            archive.commit()
            archive.index_step(1000, clock)
            counts.append(rows(path, "SELECT count(*), max(last_n) FROM prefix")[0])
        archive.append([fire(5, *ids_of), put(6, MAIL, *ids_of)])
        archive.begin_bootstrap()
        archive.index_step(1000, clock)
        archive.abandon_bootstrap()
        counts.append(rows(path, "SELECT count(*), max(last_n) FROM prefix")[0])

    assert [(0, None), (len(LENGTHS), 3), (len(LENGTHS), 3)] == counts


def test_old_parts_of_the_index_are_deleted_with_the_history(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zsched.archive.index.PREFIX_IDS", 3)
    monkeypatch.setattr("zsched.archive.archive.PREFIX_IDS", 3)
    for module in ("schema", "index", "search"):
        monkeypatch.setattr(f"zsched.archive.{module}.POSTING_BITS", 3)
    for module in ("index", "search"):
        monkeypatch.setattr(f"zsched.archive.{module}.BLOCK_BITS", 2)
    ids_of = [f"s{number}" for number in range(40)]
    ends = [end(100 + seq, **{id: RunStatus.FAILED}) for seq, id in enumerate(ids_of)]
    with closing(Archive(path, "default")) as archive:
        archive.append([put(1, MAIL, *ids_of), *(fire(seq, id) for seq, id in enumerate(ids_of, 2)), *ends])
        archive.commit()
        archive.index_step(1000, ManualClock())
        prune(archive, T_US + 120 * SECOND_US)

    [[least], [segment], [prefix]] = (
        rows(path, f"SELECT min({column}) FROM {table}")[0]
        for column, table in (("n", "facet"), ("segment", "posting"), ("last_n", "prefix"))
    )
    [[first]] = rows(path, "SELECT min(n) FROM entry")
    assert (first, first >> 3) == (least, segment)
    assert prefix >= first
    assert ids_of[20:][::-1] == ids(path, RunStatus.FAILED, match="s*", queue="mail")


def test_the_first_page_among_many_runs_is_found_after_few_of_them(path: Path) -> None:
    write(path, 60_000)
    clocks = {name: SteppingClock(0) for name in measured(60_000)}

    for name, query in measured(60_000).items():
        first_page(path, query, clocks[name])
    by_tag, _ = first_page(path, wanted(limit=1000, tags=(customer(50 * 200),)), SteppingClock(0))

    assert {} == {name: clock.reads for name, clock in clocks.items() if clock.reads > 1000}
    assert [id_of(number) for number in reversed(range(50 * 200, 51 * 200))] == [one.id for one in by_tag.occurrences]
    assert CUSTOMERS > 60_000 // 200
