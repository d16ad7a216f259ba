"""The timeline by keyboard alone: to a failed run's page, and to a shorter, longer or chosen time."""

import pytest
import redis
from playwright.sync_api import expect

from tests.builders.daemons import DaemonThread
from tests.integration.console.person import FAIL, Person, failed
from zsched import Client

pytestmark = pytest.mark.once


@pytest.fixture
def run_id(client: Client, daemon: DaemonThread, redis_client: redis.Redis) -> str:
    """A run that failed, beside a schedule with coming occurrences."""
    client.schedule("app.tasks.remind", id="beat", every=600)
    return failed(client, redis_client)[0]


def focus_chart(person: Person) -> None:
    """Press Tab until the chart has the focus."""
    for _ in range(60):
        person.page.keyboard.press("Tab")
        if person.page.evaluate("document.activeElement.matches('.timeline')"):
            return
    pytest.fail("the chart is not reached by Tab")


def reading(person: Person) -> str:
    return person.page.locator(".reading").inner_text()


def span_ms(person: Person) -> int:
    return int(person.page.locator(".timeline").evaluate("each => each.dataset.to - each.dataset.from"))


def bar_ms(person: Person) -> int:
    return int(person.page.locator(".timeline").get_attribute("data-step") or "")


def press(person: Person, key: str) -> None:
    """Press a key that leads to another page."""
    with person.page.expect_navigation(wait_until="load"):
        person.page.keyboard.press(key)


def test_a_failed_run_is_reached_by_keys(ann: Person, run_id: str) -> None:
    ann.open("/timeline")
    focus_chart(ann)
    assert "Arrow keys move" in reading(ann)

    for _ in range(5):
        ann.page.keyboard.press("ArrowDown")
        if reading(ann).startswith(FAIL):
            break
    assert "failed: ValueError: no mailbox" in reading(ann)
    assert [] == ann.grave_findings()
    press(ann, "Enter")

    assert run_id in ann.page.url
    ann.reads("ValueError: no mailbox")


def test_keys_show_a_shorter_a_longer_and_a_chosen_time_and_keep_the_focus(ann: Person, run_id: str) -> None:
    ann.open("/timeline")
    focus_chart(ann)
    whole_ms = span_ms(ann)

    press(ann, "+")
    half_ms = span_ms(ann)
    press(ann, "-")
    again_ms, step_ms = span_ms(ann), bar_ms(ann)
    ann.page.keyboard.press("ArrowRight")
    first = reading(ann)
    ann.page.keyboard.press("ArrowRight")
    second = reading(ann)
    ann.page.keyboard.press("Shift+ArrowRight")
    chosen = reading(ann)
    expect(ann.page.locator(".density .selection")).to_have_count(1)
    press(ann, "Enter")

    assert [half_ms, again_ms] == pytest.approx([whole_ms // 2, whole_ms], rel=0.1)  # in whole bars
    assert (True, True) == (first.startswith("All, "), "to come" in second)
    assert "Enter shows it" in chosen
    assert (len({first, second, chosen}), span_ms(ann)) == (3, 2 * step_ms)
    assert ann.page.evaluate("document.activeElement.matches('.timeline')")


def test_a_bar_is_shown_alone_by_enter_and_by_a_link_of_the_table(ann: Person, run_id: str) -> None:
    ann.open("/timeline")
    step_ms = bar_ms(ann)
    focus_chart(ann)
    ann.page.keyboard.press("ArrowRight")

    press(ann, "Enter")
    by_key = span_ms(ann)
    ann.open("/timeline")
    ann.page.locator("summary", has_text="as a table").click()
    ann.page.get_by_role("region", name="The bars as a table").get_by_role("link").first.click()
    ann.reads("1 min")

    assert (step_ms, step_ms) == (by_key, span_ms(ann))


def test_the_help_names_the_keys(ann: Person) -> None:
    ann.open("/timeline")
    ann.page.keyboard.press("?")

    ann.reads("there: choose a time, for Enter")
