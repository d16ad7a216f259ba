"""
Twelve tasks of somebody on call, by mouse, in the demonstration shop: each in three clicks or fewer from the first
page.

Typing is not counted, as in the study that set the goal. ``pytest --junit-xml`` records clicks and seconds.
"""

import re
import time
from collections.abc import Iterator

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.clocks import KEYS
from tests.integration.console.person import Person
from tests.integration.console.test_processes import registered, takes
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms

pytestmark = pytest.mark.once
MOST_CLICKS = 3


@pytest.fixture
def mouse(ann: Person, town: str, request: pytest.FixtureRequest) -> Iterator[Person]:
    """A person on call at the first page of the shop, who clicks three times at most."""
    ann.open("/")
    began_s = time.monotonic()
    yield ann
    seconds = round(time.monotonic() - began_s, 1)
    request.node.user_properties += [("clicks", ann.clicks), ("seconds", seconds)]
    assert ann.clicks <= MOST_CLICKS


def test_the_reason_why_a_reminder_of_a_paused_schedule_did_not_come_is_found(mouse: Person) -> None:
    mouse.find("wslett")  # a part of its id
    mouse.click("newsletter")

    mouse.reads("PAUSED")
    assert "the text is not approved" in mouse.text()
    assert "paused by" in mouse.text()


def test_a_run_that_expired_in_a_queue_without_a_worker_is_found_by_a_part_of_its_id(mouse: Person) -> None:
    mouse.find("ce-expir")
    mouse.click(re.compile("^once-expired-"))

    mouse.reads("EXPIRED")
    assert "no RQ worker is registered for queue fax" in mouse.text()


def test_all_schedules_of_a_tag_are_paused(mouse: Person, client: Client) -> None:
    mouse.click("Schedules")
    mouse.page.get_by_label("Tag").fill("shop")
    mouse.page.wait_for_url("**tag=shop*")
    mouse.press("Pause …")
    mouse.page.get_by_label("Note: why?").fill("the shop is closed")
    mouse.press("Pause 3 schedules")

    mouse.reads("3 of 3 schedules paused")
    mouse.reads("by ann: the shop is closed")
    assert {"prices", "stock", "sitemap"} == {one.id for one in client.list(tag="shop", state="paused")}


def test_all_that_failed_in_the_last_hour_is_retried(mouse: Person, client: Client) -> None:
    number = len(client.runs(status="failed"))

    mouse.click("All that failed in the last hour")
    mouse.press("Retry …")
    mouse.press(f"Retry {number} runs")

    mouse.reads(f"{number} of {number} runs retried")
    eventually(lambda: number == len(client.history(status="retried")))


def test_occurrences_of_the_next_ten_minutes_are_listed(mouse: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="late-mail", after=500, queue="push")

    mouse.click("10 minutes")

    mouse.reads("late-mail")
    mouse.reads("prices")
    assert "There are more" not in mouse.text()


def test_the_heaviest_minute_its_contents_and_its_timeline_are_shown(mouse: Person) -> None:
    mouse.click("Forecast")
    heaviest = mouse.page.locator("tbody tr").first
    number = heaviest.locator("[data-label=occurrences]").inner_text()
    mouse.click(heaviest.get_by_role("rowheader").get_by_role("link").inner_text())

    contents = mouse.page.locator("tbody tr").all_inner_texts()
    assert int(number) == sum(int(re.split(r"\s+", row)[1]) for row in contents)
    assert "app.tasks.remind" in "".join(contents)

    mouse.clicks += 1
    mouse.page.locator("main").get_by_role("link", name="Timeline").click()
    expect(mouse.page.locator(".density title", has_text=f"{number} to come")).to_have_count(1)


