"""Statements of the pages about what they do not show; and the pictures of docs and README, of a demonstration."""

import html
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from playwright.sync_api import expect

from tests.breadth import some
from tests.builders.daemons import DaemonThread
from tests.builders.web import Web
from tests.clocks import now_ms
from tests.integration.console.person import Person, failed
from tests.waiting import eventually
from zsched import Client
from zsched.core.clock import from_ms
from zsched.embedded.guard import Guard
from zsched.storage.keys import Keys

pytestmark = pytest.mark.once
PASSED = 10  # in the outage, of each schedule
PICTURES = {
    "now": "/",
    "timeline": "/timeline",
    "schedules": "/schedules",
    "story": "/schedules/invoices",
    "edit": "/schedules/digest-seoul/edit",
    "forecast": "/forecast",
    "run": "/find?q={run_id}",
    "runs": "/runs",
    "queues": "/queues",
    "log": "/log",
    "doctor": "/doctor",
    "workers": "/workers",
    "daemons": "/daemons",
    "changes": "/changes",
    "accounts": "/accounts",
}
SIZES = {"": (1440, 900), "-1024": (1024, 768), "-phone": (390, 844)}
HIDE = "document.querySelectorAll('.source').forEach((each) => { each.hidden = true })"  # the archive's place
LATER = ".lazy:empty, .preview:empty"  # parts that are read after the page


def page(web: Web, name: str, path: str) -> str:
    """Return the text of a page as the operator *name* gets it."""
    with web.browser(name, sees_arguments=True) as person:
        answer = person.get(path)
    assert 200 == answer.status_code
    return answer.text


def test_a_timeline_without_occurrences_says_so_and_a_filter_of_ids_shows_one_shots(
    web: Web, client: Client, daemon: DaemonThread
) -> None:
    client.schedule("app.tasks.remind", id="beat", every=60, tags=["shop"])
    client.schedule("app.tasks.remind", id="reminder-42", after=3600, tags=["shop"])
    client.pause("beat")

    by_tag, by_id, once = (
        page(web, f"ann-{n}", f"/timeline?{query}")
        for n, query in enumerate(("tag=shop", "match=beat", "match=reminder*"))
    )

    for text in (by_tag, by_id):
        assert "No occurrence in this time." in text
        assert "whose schedule is paused, are not decided yet" in text
        assert "One-shots to come are in the bars of all, and only without a filter." in text
    assert "reminder-42: to come" in once


def test_a_timeline_hatches_the_time_of_which_nothing_is_known(
    web: Web, client: Client, redis_client: redis.Redis
) -> None:
    for id in "ab":
        client.enqueue("app.tasks.remind", id=id)
    redis_client.xtrim(Keys("default").log(), maxlen=1, approximate=False)

    text = page(web, "hal", "/timeline")

    assert "Hatched: not known. What is counted goes back to" in text
    assert 2 <= text.count('class="unknown"')  # of all, and of a row


def test_the_list_of_what_did_not_run_counts_and_says_since_when_no_daemon_led(web: Web, outage: int) -> None:
    text = page(web, "ann-2", "/timeline")

    assert f"{2 * PASSED} occurrences in this time" in text
    assert 2 == text.count(">no daemon led from ")


