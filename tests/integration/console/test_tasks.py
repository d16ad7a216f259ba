"""Tasks of people at the console, each in three clicks or fewer from the first page."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.clocks import now_ms
from tests.integration.console.person import FAIL, Person, failed
from zsched import Client
from zsched.core.clock import from_ms

pytestmark = pytest.mark.once
MOST_CLICKS = 3


def test_the_reason_why_a_reminder_did_not_come_is_found(ann: Person, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.tasks.remind", id="reminder-42", after=3600, queue="mail")
    client.cancel("reminder-42")

    ann.open("/")
    ann.find("reminder-42")

    ann.reads("CANCELLED")
    assert "cancelled by" in ann.text()
    assert ann.clicks <= MOST_CLICKS


def test_all_schedules_of_a_tag_are_paused_with_a_shown_note(ann: Person, client: Client, daemon: DaemonThread) -> None:
    for number in range(3):
        client.schedule("app.tasks.remind", id=f"shop-{number}", every=3600, tags=["shop"])
    client.schedule("app.tasks.remind", id="other", every=3600)

    ann.open("/")
    ann.click("Schedules")
    ann.page.get_by_label("Tag").fill("shop")
    ann.press("Pause …")
    ann.page.get_by_label("Note: why?").fill("the shop is closed")
    ann.press("Pause 3 schedules")

    ann.reads("3 of 3 schedules paused")
    assert "the shop is closed" in ann.text()
    assert "by ann" in ann.text()
    assert {"shop-0", "shop-1", "shop-2"} == {one.id for one in client.list(state="paused")}
    assert ann.clicks <= MOST_CLICKS


def test_a_schedule_is_run_now(ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis) -> None:
    client.schedule("app.tasks.remind", id="digest", every=86_400, queue="mail")

    ann.open("/")
    ann.find("digest")
    ann.ask_for("Run now …")
    ann.reads("The times of its rule do not change.")
    assert 0 == redis_client.llen("rq:queue:mail")
    ann.press("Run schedule 'digest' now")

    ann.reads("pushed run digest-")
    assert 1 == redis_client.llen("rq:queue:mail")
    assert ann.clicks <= MOST_CLICKS


def test_a_failed_run_is_retried_after_a_question(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    [run_id] = failed(client, redis_client)

    ann.open(f"/runs/{run_id}")
    ann.ask_for("Retry …")
    ann.press("Retry the run")

    ann.reads(f"retry of {run_id}")
    assert 1 == redis_client.llen("rq:queue:mail")
    ann.open(f"/runs/{run_id}")
    ann.reads("Retried by ann")
    assert f"{run_id}-" in ann.text()
    assert 1 == ann.page.locator("summary", has_text="Retry again …").count()
    ann.open("/runs?status=failed")
    assert "retried: queued" in ann.text()


def test_all_failed_runs_of_a_task_in_the_last_hour_are_retried(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    failed(client, redis_client, 3)

    ann.open("/")
    ann.click("All that failed in the last hour")
    ann.page.get_by_label("Function").fill(FAIL)
    ann.page.wait_for_url("**func=tests.integration*")
    ann.press("Retry …")
    ann.press("Retry 3 runs")

    ann.reads("3 of 3 runs retried")
    assert 3 == redis_client.llen("rq:queue:mail")
    assert ann.clicks <= MOST_CLICKS


def test_skipped_occurrences_are_made_up_after_a_dry_run(ann: Person, outage: int, redis_client: redis.Redis) -> None:
    ann.open("/")
    ann.click("Timeline")
    ann.click("backfill …")
    ann.reads("10 runs would be pushed")
    ann.press("Push 10 runs")

    ann.reads("pushed 10 runs")
    assert 10 == redis_client.llen("rq:queue:mail")
    assert ann.clicks <= MOST_CLICKS


def test_a_time_is_moved_with_the_next_times_shown_while_typing(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", tz="Asia/Seoul")

    ann.open("/")
    ann.find("digest")
    ann.click("Edit")
    ann.page.get_by_label("cron").fill("30 7 * * *")
    expect(ann.page.locator("#preview")).to_contain_text("07:30:00 in")
    ann.press("Save")

    ann.reads("updated: cron")
    assert "cron 30 7 * * *" == client.get("digest").rule_text
    assert ann.clicks <= MOST_CLICKS


def test_a_change_by_another_user_meanwhile_is_shown_and_kept_by_the_next_save(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", tz="Asia/Seoul", queue="mail")

    ann.open("/schedules/digest/edit")
    client.update("digest", queue="urgent")
    ann.page.get_by_label("cron").fill("30 7 * * *")
    ann.press("Save")
    ann.reads("Somebody else has changed it meanwhile")
    assert "Now: urgent" in ann.text()
    assert ("cron 0 9 * * *", "urgent") == (client.get("digest").rule_text, client.get("digest").queue)
    ann.press("Save")

    ann.reads("updated: cron")
    assert ("cron 30 7 * * *", "urgent") == (client.get("digest").rule_text, client.get("digest").queue)
    ann.trouble.clear()  # the browser reports status 409


def test_the_next_times_give_way_to_the_error_of_a_bad_zone(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="party", at=datetime(2099, 12, 24, 18, tzinfo=UTC), tz="Asia/Seoul")
    ann.open("/schedules/party/edit")
    preview = ann.page.locator("#preview")
    expect(preview).to_contain_text("25 Dec 2099 03:00:00")

    ann.page.get_by_label("At", exact=True).fill("2099-12-31T20:00")
    expect(preview).to_contain_text("31 Dec 2099 20:00:00")
    ann.page.get_by_label("Time zone").fill("Mars/Olympus")

    expect(preview).to_contain_text("Time zone='Mars/Olympus'")
    expect(preview).not_to_contain_text("Next time")


def test_the_minutes_in_which_most_schedules_are_due_are_shown(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    at = from_ms(now_ms(redis_client) + 7_200_000)
    client.schedule_many({"func": "app.tasks.remind", "id": f"c-{n}", "at": at} for n in range(300))

    ann.open("/")
    ann.click("Timeline")
    ann.click("Forecast …")

    ann.reads("300")
    assert f"{at:%Y-%m-%d %H:%M}" in ann.text()
    assert ann.clicks <= MOST_CLICKS
