"""The sinks of the notifier on the page Daemons: their last message, why one fails, and a test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.builders.receivers import Receiver
from tests.integration.console.person import Person
from tests.waiting import eventually
from zsched import Client
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.overview import read_overview


@pytest.fixture
def sinks(redis_url: str, client: Client, receiver: Receiver, link: Link) -> Iterator[Receiver]:
    """The receiver of a sink called ops, of a daemon that leads and has reported it."""
    ops = {"kind": "webhook", "url": f"{receiver.url}/s3cret", "on": ("failed", "deadline")}
    with DaemonThread(redis_url, notify={"ops": ops, "alive": {"kind": "ping", "url": receiver.url}}):
        eventually(lambda: read_overview(link, Keys("default")).sinks)
        yield receiver


def test_an_operator_sends_a_test_to_a_sink_from_the_console_and_sees_why_it_fails(
    ann: Person, sinks: Receiver
) -> None:
    ann.open("/daemons")
    row = ann.page.get_by_role("row", name="ops")
    expect(row).to_contain_text("failed, deadline")
    expect(row).not_to_contain_text("s3cret")
    assert [] == ann.grave_findings()

    ann.click("Test ops", "button")
    expect(ann.page.get_by_text("ops: sent")).to_be_visible()
    assert "A test of [notify.ops]" in next(one for one in sinks.taken if one.path == "/s3cret").json["text"]

    sinks.answer = lambda request: (500, b"broken")
    ann.click("Test ops", "button")
    expect(ann.page.get_by_text(f"ops: {sinks.url} answered 500: broken")).to_be_visible()


def test_a_viewer_sees_the_sinks_without_a_button(eve: Person, sinks: Receiver) -> None:
    eve.open("/daemons")

    expect(eve.page.get_by_role("row", name="ops")).to_be_visible()
    expect(eve.page.get_by_role("button", name="Test ops")).to_have_count(0)
