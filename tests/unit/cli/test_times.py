"""Times on the command line: ISO 8601 and what people write, never a guess about day and month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from zsched.cli.values import instant, moment

SEOUL = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-24T18:00", datetime(2026, 12, 24, 18)),
        ("2026-12-24 18:00", datetime(2026, 12, 24, 18)),
        ("2026-12-24 18:00:30.250", datetime(2026, 12, 24, 18, 0, 30, 250_000)),
        ("2026-12-24T18:00Z", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("2026-12-24 18:00+09:00", datetime(2026, 12, 24, 18, tzinfo=SEOUL)),
        ("20261224T1800", datetime(2026, 12, 24, 18)),
        ("2026/12/24 18:00", datetime(2026, 12, 24, 18)),
        ("24 Dec 2026 18:00", datetime(2026, 12, 24, 18)),
        ("Dec 24, 2026 6pm", datetime(2026, 12, 24, 18)),
        ("Thu, 24 Dec 2026 18:00:00 +0900", datetime(2026, 12, 24, 18, tzinfo=SEOUL)),
        ("24 December 2026 18:00 UTC", datetime(2026, 12, 24, 18, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, expected: datetime) -> None:
    found = instant(text)

    assert expected == found
    assert (expected.tzinfo is None) == (found.tzinfo is None)


def test_a_time_without_a_year_is_in_this_year() -> None:
    before, found, after = datetime.now(UTC), instant("24 Dec 18:00"), datetime.now(UTC)

    assert datetime(found.year, 12, 24, 18) == found
    assert before.year <= found.year <= after.year


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-12-24", "no time of day"),
        ("24 Dec 2026", "no time of day"),
        ("18:00", "no date"),
        ("Friday 18:00", "no date"),
        ("Dec 2026 18:00", "no date"),
        ("24/12/2026 18:00", "unknown order"),
        ("12/24 18:00", "unknown order"),
        ("01-02-2026 18:00", "unknown order"),
        ("1.2.2026 18:00", "unknown order"),
        ("2026-12-24 18:00 KST", "'KST' is ambiguous"),
        ("soon", "is not a time; give 2026-12-24 18:00"),
        ("", "is not a time"),
        ("9" * 400, "is not a time"),
    ],
)
def test_an_unclear_time_is_refused_with_examples(text: str, reason: str) -> None:
    with pytest.raises(click.BadParameter, match=reason):
        instant(text)


def test_a_moment_is_a_duration_or_a_time() -> None:
    assert timedelta(hours=1, minutes=30) == moment("1h30m")
    assert datetime(2026, 12, 24, 18) == moment("2026-12-24 18:00")
    with pytest.raises(click.BadParameter, match="neither a duration nor a time; give 90s"):
        moment("yesterday")
