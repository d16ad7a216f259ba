"""Deadlines of nominal times: local times across changes of the clock, and durations."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zsched.core.triggers.trigger import deadlines

ZONES = ("America/New_York", "Europe/Berlin", "Asia/Seoul", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca")
DAY_MS = 86_400_000
CASES = {
    "later the same day": ("06:00", "2026-01-05T02:00", "2026-01-05T06:00:00-05:00"),
    "the next day": ("06:00", "2026-01-05T07:00", "2026-01-06T06:00:00-05:00"),
    "at that very time": ("06:00", "2026-01-05T06:00", "2026-01-06T06:00:00-05:00"),
    "with seconds": ("06:00:30", "2026-01-05T06:00", "2026-01-05T06:00:30-05:00"),
    "in a gap": ("02:30", "2026-03-08T01:00", "2026-03-08T03:00:00-04:00"),
    "after a gap": ("06:00", "2026-03-08T01:00", "2026-03-08T06:00:00-04:00"),
    "in a fold": ("01:30", "2026-11-01T00:30", "2026-11-01T01:30:00-04:00"),
    "after the first of two": ("01:30", "2026-11-01T01:30", "2026-11-02T01:30:00-05:00"),
    "a duration over a gap": ("90m", "2026-03-08T01:00", "2026-03-08T03:30:00-04:00"),
    "a duration over a fold": ("2h", "2026-11-01T00:30", "2026-11-01T01:30:00-05:00"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_deadline_follows_the_clock_of_its_zone(name: str) -> None:
    done_by, nominal, expected = CASES[name]
    zone = ZoneInfo("America/New_York")
    nominal_ms = int(datetime.fromisoformat(nominal).replace(tzinfo=zone).timestamp() * 1000)

    found = deadlines(done_by, zone.key)(nominal_ms)

    assert expected == datetime.fromtimestamp(found / 1000, zone).isoformat()


@given(
    zone=st.sampled_from(ZONES),
    at=st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
)
def test_a_local_deadline_is_the_first_such_time_after_the_nominal_time(
    zone: str, at: datetime, hour: int, minute: int
) -> None:
    nominal_ms = int(at.replace(tzinfo=UTC).timestamp() * 1000)

    found_ms = deadlines(f"{hour:02}:{minute:02}", zone)(nominal_ms)

    found = datetime.fromtimestamp(found_ms / 1000, ZoneInfo(zone))
    assert nominal_ms < found_ms <= nominal_ms + 2 * DAY_MS + DAY_MS // 8
    if (found.hour, found.minute) != (hour, minute):  # the clock skipped it: the first instant after the gap
        before = found.astimezone(UTC) - timedelta(seconds=1)
        asked = found.replace(hour=hour, minute=minute)
        assert asked.astimezone(UTC).astimezone(ZoneInfo(zone)) != asked
        assert before.astimezone(ZoneInfo(zone)).utcoffset() != found.utcoffset()
    times = (datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)) for ms in range(nominal_ms + 60_000, found_ms, 60_000))
    assert not any((one.hour, one.minute, one.fold) == (hour, minute, 0) for one in times)
