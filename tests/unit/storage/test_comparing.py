"""The options in which two puts of the history differ."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from zsched.core.changes import Change, What
from zsched.core.log.kinds import Recorded
from zsched.storage import comparing
from zsched.storage.comparing import changed_options, with_changed_options

DUE_MS = 1_900_000_000_000
JOB = {"description": "app.task", "origin": "default", "timeout": "180"}


def call(*args: Any, func: str = "app.task") -> bytes:
    return pickle.dumps([func, None, args, {}])


def once(due_ms: int = DUE_MS, data: bytes = call(1), lane: str = "normal", **fields: str | bytes) -> Recorded:
    """Return the record of a one-shot."""
    job: dict[str, str | bytes] = {**JOB, "zs": "1", "data": data, **fields}
    return Recorded("1-1", False, due_ms, lane, texts(job), True)


def texts(fields: dict[str, Any]) -> list[bytes]:
    return [each if isinstance(each, bytes) else each.encode() for pair in fields.items() for each in pair]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (once(), once(), ()),
        (once(), once(origin="email"), ("queue: default → email",)),
        (once(), once(lane="high"), ("priority: normal → high",)),
        (once(), once(DUE_MS + 1000), ("at: 2030-03-17T17:46:40+00:00 → 2030-03-17T17:46:41+00:00",)),
        (once(), once(data=call(2)), ("arguments changed",)),
        (once(), once(data=pickle.dumps(["app.task", None, (1,), {}], protocol=2)), ()),  # equal values
        (once(), once(data=call(1, func="app.other")), ("func: app.task → app.other",)),
        (once(), once(data=b""), ()),  # an archive that keeps no arguments
        (once(data=b""), once(data=b"", origin="email"), ("queue: default → email",)),
        (once(data=json.dumps(["app.task", None, [1], {}]).encode()), once(data=b'["app.task",null,[2],{}]'),
         ("arguments changed",)),
        (once(), once(meta=pickle.dumps({"a": 1})), ("meta changed",)),
        (once(), once(zs_created_by="ann"), ("created_by: - → ann",)),
        (once(data=b"\x80broken"), once(data=b"\x80other", origin="email"),
         ("queue: default → email", "arguments changed")),
    ],
)  # fmt: skip
def test_a_change_is_shown_by_its_options_without_payloads(
    old: Recorded, new: Recorded, expected: tuple[str, ...]
) -> None:
    assert expected == changed_options("a", old, new)


def test_a_record_that_cannot_be_compared_does_not_hide_the_other_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "option_changes", lambda *both: 1 / 0)
    put = [Change("a", What.PUT, at, f"1-{at}") for at in (1, 2)]
    records = [once()._replace(entry=one.entry) for one in put]

    first, second = with_changed_options(put, lambda wanted: records)

    assert ((), ("its options cannot be compared (ZeroDivisionError)",)) == (first.changed, second.changed)


def test_a_put_of_a_new_schedule_changes_nothing() -> None:
    put = [Change("a", What.PUT, at, f"1-{at}") for at in (1, 2)]
    records = [once()._replace(entry=one.entry, replaces=False) for one in put]

    assert put == with_changed_options(put, lambda wanted: records)


def test_a_story_with_one_put_reads_no_record() -> None:
    put = [Change("a", What.PUT, 1, "1-1"), Change("a", What.PAUSED, 2, "1-2")]

    def refuse(wanted: Any) -> Any:
        raise AssertionError(wanted)

    assert put == with_changed_options(put, refuse)
