"""Actions of the console without a browser: what they answer, and what the next page says."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.web.ground import Web
from zsched import Client

pytestmark = [pytest.mark.redis, pytest.mark.once]


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator."""
    with web.browser("ann") as client:
        yield client


def test_a_page_says_once_what_was_done(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)

    answer = ann.post("/schedules/digest:pause")
    part, first, second = (
        ann.get("/schedules/digest", headers=headers) for headers in ({"HX-Request": "true"}, {}, {})
    )

    assert (303, "/schedules/digest") == (answer.status_code, answer.headers["location"])
    said = '<p class="said" role="status">paused</p>'
    assert (False, True, False) == tuple(said in page.text for page in (part, first, second))


def test_a_page_does_not_say_what_an_address_wants(ann: httpx.Client) -> None:
    page = ann.get("/schedules?said=All+schedules+were+deleted")

    assert 'class="said"' not in page.text
