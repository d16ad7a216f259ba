"""Every page of the console, as a person finds it by links, buttons and forms: nothing may be wrong on any of them."""

from contextlib import nullcontext

import pytest

from tests.integration.console.conftest import LONG_ID, MINUTE_MS
from tests.integration.console.crawler import Crawler
from tests.integration.console.person import Person

pytestmark = pytest.mark.once
SHARE = 0.3  # of the bars, dragged


def test_the_links_buttons_and_forms_of_all_pages_lead_to_no_error(ann: Person, town: str) -> None:
    crawler = Crawler(ann)

    crawler.crawl("/", f"/schedules/{LONG_ID}", f"/runs/{town}")

    assert [] == crawler.trouble
    assert 100 < len(crawler.seen)


def test_a_drag_over_the_bars_shows_its_time_at_every_zoom_without_an_error(ann: Person, town: str) -> None:
    crawler = Crawler(ann)
    crawler.open("/timeline")
    zooms = ann.page.locator(".zooms a[href*='from=']").evaluate_all("all => all.map((each) => each.href)")

    for zoom in zooms:
        crawler.open(zoom)
        span_ms = ann.page.locator(".timeline").evaluate("each => each.dataset.to - each.dataset.from")
        is_long_enough = span_ms * SHARE >= MINUTE_MS
        with ann.page.expect_navigation() if is_long_enough else nullcontext():
            drag(ann, 0.4, 0.4 + SHARE)
        crawler.look()

    assert 5 <= len(zooms)
    assert [] == crawler.trouble


def test_the_crawler_notices_a_broken_link_an_error_of_a_script_and_a_page_that_is_too_wide(ann: Person) -> None:
    crawler = Crawler(ann)
    broken = "<a href='/schedules/none'>none</a><p style='width: 9000px'>wide</p><script>nothing()</script>"
    ann.page.route("**/", lambda route: route.fulfill(body=broken, content_type="text/html"))

    crawler.crawl("/")

    noticed = "\n".join(crawler.trouble)
    for trouble in ("nothing is not defined", "pixels wider", "no page at /schedules/none, a link of /", "status 404"):
        assert trouble in noticed
    ann.trouble.clear()


def drag(person: Person, start: float, end: float) -> None:
    """Drag the mouse over the bars, from and to these shares of their width."""
    box = person.page.locator(".density").bounding_box()
    assert box is not None
    y = box["y"] + 20
    person.page.mouse.move(box["x"] + box["width"] * start, y)
    person.page.mouse.down()
    person.page.mouse.move(box["x"] + box["width"] * end, y)
    person.page.mouse.up()
