"""Tasks of people at the console; those with a goal of clicks are in ``test_on_call_tasks``."""

from datetime import UTC, datetime

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.integration.console.person import FAIL, Person, failed
from zsched import Client

pytestmark = pytest.mark.once
MOST_CLICKS = 3


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
