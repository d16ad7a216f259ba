"""What is left of the changes to a schedule, and its words."""

from __future__ import annotations

import pytest

from zsched.core.occurrences.changes import BACKFILL, RUN_NOW, Change
from zsched.core.occurrences.effects import Effect, effect_text, net
from zsched.core.occurrences.outcomes import What


def change(what: What, why: str = "", nominal_ms: int | None = None) -> Change:
    return Change("a", what, 5, "1-1", why=why, nominal_ms=nominal_ms, by="ann")


PUT, CANCEL, RESUME = change(What.PUT), change(What.CANCELLED), change(What.RESUMED)
NOW, DIED = change(What.ENQUEUED, RUN_NOW), change(What.RUN_ENDED, "cancelled")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([PUT, PUT], ["put"]),
        ([change(What.PAUSED, "first"), RESUME, change(What.PAUSED, "no mails")], ["paused: no mails"]),
        ([change(What.PAUSED), RESUME], ["resumed"]),
        ([PUT, change(What.PAUSED), NOW, CANCEL], ["put", "cancelled"]),
        ([CANCEL, PUT], ["cancelled", "put"]),
        ([NOW, change(What.ENQUEUED, BACKFILL), NOW, NOW], ["backfill", "run now ×3"]),
        ([change(What.RETRIED, "a-1"), DIED], ["retried", "run cancelled"]),
        (
            [change(What.SKIP_ASKED, "", 1), change(What.SKIP_ASKED, "", 2), change(What.SKIP_TAKEN_BACK, "", 1)],
            ["skips an occurrence", "skips an occurrence no more"],
        ),
    ],
)
def test_of_equal_and_opposite_changes_the_last_one_is_left(changes: list[Change], expected: list[str]) -> None:
    assert expected == [effect_text(one) for one in net(changes)]


def test_equal_effects_of_many_schedules_become_one_with_the_ids_of_some() -> None:
    first, second, third = (Effect("paused", "ann", 1, us, us, (id,)) for id, us in (("a", 7), ("b", 5), ("c", 9)))

    together = first.also(second, 2).also(third, 2)

    assert Effect("paused", "ann", 3, 5, 9, ("a", "b")) == together == Effect.of_list([*together[:5], ["a", "b"]])
