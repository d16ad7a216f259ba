"""The schedules and runs that an entry of the log touches."""

from __future__ import annotations

import pytest

from tests.log_rows import row_fields
from tests.unit.core.recovering import DUE_MS, LATER, PUT, RULES, RUN, SUFFIX, T_US, entry, restore, row
from zsched.core.log import Entry, Touch, UnknownEntry, touches
from zsched.core.log.kinds import KINDS

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
REPLAN = row_fields("replan", f"r {DUE_MS} {DUE_MS + 5} {DUE_MS + 6}", f"s-1 {DUE_MS} 5 5")
END = row_fields("end", f"a-{RUN} succeeded {{}}", f"a-r-{RUN}-r1 failed {{}}")
AGAIN = row_fields("again", f"a-{RUN} 2 its worker died", f"a-r-{RUN}-r1 3 its worker died")
BAD = row_fields("quarantine", f"e low {DUE_MS} its hash is gone", "no-id! high 1.5 why not")

TOUCHED: dict[str, tuple[Entry, list[tuple[str, str]]]] = {
    "put": (entry("put", *PUT), [("a", ""), ("a", RUN), ("b-1", ""), ("b-1", LATER)]),
    "put_recurring": (entry("put_recurring", *RULES), [("r", ""), ("s", "")]),
    "enqueue": (entry("enqueue", "rows", 1, f"a-1-{RUN}", "0 0 -"), [("a-1", ""), ("a-1", RUN)]),
    "run_now": (entry("run_now", "id", "r", "run", f"r-{RUN}-r1", "last", 1), [("r", ""), ("r", f"{RUN}-r1")]),
    "backfill": (entry("backfill", "id", "r", "runs", f"r-{RUN} r-{RUN}-r7"), [("r", RUN), ("r", f"{RUN}-r7")]),
    "fire": (
        entry("fire", *FIRE),
        [(id, run) for id in ("a", "b-1", "c", "x", "d") for run in ("", RUN)],
    ),
    "fire of nothing": (entry("fire"), []),
    "advance": (entry("advance", *ADVANCE), [("r", ""), ("r", RUN), ("s", ""), ("s", RUN), ("m", "")]),
    "quarantine": (entry("quarantine", *BAD), [("e", "")]),
    "cancel": (entry("cancel", "rows", 1, "a", DUE_MS), [("a", ""), ("a", RUN)]),
    "cancel of an ended one": (entry("cancel", "rows", 1, "a", "-"), [("a", "")]),
    "pause": (entry("pause", "note", "why", "rows", 1, "a", f"low {DUE_MS}"), [("a", "")]),
    "resume": (entry("resume", "rows", 1, "a", f"low {DUE_MS}"), [("a", "")]),
    "replan": (entry("replan", "old", "", "new", "2026a", *REPLAN), [("r", ""), ("s-1", "")]),
    "end": (entry("end", *END), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "again": (entry("again", *AGAIN), [("a", RUN), ("a-r", f"{RUN}-r1")]),
    "stop": (entry("stop", "runs", f"a-{RUN}"), [("a", RUN)]),
    "unblock": (entry("unblock", "rows", 1, f"a-{RUN}", "a-1 was stopped"), [("a", RUN)]),
    "merged": (entry("merged", "archive", "archive-1", "rows", 1, "1-2", "3"), []),
    "term": (entry("term", "daemon", "d", "server", "s"), []),
}


@pytest.mark.parametrize("name", TOUCHED)
def test_an_entry_touches_the_schedules_and_runs_that_it_names(name: str) -> None:
    given, keys = TOUCHED[name]

    assert [Touch(key, T_US) for key in keys] == list(touches(given, SUFFIX))


def test_a_restore_touches_its_rows_at_the_times_of_their_original_changes() -> None:
    given = restore(row(t_us=5), row("gone", "", 6, "r"), row("open", t_us=7), row("skipped", t_us=8, id="b"))

    expected = [(("a", ""), 5), (("a", RUN), 5), (("r", ""), 6), (("a", RUN), 7), (("b", RUN), 8)]
    assert [Touch(key, t_us, True) for key, t_us in expected] == list(touches(given, SUFFIX))


def test_every_kind_of_log_entry_is_in_the_table() -> None:
    logged = {name for name, kind in KINDS.items() if kind.is_logged}

    assert logged == {name.partition(" ")[0] for name in TOUCHED} | {"restore"}


BROKEN = [entry("conjure"), entry("put", "lane", "low"), entry("pause"), entry("run_now", "id", "r"),
          entry("backfill", "runs", "r"),
          entry("advance", "rows", 1, "r", "fired"), entry("end", "rows", 1, "r"),
          entry("again", "rows", 2, f"r-{RUN}", "2", "", "w"), entry("quarantine", "row", "x"),
          entry("cancel", "id", "a"), entry("enqueue"), entry("replan", "rows", 1, "r", "5 6"),
          entry("restore", "reason", "lost", "archive", "x", "rows", 1, "a")]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.kind)
def test_a_malformed_entry_is_reported_as_unknown(broken: Entry) -> None:
    with pytest.raises(UnknownEntry):
        list(touches(broken, SUFFIX))
