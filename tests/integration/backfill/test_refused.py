"""Invalid backfills are refused with a remedy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from tests.integration.backfill.ground import HOUR, KEYS, NOW
from tests.integration.reruns.ground import queue
from zsched import Client, InvalidSchedule, ScheduleNotFound

SOON = datetime.now(UTC) + timedelta(days=1)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a one-shot": ({"id": "once"}, r"^id='once': it is a one-shot.*; run it now"),
    "the end before the start": ({"end": NOW - 9 * HOUR}, r"^end=.*not later than the beginning, .*; swap them"),
    "the end at the start": ({"end": NOW - 5 * HOUR}, r"^end=.*not later than the beginning"),
    "what comes": ({"end": SOON}, r"^end=.*on the Redis server, and what comes is scheduled already; give a time up"),
    "no time": ({"start": "yesterday"}, r"^start='yesterday': not a datetime"),
    "a flag that is none": ({"again": "yes"}, r"^again='yes': not a yes or no"),
    "a bad id": ({"id": "a b"}, r"^id='a b'"),
    "one in quarantine": ({"id": "broken"}, r"^id='broken': it is quarantined"),
    "one that another writer broke": ({"id": "foreign"}, r"^id='foreign': its rule or anchor cannot be read"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_invalid_backfill_is_refused(client: Client, redis_client: redis.Redis, what: str) -> None:
    given, message = REFUSED[what]
    client.schedule("app.task", id="once", at=SOON)
    for id in ("broken", "foreign"):
        client.schedule("app.task", id=id, cron="0 * * * *")
    redis_client.zrem(f"{KEYS.prefix}due:normal", "broken")
    redis_client.hset(KEYS.quarantine(), "broken", "normal 5 5 why")
    redis_client.hdel(KEYS.schedule("foreign"), "anchor")
    arguments: dict[str, Any] = {"id": "r", "start": NOW - 5 * HOUR, "end": NOW} | given

    with pytest.raises(InvalidSchedule, match=message):
        client.backfill(**arguments)
    assert [] == queue(redis_client)


def test_a_backfill_of_an_unknown_schedule_is_not_found(client: Client) -> None:
    with pytest.raises(ScheduleNotFound, match="no schedule 'nothing'"):
        client.backfill("nothing", NOW - HOUR, NOW)


def test_a_backfill_of_ten_million_occurrences_is_refused_with_a_remedy(client: Client) -> None:
    client.schedule("app.task", id="r", cron="* * * * * *")
    start, message = (
        NOW - timedelta(seconds=10_000_000),
        r"10,000,000 occurrences lie between.*more than 100,000.*end at ",
    )

    with pytest.raises(InvalidSchedule, match=message) as caught:
        client.backfill("r", start, NOW)

    assert (start + timedelta(seconds=100_000)).isoformat() in caught.value.remedy
