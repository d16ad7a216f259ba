"""client.preview."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.integration.client.ground import HOUR
from zsched import Client, InvalidSchedule
from zsched.core.clock import from_ms, to_ms
from zsched.core.triggers import build, due_of


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


def test_a_preview_of_a_schedule_with_jitter_shows_due_times(client: Client, soon: datetime) -> None:
    client.schedule("app.task", id="r", cron="0 * * * *", starts=soon, jitter=3600)
    first = client.get("r").next_at
    assert first is not None

    found = client.preview("r", n=3, start=soon)
    schedule, hours = client.get("r"), range(3)

    assert schedule.trigger is not None
    nominal_ms = schedule.nominal_ms or 0
    trigger = build(schedule.trigger, schedule.anchor_ms or 0)
    assert [due_of(trigger, "r", nominal_ms + n * 3_600_000) for n in hours] == [to_ms(at) for at in found]
    assert first == found[0]
    between = from_ms((nominal_ms + to_ms(first)) // 2)
    assert first == client.preview("r", n=1, start=between)[0], "its nominal time has come, it is not due yet"
    assert found[1] == client.preview("r", n=1, start=first)[0]


def test_a_preview_omits_an_occurrence_whose_nominal_time_was_before_the_put(client: Client) -> None:
    starts = datetime.now(UTC) - timedelta(hours=1000, minutes=3)
    ids = [f"r{n}" for n in range(20)]  # of most of them the occurrence of three minutes ago is not due yet
    for id in ids:
        client.schedule("app.task", id=id, every=3600, starts=starts, jitter=3600)

    assert {id: client.get(id).next_at for id in ids} == {id: client.preview(id, n=1)[0] for id in ids}


def test_the_preview_of_a_rule_alone_has_no_jitter(client: Client) -> None:
    with pytest.raises(InvalidSchedule, match=r"^jitter=5: .*depends on the schedule's id; .*preview a schedule"):
        client.preview(cron="* * * * *", jitter=5)


@pytest.mark.parametrize(
    "options", [{}, {"id": "a", "cron": "* * * * *"}, {"every": 5, "n": 0}, {"every": 5, "n": True}, {"at": 5},
                {"every": 5, "queue": "x"}, {"cron": "0 0 30 2 *"}, {"every": 5, "start": "now"}],
)  # fmt: skip
def test_a_bad_preview_is_refused(client: Client, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        client.preview(**options)
