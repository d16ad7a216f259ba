"""
Acts instead of advice: what a command of a remedy does, as a link of the console, or as a button that asks first.

A remedy names its command where it is born (``health.facts``, ``core.story.verdict``); this is the one table that knows
the console's place for it. A command without a place, such as a worker's, stays a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from zsched.core.clock import to_ms

if TYPE_CHECKING:
    from zsched.web.console.view import View


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
