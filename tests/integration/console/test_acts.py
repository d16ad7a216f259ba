"""Acts instead of advice: findings and verdicts with links and buttons. Without a browser."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.integration.console.person import failed
from tests.waiting import eventually
from zsched import Client
from zsched.core.options.choices import ScheduleState
from zsched.web.console.view import View, acts_of, cut_at

pytestmark = pytest.mark.once


@pytest.fixture
def ann(web: Web) -> Iterator[httpx.Client]:
    """The browser of an operator."""
    with web.browser("ann") as client:
        yield client


def findings_of(page: str) -> list[str]:
    return re.findall("<li.*?</li>", page.partition('<ul class="findings">')[2].partition("</ul>")[0], re.DOTALL)


def buttons_of(html: str) -> dict[str, str]:
    """Return the addresses of forms, by the text of their button."""
    forms = re.findall(r'<form method="post" action="([^"]*)">.*?<button>([^<]*)</button>', html, re.DOTALL)
    return {text: address for address, text in forms}


def overdue(client: Client, redis_client: redis.Redis, id: str) -> None:
    """Pause a schedule, and let its time pass."""
    client.schedule("app.tasks.remind", id=id, after=timedelta(milliseconds=30))
    client.pause(id)
    eventually(lambda: "ago, and waits" in client.why(id).verdict.text)


def test_a_finding_on_now_has_links_its_age_and_a_button_that_acts(
    ann: httpx.Client, web: Web, client: Client, redis_client: redis.Redis
) -> None:
    overdue(client, redis_client, "digest")
    eventually(lambda: "past its time" in ann.get("/").text)

    [finding] = [one for one in findings_of(ann.get("/").text) if "past its time" in one]
    with web.browser("eve", "viewer") as eve:
        [of_viewer] = [one for one in findings_of(eve.get("/").text) if "past its time" in one]

    assert '<a class="id" href="/schedules/digest">digest</a>' in finding
    assert re.search(r'<time class="detail" datetime="[^"]*" title="since [^"]*">for [\d.]+ m?s', finding)
    assert {"Resume digest": "/schedules/digest:resume"} == buttons_of(finding)
    assert "zsched resume ID lets it fire" in finding, "the command stays, folded"
    assert {} == buttons_of(of_viewer)

    ann.post(buttons_of(finding)["Resume digest"])
    assert client.get("digest").state is ScheduleState.ACTIVE


def test_findings_of_many_lead_to_their_list(ann: httpx.Client, client: Client, redis_client: redis.Redis) -> None:
    for id in ("digest", "report"):
        overdue(client, redis_client, id)
    eventually(lambda: "2 paused schedules" in ann.get("/").text)

    [finding] = [one for one in findings_of(ann.get("/").text) if "past their time" in one]

    assert '<a class="button quiet" href="/schedules?state=paused">Schedules: paused</a>' in finding
    assert ["digest", "report"] == re.findall(r'href="/schedules/(\w+)"', finding)


def test_a_verdict_has_the_button_of_another_page_and_not_that_of_its_own(
    ann: httpx.Client, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    [run_id] = failed(client, redis_client)

    verdicts = [
        page.partition('class="verdict')[2].partition("</section>")[0]
        for page in (ann.get("/schedules/broken-0").text, ann.get(f"/runs/{run_id}").text)
    ]

    assert [{f"Retry {run_id}": f"/runs/{run_id}:retry"}, {}] == [buttons_of(each) for each in verdicts]
    assert [True, True] == [f"zsched retry {run_id}" in each for each in verdicts]


class _Viewer:
    """Answers what ``acts_of`` asks of a view."""

    may_write = True

    def link(self, *path: str, **query: Any) -> str:
        return (
            "/" + "/".join(path) + (f"?{'&'.join(f'{name}={value}' for name, value in query.items())}" if query else "")
        )

    def zone(self) -> str:
        return "UTC"

    def local_input(self, ms: int) -> str:
        return str(ms)


@pytest.mark.parametrize(
    ("command", "address"),
    [
        ("zsched release a", "/schedules/a:release"),
        ("zsched run a", "/schedules/a:run"),
        ("zsched cancel-run a-1767225600000", "/runs/a-1767225600000:cancel"),
        (
            "zsched backfill a --from 1970-01-01T00:00:01+00:00 --to 1970-01-01T00:00:02+00:00",
            "/schedules/a/backfill?tz=UTC&start=1000&end=2000",
        ),
        ("zsched ls --queue emial", "/schedules?queue=emial"),
        ("zsched history --status lost", "/runs?status=lost&since=1h"),
        ("zsched status", "/"),
        ("zsched doctor", "/doctor"),
        ("zsched tokens revoke ann", "/accounts"),
    ],
)
def test_commands_of_remedies_have_a_place_in_the_console(command: str, address: str) -> None:
    [act] = acts_of(cast("View", _Viewer()), [command.split()])

    assert address == act.address


def test_commands_for_a_shell_alone_have_no_place() -> None:
    assert [] == acts_of(
        cast("View", _Viewer()),
        [["rq", "worker", "mail"], ["redis-cli", "PING"], ["zsched", "ls"], ["zsched", "set", "a"]],
    )


def test_ids_in_a_text_are_found_whole() -> None:
    parts = cut_at("mail-2 and mail (3 in a row), mail-2-x.", ["mail", "mail-2"])

    assert ["", "mail-2", " and ", "mail", " (3 in a row), mail-2-x."] == parts
