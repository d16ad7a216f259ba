"""
A crawler in a browser: opens pages, follows their links, opens what is closed, and submits the forms that only read.

A link is followed once per kind: links are of one kind if only digits, the zone, the filters, or the place in time
differ. The length of a shown time belongs to the kind. Forms are of one kind if only the id of their page differs. What
is done with chosen rows is asked for with all of them. A page that is shown with an alert, an answer from 400 on, a
request that failed, a message of the browser, and a page that is wider than its window are troubles, each with its
page.
"""

import json
import re
from collections import deque
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Request, Response

from tests.integration.console.person import Person

# What a person may type into a field, by its name; "" is tried in any case.
TYPED: Final = {
    "match": ["digest", "*"], "tag": ["shop"], "queue": ["sync"], "func": ["app.tasks.digest"], "name": ["<script>"],
    "owner": ["nobody"], "since": ["1h", "2026-01-01T00:00Z"], "due_after": ["2026-01-01T00:00Z"],
    "due_before": ["2099-01-01T00:00Z"], "q": ["digest-seoul", "digest", "<script>", "once-expired", "nothing"],
    "by": ["ann"], "id": ["invoices"], "start": ["2026-01-01T00:00:00"], "end": ["2026-01-01T01:00:00"],
    "until": ["2026-01-01T00:00:00"], "from": [], "to": [],  # both are filled in
}  # fmt: skip
_PAGE: Final = """() => ({
  links: [...document.querySelectorAll("a[href]")].map((each) => each.href.baseVal ?? each.getAttribute("href")),
  alerts: [...document.querySelectorAll("[role=alert]:not([hidden])")].map((each) => each.innerText),
  wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""
_FORMS: Final = """() => [...document.forms].map((form) => [
  form.method === "get" ? (form.closest("header, main, footer")?.tagName ?? "") : "",
  form.getAttribute("action"),
  [...form.elements].filter((each) => each.name && !["hidden", "checkbox"].includes(each.type)).map(
    (each) => [each.name, each.options ? [...each.options].map((one) => one.value) : []]),
  [...form.elements].filter((each) => each.hasAttribute("formaction")).map((each) => ["act", each.textContent]),
])"""
_SUBMIT: Final = f"""([number, name, text]) => {{
  const typed = {json.dumps(TYPED)};
  const form = document.forms[number];
  form.reset();
  for (const each of form.elements) {{ if (each.required) {{ each.value = typed[each.name][0]; }} }}
  const act = name === "act" ? [...form.elements].find((each) => each.textContent === text) : null;
  if (act) {{ document.getElementById("choose-all").click(); }}
  if (name && !act) {{ form.elements[name].value = text; }}
  form.requestSubmit(act);
}}"""
_IS_READ: Final = (  # parts that are read after the page, and those that htmx reads
    "() => !document.querySelector('.htmx-request, .lazy[data-strip], .searching:last-child')"
)
_OUTSIDE: Final = ("/rq/", "/api/", "/static/")  # foreign pages
_ABORTED: Final = "net::ERR_ABORTED"  # by the next page


class Crawler:
    """
    Crawls the pages of *person*. ``seen``: the kinds of links and forms, each with the page that had it; ``trouble``:
    what was wrong.
    """

    def __init__(self, person: Person) -> None:
        self.person, self.page = person, person.page
        self.seen, self.trouble = dict[str, str](), list[str]()
        self._waiting, self._is_left = deque[tuple[str, str]](), False
        self.page.on("console", lambda message: self._note(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self._note(f"script: {error}"))
        self.page.on("response", self._hear)
        self.page.on("requestfailed", self._hear_failed)

    def crawl(self, *paths: str) -> None:
        """Open *paths*, and all that is found from there."""
        for path in paths:
            self._add(path, "the start")
        while self._waiting:
            path, origin = self._waiting.popleft()
            self.open(path, origin)
            self._press_all()
            self._submit_all()

    def open(self, path: str, origin: str = "") -> None:
        """Open the page at *path*, a link of *origin*, and take its links."""
        answer = self.page.goto(path)
        if answer is None or answer.status != 200:
            self._note(f"no page at {path}, a link of {origin}")
        self._is_left = False
        self.look()

    def look(self) -> None:
        """Wait until the page is read, and take what it has."""
        self.page.wait_for_function(_IS_READ)
        found: dict[str, Any] = self.page.evaluate(_PAGE)
        for alert in found["alerts"]:
            self._note(f"alert: {alert}")
        if found["wider"] > 0:
            self._note(f"{found['wider']} pixels wider than the window")
        here = self._here()
        for link in found["links"]:
            self._add(link, here)

    def _add(self, link: str, origin: str) -> None:
        if link.startswith("/") and not link.startswith(_OUTSIDE) and self._is_new(kind_of(link), origin):
            self._waiting.append((link, origin))

    def _is_new(self, kind: str, origin: str) -> bool:
        if kind in self.seen:
            return False
        self.seen[kind] = origin
        return True

    def _press_all(self) -> None:
        """Open and close each question, and what else is closed."""
        for each in self.page.locator("summary:visible, [data-opens]:visible").all():
            if self._is_new(f"{_form_of(self._here())} {each.inner_text()}", self._here()):
                each.click()
                self.look()
                self.page.keyboard.press("Escape")

    def _submit_all(self) -> None:
        """Submit each form that only reads: empty, with each choice, and with each text that a person may type."""
        here = self._here()
        for number, (place, action, fields, acts) in enumerate(self.page.evaluate(_FORMS)):
            of = _form_of(here) if place != "HEADER" else ""
            if place and self._is_new(f"{of} form {_form_of(action or '')}", here):
                choices = [(name, text) for name, texts in fields for text in texts or TYPED[name]]
                for name, text in choices[-1:] if place == "FOOTER" else [("", ""), *choices, *acts]:
                    self._submit(here, number, name, text)

    def _submit(self, here: str, number: int, name: str, text: str) -> None:
        """Give the form *number* of the page *here* a *text*, and submit it: a request of htmx, or another page."""
        if self._is_left:
            self.open(here)
        is_part = self.page.evaluate("number => document.forms[number].hasAttribute('hx-get')", number)
        with self.page.expect_response("**") if is_part else self.page.expect_navigation():
            self.page.evaluate(_SUBMIT, [number, name, text])
        self.look()
        self._is_left = not is_part

    def _hear(self, response: Response) -> None:
        if response.status >= 400:
            self._note(f"status {response.status} of {response.url}")

    def _hear_failed(self, request: Request) -> None:
        if request.failure != _ABORTED:
            self._note(f"{request.failure} of {request.url}")

    def _here(self) -> str:
        place = urlsplit(self.page.url)
        return place.path + (f"?{place.query}" if place.query else "")

    def _note(self, what: str) -> None:
        origin = self.seen.get(kind_of(self._here()), "a form")
        self.trouble.append(f"{self._here()} (from {origin}): {what}")


def kind_of(link: str) -> str:
    """Return what a link has in common with all links of its kind."""
    place = urlsplit(link)
    given = dict(parse_qsl(place.query))
    if {"from", "to"} <= given.keys():
        start, end = (datetime.fromisoformat(given.pop(name)) for name in ("from", "to"))
        given["span"] = str(end - start)
    kept = {name: given[name] for name in ("span", "to", "q") if name in given}
    is_filtered = bool(given.keys() - kept.keys() - {"tz"})
    return f"{re.sub(r'[0-9]+', '#', place.path)} {kept or ''}{' filtered' if is_filtered else ''}"


def _form_of(link: str) -> str:
    """Return the path of a page without its id."""
    return re.sub(r"/(schedules|runs)/[^/:]+", r"/\1/*", urlsplit(link).path)