def test_a_cron_rule_is_changed_with_its_next_five_times_shown(mouse: Person, client: Client) -> None:
    mouse.find("digest-seoul")
    mouse.click("Edit")
    mouse.page.get_by_label("Cron", exact=True).fill("30 7 * * *")
    expect(mouse.page.locator("#preview li", has_text="07:30:00")).to_have_count(5)
    mouse.press("Save")

    mouse.reads("updated: cron")
    assert "cron 30 7 * * *" == client.get("digest-seoul").rule_text


def test_an_occurrence_to_come_is_skipped(mouse: Person, client: Client) -> None:
    _, second = client.preview("digest-london", n=2)

    mouse.find("digest-london")
    mouse.clicks += 1
    mouse.page.get_by_role("button", name="Skip ").nth(1).click()

    mouse.reads("skipped")
    assert (second,) == client.get("digest-london").skipped


def test_a_schedule_is_triggered_now(mouse: Person, client: Client, redis_client: redis.Redis) -> None:
    before = redis_client.llen("rq:queue:sync")

    mouse.find("sitemap")
    mouse.ask_for("Run now …")
    mouse.press("Run schedule 'sitemap' now")

    mouse.reads("pushed run sitemap-")
    assert before + 1 == redis_client.llen("rq:queue:sync")


def test_the_health_of_two_daemons_is_compared(mouse: Person, redis_url: str) -> None:
    with DaemonThread(redis_url):
        expect(mouse.page.get_by_role("rowheader", name="standby")).to_be_visible()
        mouse.click("compare")

        expect(mouse.page.locator("thead .state")).to_have_text(["leader", "standby"])
        for fact in ("clock", "memory", "late, p50 and p99", "archive", "version", "started"):
            row = mouse.page.get_by_role("row", name=re.compile(f"^{fact}"))
            expect(row.get_by_role("cell")).to_have_count(2)


def test_the_worker_that_is_stuck_is_named_with_its_run_and_since_when(
    mouse: Person, client: Client, redis_client: redis.Redis
) -> None:
    run_id = client.enqueue("app.tasks.digest", id="hung", queue="reports", timeout=60).run_id or ""
    worker = registered(redis_client, "reporter-1", "reports")
    started = {"status": "started", "started_at": "2026-01-01T00:00:00.000000Z"}
    redis_client.hset(KEYS.rq.job(run_id), mapping=started)  # type: ignore[arg-type]  # texts
    takes(worker, run_id, redis_client)
    registered(redis_client, "reporter-2", "reports")

    mouse.click("Workers")

    stuck = mouse.page.locator("tr.alarming")
    expect(stuck).to_have_count(1)
    for fact in ("reporter-1", "reports", run_id, "limit 1m"):
        expect(stuck).to_contain_text(fact)


def test_the_person_who_changed_a_schedule_is_in_its_story_with_the_difference(mouse: Person, client: Client) -> None:
    client.acting_as("bea").update("digest-seoul", cron="0 8 * * 1-5")

    mouse.find("digest-seoul")

    mouse.reads("by bea")
    story = mouse.page.locator(".story li", has_text="by bea").inner_text()
    assert "0 9 * * 1-5" in story
    assert "0 8 * * 1-5" in story


def test_the_person_who_changed_anything_at_a_time_is_in_the_log_before_it(
    mouse: Person, client: Client, redis_client: redis.Redis
) -> None:
    client.acting_as("bea").update("digest-seoul", queue="slow")
    seconds, us = redis_client.time()
    told_ms = seconds * 1000 + us // 1000 + 1
    for number in range(130):  # more than a page of the log has
        client.acting_as("bot").schedule("app.tasks.remind", id=f"later-{number}", after=86_400)

    mouse.click("Log")
    assert "bea" not in mouse.text()
    mouse.page.get_by_label("Before").fill(f"{from_ms(told_ms):%Y-%m-%dT%H:%M:%S}.{told_ms % 1000:03}")
    mouse.press("Search")

    expect(mouse.page.get_by_role("row", name=re.compile("bea.*digest-seoul")).first).to_be_visible()
