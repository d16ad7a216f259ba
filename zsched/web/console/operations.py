"""Pages for operators: queues and their workers, the log, the doctor's checks, and the accounts with what they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from zsched.aio.bridge import run
from zsched.core.changes import Change
from zsched.core.entry import Entry
from zsched.core.log import UnknownEntry, changes
from zsched.core.log.shown import unknown_entry_text
from zsched.core.story import Source
from zsched.health.check import Finding, Severity
from zsched.health.doctor import examine
from zsched.storage.rights import Role
from zsched.web.console.view import View, Viewed

router = APIRouter(include_in_schema=False)

_ENTRIES: Final = 100
_DEEDS: Final = 1000  # entries of the log that are searched for what accounts did
_WORST_FIRST: Final = (Severity.PROBLEM, Severity.WARNING, Severity.NOTE, Severity.SKIPPED, Severity.OK)


@dataclass(frozen=True, slots=True)
class LogRow:
    """An entry of the log: its changes, or a text if this version cannot read it."""

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

    def concerns(self, by: str, id: str) -> bool:
        """Return True if *by* asked for it, and it concerns schedule *id*; an empty text is no condition."""
        return (not by or by == self.by) and (not id or any(change.id == id for change in self.changes))


@router.get("/queues")
async def queues(view: Viewed) -> Response:
    """Show the queues: what waits, since when, who listens, and rate limits."""
    overview = await view.call.client.overview()
    seen = await run(view.request.app.state.reader.queues_seen, overview.held_back)
    return view.page("queues", queues=[one for one in seen if view.call.sees_queue(one.queue)])


@router.get("/log")
async def log(view: Viewed, by: str = "", id: str = "") -> Response:
    """Show the newest entries of the log, each with what it changed."""
    view.call.demand_all("the log")
    rows, source = await _rows(view, _DEEDS if by or id else _ENTRIES)
    return view.page("log", rows=[row for row in rows if row.concerns(by, id)], source=source, by=by, id=id)


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
    """Show tokens and people with their rights, and what they did lately."""
    view.demand_operator("the accounts")
    state = view.request.app.state
    tokens = await run(lambda: list(state.tokens.all()))
    people = await run(lambda: [person.account for person in state.people.all()])
    names = {account.name for _, account, _ in tokens} | {account.name for account in people}
    rows, _ = await _rows(view, _DEEDS)
    return view.page("accounts", tokens=tokens, people=people, deeds=[row for row in rows if row.by in names])


async def _rows(view: View, most: int) -> tuple[list[LogRow], Source]:
    """Return the newest entries, the newest first, and their source."""
    found, source = await view.call.client.log(limit=most)
    suffix, rows = view.request.app.state.run_suffix, list[LogRow]()
    async for entry in found:
        try:
            rows.append(LogRow(entry, list(changes(entry, suffix))))
        except UnknownEntry:
            rows.append(LogRow(entry, (), unknown_entry_text(entry)))
        if len(rows) >= most:
            break
    return rows[::-1], source
