"""Rows that a person chooses in the lists of schedules and runs, and what is done with exactly these."""

import re
from typing import Any

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.console.person import Person, failed
from zsched import Client
from zsched.core.options.choices import ScheduleState
from zsched.web.console.view import PAGE

pytestmark = pytest.mark.once
RENEW = "async () => renew(await (await fetch(location, {headers: {'HX-Request': 'true'}})).text())"


@pytest.fixture
def shop(client: Client) -> Client:
    """A client of four schedules, the first due first."""
    for number in range(4):
        client.schedule("app.tasks.remind", id=f"shop-{number}", after=3600 + number, tags=["shop"])
    return client


def states(client: Client) -> list[str]:
    """Return the ids that are paused."""
    return sorted(one.id for one in client.list(state="paused"))


@pytest.mark.parametrize("has_scripts", [True, False])
def test_chosen_rows_are_asked_about_and_changed_alone(
    web: Web, chromium: Any, shop: Client, has_scripts: bool
) -> None:
    with Person.of(web, chromium, "ann", has_scripts=has_scripts) as ann:
        ann.open("/schedules?tag=shop")
        for id in ("shop-0", "shop-2"):
            ann.page.get_by_label(f"choose {id}").check()
        ann.press("Pause …")
        asked = re.findall("shop-[0-9]", ann.text())
        ann.page.get_by_label("Note: why?").fill("no stock")
        ann.press("Pause 2 schedules")

        ann.reads("2 of 2 schedules paused")
        assert "tag=shop" in ann.page.url
    assert ["shop-0", "shop-2"] == asked == states(shop)


def test_rows_are_chosen_without_a_filter_and_all_that_match_without_a_choice(ann: Person, shop: Client) -> None:
    shop.schedule("app.tasks.remind", id="other", every=3600)
    ann.open("/schedules")
    expect(ann.page.get_by_role("button", name="Cancel …")).to_be_disabled()
    ann.page.get_by_label("choose other").check()
    ann.press("Cancel …")
    ann.press("Cancel 1 schedule")
    ann.reads("1 of 1 schedule cancelled")

    ann.open("/schedules?tag=shop")
    ann.press("Pause …")
    ann.reads("Filter: tag shop.")
    ann.press("Pause 4 schedules")

    assert 4 == len(states(shop)) == len(list(shop.list()))


def test_the_result_tells_which_chosen_schedules_have_changed_meanwhile(web: Web, shop: Client) -> None:
    with web.browser("ann") as ann:
        ids = {"id": ["shop-0", "shop-1", "shop-2"]}
        asked = ann.get("/schedules:pause", params=ids).text
        shop.pause("shop-0")
        shop.cancel("shop-1")
        ann.post("/schedules:pause", data={"id": re.findall(r'name="id" value="([^"]*)"', asked)})
        told = ann.get("/schedules").text

    assert "1 of 3 schedules paused; 1 needed no change; 1 refused, such as shop-1: no schedule" in told
    assert ["shop-0", "shop-2"] == states(shop)


def test_a_limited_person_changes_no_chosen_schedule_beyond_the_limits(web: Web, shop: Client) -> None:
    shop.schedule("app.tasks.remind", id="other", every=3600)

    with web.browser("sam", "scheduler", tags=("shop",)) as sam:
        for action in ("pause", "cancel"):
            sam.post(f"/schedules:{action}", data={"id": ["other", "shop-3"]})
        told = sam.get("/schedules").text

    assert "1 of 2 schedules cancelled; 1 refused, such as other: no schedule" in told
    assert ScheduleState.ACTIVE is shop.get("other").state


def test_more_rows_than_a_page_has_are_refused(web: Web, shop: Client) -> None:
    ids = {"id": [f"shop-{number}" for number in range(PAGE + 1)]}

    with web.browser("ann") as ann:
        answers = [ann.get("/schedules:pause", params=ids), ann.post("/runs:retry", data=ids)]
        nothing = ann.get("/schedules:pause")

    assert [422, 422, 422] == [each.status_code for each in (*answers, nothing)]
    assert "51 ids" in answers[0].text
    assert "choose rows, or filter by" in nothing.text
    assert [] == states(shop)


def test_chosen_runs_are_retried_alone_and_once(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    first, second, third = failed(client, redis_client, 3)
    ann.open("/runs?status=failed")
    for run_id in (first, third):
        ann.page.get_by_label(f"choose {run_id}").check()
    ann.press("Retry …")
    asked = ann.page.locator("main li").all_inner_texts()
    client.retry_many("failed", match="broken-0")
    ann.press("Retry 2 runs")

    ann.reads("1 of 2 runs retried; 1 needed no change")
    assert {first, third} == {*asked}
    retried = {run.id for run in client.runs(status="queued")}
    assert [True, False, True] == [any(id.startswith(run_id) for id in retried) for run_id in (first, second, third)]
    assert 2 == len(retried)


def test_a_failed_run_is_chosen_among_others_without_a_filter(
    ann: Person, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    [run_id] = failed(client, redis_client)
    client.enqueue("app.tasks.remind", id="waits", queue="mail")
    ann.open("/runs")
    expect(ann.page.get_by_role("button", name="Retry …")).to_be_disabled()

    expect(ann.page.locator(".box input")).to_have_count(1)
    ann.page.get_by_label("choose all on this page").check()
    ann.press("Retry …")
    ann.press("Retry 1 run")

    ann.reads("1 of 1 run retried")
    assert [True] == [run.id.startswith(run_id) for run in client.runs("broken-0", status="queued")]


def test_all_rows_of_a_page_are_chosen_at_once_and_counted(ann: Person, shop: Client) -> None:
    ann.open("/schedules?tag=shop")
    says, all_ = ann.page.locator(".bulk [role=status]"), ann.page.get_by_label("choose all on this page")
    expect(says).to_have_text("All that match:")

    all_.check()
    expect(says).to_have_text("4 chosen:")
    ann.page.get_by_label("choose shop-1").uncheck()
    expect(says).to_have_text("3 chosen:")
    expect(all_).not_to_be_checked()
    all_.check()
    all_.uncheck()

    expect(says).to_have_text("All that match:")


def test_a_choice_survives_what_changes_on_the_page(ann: Person, shop: Client) -> None:
    ann.open("/schedules")
    ann.page.get_by_label("choose shop-1").check()
    shop.schedule("app.tasks.remind", id="first", after=60)
    shop.pause("shop-0")

    ann.page.evaluate(RENEW)

    expect(ann.page.get_by_label("choose first")).to_be_visible()
    assert ["shop-1"] == [
        box.get_attribute("value") for box in ann.page.locator(".box input").all() if box.is_checked()
    ]
    expect(ann.page.locator(".bulk [role=status]")).to_have_text("1 chosen:")


def test_a_viewer_has_nothing_to_choose(eve: Person, shop: Client) -> None:
    for path in ("/schedules?tag=shop", "/runs?status=failed"):
        eve.open(path)
        expect(eve.page.locator("input[type=checkbox]")).to_have_count(0)
