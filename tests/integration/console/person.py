"""A person at a browser: opens pages, clicks, types; and what the browser complains about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, expect
from rq import Queue

from tests.builders.web import Web
from tests.builders.workers import work_off
from tests.waiting import WITHIN_S, eventually
from zsched import Client
from zsched.web.access import COOKIE

FAIL: Final = "tests.integration.console.jobs.fail"
_WITHIN_MS: Final = WITHIN_S * 1000
_GRAVE: Final = ("serious", "critical")


class Person:
    """A person with a session, on one page. ``trouble``: errors of the pages, also of the content policy."""

    def __init__(self, web: Web, page: Page) -> None:
        self.web, self.page, self.trouble, self.clicks = web, page, list[str](), 0
        page.set_default_timeout(_WITHIN_MS)
        expect.set_options(timeout=_WITHIN_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.trouble.append(str(error)))

    @classmethod
    @contextmanager
    def of(
        cls,
        web: Web,
        browser: Any,
        name: str,
        role: str = "operator",
        *,
        has_scripts: bool = True,
        timezone: str = "",
        **rights: Any,
    ) -> Iterator[Person]:
        """
        A new person who has logged in, in *timezone*; without one they chose each schedule's own before. Their pages
        must have no errors.
        """
        with web.browser(name, role, **rights) as client:
            secret = client.cookies[COOKIE]
        options = {"java_script_enabled": has_scripts, "timezone_id": timezone or "UTC"}
        kept = {COOKIE: secret} if timezone else {COOKIE: secret, "zsched_zone": ""}
        with browser.new_context(base_url=web.url, **options) as context:
            context.add_cookies(
                [{"name": name, "value": text, "url": web.url, "sameSite": "Strict"} for name, text in kept.items()]
            )
            person = cls(web, context.new_page())
            yield person
            assert [] == person.trouble

    def open(self, path: str) -> None:
        """Open the page at *path*."""
        answer = self.page.goto(path)
        assert answer is not None
        assert 200 == answer.status, self.page.content()

    def click(self, name: str | re.Pattern[str], role: str = "link") -> None:
        """Click on the first thing of this name, which leads to another page, and count it."""
        self.clicks += 1
        with self.page.expect_navigation(wait_until="load"):
            self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]  # a literal

    def find(self, id: str) -> None:
        """Search for an id, as the page has a field for it."""
        self.page.locator("header input[type=search]").fill(id)
        with self.page.expect_navigation(wait_until="load"):
            self.page.keyboard.press("Enter")

    def press(self, name: str | re.Pattern[str]) -> None:
        """Press a button."""
        self.click(name, "button")

    def ask_for(self, name: str) -> None:
        """Open the question of an action, as ``Run now …``, and count it as a click."""
        self.clicks += 1
        self.page.locator("summary", has_text=name).first.click()

    def reads(self, text: str) -> None:
        """Wait until the page shows *text*."""
        self.page.get_by_text(text).first.wait_for()

    def text(self) -> str:
        """Return what the page shows."""
        return self.page.locator("main").inner_text()

    def grave_findings(self) -> list[str]:
        """Return what axe-core finds on the page that keeps people out of it."""
        found = Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in _GRAVE]

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(message.text)


def failed(client: Client, redis_client: redis.Redis, number: int = 1) -> list[str]:
    """Let runs fail that are of the queue mail, and return their ids when the leader has recorded it."""
    runs = [client.enqueue(FAIL, id=f"broken-{n}", queue="mail").run_id or "" for n in range(number)]
    work_off(Queue("mail", connection=redis_client), redis_client)
    eventually(lambda: number == len(client.runs(status="failed")))
    return runs
