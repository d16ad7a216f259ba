"""Entries for people and for JSON: what each changed, without arguments."""

from collections.abc import Iterable
from typing import Any, Final

from zsched.core.entry import Entry, UnknownEntry, text
from zsched.core.log.kinds import changes
from zsched.core.model import iso
from zsched.core.occurrences.changes import Change
from zsched.core.wording import plural, some

_NAMED: Final = 3  # fields


def entry_for_json(entry: Entry, found: Iterable[Change], problem: str) -> dict[str, Any]:
    """Return *entry* with *found*, its changes; the keys are stable. *problem*: why it cannot be read."""
    at = iso(entry.position.t_us // 1000)
    fields = {"entry": entry.position.id, "at": at, "kind": entry.kind, "changes": [change.shown() for change in found]}
    return fields | ({"problem": problem} if problem else {})


def changes_or_problem(entry: Entry, run_suffix: str) -> tuple[list[Change], str]:
    """Return the changes in *entry*, and ""; or none, and a text about an entry that this version does not know."""
    try:
        return list(changes(entry, run_suffix)), ""
    except UnknownEntry:
        names = [text(name) for name in entry.body[::2]]  # not the values, which may be arguments
        return [], f"unknown kind or form, {plural(len(entry.body) // 2, 'field')}: {some(names, _NAMED)}"
