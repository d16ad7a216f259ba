"""Pages for operators: queues, workers, daemons, the log, the doctor's checks, and the accounts with what they did."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.clock import to_ms
from zsched.core.entry import Entry
from zsched.core.log.kinds import parse
from zsched.core.log.shown import changes_or_problem
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.options.allowed import Limits
from zsched.core.options.arguments import check_by, choice
from zsched.health.doctor import examine
from zsched.health.facts import Finding, Severity
from zsched.storage.keys import keys_of
from zsched.storage.questions import TEST_OF_SINK, ask_archives
from zsched.storage.rights import Role
from zsched.storage.workers import workers_seen
from zsched.web.accounts import Account, AccountRole
from zsched.web.console.schedules import instant_of
from zsched.web.console.view import View, Viewed
from zsched.web.reading import around, read_form

router = APIRouter(include_in_schema=False)

_ENTRIES: Final = 100
_DEEDS: Final = 50  # entries of what accounts did
_WORST_FIRST: Final = (Severity.PROBLEM, Severity.WARNING, Severity.NOTE, Severity.SKIPPED, Severity.OK)


class LogRow(NamedTuple):
    """An entry of the log: its changes; or a text, if it has none or this version cannot read it."""

    entry: Entry
    changes: Sequence[Change]
    text: str = ""

    @property
    def at_ms(self) -> int:
        """The time of the entry."""
        return self.entry.position.t_us // 1000

    @property
    def by(self) -> str | None:
        """The account or user that asked for it."""
        return self.entry.by.decode(errors="replace") or None


@router.get("/queues")
async def queues(view: Viewed) -> Response:
    """Show the queues: what waits, since when, who listens, and rate limits."""
    seen = await run(view.request.app.state.reader.queues, (await view.call.client._overview()).held_back)
    return view.page("queues", queues=[one for one in seen if view.account.limits.has_queue(one.queue)])


@router.get("/workers")
async def workers(view: Viewed, queue: str = "") -> Response:
    """Show the workers, those that need a look first: what each runs, its heartbeat, and the runs that it ended."""
    view.call.demand_all("the workers")
    seen = await run(view.request.app.state.reader.on_wire, workers_seen)
    found = [one for one in seen if not queue or queue in one.queues]
    found.sort(key=lambda one: (-one.over_ms(view.now_ms), -one.late_ms, not one.job, one.host, one.name))
    return view.page("workers", workers=found, queue=queue)


@router.get("/daemons")
async def daemons(view: Viewed) -> Response:
    """Show the daemons side by side, the leader first, with the lateness of the last five minutes."""
    view.call.demand_all("the daemons")
    status = await view.request.app.state.pulse.status()
    return view.page("daemons", overview=status.overview, late=status.recent.stretches[1])


@router.post("/daemons:test")
async def test_sink(view: Viewed) -> Response:
    """Let a daemon send a test message to a sink."""
    state, name = view.request.app.state, (await view.form()).get("name", "")[:64]
    view.call.demand_all("the sinks")
    answer = await run(partial(ask_archives, state.link, keys_of(state.settings), TEST_OF_SINK, name=name))
    return view.done(f"{name}: {answer.get('error') or 'sent'}", "daemons")


@router.get("/calendars")
async def calendars(view: Viewed) -> Response:
    """Show the calendars, with what each excludes."""
    return view.page("calendars", calendars=await view.call.client.calendars())


@router.get("/log")
async def log(view: Viewed, by: str = "", id: str = "", what: str = "", all: str = "", until: str = "") -> Response:
    """Show the newest entries of the log before *until* that somebody asked for, or *all*, each with its changes."""
    view.call.demand_all("the log")
    wanted, end = choice("what", what, What) if what else None, instant_of("until", until, view.zone())
    is_all, until_us = bool(all and not (by or id or wanted)), None if end is None else to_ms(end) * 1000
    asked = by or None, id or None, wanted, _ENTRIES, until_us, is_all
    entries, reached_us, source = await view.call.client._log_search(*asked)
    back_to_ms = None if reached_us is None else reached_us // 1000
    found = {"rows": [*_rows(view, entries, id, wanted)], "source": source, "back_to_ms": back_to_ms}
    return view.page("log", found=found, by=by, id=id, what=what, all=all, until=until, whats=[*What])


@router.get("/doctor")
async def doctor(view: Viewed) -> Response:
    """Run the checks of the doctor, and show the findings, the worst first."""
    view.call.demand_all("the doctor")
    state = view.request.app.state
    found: list[Finding] = await run(lambda: list(examine(state.settings, state.link, (Role.WEB,))))
    ordered = sorted(found, key=lambda finding: _WORST_FIRST.index(finding.severity))
    return view.page("doctor", findings=ordered, Severity=Severity)


@router.get("/accounts")
async def accounts(view: Viewed) -> Response:
    """Show the accounts with their rights, and what they did lately."""
    view.demand_operator("the accounts")
    return view.page("accounts", **await _accounts(view))


@router.post("/accounts")
async def add_account(view: Viewed, request: Request) -> Response:
    """Add an account, and show its token, this once."""
    view.demand_operator("the accounts")
    account = _account(view, await read_form(request))
    secret = view.request.app.state.accounts.add(account)
    return view.page("accounts", **await _accounts(view), secret=secret, made=account)


@router.post("/accounts:revoke")
async def revoke_account(view: Viewed, request: Request) -> Response:
    """Revoke an account: its token and its sessions end at once."""
    view.demand_operator("the accounts")
    name = (await read_form(request)).get("name", "")
    return view.done(
        f"{name}: {'revoked' if view.request.app.state.accounts.revoke(name) else 'not found'}", "accounts"
    )


@router.post("/accounts:expire")
async def expire_account(view: Viewed, request: Request) -> Response:
    """Let an account expire at another time, or never."""
    view.demand_operator("the accounts")
    form = await read_form(request)
    name, at_ms = form.get("name", ""), _expiry(view, form)
    when = "not found"
    if view.request.app.state.accounts.expire(name, at_ms):
        when = "never expires" if at_ms is None else f"expires at {view.local(at_ms)}"
    return view.done(f"{name}: {when}", "accounts")


def _expiry(view: View, given: Mapping[str, str]) -> int | None:
    """Return the end of a form's account: a time, or after a duration. None: never. Raises InvalidSchedule."""
    at = around("expires", text, view.now_ms, 1) if (text := given.get("expires", "").strip()) else None
    return None if at is None else to_ms(at)


