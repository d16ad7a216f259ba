"""client.preview."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.integration.client.ground import HOUR
from zsched import (
    Client,
    InvalidSchedule,
)


def test_a_rule_is_previewed_without_redis() -> None:
    client = Client.from_url("redis://127.0.0.1:1/0")
    start = datetime(2026, 3, 7, tzinfo=ZoneInfo("America/New_York"))

    found = client.preview(cron="30 2 * * *", tz="America/New_York", start=start, n=3)

    assert ["03-07T02:30", "03-08T03:00", "03-09T02:30"] == [f"{at:%m-%dT%H:%M}" for at in found]


def test_schedules_are_previewed_in_their_zone(client: Client, soon: datetime) -> None:
    client.schedule("app.task", id="a", at=soon, tz="Asia/Seoul")
    client.schedule("app.task", id="r", every=60, count=3)

    [at] = client.preview("a")

    assert (soon, timedelta(hours=9)) == (at, at.utcoffset())
    assert [] == list(client.preview("a", start=soon))
    assert [] == list(client.preview("a", start=(soon + 10 * HOUR).replace(tzinfo=None)))
    assert 3 == len(client.preview("r", n=10))


@pytest.mark.parametrize(
    "options", [{}, {"id": "a", "cron": "* * * * *"}, {"every": 5, "n": 0}, {"every": 5, "n": True}, {"at": 5},
                {"every": 5, "queue": "x"}, {"cron": "0 0 30 2 *"}, {"every": 5, "start": "now"}],
)  # fmt: skip
def test_a_bad_preview_is_refused(client: Client, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        client.preview(**options)
