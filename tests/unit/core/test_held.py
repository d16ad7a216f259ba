"""Equal and different schedules in Redis and in an archive."""

from __future__ import annotations

import pytest

from tests.unit.core.recovering import DUE_MS, FIELDS, LATER, OWN, one_shot, rule
from zsched.core.difference import Held


def test_fields_that_change_with_time_are_not_compared() -> None:
    aged = [*FIELDS, b"status", b"scheduled", b"created_at", b"2026", b"enqueued_at", b"2026"]

    assert one_shot().is_same(one_shot(record=aged))
    assert rule().is_same(
        rule(record=[*FIELDS[:6], *OWN[:4], b"schedule:version", b"3-9", b"schedule:updated_at", b"6"])
    )


@pytest.mark.parametrize(
    "other",
    [
        one_shot("paused"), one_shot(run=LATER), one_shot(lane="high"), one_shot(due_ms=None), one_shot(note="5 why"),
        one_shot(record=FIELDS[:-2]), one_shot(record=[*FIELDS[:-1], b"f"]), rule(),
    ],
)  # fmt: skip
def test_a_different_one_shot_is_not_the_same(other: Held) -> None:
    assert not one_shot().is_same(other)
    assert not other.is_same(one_shot())


@pytest.mark.parametrize(
    "other",
    [
        rule(nominal_ms=DUE_MS + 1), rule(last=None), rule(last="a-6"), rule(place="ended", due_ms=None),
        rule(record=[*FIELDS[:6], *OWN[:1], b"every 6", *OWN[2:]]), rule(record=[*FIELDS[:4], *OWN]),
    ],
)  # fmt: skip
def test_a_different_rule_is_not_the_same(other: Held) -> None:
    assert not rule().is_same(other)
