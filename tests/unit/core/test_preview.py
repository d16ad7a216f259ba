"""occurrences(): what a rule will do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from zsched.core.clock import to_ms
from zsched.core.preview import occurrences
from zsched.core.triggers import TriggerKind, TriggerSpec

NEW_YORK = ZoneInfo("America/New_York")


def _local(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=NEW_YORK)  # type: ignore[arg-type, misc]


def test_occurrences_are_strictly_later_and_aware_in_the_rules_zone() -> None:
    spec = TriggerSpec(TriggerKind.CRON, "30 2 * * *", "America/New_York")

    found = occurrences(spec, 0, to_ms(_local(2026, 3, 7, 2, 30)), 2)

    assert [_local(2026, 3, 8, 3), _local(2026, 3, 9, 2, 30)] == found
    assert [timedelta(hours=-4)] * 2 == [at.utcoffset() for at in found]


def test_the_pass_of_a_fold_is_told_by_the_offset() -> None:
    spec = TriggerSpec(TriggerKind.CRON, "*/30 * * * *", "America/New_York")

    found = occurrences(spec, 0, to_ms(_local(2026, 11, 1, 0, 30)), 5)

    assert ["01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500", "02:00-0500"] == [f"{at:%H:%M%z}" for at in found]


def test_an_exhausted_rule_gives_fewer() -> None:
    spec = TriggerSpec(TriggerKind.EVERY, "1000", count=3)
    start_ms = to_ms(datetime(2026, 1, 1, tzinfo=UTC))

    assert 3 == len(occurrences(spec, start_ms, start_ms, 10))
    assert 1 == len(occurrences(spec, start_ms, start_ms + 2000, 10))
    assert [] == occurrences(spec, start_ms, start_ms + 3000, 10)
