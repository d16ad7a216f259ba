"""
The request for a page: its caller, its zone of time, links that keep the zone, and the answer.

What an action did is told once, by the next page: in a cookie, as an address may be anybody's text. No part that htmx
reads removes it.

Acts instead of advice: what a command of a remedy does, as a link of the console, or as a button that asks first. A
remedy names its command where it is born (``health.facts``, ``core.story.verdict``); ``acts_of`` is the one table that
knows the console's place for it. A command without a place, such as a worker's, stays a text.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Request
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from zsched.core.clock import from_ms, to_ms
from zsched.core.model import iso
from zsched.core.options.forms import zone_name
from zsched.core.runs.cells import cells, remark, with_short_workers
from zsched.core.runs.run_id import RunId
from zsched.core.story.sentences import local_text, note_text, reason_text, sentence, shortened
from zsched.core.triggers.zones import has_zone, shown_zone
from zsched.core.wording import duration_text, plural, relative_text, rough_duration
from zsched.errors import InvalidSchedule, ZschedError
from zsched.web.access import Caller
from zsched.web.accounts import AccountRole
from zsched.web.answers import PAGE_HEADERS, STREAMED, TEMPLATES, Problem, label_of, page_problem
from zsched.web.calls import Admitted
from zsched.web.events import BEAT_EVERY_S
from zsched.web.reading import FIELDS, read_form
from zsched.web.rq import is_for

PAGE: Final = 50  # rows of a list

_ZONE: Final = "zsched_zone"  # the cookie with the usual zone, which console.js writes
_SAID: Final = "zsched_said"  # the cookie with what was done
_SAID_CHARACTERS: Final = 300  # each takes up to twelve bytes, and browsers drop a cookie beyond 4,096
_SAID_S: Final = 60
_LATER: Final = "<!-- later -->"  # of a template
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?[+-]\d\d:\d\d")  # as ``local_text`` writes it
_SEE_OTHER: Final = 303
_PAGES: Final = {"status": ("Now", "/"), "doctor": ("Doctor", "/doctor"), "tokens": ("Accounts", "/accounts")}


class Offer(NamedTuple):
    """A link; with ``question`` a change of the schedule or run ``id`` by POST, which asks that first."""

    label: str
    address: str
    question: str = ""
    id: str = ""


def acts_of(view: View, commands: Iterable[Sequence[object]]) -> list[Offer]:
    """Return the acts of *commands* that the viewer may do."""
    found = (_act(view, *map(str, command)) for command in commands)
    return [one for one in found if one and (view.may_write or not one.question)]


def _act(view: View, *command: str) -> Offer | None:
    match command:
        case ("zsched", "resume" | "release" | "run" as verb, id):
            return Offer(verb.capitalize(), view.link("schedules", f"{id}:{verb}"), f"{verb.capitalize()} {id}", id)
        case ("zsched", "retry", id):
            return Offer("Retry", view.link("runs", f"{id}:retry"), f"Retry {id}", id)
        case ("zsched", "cancel-run", id):
            return Offer("Stop", view.link("runs", f"{id}:cancel"), f"Stop {id}: its effects remain", id)
        case ("zsched", "backfill", id, "--from", start, "--to", end) if view.may_write:
            start, end = (view.local_input(to_ms(datetime.fromisoformat(each))) for each in (start, end))
            return Offer("Backfill", view.link("schedules", id, "backfill", tz=view.zone(), start=start, end=end))
        case ("zsched", "ls", option, value):
            return Offer(f"Schedules: {value}", view.link("schedules", **{option.removeprefix("--"): value}))
        case ("zsched", "history", "--status", status):
            return Offer(f"Runs: {status}", view.link("runs", status=status, since="1h"))
        case ("zsched", "status" | "doctor" | "tokens" as page, *_):
            return Offer(*_PAGES[page])
    return None


def cut_at(text: str, ids: Iterable[str]) -> list[str]:
    """Return *text* cut at the *ids* in it: every second part is one."""
    longest_first = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
    return re.split(rf"(?<![\w.@:-])({longest_first})(?![\w@-])", text) if longest_first else [text]


_FUNCTIONS: Final = {
    "cells": cells, "remark": remark, "local_text": local_text, "note_text": note_text, "reason_text": reason_text,
    "sentence": sentence, "shortened": shortened, "duration_text": duration_text, "plural": plural,
    "relative_text": relative_text, "rough_duration": rough_duration, "iso": iso,
    "label_of": label_of, "run_id": RunId.ours, "acts_of": acts_of, "cut_at": cut_at,
}  # fmt: skip


class View:
    """A request for a page. ``silent_ms``: a live page that hears nothing for so long may be old."""

    silent_ms: Final = round(BEAT_EVERY_S * 3000)

    def __init__(self, request: Request, call: Caller, tz: str | None) -> None:
        """*tz*: None is the usual zone of this browser, "" that of each schedule. Raises InvalidSchedule: unknown."""
        usual = request.cookies.get(_ZONE) or None if tz is None else None
        self.request, self.call, self.linked_tz = request, call, zone_name(tz or None)
        self.tz = usual if usual and has_zone(usual) else self.linked_tz
        self.account, self.sees_rq = call.account, is_for(call)  # rq-dashboard
        self.now_ms: int = request.app.state.clock.now_ms()
        self._cookie = request.app.state.access.proxy.cookie(request)
        self.may_write = call.refusal_of_writes is None  # this caller may change schedules
        self.is_operator = self.account.role is AccountRole.OPERATOR and not call.is_limited  # who may see the accounts
        self._is_part = "hx-request" in request.headers  # htmx asks for the live part of the page

    @property
    def refusal(self) -> Problem | None:
        """The reason why this server takes no changes, for a caller who could make some; None: there is none."""
        return None if self.account.role is AccountRole.VIEWER else self.call.refusal_of_writes

    def demand_operator(self, what: str) -> None:
        """Check that the caller is an operator without limits. Raises Problem."""
        if not self.is_operator:
            detail = f"{self.account.name!r} needs an operator account without limits for {what}"
            raise Problem(403, "outside-limits", detail, "log in as an operator")

    @property
    def said(self) -> str:
        """The result of the last action of this browser; "" if a page has said it."""
        return "" if self._is_part else unquote(self.request.cookies.get(_SAID, ""))

    async def form(self, most: int = FIELDS) -> ImmutableMultiDict[str, str]:
        """Return the fields of a form that changes something, *most* at most. Raises Problem."""
        self.call.demand_write()
        return await read_form(self.request, most)

    # -- times --------------------------------------------------------------------------------------

    def zone(self, own: str | None = None) -> str:
        """Return the zone of a time: the chosen one, else that of its schedule, *own*, else UTC."""
        return self.tz or own or "UTC"

    def local(self, ms: int, own: str | None = None) -> str:
        """Return ``2026-12-24 18:00:00``, with milliseconds if there are any. The page says the zone."""
        return local_text(ms, self.zone(own))

    def short(self, ms: int, own: str | None = None) -> str:
        """Return a time as in ``brief``."""
        return self.brief(self.local(ms, own))

    def brief(self, text: str) -> str:
        """
        Return *text* with short names of workers and short times: ``18:00:00`` if that is today, else ``24 Dec
        18:00:00``, with the year if it is another one.
        """
        return _TIME.sub(self._brief_time, with_short_workers(text))

    def _brief_time(self, found: re.Match[str]) -> str:
        try:
            at = datetime.fromisoformat(found[0])
        except ValueError:  # somebody's own text
            return found[0]
        today = from_ms(self.now_ms).astimezone(at.tzinfo)
        year = "" if at.year == today.year else f" {at.year}"
        return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%-d %b}{year} {at:%H:%M:%S}"

    def local_input(self, ms: int, own: str | None = None) -> str:
        """Return a time for a field of a form: ``2026-12-24T18:00:00``."""
        return f"{from_ms(ms).astimezone(shown_zone(self.zone(own))):%Y-%m-%dT%H:%M:%S}"

    # -- links --------------------------------------------------------------------------------------

    def link(self, *path: str, **query: Any) -> str:
        """Return the address of the page at *path*, whose parts are escaped, with *query* and the chosen zone."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        if self.linked_tz is not None:
            given.setdefault("tz", self.linked_tz)
        address = "/" + "/".join(quote(part, safe="@:+,;=~!$&'()*.-_") for part in path if part)
        return f"{address}?{urlencode(given, doseq=True)}" if given else address

    def here(self, **query: Any) -> str:
        """Return the address of this page, with other values in its *query*; None removes one."""
        given: dict[str, Any] = dict(self.request.query_params) | query
        given = {name: value for name, value in given.items() if value not in (None, "")}
        return f"{self.request.url.path}?{urlencode(given)}" if given else self.request.url.path

    @property
    def kept(self) -> Mapping[str, str]:
        """The query without the zone, for the form that chooses one."""
        return {name: value for name, value in self.request.query_params.items() if name != "tz"}

    # -- answers ------------------------------------------------------------------------------------

    def page(self, name: str, code: int = 200, **shown: Any) -> Response:
        """Return page *name* with *shown*; a request of htmx gets its block ``live`` alone."""
        return self._told(HTMLResponse(self.text(name, is_part=self._is_part, **shown), code, PAGE_HEADERS))

    def refused(self, error: ZschedError | Problem, name: str, **shown: Any) -> Response:
        """
        Return page *name* with *error*, also at its field, and the texts that a person gave. A request of htmx gets the
        error alone, as that page is still there: it is raised.
        """
        if self._is_part:
            raise error
        trouble = page_problem(error)
        return self.page(name, trouble.status, trouble=trouble, **shown)

    def text(self, name: str, *, is_part: bool = False, **shown: Any) -> str:
        """Return the text of page *name*, or of its block ``live``."""
        template = TEMPLATES.get_template(f"console/{name}.html")
        given = {**_FUNCTIONS, "view": self, "short": self.brief, "trouble": None, **shown}
        text = "".join(template.blocks["live"](template.new_context(given))) if is_part else template.render(given)
        return text.encode(errors="backslashreplace").decode()  # other programs' JSON may have half of a character

    def pieces(self, name: str, **shown: Any) -> list[str]:
        """Return the text of page *name* in pieces: between them, a stream has what takes longer to read."""
        return self.text(name, is_part=self._is_part, **shown).split(_LATER)

    def later(self, name: str, read: Callable[[], Awaitable[Mapping[str, Any]]], **shown: Any) -> Response:
        """
        Return page *name* at once, and its part ``_name`` as soon as *read* returned what that shows. An error is shown
        in its place.
        """
        head, tail = self.pieces(name, **shown)

        async def parts() -> AsyncIterator[str]:
            yield head
            try:
                yield self.text(f"_{name}", **shown, **await read())
            except (ZschedError, Problem) as error:
                yield self.text("_trouble", trouble=page_problem(error))
            yield tail

        return self.streamed(parts())

    def streamed(self, parts: AsyncIterator[str]) -> Response:
        """Return a page that is sent as its *parts* come. An error has no status then: it is shown in its place."""
        return self._told(StreamingResponse(parts, headers=PAGE_HEADERS | STREAMED, media_type="text/html"))

    def done(self, said: str, *path: str, **query: Any) -> Response:
        """Lead back to the page at *path*, which says what was done."""
        answer, text = self.to(*path, **query), quote(shortened(said, _SAID_CHARACTERS))
        answer.set_cookie(_SAID, text, _SAID_S, **self._cookie)
        return answer

    def to(self, *path: str, **query: Any) -> Response:
        """Lead to the page at *path*."""
        return RedirectResponse(self.link(*path, **query), _SEE_OTHER)

    def _told(self, answer: Response) -> Response:
        """Return *answer*, after which no page says again what was done."""
        if self.said:
            answer.delete_cookie(_SAID, **self._cookie)
        return answer


def given_filters(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return those of *names* that a query or a form gives."""
    return {name: value for name in names if (value := given.get(name, "").strip())}


def within(match: str) -> str:
    """Return the glob for ids with the text *match*, or *match* itself if it is a glob."""
    return match if {*"*?["} & {*match} else f"*{match}*"


def chosen(given: ImmutableMultiDict[str, str]) -> list[str]:
    """Return the ids of the rows that a person chose in a list. Raises InvalidSchedule."""
    ids = given.getlist("id")
    if len(ids) > PAGE:
        raise InvalidSchedule("id", plural(len(ids), "id"), "too many rows", f"choose {PAGE}, or filter instead")
    return ids


def viewed(request: Request, call: Admitted) -> View:
    """Return the view of a request; its query has the chosen zone."""
    return View(request, call, request.query_params.get("tz"))


Viewed = Annotated[View, Depends(viewed)]
