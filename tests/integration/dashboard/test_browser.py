"""rq-dashboard in a browser without a window: the pages as people see them, after a login and after their scripts."""

from collections.abc import Callable, Iterator
from html import escape
from typing import Any

import pytest
import redis
from playwright.sync_api import Page

pytest.importorskip("rq_dashboard", reason="needs the extra dashboard")

from tests.builders.web import Web
from tests.integration.dashboard import tasks
from tests.integration.dashboard.runs import DONE, FAILED, NOMINAL, WAITS, fill
from tests.waiting import eventually

pytestmark = pytest.mark.once

BOLD = "<b>The</b>"

See = Callable[[str, str], str]


def as_text(text: str) -> str:
    """Return *text* as it is written in a document."""
    return escape(text, quote=False)


@pytest.fixture
def page(chromium: Any) -> Iterator[Page]:
    """A page of a new browser, without a session."""
    with chromium.new_context() as context:
        yield context.new_page()


@pytest.fixture
def see(page: Page, web: Web, redis_client: redis.Redis) -> See:
    """A function that opens a path, after a login on the way, and returns the document as soon as it has a text."""
    fill(redis_client, "json")
    token = web.token("ann", sees_arguments=True)

    def see(path: str, text: str) -> str:
        page.goto(f"{web.url}/rq{path}")
        if "Log in" in page.content():
            log_in(page, token)
        return wait_for(page, text)

    return see


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    with page.expect_navigation():
        page.get_by_role("button", name="Log in").click()


def wait_for(page: Page, text: str) -> str:
    """Wait until the document has *text*, and return the document."""
    return eventually(lambda: text in page.content() and page.content())


def test_the_pages_show_nothing_before_the_login(page: Page, web: Web) -> None:
    page.goto(f"{web.url}/rq/0/view/queues")
    form = wait_for(page, "Log in")
    log_in(page, "wrong")
    refused = wait_for(page, "The token is wrong")

    assert "Queues" not in form + refused


def test_a_login_leads_to_the_page_that_was_wanted_and_a_logout_ends_it(see: See, page: Page, web: Web) -> None:
    trouble = list[str]()
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))

    see("/0/view/jobs/email/queued/8/asc/1", "reminder-42")
    assert f"{web.url}/rq/0/view/jobs/email/queued/8/asc/1" == page.url
    assert "" == page.evaluate("document.cookie")
    assert [] == trouble

    page.goto(f"{web.url}/login")
    assert "<strong>ann</strong>, operator" in page.content()
    with page.expect_navigation():
        page.get_by_role("button", name="Log out").click()
    wait_for(page, "Token")
    page.goto(f"{web.url}/rq/0/view/queues")

    assert "/login?" in page.url


def test_the_queues_page_shows_queues_with_their_lengths(see: See) -> None:
    document = see("/0/view/queues", "<td>email</td>")

    assert "Loading" not in document
    assert 'href="/rq/0/view/jobs/email/queued/8/asc/1">1</a>' in document
    assert 'href="/rq/0/view/jobs/default/failed/8/asc/1">1</a>' in document


@pytest.mark.parametrize(
    ("where", "schedule", "run"),
    [
        ("email/queued", "reminder-42", WAITS),
        ("default/finished", "digest", DONE),
        ("default/failed", "report", FAILED),
    ],
)
def test_a_queue_lists_runs_by_schedule_and_nominal_time(see: See, where: str, schedule: str, run: str) -> None:
    document = see(f"/0/view/jobs/{where}/8/asc/1", f"{schedule} · {NOMINAL} · ")

    assert f'href="/rq/0/view/job/{run}"' in document


@pytest.mark.parametrize(
    ("run", "description", "detail"),
    [
        (DONE, f">digest · {NOMINAL} · {tasks.__name__}.remind</div>", '"user": "secret-user"'),
        (FAILED, f"report · {NOMINAL} · {as_text(BOLD)} report", f"ValueError: {as_text(tasks.MARKUP)}"),
    ],
    ids=["done", "failed"],
)
def test_a_runs_page_has_schedule_nominal_time_and_result(see: See, run: str, description: str, detail: str) -> None:
    document = see(f"/0/view/job/{run}", description)

    assert detail in document
    assert "<title>RQ dashboard</title>" in document  # what the result has of markup has not run
