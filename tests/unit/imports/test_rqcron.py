"""Cron strings of RQ's cron fire here when they do there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter

from tests.unit.imports.test_fields import fires
from zsched.imports.rqcron import cron_of_croniter

START = datetime(2028, 2, 20, tzinfo=UTC)  # before a leap day
DAYS = 90


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * * 1-5",
        "0 0 13 * 5",
        "0 0 */2 * mon",
        "0 0 */2 * */3",
        "0 0 */2 * *",
        "0 0 */1 * mon",
        "0 0 1-31 * mon",
        "0 0 1 * 0-6",
        "0 0 1 * 0-7",
        "0 0 ? * fri",
        "5/20 1 L * *",
        "5/20 1 L * 3",
        "0 0 * * L5",
        "0 12 * * 5#2,1#1",
        "30 2 13 * 5 15",
        "0 */6 * 2,3 * */30",
        "@weekly",
    ],
)
def test_a_cron_string_fires_when_rq_enqueues_it(text: str) -> None:
    theirs, expected = croniter(text, START - timedelta(seconds=1)), []
    while (at := theirs.get_next(datetime)) < START + timedelta(days=DAYS):
        expected.append(at)

    assert expected == fires(cron_of_croniter(text), "UTC", START, DAYS * 1440)


@pytest.mark.parametrize("text", ["0 0 1 1 * 0 2050", "0 0 *,5 * mon"])
def test_a_cron_string_without_a_counterpart_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^cron '.*; (write|schedule)"):
        cron_of_croniter(text)
