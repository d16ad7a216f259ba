"""What the pages say about what they do not show: no mark, no entry, a part of the log, an old page."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from tests.faults.clocks import set_back
from tests.faults.processes import eventually
from tests.faults.threads import STEADY, DaemonThread
from tests.integration.web.ground import Web
from zsched import Client

pytestmark = [pytest.mark.redis, pytest.mark.once]
OUTAGE_MS = 10 * 60_000 + 30_000  # ten occurrences of every minute passed; the last one half a minute ago
PASSED = 10


def page(web: Web, name: str, path: str) -> str:
    """Return the text of a page as the operator *name* gets it."""
    with web.browser(name, sees_arguments=True) as person:
        answer = person.get(path)
    assert 200 == answer.status_code
    return answer.text


def test_a_timeline_without_marks_says_what_has_none(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.tasks.remind", id="beat", every=60, tags=["shop"])
    client.schedule("app.tasks.remind", id="reminder-42", after=3600, tags=["shop"])
    client.pause("beat")

    by_tag, by_id = (page(web, f"ann-{n}", f"/timeline?{query}") for n, query in enumerate(("tag=shop", "match=beat")))

    for text in (by_tag, by_id):
        assert "No occurrence has a mark in this time." in text
        assert "whose schedule is paused, are not decided yet" in text
    assert ("marks if you filter by id" in by_tag, "marks if you filter by id" in by_id) == (True, False)


def test_the_list_of_what_did_not_run_counts_occurrences_and_not_lines(
    web: Web, client: Client, redis_url: str, redis_client: redis.Redis
) -> None:
    with set_back(redis_client, OUTAGE_MS):
        client.schedule("app.tasks.remind", id="beat", every=timedelta(minutes=1), catch_up="none", queue="mail")
    with DaemonThread(redis_url, **STEADY):
        eventually(lambda: client.history("beat"))

        assert f"{PASSED} occurrences in this time" in page(web, "ann-2", "/timeline")
