"""Schedules that are made or copied by the form, and single occurrences that are skipped. Without a browser."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.console.test_actions import form_of
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator who sees arguments."""
    with web.browser("ann", sees_arguments=True) as client:
        yield client


def test_an_empty_form_makes_a_schedule_with_what_was_filled(ann: httpx.Client, client: Client) -> None:
    form = form_of(ann.get("/new")) | {"func": "app.tasks.remind", "id": "digest", "cron": "0 9 * * *", "tags": "a, b"}

    done = ann.post("/new", data=form | {"tz": "Asia/Seoul", "kwargs": '{"n": 1}'})

    found = client.get("digest")
    assert (303, "/schedules/digest") == (done.status_code, done.headers["location"])
    assert ("cron", "Asia/Seoul", ("a", "b"), "default") == (found.kind, found.tz, found.tags, found.queue)


def test_a_form_without_an_id_makes_a_one_shot_with_a_random_one(ann: httpx.Client, client: Client) -> None:
    form = form_of(ann.get("/new")) | {"func": "app.tasks.remind", "at": "2099-12-24T18:00", "tz": "Asia/Seoul"}

    done = ann.post("/new", data=form)

    [found] = client.list()
    assert done.headers["location"] == f"/schedules/{found.id}"
    assert datetime(2099, 12, 24, 9, tzinfo=UTC).timestamp() * 1000 == found.next_ms


def test_a_copy_has_the_options_of_the_other_schedule(
    guard: Guard, redis_url: str, redis_client: redis.Redis, tmp_path: Path
) -> None:
    web = Web(guard, redis_url, tmp_path, ZSCHED_RQ_SERIALIZER="json")
    client = Client.from_url(redis_url, serializer="json")
    client.schedule(
        "app.tasks.remind", id="digest", every=600, tz="Asia/Seoul", kwargs={"n": 1}, queue="mail", overlap="allow",
        catch_up="none", tags=["shop"], at_front=True,
    )  # fmt: skip
    with web.browser("ann", sees_arguments=True) as ann:
        page = ann.get("/new?copy=digest")
        ann.post("/new", data=form_of(page) | {"kwargs": '{"n": 2}', "id": "twin", "every": "5m"})

    one, twin = client.get("digest"), client.get("twin")
    assert ("a copy of" in page.text, "give them again" in page.text) == (True, False)
    assert '{"n": 1}' in html.unescape(page.text)
    assert ({"n": 2}, "5m") == (twin.kwargs, twin.rule_text.split()[1])
    for name in ("func", "kind", "tz", "queue", "policy", "tags", "at_front"):
        assert getattr(one, name) == getattr(twin, name), name


def test_arguments_are_not_copied_for_who_may_not_see_them(web: Web, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", every=600, args=("top-secret",))

    with web.browser("pat", "scheduler") as pat:
        page = pat.get("/new?copy=digest").text

    assert "top-secret" not in page
    assert "nor the arguments: give them again" in page


@pytest.mark.parametrize(
    ("changed", "field", "text"),
    [
        ({"id": "digest"}, "", "exists"),
        ({"func": ""}, "func", "Function"),
        ({"cron": "0 25 * * *"}, "cron", "allowed are 0-23"),
        ({"at": "2099-12-24T18:00"}, "", "cron"),
        ({"overlap_limit": "x"}, "overlap_limit", "not a whole number"),
    ],
)
def test_a_refused_form_keeps_its_texts_and_changes_nothing(
    ann: httpx.Client, client: Client, changed: dict[str, str], field: str, text: str
) -> None:
    client.schedule("app.tasks.remind", id="digest", every=3600)
    version = client.get("digest").version
    form = form_of(ann.get("/new")) | {"func": "app.tasks.remind", "id": "twin", "cron": "0 9 * * *", "tags": "mine"}

    page = ann.post("/new", data=form | changed, headers={"Accept": "text/html"})

    assert page.status_code in (409, 422), page.text
    assert text in page.text
    assert "mine" == form_of(page)["tags"]
    assert not field or f'id="error-{field}"' in page.text
    assert [("digest", version)] == [(one.id, one.version) for one in client.list()]


def test_a_limited_person_makes_only_what_is_within_the_limits(web: Web, client: Client) -> None:
    with web.browser("shop", "scheduler", queues=("mail",)) as shop:
        form = form_of(shop.get("/new")) | {"func": "app.tasks.remind", "id": "digest", "every": "1h"}
        outside = shop.post("/new", data=form | {"queue": "pay"})
        inside = shop.post("/new", data=form | {"queue": "mail"})

    assert (403, 303) == (outside.status_code, inside.status_code)
    assert "mail" == client.get("digest").queue


def test_next_times_are_shown_while_a_new_schedule_is_typed(ann: httpx.Client) -> None:
    part = {"HX-Request": "true"}

    rule = ann.get("/new/preview", params={"cron": "0 9 * * *", "tz": "Asia/Seoul", "id": "x"}, headers=part).text
    once = ann.get("/new/preview", params={"at": "2099-12-24T18:00", "tz": "Asia/Seoul"}, headers=part).text
    empty = ann.get("/new/preview", params={"tz": "UTC"}, headers=part).text

    assert 5 == rule.count("09:00:00</time>")
    assert "2099-12-24 18:00:00+09:00" in once
    assert "" == empty.strip()


def test_a_coming_occurrence_is_skipped_by_its_button(ann: httpx.Client, client: Client) -> None:
    client.schedule("app.tasks.remind", id="digest", cron="0 9 * * *")
    _, second = client.preview("digest", n=2)
    page = ann.get("/schedules/digest").text
    _, at, *_ = re.findall(r':skip"><input type="hidden" name="at" value="([^"]*)"', page)

    ann.post("/schedules/digest:skip", data={"at": at})

    assert (second,) == client.get("digest").skipped
