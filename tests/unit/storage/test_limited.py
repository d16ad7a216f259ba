"""The past within limits: where it begins, and what later changes tell of runs from before."""

from types import SimpleNamespace
from typing import Any

import pytest

from zsched.core.clock import LAST_MS
from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.options.allowed import LimitedBy, Limits
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle
from zsched.storage.limited import Extent, history_begins

LIMITS = Limits(queues=("mail",))
WITHIN, OUTSIDE = (LimitedBy({"func": "app.x"}, queue, ()) for queue in ("mail", "pay"))
UPDATED_MS = 5  # of the schedule as it is
AFTER_UPDATE = 6000
OLD, NEW = "a-1000", "a-9000"


def change(what: What, at_us: int, limited_by: LimitedBy | None = None, **given: Any) -> Change:
    return Change("a", what, at_us, f"1-{at_us}", limited_by=limited_by, **given)


def put(at_us: int, limited_by: LimitedBy | None = WITHIN) -> Change:
    return change(What.PUT, at_us, limited_by)


def begins(changes: list[Change], present: LimitedBy | None = WITHIN, left_out: int = 0) -> int:
    """Return where the history of schedule "a" begins: *present* as it is, None if it is gone."""
    found = present and SimpleNamespace(limited_by=present, updated_ms=UPDATED_MS)
    reader: Any = SimpleNamespace(find=lambda id: found)
    return history_begins(Chronicle("a", Source(None, None, None), changes, left_out), reader, LIMITS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([put(1)], 1),
        ([put(1, OUTSIDE), put(2), change(What.FIRED, 3), put(4)], 2),
        ([put(1), put(2, OUTSIDE), put(3)], 3),
        ([put(1), put(2, None), put(3)], 3),
        ([put(1), change(What.CANCELLED, 2), put(3)], 1),
        ([put(1), change(What.ENQUEUED, 2, why=RUN_NOW), change(What.ENQUEUED, 3, why=BACKFILL), put(4)], 1),
        ([put(1), change(What.ENQUEUED, 2), put(3)], 3),
        ([put(1), change(What.RESTORED, 2), put(3)], 3),
        ([put(1), change(What.PUSHED_AGAIN, 9000)], 9001),
        ([put(1), change(What.FOUND, 2)], AFTER_UPDATE),
        ([put(1), put(9000, OUTSIDE)], 9001),
        ([change(What.FIRED, 9000)], AFTER_UPDATE),
    ],
)
def test_a_history_begins_with_the_last_unbroken_series_of_puts_within_the_limits(
    changes: list[Change], expected: int
) -> None:
    assert expected == begins(changes)


def test_puts_behind_a_gap_do_not_count() -> None:
    changes = [put(1), put(2), put(3)]

    assert (1, 2) == (begins(changes), begins(changes, left_out=1))


@pytest.mark.parametrize("present", [None, OUTSIDE])
def test_a_schedule_that_is_gone_or_beyond_the_limits_has_no_history(present: LimitedBy | None) -> None:
    assert LAST_MS * 1000 == begins([put(1)], present)


def test_runs_of_before_and_what_repeats_them_are_left_out() -> None:
    changes = [
        change(What.ENQUEUED, 1, run_id=OLD, why=RUN_NOW),
        put(2),
        change(What.RUN_ENDED, 3, run_id=OLD),
        change(What.RETRIED, 4, run_id=f"{OLD}-r4", why=OLD),
        change(What.RUN_ENDED, 5, run_id=f"{OLD}-r4"),
        change(What.FIRED, 6, run_id=NEW),
        change(What.RUN_ENDED, 7, run_id=NEW),
        change(What.RETRIED, 8, run_id=f"{NEW}-r8", why=NEW),
        change(What.STOPPING, 9, run_id=f"{NEW}-r8"),
    ]

    assert [2, 6, 7, 8, 9] == [each.at_us for each in Extent.of(2, changes).seen(changes)]


def test_a_change_names_no_run_and_no_option_of_before() -> None:
    changes = [
        change(What.PUT, 2, changed=("queue: pay → mail",)),
        change(What.SKIPPED, 2, why=Outcome.RULE_CHANGED.reason),
        change(What.SKIPPED, 3, why=f"overlap: {OLD} was still open"),
        change(What.FIRED, 4, run_id=NEW, why=f"waits for {OLD}"),
        change(What.SKIPPED, 5, why=f"overlap: {NEW} was still open"),
        change(What.PAUSED, 6, why=f"see {OLD}"),
    ]

    seen = Extent.of(2, changes).seen(changes)

    assert ["", "overlap", "", f"overlap: {NEW} was still open", f"see {OLD}"] == [each.why for each in seen]
    assert () == seen[0].changed