def fill_the_log(client: Client, number: int) -> None:
    """Write *number* entries."""
    client.schedule("app.tasks.remind", id="busy", every=86_400)
    for _ in range(number // 2):
        client.pause("busy")
        client.resume("busy")


def test_deeds_of_a_person_are_found_behind_many_other_entries(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.acting_as("bea").schedule("app.tasks.remind", id="early", every=86_400)
    fill_the_log(client, 1000)
    paths = "/log?id=early", "/log?by=bea", "/log?by=nobody", "/log", "/log?all=1"
    by_id, by_bea, by_nobody, newest, everything = (page(web, f"ann-{n}", path) for n, path in enumerate(paths))

    assert all("put by bea" in text for text in (by_id, by_bea))
    assert "Nothing." in by_nobody
    assert ("Earlier ones may follow" in newest, " leads" in newest) == (True, False)
    assert " leads" not in everything  # it is older than the newest entries


@pytest.mark.parametrize("query", ["", "?all=1"])
def test_earlier_entries_of_the_log_follow_page_by_page_without_a_gap(
    web: Web, client: Client, daemon: DaemonThread, query: str
) -> None:
    fill_the_log(client, 250)
    entries, links = list[int](), [f"/log{query}"]
    with web.browser("ann") as ann:
        while links:
            text = ann.get(links.pop()).text
            entries += [int(number) for number in re.findall(r'class="entry">[0-9]+-([0-9]+)<', text)]
            links = re.findall(r'href="(/log\?[^"]*)">Earlier ones', html.unescape(text))

    assert len({*entries}) == max(entries) - min(entries) + 1
    assert 251 <= len({*entries})
    assert 2 >= max(Counter(entries).values())  # those of a page's last millisecond begin the next page, too


def test_the_log_is_filtered_by_the_kind_of_change(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.tasks.remind", id="beat", every=86_400)
    client.pause("beat", "no mails today")

    paused, put = (page(web, f"bob-{what}", f"/log?what={what}") for what in ("paused", "put"))
    with web.browser("bob-3") as bob:
        unknown = bob.get("/log?what=eaten")
        client.schedule("app.tasks.remind", id="soon", after=0)
        eventually(lambda: "soon" in bob.get("/log?what=fired").text)  # nobody asked for it: a daemon did it

    assert ("no mails today" in paused, "no mails today" in put) == (True, False)
    assert " leads" in page(web, "bob-2", "/log?all=1")  # an entry without a schedule
    assert (422, True, True) == (unknown.status_code, "eaten" in unknown.text, "skipped" in unknown.text)


def test_a_paused_schedule_has_no_next_time_in_the_list(web: Web, client: Client, daemon: DaemonThread) -> None:
    client.schedule("app.tasks.remind", id="beat", every=3600)
    active = page(web, "cid-1", "/schedules")
    client.acting_as("cid").pause("beat", "no mails today")
    listed, one = page(web, "cid-2", "/schedules"), page(web, "cid-3", "/schedules/beat")

    assert "in 59m" in active
    assert "in 59m" not in listed
    assert "by cid: no mails today" in listed
    assert "paused since <time" in listed
    assert "None: it is paused." in one


def test_a_page_of_a_server_that_hangs_says_since_when_it_heard_nothing_until_it_continues(
    redis_url: str, chromium: Any, daemon: DaemonThread, tmp_path: Path
) -> None:
    with Guard() as guard:
        web = Web(guard, redis_url, tmp_path)
        with Person.of(web, chromium, "dan") as dan:
            dan.page.clock.install()
            with dan.page.expect_response("**/news"):
                dan.open("/log")
            silence = dan.page.locator("#silence")

            web.process.send_signal(signal.SIGSTOP)
            dan.page.clock.fast_forward(16_000)
            expect(silence).to_contain_text("No news since ")
            web.process.send_signal(signal.SIGCONT)
            expect(silence).to_be_hidden()


def test_skipped_occurrences_that_were_backfilled_are_not_offered_again(
    web: Web, client: Client, outage: int, redis_client: redis.Redis
) -> None:
    before = page(web, "fay-1", "/schedules/beat")
    end_ms = now_ms(redis_client)
    client.backfill("beat", from_ms(end_ms - outage), from_ms(end_ms))
    eventually(lambda: client.history("beat", status="enqueued"))
    one, timeline = (page(web, f"fay-{path[1]}", path) for path in ("/schedules/beat", "/timeline"))

    assert "backfill …" in before
    assert f"{PASSED} of {PASSED} backfilled" in one
    assert f"{PASSED} of {PASSED} backfilled" in timeline
    assert ("backfill …" in one, timeline.count("backfill …")) == (False, 1)  # that of pulse


def test_a_failed_run_that_was_retried_says_so_on_the_first_page_and_the_timeline(
    web: Web, client: Client, daemon: DaemonThread, redis_client: redis.Redis
) -> None:
    client.retry(*failed(client, redis_client))

    with web.browser("gus", sees_arguments=True) as gus:
        eventually(lambda: "retried: queued" in gus.get("/").text)  # when the archive has the retry
        eventually(lambda: "retried: queued" in gus.get("/timeline").text)


@pytest.mark.parametrize("scheme", some(["light", "dark"], "light"))
def test_the_pages_of_the_docs_are_shown_without_errors(ann: Person, product: str, tmp_path: Path, scheme: Any) -> None:
    folder = Path(os.environ.get("ZSCHED_PICTURES", tmp_path))
    ann.page.emulate_media(color_scheme=scheme)
    for name, path in PICTURES.items():
        for kind, (width, height) in SIZES.items():
            ann.page.set_viewport_size({"width": width, "height": height})
            ann.open(path.format(run_id=product))
            expect(ann.page.locator(LATER)).to_have_count(0)
            if name == "edit":
                ann.page.get_by_label("Cron", exact=True).fill("30 9 * * 1-5")
                expect(ann.page.locator("#preview")).to_contain_text("first change in")
            ann.page.evaluate(HIDE)
            picture = folder / f"console-{name}{kind}{'-dark' if scheme == 'dark' else ''}.png"
            ann.page.screenshot(path=picture)
            assert picture.stat().st_size > 5000
