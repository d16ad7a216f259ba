"""Runs that did not succeed in groups, and retries of a group. Without a browser."""

from __future__ import annotations

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


def test_a_page_with_one_kind_of_failure_has_no_groups(ann: httpx.Client, broken: Client) -> None:
    assert [] == groups_of(ann.get("/runs", params=FAILED | {"match": "failed-*"}).text)
    assert [] == groups_of(ann.get("/runs", params={"since": "1h"}).text)
