"""Schedules that wait with an owner, a name or a tag, found in an archive."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.builders.entries import SECOND_US, T_US, advance, cancel, entry, fire
from tests.builders.records import DUE_MS
from tests.unit.archive.contents import SteppingClock, archived, prune, rows
from zsched.archive import Archive, History
from zsched.archive.lookups import waiting_with
from zsched.core.clock import SYSTEM, Clock
from zsched.core.entry import Entry
from zsched.core.facets import Facets

ACME, ANN, NAMED = Facets(tags=("acme",)), Facets(owner="ann"), Facets(name="Nightly")


def put(seq: int, tags: str, *ids: str, replaced: str = "") -> Entry:
    fields = ["origin", "mail", "zs_owner", "ann", "zs_name", "Nightly", "zs_tags", tags]
    texts = [text for id in ids for text in (id, DUE_MS, "data", b"call")]
    more = ["replaced", replaced] if replaced else []
    return entry(seq, "put", "lane", "low", "fields", 4, *fields, "rows", len(ids), *texts, *more)


def put_rules(seq: int, *tags: str) -> Entry:
    shapes = [
        text
        for tag in tags
        for text in ("lane", "low", "schedule", 2, "func", "app.task", "tags", tag, "template", 1, "origin", "mail")
    ]
    words = f"{{}} {DUE_MS} {DUE_MS} 5 5 - - - - digest"
    ids = [(f"r{number}", words.format(number)) for number in range(1, len(tags) + 1)]
    lines = [text for id, one in ids for text in (id, one, "trigger", "every 60000", "data", b"call")]
    return entry(seq, "put_recurring", "shapes", len(tags), *shapes, "rows", len(ids), *lines)


def waiting(path: Path, facets: Facets = ACME, clock: Clock = SYSTEM) -> list[str] | None:
    """Return the ids with *facets*, in order."""
    with History(path) as history:
        found = waiting_with(history, facets=facets, clock=clock)["waiting"]
    assert found is None or {due for due, _ in found} <= {DUE_MS, DUE_MS + 1}
    return found if found is None else sorted(id for _, id in found)


def test_schedules_are_found_by_tag_owner_and_name_while_they_wait(path: Path) -> None:
    told = [
        put(1, '["acme","vip"]', "a", "b", "c", "d"), put(2, '["other"]', "o"), put_rules(3, '["acme"]', '["other"]'),
        put(4, '["other"]', "b", replaced="b"), fire(5, f"c-{DUE_MS}"), cancel(6, "d"),
        entry(7, "pause", "note", "why", "rows", 1, "a", f"low {DUE_MS}"),
    ]  # fmt: skip
    archived(path, told)

    assert ["a", "r1"] == waiting(path)
    assert ["a"] == waiting(path, Facets(tags=("vip",)))
    assert ["a", "b", "o"] == waiting(path, ANN) == waiting(path, NAMED)
    assert waiting(path, Facets("app.task")) is None
    assert ["b", "o"] == waiting(path, Facets(owner="ann", tags=("other",)))
    assert [] == waiting(path, Facets(owner="ann", tags=("nobody",)))


def test_a_run_of_a_tagged_rule_counts_as_no_schedule(path: Path) -> None:
    archived(path, [put_rules(1, '["acme"]'), advance(2, f"r1 fired {DUE_MS} {DUE_MS + 1} {DUE_MS + 1} -")])

    assert ["r1"] == waiting(path)


def test_an_old_schedule_is_found_after_its_history_was_deleted_and_a_cancelled_one_leaves_no_label(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("schema", "index", "lookups"):
        monkeypatch.setattr(f"zsched.archive.{module}.POSTING_BITS", 2)
    gone = [put(seq, '["acme"]', f"g{seq}") for seq in range(2, 20)]
    over = [cancel(seq + 20, f"g{seq}") for seq in range(2, 20)]
    with closing(Archive(path, "default")) as archive:
        archive.append([put(1, '["acme"]', "old"), *gone, *over, put(60, '["acme"]', "new")])
        prune(archive, T_US + 50 * SECOND_US)

    assert ["new", "old"] == waiting(path)
    assert {1} == {n for (n,) in rows(path, "SELECT n FROM label WHERE n < 36")}


def test_an_archive_that_may_lack_schedules_or_needs_too_long_knows_nothing(path: Path) -> None:
    archived(path, [put(1, '["acme"]', "a")])
    assert waiting(path, clock=SteppingClock(1201)) is None

    with closing(Archive(path, "default")) as archive:
        archive.begin_bootstrap()
        archive.commit()
        assert waiting(path) is None
        archive.abandon_bootstrap()
        archive.append([entry(2, "put", "lane")])
        archive.commit()

    assert waiting(path) is None
