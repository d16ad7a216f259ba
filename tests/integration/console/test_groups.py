"""Runs that did not succeed in groups, and retries of a group. Without a browser."""

import html
import re
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
import redis
from rq import Queue

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.waiting import eventually
from zsched import Client

pytestmark = pytest.mark.once
JOBS = "tests.integration.console.jobs"
FAILED = {"status": "failed", "since": "1h"}


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator."""
    with web.browser("ann") as client:
        yield client


@pytest.fixture
def broken(client: Client, daemon: DaemonThread, redis_client: redis.Redis) -> Client:
    """A client of a namespace with two runs that failed alike, and three that failed but for a number."""
    for number in range(3):
        client.enqueue(f"{JOBS}.stumble", args=(number,), id=f"stumbled-{number}", queue="mail")
    for number in range(2):
        client.enqueue(f"{JOBS}.fail", id=f"failed-{number}", queue="mail")
    work_off(Queue("mail", connection=redis_client), redis_client)
    eventually(lambda: len(client.runs(status="failed")) == 5)
    return client


def groups_of(page: str) -> list[tuple[str, str]]:
    """Return the function and the number of runs of each group."""
    table = page.partition('aria-label="Groups"')[2].partition("</table>")[0]
    return re.findall(r'class="function">([^<]*)</td>\s*<td data-label="runs" class="number">([\d,]+)<', table)


def retried(client: Client) -> Counter[str]:
    """Count the runs that were retried, by the beginning of their ids."""
    return Counter(change.id.partition("-")[0] for change in client.history(status="retried", limit=100))


def test_runs_that_failed_alike_are_one_group_and_are_retried_alone(ann: httpx.Client, broken: Client) -> None:
    page = ann.get("/runs", params=FAILED).text
    links = re.findall(r'href="(/runs:retry\?[^"]*group=[^"]*)"', page)
    asked = ann.get(links[1].replace("&amp;", "&")).text
    given = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked))

    assert [(f"{JOBS}.stumble", "3"), (f"{JOBS}.fail", "2")] == groups_of(page)
    assert ([(f"{JOBS}.fail", "2")], True) == (groups_of(asked), "Retry 2 runs</button>" in asked)

    ann.post("/runs:retry", data=given)

    assert {"failed": 2} == retried(broken)


def test_a_group_that_is_left_out_is_not_retried(ann: httpx.Client, broken: Client) -> None:
    asked = ann.get("/runs:retry", params=FAILED).text
    [first, _] = re.findall(r'type="checkbox" name="(not\.\w+)"', asked)

    ann.post("/runs:retry", data=FAILED | {first: "yes"})

    assert {"failed": 2} == retried(broken)


def test_a_plan_of_a_retry_has_groups_of_all_its_runs(ann: httpx.Client, broken: Client) -> None:
    assert [(f"{JOBS}.stumble", "3"), (f"{JOBS}.fail", "2")] == groups_of(ann.get("/runs:retry", params=FAILED).text)


def test_a_page_of_all_runs_has_no_groups(ann: httpx.Client, broken: Client) -> None:
    assert [(f"{JOBS}.fail", "2")] == groups_of(ann.get("/runs", params=FAILED | {"match": "failed-*"}).text)
    assert [] == groups_of(ann.get("/runs", params={"since": "1h"}).text)


def form_of(page: str, button: str) -> tuple[str, dict[str, str]]:
    """Return the address and the fields of the first form with this *button*."""
    [address, fields] = re.findall(rf'action="([^"]*)">((?:(?!</form>).)*)<button class="">{button}', page, re.DOTALL)[
        0
    ]
    named = re.findall(r'name="(\w+)" value="([^"]*)"', fields)
    return address.replace("&amp;", "&"), {name: html.unescape(value) for name, value in named}


def test_a_group_is_made_known_and_taken_back(ann: httpx.Client, broken: Client) -> None:
    address, given = form_of(ann.get("/runs", params=FAILED).text, "Leave such failures out")
    done = ann.post(address, data=given | {"for": "2d", "note": "<b>soon</b>"})
    [known] = broken.known_failures()
    page, now = ann.get(done.headers["location"]).text, ann.get("/").text
    taken_back, name = form_of(page, "Take back known failure")
    ann.post(taken_back, data=name)

    assert (f"{JOBS}.stumble", "ValueError: no mailbox *", "<b>soon</b>", "ann") == (
        known.func, known.error, known.note, known.by
    )  # fmt: skip
    assert FAILED == dict(httpx.URL(done.headers["location"]).params)
    assert [(f"{JOBS}.stumble", "3"), (f"{JOBS}.fail", "2")] == groups_of(page)
    assert 1 == page.count('class="detail">known until ') == page.count("says ann: &lt;b&gt;soon&lt;/b&gt;")
    assert ("stumbled-", True) == ("stumbled-" * ("stumbled-" not in now), "Known failures</h2>" in now)
    assert ([], {"remove": known.name}) == (broken.known_failures(), name)


def test_a_bad_time_of_a_known_failure_is_refused_on_the_page(ann: httpx.Client, broken: Client) -> None:
    refused = ann.post("/runs:ack", data={"func": "a", "for": "91d"})

    assert (422, True) == (refused.status_code, "give 1s to 90d" in refused.text)
    assert [] == broken.known_failures()


def test_a_viewer_sees_what_is_known_without_buttons(web: Web, broken: Client) -> None:
    broken.ack(func=f"{JOBS}.*", note="soon")
    with web.browser("eve", "viewer") as eve:
        page = eve.get("/runs", params=FAILED).text
        refused = eve.post("/runs:ack", data={"func": "a"})

    assert (2, False, 403) == (page.count("known until "), "/runs:ack" in page, refused.status_code)
