"""Live pages: they change what has changed, leave alone what a person reads, and send few bytes."""

from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Response, expect

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.console.person import Person
from zsched import Client
from zsched.web.login import local_path

pytestmark = pytest.mark.once
MOST_BYTES = 200_000  # of a live page in a minute
MARK = """() => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelector("#live td.entry"));
  getSelection().addRange(range);
}"""


def put(client: Client, *ids: str) -> None:
    for id in ids:
        client.schedule("app.tasks.remind", id=id, after=3600)


@pytest.fixture
def reader(ann: Person, client: Client, daemon: DaemonThread) -> Person:
    """Ann on the live log, with a few entries."""
    put(client, "first", "second")
    ann.open("/log")
    ann.reads("second")
    return ann


def test_a_change_leaves_the_other_rows_as_they_are(reader: Person, client: Client) -> None:
    rows = reader.page.locator("#live tbody tr")
    rows.evaluate_all("all => all.forEach((each) => { each.isKept = true; })")

    put(client, "third")
    reader.reads("third")

    assert [False, *[True] * (rows.count() - 1)] == rows.evaluate_all("all => all.map((each) => each.isKept === true)")


def test_a_marked_text_holds_a_live_page_until_it_is_released(reader: Person, client: Client) -> None:
    reader.page.evaluate(MARK)
    marked = reader.page.evaluate("getSelection().toString()")

    put(client, "third")
    expect(reader.page.locator("#pause.old")).to_be_visible()

    assert (True, marked) == ("third" not in reader.text(), reader.page.evaluate("getSelection().toString()"))
    reader.page.evaluate("getSelection().removeAllRanges()")
    reader.reads("third")


def test_a_live_page_stands_still_while_it_is_paused(reader: Person, client: Client) -> None:
    reader.page.get_by_role("button", name="Pause").click()

    put(client, "third")
    expect(reader.page.locator("#pause.old")).to_be_visible()

    assert "third" not in reader.text()
    reader.page.get_by_role("button", name="Paused: go on").click()
    reader.reads("third")


def test_keys_keep_their_place_on_a_page_that_changes(reader: Person, client: Client) -> None:
    reader.page.locator("#live tbody a").last.focus()
    reader.page.keyboard.press("Tab")
    reader.page.keyboard.press("Shift+Tab")

    put(client, "third")
    expect(reader.page.locator("#pause.old")).to_be_visible()

    assert "A" == reader.page.evaluate("document.activeElement.tagName")


@pytest.mark.parametrize("path", ["/", "/log", "/schedules/busy", "/queues"])
def test_a_live_page_sends_few_bytes_in_a_busy_minute(
    ann: Person, client: Client, daemon: DaemonThread, path: str
) -> None:
    client.schedule("app.tasks.remind", id="busy", every=86_400)
    for number in range(60):
        client.pause("busy", f"note {number}")
        client.resume("busy")
    sent = list[Response]()
    ann.page.clock.install()
    ann.page.route("**/news", lambda route: route.abort())
    ann.open(path)
    ann.page.on("response", lambda answer: "/static/" in answer.url or sent.append(answer))

    for number in range(60):
        client.pause("busy", f"another {number}")
        client.resume("busy")
        ann.page.evaluate("announce()")
        ann.page.clock.run_for(1000)
        ann.page.wait_for_function("() => document.querySelector('.htmx-request') === null")

    assert 3 <= len(sent) <= 31
    assert MOST_BYTES >= sum(int(each.headers["content-length"]) for each in sent)
    ann.trouble.clear()  # the browser reports that there is no stream


@pytest.mark.parametrize("path", ["/schedules", "/runs", "/timeline", "/log"])
def test_a_page_says_of_what_time_it_is(ann: Person, client: Client, path: str) -> None:
    ann.open(path)

    expect(ann.page.locator("#pulse")).to_contain_text("as of")
    assert (path == "/log") == ann.page.locator("#pause").is_visible()
    if path != "/log":
        ann.click("Refresh")
        assert ann.page.url.endswith(path)


def test_a_session_that_ends_keeps_what_was_typed(ann: Person, web: Web, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *")
    ann.open("/schedules/digest/edit")
    cookies = ann.page.context.cookies()
    ann.page.context.clear_cookies()

    ann.page.get_by_label("cron").fill("30 7 * * *")
    ann.reads("Your session has ended.")
    ann.page.get_by_role("button", name="Save").click()
    ann.reads("Your session has ended.")

    assert "30 7 * * *" == ann.page.get_by_label("cron").input_value()
    ann.page.context.add_cookies(cookies)  # type: ignore[arg-type]  # what it returned
    ann.press("Save")
    ann.reads("updated: cron")
    ann.trouble.clear()  # the browser reports status 401


def test_a_change_without_a_session_leads_to_the_login_and_back_to_its_page(web: Web) -> None:
    page = f"{web.url}/schedules/digest?tz=UTC"
    with web.stranger() as stranger:
        answer = stranger.post("/schedules/digest:pause", headers={"Accept": "text/html", "Referer": page})
        foreign = stranger.post("/schedules/digest:pause", headers={"Accept": "text/html", "Referer": "https://x.org/"})

    assert "/login?next=%2Fschedules%2Fdigest%3Ftz%3DUTC" == answer.headers["location"]
    assert "/" == local_path(parse_qs(urlsplit(foreign.headers["location"]).query)["next"][0])


@pytest.mark.parametrize(
    ("cookie", "query", "shown"),
    [
        ("", "", "09:00:00"),
        ("America/Bogota", "", "19:00:00"),
        ("America/Bogota", "?tz=UTC", "00:00:00"),
        ("America/Bogota", "?tz=", "09:00:00"),
        ("Mars/Olympus", "", "09:00:00"),
    ],
)
def test_times_are_in_the_usual_zone_of_the_browser_unless_the_address_has_one(
    web: Web, client: Client, cookie: str, query: str, shown: str
) -> None:
    client.schedule("app.tasks.remind", id="digest", at=datetime(2099, 12, 24, 9), tz="Asia/Seoul")
    with web.browser("zoe") as zoe:
        if cookie:
            zoe.cookies.set("zsched_zone", cookie)
        page = zoe.get(f"/schedules/digest{query}").text

    assert f"Dec 2099 {shown}</time>" in page
    assert 'title="2099-12-2' in page


def test_the_zone_of_the_browser_is_usual_from_its_first_page_and_a_chosen_one_is_kept(
    web: Web, chromium: Any, client: Client
) -> None:
    with Person.of(web, chromium, "ann", timezone="Asia/Seoul") as ann:
        ann.open("/schedules")
        ann.page.wait_for_function("document.body.dataset.tz === 'Asia/Seoul'")
        expect(ann.page.locator("#pulse")).to_contain_text("Asia/Seoul")
        ann.page.get_by_label("Times are in").select_option("UTC")
        ann.page.wait_for_url("**tz=UTC")
        ann.open("/runs")
        assert "UTC" == ann.page.evaluate("document.body.dataset.tz")
