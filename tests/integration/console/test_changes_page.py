"""A day beside the day before: what people and programs did, and what went differently."""

import re
from collections import Counter

import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.clocks import now_ms
from tests.integration.console.person import FAIL, Person, failed
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.storage.keys import Keys
from zsched.web.console.timeline import _difference, _numbers

pytestmark = pytest.mark.once
FUNC = "app.tasks.remind"


def test_a_day_is_compared_with_the_day_before_on_one_screen(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    client.acting_as("bea").schedule(FUNC, id="beat", every=3600)
    client.acting_as("bea").pause("beat", "no mails today")
    client.acting_as("shop").schedule_many({"func": FUNC, "id": f"r-{n}", "after": 3600} for n in range(7))
    failed(client, redis_client, 3)
    eventually(lambda: "end" in [entry.kind for entry in client.log()[0]])  # the leader has recorded it

    ann.open("/")
    ann.click("since yesterday")
    effects, rows = (ann.page.get_by_role("region").nth(n) for n in range(2))
    effects.get_by_text("7 schedules").click()

    assert re.search(r"beat\s+made, paused: no mails today\s+bea", effects.inner_text())
    assert re.search(rf"r-6[\s…]+put {FUNC}\s+shop", effects.inner_text())
    assert " leads" in effects.inner_text()
    assert re.search(r"All\s+0 → 3\s+0\s+0\s+0 → 3", rows.inner_text())
    assert re.search(rf"{FAIL} one-shots\s+0 → 3", rows.inner_text())
    ann.page.get_by_role("link", name=f"now {FAIL}").click()
    ann.reads("3 occurrences in this time")
    ann.open("/changes")
    ann.click("bea")
    ann.reads("no mails today")


def test_two_times_are_chosen_by_a_link_or_a_form(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    client.acting_as("bea").schedule(FUNC, id="beat", every=3600)

    ann.open("/changes")
    ann.click("Last 1 h")
    assert "beat" in ann.text()
    ann.page.get_by_label("From").fill(f"{from_ms(now_ms(redis_client) - 7_200_000):%Y-%m-%dT%H:%M}")
    ann.page.get_by_label("To", exact=True).fill(f"{from_ms(now_ms(redis_client) - 3_600_000):%Y-%m-%dT%H:%M}")
    ann.press("Compare")

    assert "Nobody changed a schedule." in ann.text()
    assert "No row differs" in ann.text()


def test_a_time_without_counts_is_named(web: Web, client: Client, redis_client: redis.Redis) -> None:
    for id in "ab":
        client.enqueue(FUNC, id=id)
    redis_client.xtrim(Keys("default").log(), maxlen=1, approximate=False)

    with web.browser("ann") as ann:
        text = ann.get("/changes").text
        wrong = ann.get("/changes?from=2026-01-02T00:00&to=2026-01-01T00:00")

    assert "the time before is not known" in text
    assert (422, True) == (wrong.status_code, "not later than from" in wrong.text)


@pytest.mark.parametrize(
    ("before", "now", "differs"),
    [
        ({"fired": 100}, {"fired": 109}, False),
        ({"fired": 100}, {"fired": 120}, True),
        ({"fired": 1}, {"fired": 2}, False),
        ({"fired": 100, "late": 20}, {"fired": 100, "late": 30}, True),
        ({"fired": 100, "failed": 20}, {"fired": 100, "failed": 21}, True),
        ({"skipped": 1}, {"expired": 1}, False),
        ({"skipped": 1}, {}, True),
    ],
)
def test_a_tenth_more_or_less_is_a_difference_only_of_failures(
    before: dict[str, int], now: dict[str, int], *, differs: bool
) -> None:
    assert differs == any(_difference(_numbers([Counter(before), Counter(now)])))
