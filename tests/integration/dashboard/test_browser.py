"""rq-dashboard in a browser without a window: the pages as people see them, after a login and after their scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pytest
import redis

pytest.importorskip("rq_dashboard", reason="needs the extra web")

from tests.integration.browsing import Browser, chromium_in
from tests.integration.dashboard import tasks
from tests.integration.dashboard.ground import DONE, FAILED, NOMINAL, WAITS, fill
from tests.integration.web.ground import PASSWORD, Web

pytestmark = pytest.mark.once

BOLD = "<b>The</b>"

See = Callable[[str, str], str]


def as_text(text: str) -> str:
    """Return *text* as it is written in a document."""
    return escape(text, quote=False)


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    with chromium_in(tmp_path) as browser:
        yield browser


@pytest.fixture
def see(chromium: Browser, web: Web, redis_client: redis.Redis) -> See:
    """A function that opens a path, after a login on the way, and returns the document as soon as it has a text."""
    fill(redis_client, "json")
    web.person("ann", sees_arguments=True)

    def see(path: str, text: str) -> str:
        chromium.open(f"{web.url}/rq{path}")
        if "Log in" in chromium.document():
            chromium.submit(name="ann", password=PASSWORD)
        return chromium.wait_for(text)

    return see


def test_the_pages_show_nothing_before_the_login(chromium: Browser, web: Web, redis_client: redis.Redis) -> None:
    web.person("ann", sees_arguments=True)

    chromium.open(f"{web.url}/rq/0/view/queues")
    form = chromium.wait_for("Log in")
    chromium.submit(name="ann", password="wrong")
    refused = chromium.wait_for("Name or password is wrong.")

    assert "Queues" not in form + refused


def test_a_login_leads_to_the_page_that_was_wanted_and_a_logout_ends_it(see: See, chromium: Browser, web: Web) -> None:
    see("/0/view/jobs/email/queued/8/asc/1", "reminder-42")
    assert f"{web.url}/rq/0/view/jobs/email/queued/8/asc/1" == chromium.value("location.href")
    assert "" == chromium.value("document.cookie")
    assert [] == chromium.trouble

    chromium.open(f"{web.url}/login")
    assert "<strong>ann</strong>, operator" in chromium.document()
    chromium.submit()
    chromium.wait_for("Password")
    chromium.open(f"{web.url}/rq/0/view/queues")

    assert chromium.value("location.pathname") == "/login"


def test_the_queues_page_shows_queues_with_their_lengths(see: See) -> None:
    page = see("/0/view/queues", "<td>email</td>")

    assert "Loading" not in page
    assert 'href="/rq/0/view/jobs/email/queued/8/asc/1">1</a>' in page
    assert 'href="/rq/0/view/jobs/default/failed/8/asc/1">1</a>' in page


@pytest.mark.parametrize(
    ("where", "schedule", "run"),
    [
        ("email/queued", "reminder-42", WAITS),
        ("default/finished", "digest", DONE),
        ("default/failed", "report", FAILED),
    ],
)
def test_a_queue_lists_runs_by_schedule_and_nominal_time(see: See, where: str, schedule: str, run: str) -> None:
    page = see(f"/0/view/jobs/{where}/8/asc/1", f"{schedule} · {NOMINAL} · ")

    assert f'href="/rq/0/view/job/{run}"' in page


def test_a_runs_page_has_schedule_nominal_time_and_result(see: See) -> None:
    page = see(f"/0/view/job/{DONE}", f">digest · {NOMINAL} · {tasks.__name__}.remind</div>")

    assert '"user": "secret-user"' in page
    assert "<title>RQ dashboard</title>" in page  # what the result has of markup has not run


def test_a_failed_runs_page_has_the_whole_traceback(see: See) -> None:
    page = see(f"/0/view/job/{FAILED}", f"report · {NOMINAL} · {as_text(BOLD)} report")

    assert f"ValueError: {as_text(tasks.MARKUP)}" in page
    assert "<title>RQ dashboard</title>" in page
