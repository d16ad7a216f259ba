"""Each page of the console: for each role, with and without scripts, for everybody; and what it never does."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import fastapi.routing
import pytest
import redis
from playwright.sync_api import expect

from tests.breadth import some
from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.console.person import Person, failed
from tests.integration.web.routes import entries_by
from zsched import Client
from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.storage.connection import Link
from zsched.web.app import PREFIX, make_api
from zsched.web.calls import admitted
from zsched.web.console.view import viewed

pytestmark = pytest.mark.once
WIDTHS = some((390, 1280, 1920), 390)
LONG = "newsletter_of_the_week_for_all_customers_on_the_east_coast"
READS = {"GET", "HEAD"}


def routes() -> Iterator[tuple[str, str]]:
    """Yield method and path of each route of the console: those that take a view."""
    app = make_api(Settings(), AsyncLink.from_url("redis://127.0.0.1:1", 1))
    found: Any = getattr(fastapi.routing, "iter_route_contexts", iter)(app.routes)
    for route in found:
        needs = getattr(route, "dependant", None)
        if needs is not None and any(each.call in (viewed, admitted) for each in needs.dependencies):
            path = str(route.path_format)
            if not path.startswith(PREFIX):
                yield from ((method, path) for method in route.methods)


ROUTES = sorted(routes())
READ = [path for method, path in ROUTES if method == "GET"]
PARTS = {"/outcomes", "/news", "/schedules/{id}/preview", "/new/preview"}  # of pages, which scripts ask for
PAGES = [path for path in READ if path not in PARTS]
WRITES = [(method, path) for method, path in ROUTES if method not in READS]


def filled(path: str, run_id: str) -> str:
    """Return *path* with the ids of the scene."""
    query = {"/outcomes": "?id=digest", "/schedules:{action}": "?tag=shop", "/find": "?q=digest"}.get(path, "")
    return path.format(id="digest", run_id=run_id, action="pause") + query


@pytest.fixture
def run_id(client: Client, daemon: DaemonThread, redis_client: redis.Redis) -> str:
    """A scene with schedules in each state, of which runs have failed and succeeded. The id of a failed run."""
    client.ack(error="*no mailbox*", note="a known failure")
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *", tz="Asia/Seoul", tags=["shop"], queue="mail")
    client.schedule("app.tasks.remind", id="beat", every=3600, jitter=60, queue="mail", description="<b>bold</b>")
    client.schedule("app.tasks.remind", id="reminder-42", after=3600, tags=["shop"])
    client.pause("beat", "no mails today")
    client.schedule(
        f"app.{LONG}", id=LONG, cron=f"{','.join(map(str, range(0, 60, 5)))} 8-18 * * 1-5", description=LONG
    )
    return failed(client, redis_client)[0]


def test_the_console_has_the_pages_that_these_tests_know() -> None:
    assert {"/", "/timeline", "/schedules", "/schedules/{id}", "/runs", "/runs/{run_id}", "/queues", "/log"} < {*PAGES}
    assert {"/doctor", "/accounts"} < {*PAGES}
    assert 5 <= len(WRITES)


@pytest.mark.parametrize("path", some(PAGES, "/schedules"))
def test_a_page_is_shown_without_errors_at_any_width_and_is_accessible(ann: Person, run_id: str, path: str) -> None:
    ann.open(filled(path, run_id))

    for width in WIDTHS:
        ann.page.set_viewport_size({"width": width, "height": 900})
        for part in ("html", ".wide"):
            cut = ann.page.evaluate(f"[...document.querySelectorAll('{part}')].map(e => e.scrollWidth - e.clientWidth)")
            assert max(cut, default=0) <= 0, f"{part} is {max(cut)} pixels wider than its place in a window of {width}"
        assert [] == ann.grave_findings(), width


@pytest.mark.parametrize("path", some(["/", "/schedules", "/schedules/digest", "/timeline", "/changes", "/log"], "/"))
def test_a_page_is_accessible_in_the_dark(ann: Person, run_id: str, path: str) -> None:
    ann.page.emulate_media(color_scheme="dark")

    ann.open(path)

    assert [] == ann.grave_findings()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_foreign_page_is_accessible_fits_any_width_and_leads_home(ann: Person, run_id: str, scheme: Any) -> None:
    """Findings of axe in Swagger UI and rq-dashboard are mended by ``docs.js``, ``docs.css`` and ``footer.html``."""
    pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")
    ann.page.emulate_media(color_scheme=scheme)
    jobs = ("queues", "workers", "jobs/mail/failed/10/asc/1", f"job/{run_id}")
    for path in ("/api/docs", *(f"/rq/0/view/{each}" for each in jobs)):
        ann.open(path)
        ann.page.wait_for_load_state("networkidle")
        if path == "/api/docs":
            ann.page.locator(".opblock-summary").first.click()
            ann.page.get_by_role("button", name="Try it out").click()
            ann.page.locator("pre.microlight").first.wait_for()
        for width in WIDTHS:
            ann.page.set_viewport_size({"width": width, "height": 900})
            wider = ann.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert (0, []) == (wider, ann.grave_findings()), (path, width)
        expect(ann.page.locator('a[href="/"]')).to_have_text("zsched")


def test_pages_are_read_without_scripts(web: Web, chromium: Any, run_id: str) -> None:
    with Person.of(web, chromium, "bob", has_scripts=False) as bob:
        for path, text in [
            ("/", "Latest failures"),
            ("/schedules", "digest"),
            ("/schedules?tag=shop", "reminder-42"),
            ("/schedules/digest", "cron 0 9 * * *"),
            ("/timeline", "broken"),
            ("/changes", "paused: no mails today"),
            (f"/runs/{run_id}", "ValueError: no mailbox"),
            ("/log", "no mails today"),
        ]:
            bob.open(path)
            assert text in bob.text(), path


@pytest.mark.parametrize("path", READ)
def test_a_page_needs_a_login(web: Web, path: str) -> None:
    with web.stranger() as stranger:
        answer = stranger.get(filled(path, "digest-1"), headers={"Accept": "text/html"})

    assert (303, True) == (answer.status_code, answer.headers["location"].startswith("/login?next="))


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_viewer_changes_nothing(web: Web, run_id: str, link: Link, method: str, path: str) -> None:
    with web.browser("eve", "viewer") as eve:
        answer = eve.request(method, filled(path, run_id).partition("?")[0], data={"tag": "shop"})

    assert 403 == answer.status_code
    assert [] == entries_by("eve", link)


def test_a_viewer_sees_no_button_that_changes_something(eve: Person, run_id: str) -> None:
    for path in ("/schedules/digest", "/schedules?tag=shop", f"/runs/{run_id}", "/runs?status=failed"):
        eve.open(path)
        assert 0 == eve.page.locator("main form[method=post]").count(), path
        assert 0 == eve.page.get_by_role("link", name="Pause …").count(), path


def test_a_limited_person_sees_only_what_is_within_the_limits(web: Web, chromium: Any, run_id: str) -> None:
    with Person.of(web, chromium, "shop", "scheduler", tags=("shop",)) as shop:
        shop.open("/")
        assert "/schedules" in shop.page.url
        assert ("digest" in shop.text(), "beat" in shop.text()) == (True, False)
        with web.browser("shop-2", "scheduler", tags=("shop",)) as client:
            refused = [
                client.get(filled(path, run_id)).status_code
                for path in ("/log", "/runs", "/timeline", "/changes", "/doctor")
            ]
            outside = client.get("/schedules/beat").status_code
        assert ([403] * 5, 404) == (refused, outside)


def test_markup_of_a_schedule_is_text_and_times_are_in_the_zone_of_the_query(ann: Person, run_id: str) -> None:
    ann.open("/schedules/beat")
    ann.reads("<b>bold</b>")

    ann.open("/schedules/digest?tz=America/Bogota")
    assert "09:00:00+09:00" not in ann.text()
    assert "-05:00" in ann.text()


def test_a_change_appears_without_a_reload(ann: Person, client: Client, daemon: DaemonThread) -> None:
    ann.open("/log")

    client.schedule("app.tasks.remind", id="brand-new", after=3600)

    ann.reads("brand-new")


def test_pages_without_a_browser_have_their_policy_and_their_refusals(web: Web) -> None:
    html = {"Accept": "text/html"}
    with web.browser("ann-3") as ann:
        policy = ann.get("/schedules").headers["content-security-policy"]
        zone = ann.get("/schedules?tz=Mars/Olympus", headers=html)
        missing = [ann.get(path, headers=html) for path in ("/schedules/none", "/nothing")]

    assert ("default-src 'none'" in policy, "unsafe" in policy) == (True, False)
    assert (422, True) == (zone.status_code, "Mars/Olympus" in zone.text)
    assert [(404, True)] * 2 == [(each.status_code, "Back to the first page" in each.text) for each in missing]


def test_arguments_need_a_right_and_foreign_forms_change_nothing(web: Web, client: Client, run_id: str) -> None:
    with web.browser("ann-6") as ann:
        answer = ann.post("/schedules/digest:cancel", headers={"Origin": "https://evil.example"})

    assert 403 == answer.status_code
    assert "active" == client.get("digest").state

    with web.browser("ann-2", sees_arguments=True) as one, web.browser("eve-2", "viewer") as other:
        shown, hidden = (each.get("/schedules/digest").text for each in (one, other))

    assert shown != hidden
    assert "<dt>args" not in hidden


def test_an_edit_changes_only_what_was_typed(ann: Person, client: Client, run_id: str) -> None:
    before = client.get("digest").to_dict()
    ann.open("/schedules/digest/edit")
    ann.page.get_by_label("cron").fill("0 10 * * *")
    ann.press("Save")
    ann.reads("updated: cron")

    after = client.get("digest").to_dict()
    assert {"trigger", "next_at", "anchor_at", "nominal_at", "updated_at", "version"} == {
        name for name in before if before[name] != after[name]
    }


def test_the_form_shows_the_difference_in_times_while_a_person_types(web: Web, client: Client) -> None:
    client.schedule("app.send", id="daily", cron="0 9 * * *", tz="Asia/Seoul", ends=datetime(2090, 1, 1))
    typed = {"cron": "0 9 * * 1-5", "tz": "Asia/Seoul", "gap": "first_valid", "fold": "first"}

    with web.browser("ann-7") as ann:
        changed = ann.get(f"{web.url}/schedules/daily/preview", params=typed).text
        same = ann.get(f"{web.url}/schedules/daily/preview", params=typed | {"cron": "0 9 * * *"}).text

        moved = ann.get(f"{web.url}/schedules/daily/preview", params=typed | {"tz": "Europe/London"}).text

    assert "in Europe/London" in moved
    assert "09:00:00</time>" in moved
    assert "7 → 5 a week; first change in" in changed
    assert "the times stay" in same


def test_a_bad_value_of_an_edit_is_refused_and_the_typed_text_stays(ann: Person, client: Client, run_id: str) -> None:
    ann.open("/schedules/digest/edit")
    ann.page.get_by_label("cron").fill("61 9 * * *")
    ann.press("Save")

    ann.reads("61 9 * * *")
    assert "61 9 * * *" == ann.page.get_by_label("cron").input_value()
    assert "cron 0 9 * * *" == client.get("digest").rule_text
    ann.trouble.clear()  # the browser reports status 422


def test_a_bad_filter_is_marked_while_it_is_typed(ann: Person, run_id: str) -> None:
    ann.open("/runs")
    since = ann.page.get_by_label("Since")

    since.fill("nonsense")
    expect(since).to_have_attribute("aria-invalid", "true")
    ann.reads("Since='nonsense': not a duration")
    since.fill("1h")

    expect(since).not_to_have_attribute("aria-invalid", "true")
    ann.trouble.clear()  # the browser reports status 422
