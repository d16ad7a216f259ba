"""The page of the forecast: occurrences, the heaviest minutes, queues and functions, and what would flatten a peak."""

import pytest
import redis

from tests.builders.web import Web
from tests.clocks import now_ms
from tests.integration.console.person import Person
from zsched import Client
from zsched.core.clock import from_ms

pytestmark = pytest.mark.once


def text(web: Web, query: str) -> str:
    """Return the page of the forecast as an operator gets it."""
    with web.browser("ann", sees_arguments=True) as person:
        answer = person.get(f"/forecast?{query}")
    assert 200 == answer.status_code
    return answer.text


@pytest.fixture
def forecast_web(web: Web, client: Client, redis_client: redis.Redis) -> Web:
    at = from_ms(now_ms(redis_client) + 7_200_000)
    client.schedule_many({"func": "app.mail", "id": f"mail-{n}", "at": at, "queue": "email"} for n in range(300))
    client.schedule("app.page", id="page", every=600, queue="web")
    client.schedule("app.page", id="paused", every=600, enabled=False)
    return web


@pytest.mark.parametrize(
    ("query", "there", "missing"),
    [
        ("to=1h&by=", ["page", "app.page", "Left out: 1 paused"], "mail-1"),
        ("to=24h&by=queue", ["email", "300", "The 300 of email in the minute from"], "app.page"),
        ("to=24h&by=function&queue=web", ["app.page", "144"], "app.mail"),
        ("to=24h&by=minute", ["300 app.mail</a>", "email"], "page"),
        ("to=24h&by=occurrence&func=app.mail", ["mail-1"], "page"),
        ("to=24h&by=minute&match=nothing-*", ["Nothing fires."], "300"),
        ("to=24h&by=year", ["by=", "year", "minute"], "300"),
        ("to=7d&by=minute", ["5m from", "300"], "app.page"),
        ("to=30d&by=minute", ["1h from", "300"], "app.page"),
        ("to=never", ["never"], "300"),
    ],
)
def test_the_page_tells_what_its_form_asks_for(forecast_web: Web, query: str, there: list[str], missing: str) -> None:
    shown = text(forecast_web, query)

    assert [] == [word for word in there if word not in shown]
    assert f">{missing}" not in shown


def test_a_heavy_minute_leads_to_its_functions_queues_and_ids(forecast_web: Web, ann: Person) -> None:
    ann.open("/forecast?tz=UTC")
    minute = ann.page.get_by_role("rowheader").first.get_by_role("link")

    ann.click(minute.inner_text())
    functions = ann.text()
    ann.click("queue")
    queues = ann.text()
    ann.click("email")

    assert ("app.mail" in functions, "300" in functions) == (True, True)
    assert ("email" in queues, "300" in queues) == (True, True)
    ann.reads("mail-1")
    assert "There are more." in ann.text()
    ann.click("Timeline")
    ann.reads("1 min")
