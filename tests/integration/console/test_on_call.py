"""Small things on which somebody on call loses time: what cannot be undone, parts of ids, open forms, empty results."""

import re
from datetime import UTC, datetime

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.console.person import Person, failed
from tests.waiting import eventually
from zsched import Client

pytestmark = pytest.mark.once


def test_actions_that_cannot_be_undone_are_last_and_red(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600, tags=["shop"])

    for path in ("/schedules/digest", "/schedules?tag=shop"):
        ann.open(path)
        acts = ann.page.locator(".actions > *")
        assert ["Cancel …"] == [text.strip() for text in ann.page.locator(".actions > .danger").all_inner_texts()]
        assert "danger" in (acts.last.get_attribute("class") or "")
    ann.open("/schedules:cancel?tag=shop")
    assert "danger" == ann.page.get_by_role("button", name=re.compile("^Cancel 1 schedule")).get_attribute("class")


def test_an_open_form_moves_no_neighbour_and_closes_by_escape(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)
    ann.open("/schedules/digest")
    edit = ann.page.get_by_role("link", name="Edit", exact=True)
    before = edit.bounding_box()

    ann.ask_for("Pause …")
    ann.page.get_by_label("Note: why?").first.fill("half a note")
    assert before == edit.bounding_box()
    ann.page.keyboard.press("Escape")

    expect(ann.page.locator(".actions details[open]")).to_have_count(0)


def test_a_part_of_an_id_finds_what_is_over(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.tasks.remind", id="offer-0001", after=0, queue="mail")
    client.schedule("app.tasks.remind", id="waits-0001", after=3600)
    eventually(lambda: client.runs("offer-0001"))

    with web.browser("ann") as ann:
        places = [ann.get(f"/find?q={text}").headers["location"] for text in ("fer-00", "its-00", "nothing")]
        runs, exact, none = (ann.get(f"/runs?match={text}").text for text in ("fer-00", "offer-0001", "nothing"))
        foot = ann.get("/schedules?match=fer-00").text

    assert ["/runs?match=fer-00", "/schedules?match=its-00", "/schedules?match=nothing"] == places
    assert [True, True, False] == ["offer-0001-" in page for page in (runs, exact, none)]
    assert '<a href="/runs?match=%2Afer-00%2A">search the runs</a>' in foot


def test_the_log_lists_all_that_an_entry_changed_in_the_words_of_its_filter(
    web: Web, client: Client, daemon: DaemonThread
) -> None:
    client.schedule_many({"func": "app.x", "id": f"beat-{n}", "every": 3600} for n in range(3))
    client.pause_many(match="beat-*")

    with web.browser("ann") as ann:
        shown = ann.get("/log").text
        paused = ann.get("/log?what=paused").text

    assert "and 2 more changes</summary>" in shown
    for n in range(3):
        assert f'href="/schedules/beat-{n}"' in paused
    words = set(re.findall(r'<td class="entry">[^<]*</td>\s*<td>(\w+)</td>', shown))
    assert {"put", "paused"} <= words
    assert not words & {"put_recurring", "advance", "end"}


def test_a_result_without_schedules_offers_no_change_of_all(ann: Person, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600, tags=["shop"])

    for tag, number in (("shop", 1), ("none", 0)):
        ann.open(f"/schedules?tag={tag}")
        assert number == ann.page.locator(".bulk:visible").count()


def test_the_address_of_a_search_has_only_the_filters_that_are_set(ann: Person, client: Client) -> None:
    ann.open("/schedules")

    ann.page.get_by_label("Tag").fill("shop")
    ann.page.wait_for_url("**tag=shop*")

    assert "tag=shop" == ann.page.url.partition("?")[2]


def test_the_ids_that_a_change_of_many_would_change_are_links(
    web: Web, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    [run_id] = failed(client, redis_client)
    client.schedule("app.tasks.remind", id="digest", every=3600, tags=["shop"])

    with web.browser("ann") as ann:
        assert f'href="/runs/{run_id}"' in ann.get("/runs:retry?status=failed").text
        assert 'href="/schedules/digest"' in ann.get("/schedules:pause?tag=shop").text


def test_times_in_a_story_are_short_and_whole_in_its_tooltip(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.x", id="digest", at=datetime(2099, 12, 24, 18, tzinfo=UTC))

    with web.browser("ann") as ann:
        page = ann.get("/schedules/digest").text

    assert re.search(r'title="[^"]*for 2099-12-24 18:00:00\+00:00">[^<]*for 24 Dec 2099 18:00:00<', page)
