"""The routes of calendars: put, read and deleted; who may change them."""

import httpx
import pytest

from tests.builders.web import Web
from tests.integration.web.routes import LIMITS, WITHIN
from zsched import Client

DATES = ["2030-09-11..2030-09-13 Chuseok"]


def test_a_calendar_is_put_read_and_deleted(http: httpx.Client) -> None:
    put = http.put("/calendars/kr", json={"dates": DATES, "windows": ["Sat,Sun"]})
    again = http.put("/calendars/kr", json={"dates": DATES, "windows": ["Sat,Sun"]})
    read = http.get("/calendars/kr").json()
    listed = http.get("/calendars").json()
    deleted = http.delete("/calendars/kr")

    assert ["created", "unchanged", "deleted"] == [each.json()["outcome"] for each in (put, again, deleted)]
    assert {"id": "kr", "dates": DATES, "windows": ["Sat,Sun"], "events": [], "owner": None} == read
    assert DATES == listed["calendars"]["kr"]["dates"]
    assert [404, 404] == [http.get("/calendars/kr").status_code, http.delete("/calendars/kr").status_code]


@pytest.mark.parametrize(
    ("name", "body", "option"),
    [
        ("kr", {"dates": ["13-01"]}, "dates"),
        ("kr", {"dates": "12-25"}, "dates"),
        ("kr", {"days": ["12-25"]}, "days"),
        ("mon", {"dates": ["12-25"]}, "name"),
        ("kr", {"events": ["2026-01-01/1h FREQ=HOURLY"]}, "rrule"),
    ],
)
def test_a_bad_calendar_is_refused_with_the_part(http: httpx.Client, name: str, body: object, option: str) -> None:
    answer = http.put(f"/calendars/{name}", json=body)

    assert (422, option) == (answer.status_code, answer.json()["option"])


def test_a_token_with_limits_reads_calendars_and_changes_none(web: Web, http: httpx.Client) -> None:
    http.put("/calendars/kr", json={"dates": DATES})
    with web.client("shop", "scheduler", **LIMITS) as shop:
        answers = [shop.put("/calendars/kr", json={"dates": []}), shop.delete("/calendars/kr")]
        read = shop.get("/calendars/kr")

    assert [403, 403] == [each.status_code for each in answers]
    assert DATES == read.json()["dates"]


def test_a_calendar_that_a_schedule_names_is_not_deleted(http: httpx.Client, client: Client) -> None:
    http.put("/calendars/kr", json={"dates": DATES})
    client.schedule("app.tasks.run", id="tick", cron="0 9 * * *", exclude=["kr"])

    answer = http.delete("/calendars/kr")

    assert (422, "named by 1 schedule: tick") == (answer.status_code, answer.json()["detail"].split("; ")[0][-25:])


def test_a_token_with_limits_names_a_calendar_in_a_rule(web: Web, http: httpx.Client) -> None:
    http.put("/calendars/kr", json={"dates": DATES})
    rule = {"cron": "0 9 * * *", "exclude": ["kr"]}
    with web.client("shop", "scheduler", **LIMITS) as shop:
        put = shop.put("/schedules/tick", json={**WITHIN, "after": None, **rule})
        preview = shop.post("/preview", json={**rule, "start": "2030-09-10T10:00:00Z", "n": 1})

    assert 201 == put.status_code
    assert ["2030-09-14T09:00:00+00:00"] == preview.json()["times"]