def _account(view: View, given: Mapping[str, str]) -> Account:
    """Return the account of a form; who does not see arguments cannot give that right. Raises InvalidSchedule."""
    return Account(
        check_by(given.get("name", "")),
        choice("role", given.get("role"), AccountRole),
        Limits(*(tuple(given.get(kind, "").replace(",", " ").split()) for kind in Limits._fields)),
        "arguments" in given and view.account.sees_arguments,
        view.now_ms,
        view.account.name,
        _expiry(view, given),
    )


async def _accounts(view: View) -> dict[str, Any]:
    """Return the accounts, and what they did lately."""
    file = view.request.app.state.accounts
    known = file.with_uses(file.current())
    deeds = await asyncio.gather(*(view.call.client._log_search(one.name, limit=_DEEDS) for one, _ in known))
    rows = [row for entries, *_ in deeds for row in _rows(view, entries)]
    return {"accounts": known, "deeds": sorted(rows, key=lambda row: row.at_ms, reverse=True)[:_DEEDS]}


def _rows(view: View, entries: Iterable[Entry], id: str = "", what: What | None = None) -> Iterator[LogRow]:
    """Yield the rows with only the changes of schedule *id* of the kind *what*; "" and None are not conditions."""
    for entry in entries:
        found, problem = changes_or_problem(entry, view.request.app.state.run_suffix)
        shown = [one for one in found if one.id == (id or one.id) and one.what is (what or one.what)]
        yield LogRow(entry, shown, problem or ("" if found else parse(entry).sentence()))
