"""Entries of the log, as the scripts' headers (LOGS) describe them, and the changes in each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.entries import entry, row_fields
from tests.unit.core.recovering import T_US
from zsched.core.entry import FORMAT, OLDEST_FORMAT, Entry, Position, UnknownEntry, readable
from zsched.core.log.fires import AdvanceEntry, FireEntry, QuarantineEntry
from zsched.core.log.kinds import KINDS, changes, parse
from zsched.core.log.puts import PutEntry, PutRecurringEntry
from zsched.core.log.rows import Quarantined
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.record import Place
from zsched.core.runs.run_id import schedule_of

DUE_MS = T_US // 1000 - 123


def change(id: str, what: What, **more: Any) -> Change:
    return Change(id, what, T_US, "1-7", **more)


READY = {"ready_us": T_US}  # it may fire since that entry, later than its due time
PUT = ["lane", "low", "fields", 2, "origin", "mail", "zs_owner", "ann", "rows", 2]
PUT += ["a", DUE_MS, "data", b"\x80\n", "b-1", DUE_MS + 1, "data", b""]
BY = ["by", "ann"]  # before an entry's own texts, if a client asked for it
SHAPES = ["shapes", 2, "lane", "high", "schedule", 0, "template", 1, "origin", "mail"]
SHAPES += ["lane", "low", "schedule", 1, "owner", "ann", "template", 0]


def rule(*ids: str, due_ms: Any = DUE_MS, state: str = "-", digest: str = "d") -> list[Any]:
    """Return the texts of a ``put_recurring`` entry: rules of the second shape."""
    words = f"2 {due_ms} {due_ms} 11 12 r-1 - {state} - {digest}"
    rows = [text for id in ids for text in (id, words, "trigger", "every 5", "data", b"\xff")]
    return [*SHAPES, "rows", len(ids), *rows]


PUSHED = ["rows", 1, f"a-{DUE_MS}", "0 2 -", "origin", "mail", "zs_owner", "ann"]

MOVED = [
    change("r", What.COALESCED, first_ms=1, last_ms=7, count=3, nominal_ms=DUE_MS, next_ms=9),
    change("r", What.FIRED, run_id=f"r-{DUE_MS}-nshop", nominal_ms=DUE_MS, next_ms=9,
           why="previous_worker_silent"),
    change("u", What.FIRED, run_id="u-5-nshop", nominal_ms=5, next_ms=9, why="uncertain"),
    change("s", What.SKIPPED, nominal_ms=5, next_ms=9, why="uncertain"),
    change("o", What.SKIPPED, nominal_ms=5, next_ms=9, why="overlap: o-4 was still open"),
    change("d", What.DUPLICATE, run_id="d-5-nshop", nominal_ms=5, next_ms=9),
    change("q", What.QUARANTINED, nominal_ms=5, next_ms=9, why="its template is gone or of the wrong type"),
    change("e", What.FIRED, run_id="e-5-nshop", nominal_ms=5),
    change("e", What.ENDED),
]  # fmt: skip

SAID: dict[str, tuple[Entry, list[Change]]] = {
    "put": (
        entry(7, "put", *BY, *PUT, "replaced", "a b-1", "paused", "b-1"),
        [
            change("a", What.PUT, run_id=f"a-{DUE_MS}-nshop", nominal_ms=DUE_MS, by="ann"),
            change("b-1", What.PUT, run_id=f"b-1-{DUE_MS + 1}-nshop", nominal_ms=DUE_MS + 1, why="paused", by="ann"),
        ],
    ),
    "put_recurring": (
        entry(7, "put_recurring", *BY, *rule("r", "s")),
        [change(id, What.PUT, nominal_ms=DUE_MS, by="ann") for id in ("r", "s")],
    ),
    "put_recurring that stays paused": (
        entry(7, "put_recurring", *BY, *rule("r", state="paused")),
        [change("r", What.PUT, nominal_ms=DUE_MS, by="ann", why="paused")],
    ),
    "put_recurring that stays ended": (
        entry(7, "put_recurring", *BY, *rule("r", due_ms="-")),
        [change("r", What.PUT, by="ann")],
    ),
    "enqueue": (entry(7, "enqueue", *BY, *PUSHED), [change("a", What.ENQUEUED, run_id=f"a-{DUE_MS}", by="ann")]),
    "run_now": (
        entry(7, "run_now", *BY, "id", "r", "run", f"r-{DUE_MS}-nshop-r1", "last", 1),
        [change("r", What.ENQUEUED, run_id=f"r-{DUE_MS}-nshop-r1", why="run now", by="ann")],
    ),
    "backfill": (
        entry(7, "backfill", "id", "r", "runs", f"r-{DUE_MS}-nshop r-{DUE_MS + 1}-nshop-r7"),
        [
            change("r", What.ENQUEUED, run_id=f"r-{DUE_MS}-nshop", nominal_ms=DUE_MS, why="backfill"),
            change("r", What.ENQUEUED, run_id=f"r-{DUE_MS + 1}-nshop-r7", nominal_ms=DUE_MS + 1, why="backfill"),
        ],
    ),
    "fire": (
        entry(
            7, "fire", "runs", f"a-{DUE_MS} b-1-{DUE_MS}-nshop", "uncertain", f"a-{DUE_MS}", "skipped", f"c-{DUE_MS}",
            "expired", f"x-{DUE_MS}", "cancelled", f"d-{DUE_MS}=canceled",
        ),
        [
            change("a", What.FIRED, run_id=f"a-{DUE_MS}", nominal_ms=DUE_MS, why="uncertain"),
            change("b-1", What.FIRED, run_id=f"b-1-{DUE_MS}-nshop", nominal_ms=DUE_MS),
            change("c", What.SKIPPED, run_id=f"c-{DUE_MS}", nominal_ms=DUE_MS, why="uncertain"),
            change("x", What.EXPIRED, run_id=f"x-{DUE_MS}", nominal_ms=DUE_MS),
            change("d", What.CANCELLED, run_id=f"d-{DUE_MS}", nominal_ms=DUE_MS, why="its status in RQ is canceled"),
        ],
    ),
    "quarantine of another writer's": (
        entry(
            7, "quarantine", "rows", 3, "two words", "low 1.5", "", "y", "a?b", "low 5", "e", "low 1.5", "", "why not"
        ),
        [change("e", What.QUARANTINED, why="why not")],
    ),
    "advance": (
        entry(
            7, "advance",
            *row_fields(
                "advance", f"r fired {DUE_MS} 9 9 coalesced:1:7:3 previous_worker_silent", "u uncertain 5 9 9 -",
                "s skipped 5 9 9 -", "o overlap 5 9 9 - o-4", "d duplicate 5 9 9 -",
                "q quarantined 5 9 9 - its template is gone or of the wrong type", "e fired 5 - - -",
            ),
        ),
        MOVED,
    ),
    "advance by policies": (
        entry(
            7, "advance",
            *row_fields(
                "advance", "m passed - 9 12 missed:1:7:3,limit:8:8:1", "x expired 5 9 9 missed:1:1:1",
                "w deferred 5 9 9 - w-4", "z passed - - - missed:1:2:2",
            ),
        ),
        [
            change("m", What.SKIPPED, first_ms=1, last_ms=7, count=3, next_ms=9, why="missed"),
            change("m", What.SKIPPED, first_ms=8, last_ms=8, count=1, next_ms=9, why="limit"),
            change("x", What.SKIPPED, first_ms=1, last_ms=1, count=1, nominal_ms=5, next_ms=9, why="missed"),
            change("x", What.EXPIRED, nominal_ms=5, next_ms=9),
            change("w", What.FIRED, run_id="w-5-nshop", nominal_ms=5, next_ms=9, why="waits for w-4"),
            change("z", What.SKIPPED, first_ms=1, last_ms=2, count=2, why="missed"),
            change("z", What.ENDED),
        ],
    ),
    "quarantine": (
        entry(7, "quarantine", "rows", 1, "r", f"normal {DUE_MS}", "", "cannot be planned: X: y z"),
        [change("r", What.QUARANTINED, nominal_ms=DUE_MS, why="cannot be planned: X: y z")],
    ),
    "cancel": (entry(7, "cancel", "rows", 1, "a", DUE_MS), [change("a", What.CANCELLED, nominal_ms=DUE_MS)]),
    "cancel of what ended": (entry(7, "cancel", "rows", 1, "r", "-"), [change("r", What.CANCELLED)]),
    "pause": (
        entry(7, "pause", "note", "the sale", "rows", 1, "a", f"low {DUE_MS}"),
        [change("a", What.PAUSED, nominal_ms=DUE_MS, why="the sale")],
    ),
    "resume": (
        entry(7, "resume", "rows", 1, "a", f"low {DUE_MS}"), [change("a", What.RESUMED, nominal_ms=DUE_MS, **READY)],
    ),
    "resume of a rule that skips": (
        entry(7, "resume", "rows", 1, "r", "low 90 80 paused:5:50:7,excluded:60:70:2:kr"),
        [
            change("r", What.SKIPPED, why="paused", first_ms=5, last_ms=50, count=7),
            change("r", What.EXCLUDED, why="kr", first_ms=60, last_ms=70, count=2),
            change("r", What.RESUMED, nominal_ms=90, **READY),
        ],
    ),
    "resume of a one-shot that skips": (
        entry(7, "resume", "rows", 1, "a", "low 5 - paused:5:5:1"),
        [change("a", What.SKIPPED, why="paused", first_ms=5, last_ms=5, count=1)],
    ),
    "resume of a rule that has no more": (
        entry(7, "resume", "rows", 1, "r", "low - - paused:5:50:7"),
        [change("r", What.SKIPPED, why="paused", first_ms=5, last_ms=50, count=7), change("r", What.ENDED)],
    ),
    "replan": (
        entry(
            *(7, "replan", "of", "tzdata", "old", "2025b", "new", "2026a"),
            *("rows", 2, "r", f"{DUE_MS} 90 95 -", "s", f"{DUE_MS} 5 5 -"),
        ),
        [
            change("r", What.REPLANNED, nominal_ms=DUE_MS, next_ms=90, why="tzdata 2025b → 2026a", **READY),
            change("s", What.REPLANNED, nominal_ms=DUE_MS, next_ms=5, why="tzdata 2025b → 2026a", **READY),
        ],
    ),
    "replan where nobody knows what was before": (
        entry(7, "replan", "of", "tzdata", "old", "", "new", "2026a", "rows", 1, "r", "5 6 7 -"),
        [change("r", What.REPLANNED, nominal_ms=5, next_ms=6, why="tzdata unknown → 2026a", **READY)],
    ),
    "unblock": (
        entry(7, "unblock", "rows", 1, f"a-{DUE_MS}", "a-1 was stopped"),
        [change("a", What.RELEASED, run_id=f"a-{DUE_MS}", nominal_ms=DUE_MS, why="a-1 was stopped")],
    ),
    "term": (entry(7, "term", "daemon", "d", "server", "s"), []),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "said"), SAID.values(), ids=SAID)
def test_an_entry_says_what_its_script_did(entry: Entry, said: list[Change]) -> None:
    assert said == list(changes(entry, "-nshop"))
    assert {change.what for change in said} <= KINDS[entry.kind].whats


ONE_PUT = ("lane", "low", "fields", 0, "rows", 1)
LEFT_OUT = "passed - 9 9 missed:1:2:2"
ADVANCES = ["fired 5 9 9", "fired soon 9 9 -", "passed - 9 9 missed:1:2", f"{LEFT_OUT},"]
UNREADABLE: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("conjure", [()]),
    ("", [()]),
    ("put", [(), PUT[:-1], PUT[:-5], (*PUT, "replaced"), ("lane", "low", "fields", "many")]),
    ("put", [(*ONE_PUT, "a", "soon", "data", ""), (*ONE_PUT, b"\xff", 5, "data", "")]),
    ("put_recurring", [("shapes", "1"), rule("r")[:-1], rule("r")[:-2], (*rule("r"), "id", "r")]),
    ("put_recurring", [rule("r", due_ms="soon"), (*rule("r")[:-5], "2 5 5", *rule("r")[-4:])]),
    ("put_recurring", [("shapes", "1", *SHAPES[2:10], *rule("r")[len(SHAPES) :])]),
    ("enqueue", [(), ("run",)]),
    ("run_now", [("id", "a")]),
    ("backfill", [("id", "a")]),
    ("fire", [("runs",)]),
    ("advance", [(), ("rows", "r fired 5 9 9 - -"), ("rows", 1), ("rows", 1, "r")]),
    ("advance", [("rows", 1, "r", text) for text in ADVANCES]),
    ("advance", [("rows", 1, "r", LEFT_OUT, "s", LEFT_OUT), ("rows", 1, "", "a text of no row", "r", "fired 5 9 9 -")]),
    ("advance", [("rows", "many", "r", "fired 5 9 9 -")]),
    ("quarantine", [()]),
    ("cancel", [("rows", 1), ("rows", 2, "a", 5), ("rows", 1, "a", "soon")]),
    ("pause", [("rows", 1, "a", f"low {DUE_MS}"), ("note", "", "rows", 1, "a", "low")]),
    ("resume", [("rows", 1, "a", "low"), ("rows", 1, "a", "low 5 5 5")]),
]
HEADLESS = [[], [b"t", b"5", b"kind", b"term"], [b"kind", b"cancel", b"t", b"soon", b"id", b"a"]]


@pytest.mark.parametrize(
    "broken",
    [
        *(entry(7, kind, *texts) for kind, many in UNREADABLE for texts in many),
        *(Entry.of(b"1-7", texts) for texts in HEADLESS),
    ],
)
def test_an_unreadable_entry_raises_unknown_entry_with_its_id(broken: Entry) -> None:
    with pytest.raises(UnknownEntry, match="log entry 1-7"):
        list(changes(broken))


def test_an_entry_has_position_kind_and_texts() -> None:
    texts = [b"kind", b"cancel", b"t", b"0000000000000042", b"id", b"a"]

    found = Entry.of(b"1-7", texts)

    assert (Position(1, 7, 42), "cancel", [b"id", b"a"], b"") == found
    assert ("1-7", (1, 7)) == (found.position.id, found.position.order)
    assert {b"id": b"a"} == found.fields()


@pytest.mark.parametrize(
    "texts",
    [
        [b"kind", b"cancel", b"t", b"1800000000123456", b"id", b"a"],
        [b"kind", b"cancel", b"t", b"1800000000123456", b"by", b"ann", b"id", b"a"],
        [b"kind", b"cancel", b"t", b"1800000000123456", b"by"],
        [b"another writer's", b"\xff"],
        [b"kind", b"put", b"t", b"9" * 40],
        [b"kind", b"put"],
        [b"kind", b"put", b"t", b"-5"],
    ],
)
def test_an_entry_returns_the_texts_of_redis_unchanged(texts: list[bytes]) -> None:
    assert texts == Entry.of(b"1-7", texts).texts


def test_an_entry_keeps_who_asked_apart_from_its_own_texts() -> None:
    asked = entry(7, "cancel", *BY, "id", "a", "due", "-")

    assert (b"ann", [b"id", b"a", b"due", b"-"]) == (asked.by, asked.body)
    assert asked == Entry.kept(asked.position, asked.kind, asked.texts_to_keep)


def test_a_put_entry_returns_its_rows() -> None:
    puts = PutEntry(entry(7, "put", *PUT, "paused", "a", "replaced", "a b-1")).puts

    assert ("low", [b"origin", b"mail", b"zs_owner", b"ann"]) == (puts.shape.lane, puts.shape.job)
    assert (["a", "b-1"], [DUE_MS, DUE_MS + 1], [b"\x80\n", b""]) == (puts.at, puts.dues, puts.datas)
    assert ({"a", "b-1"}, {"a"}) == (puts.replaced, puts.paused)


def test_a_put_recurring_entry_returns_its_record() -> None:
    parsed = PutRecurringEntry(entry(7, "put_recurring", *rule("r", "s", state="paused", digest="d e")))
    put = parsed.found[1][1]

    assert ("s", DUE_MS, Place.PAUSED, "r-1") == (put.id, put.due_ms, put.place, put.last)
    own = {b"owner": b"ann", b"trigger": b"every 5", b"digest": b"d e"}
    own |= {b"lane": b"low", b"anchor": b"11", b"created_at": b"12", b"updated_at": b"%d" % (T_US // 1000)}
    record = parsed.record_of(1)
    assert (("s", ""), "paused", "low") == (record.key, record.place, record.lane)
    assert (DUE_MS, "r-1") == (record.nominal_ms, record.last)
    assert ([b"data", b"\xff"], own) == (record.job, record.own_fields())


def test_the_name_of_data_is_its_signature_in_the_job() -> None:
    signature = b"k1.06d2d3800.BuEhdGFpC0Q0nZCUD1l1OQ"
    signed = [signature if text == "data" else text for text in [*PUT, *rule("r")]]
    one_shots, rules = PutEntry(entry(7, "put", *signed[: len(PUT)])), entry(7, "put_recurring", *signed[len(PUT) :])

    assert [b"data", b"\x80\n", b"zs_sig", signature] == one_shots.record_of(0).job[-4:]
    assert [b"data", b"\xff", b"zs_sig", signature] == PutRecurringEntry(rules).record_of(0).job


def test_a_put_recurring_that_stays_ended_has_no_nominal_time() -> None:
    parsed = PutRecurringEntry(entry(7, "put_recurring", *rule("r", due_ms="-")))

    [row] = parsed.rows()

    assert ("ended", None, None) == (row.place, row.due_ms, row.nominal_ms)  # type: ignore[attr-defined]  # a record
    assert parsed.record_of(0).nominal_ms is None


@pytest.mark.parametrize(("name", "pushed"), [("advance", "rue"), ("advance by policies", "w")])
def test_the_rows_of_an_advance_say_which_runs_were_pushed(name: str, pushed: str) -> None:
    assert [*pushed] == [move.id for move in AdvanceEntry(SAID[name][0]).moves if move.outcome.is_pushed]


def test_a_quarantine_row_with_a_bad_time_hides_no_other_row() -> None:
    stored = ["a", f"low {DUE_MS}", "", "why", "x y", "high 5", "!", "", "low", "low low", "", "inf\nlow", "b", "no 5"]
    parsed = QuarantineEntry(entry(7, "quarantine", "rows", 5, *stored))

    assert [Quarantined("a", DUE_MS, "why"), Quarantined("low", None, "inf\nlow")] == list(parsed.rows())
    assert ["x y", "!", "b"] == parsed.dropped


@pytest.mark.parametrize("why", ["", "two\nlines a-5 lost {}", "rows", "\x00", "x" * 5000])
def test_a_foreign_text_forges_no_field_of_an_entry(why: str) -> None:
    given = entry(7, "again", "rows", 2, f"a-{DUE_MS}", "2", "", why, f"b-{DUE_MS}", "3", "", "it died")

    assert [("a", why, 2), ("b", "it died", 3)] == [(one.id, one.why, one.count) for one in changes(given)]


def test_a_malformed_run_id_is_dropped_from_a_fire() -> None:
    runs = f"nothing a-{DUE_MS} {'b' * 129}-{DUE_MS} \u00e9-{DUE_MS} a-x"
    parsed = FireEntry(entry(7, "fire", "runs", runs, "cancelled", f"a=b c-{DUE_MS}=odd"))

    pushed, left = parsed.pushed, parsed.left

    assert [("a", str(DUE_MS))] == pushed.at
    assert [(("c", str(DUE_MS)), What.CANCELLED, "its status in RQ is odd")] == left
    assert 5 == len(parsed.dropped)


@pytest.mark.parametrize(
    "given",
    [
        entry(7, "end", *row_fields("end", "nobody failed {}", f"a-{DUE_MS} failed {{}}")),
        entry(7, "again", *row_fields("again", "nobody 2 why", f"a-{DUE_MS} 2 why")),
        entry(7, "unblock", *row_fields("unblock", "nobody why", f"a-{DUE_MS} why")),
        entry(7, "replan", *row_fields("replan", "no\u00fe 5 6 7 -", f"a {DUE_MS} 6 7 -")),
        entry(7, "advance", *row_fields("advance", "n? fired 5 6 6 -", f"a fired {DUE_MS} 6 6 -")),
    ],
    ids=lambda given: given.kind,
)
def test_a_row_with_a_malformed_id_is_dropped_and_counted(given: Entry) -> None:
    parsed = parse(given)

    rows = list(parsed.rows())

    assert ["a"] == [id for row in rows for id in row.ids()]
    assert 1 == len(parsed.dropped)


@pytest.mark.parametrize("what", What)
def test_only_fired_and_expired_runs_have_a_lateness(what: What) -> None:
    late = change("a", what, nominal_ms=DUE_MS).late_ms

    assert (123.456 if what in (What.FIRED, What.EXPIRED) else None) == late


optional = st.none() | st.integers(-(2**53), 2**53)
told = st.builds(
    Change, id=st.text(min_size=1), what=st.sampled_from(What), at_us=st.integers(0, 2**60), entry=st.text(min_size=1),
    run_id=st.none() | st.text(min_size=1), nominal_ms=optional, next_ms=optional, first_ms=optional,
    last_ms=optional, count=st.integers(0, 2**40), why=st.text(), by=st.none() | st.text(min_size=1),
)  # fmt: skip


@given(told)
def test_a_change_survives_conversion_to_json_and_back(given: Change) -> None:
    assert given == Change.of_dict(given.to_dict())


@pytest.mark.parametrize(
    ("run_id", "id"),
    [
        ("a-1800000000000", "a"), ("a-1-1800000000000", "a-1"), ("a-1800000000000-nshop", "a"), ("x-5-r2", "x"),
        ("a-1-5-nshop-r12", "a-1"), ("x_y-5-n7", "x_y"), ("none", "none"), ("", ""), ("a b-5 c", "a b-5 c"),
    ],
)  # fmt: skip
def test_the_schedule_of_a_run_is_read_from_its_id(run_id: str, id: str) -> None:
    assert id == schedule_of(run_id)


def test_the_lateness_of_an_occurrence_counts_from_its_due_time_with_jitter() -> None:
    at_us = (DUE_MS + 250) * 1000 + 1500
    fired = entry(7, "advance", "rows", 1, "r", f"fired {DUE_MS}+250 - - -")._replace(position=Position(1, 1, at_us))

    [change, _] = changes(fired)

    assert (DUE_MS, DUE_MS + 250, 1.5) == (change.nominal_ms, change.due_ms, change.late_ms)
    assert change == Change.of_dict(change.to_dict())


TERM = ("daemon", "d", "server", "s")
ROW = ("a", "1", "due", "low", 1, 1, "", "2 0", "format", 9)


@pytest.mark.parametrize(
    ("given", "format"),
    [
        (entry(7, "term", *TERM, "format", 2), 2),
        (entry(7, "term", *TERM), None),
        (entry(7, "term"), None),
        (entry(7, "term", *TERM, "format", "a newer one"), None),
        (entry(7, "restore", "reason", "lost", "archive", "x", "shapes", 0, "rows", 1, *ROW, "format", 3), 3),
        (entry(7, "put", *PUT, "format", 2), 2),
    ],
)
def test_terms_and_restores_note_the_format_of_what_follows(given: Entry, format: int | None) -> None:
    assert format == given.format


@pytest.mark.parametrize("other", [OLDEST_FORMAT - 1, FORMAT + 1])
def test_entries_behind_another_format_are_not_readable(other: int) -> None:
    put, term, unknown = (
        entry(7, "put", *PUT),
        entry(7, "term", *TERM, "format", FORMAT),
        entry(7, "term", "format", other),
    )

    assert [put, term, put] == readable([put, term, put, unknown, put])
    assert [] == readable([unknown, put])
