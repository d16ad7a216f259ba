"""The report of an import: the result for each schedule, refusals, and notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from zsched.cli.invocation import Invocation, say
from zsched.cli.tables import lines
from zsched.cli.texts import printable
from zsched.cli.times import due_text, local_text
from zsched.core.clock import Clock, SystemClock, to_ms
from zsched.core.model import Definition, iso
from zsched.core.preview import occurrences
from zsched.core.triggers import TriggerSpec
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.wording import plural, some
from zsched.files.applying import CREATED, UNCHANGED, UPDATED
from zsched.imports.found import Item
from zsched.imports.putting import Imported
from zsched.imports.undoing import Undone

_SHOWN: Final = 50  # ids of moved one-shots, or refusals, that people are shown; programs get all
_HEADER: Final = ("ID", "WHEN", "NEXT", "FROM")


def tell_import(
    invocation: Invocation,
    imported: Sequence[Imported],
    *,
    is_dry: bool,
    is_compared: bool,
    clock: Clock | None = None,
) -> None:
    """
    All of it: results to stdout, refusals and remarks to stderr. A dry run that did not compare with Redis
    (*is_compared* False) has a table of what is there.
    """
    now_ms = (clock or SystemClock()).now_ms()
    counts: dict[str, int] = {}
    if is_compared:
        counts = {word: sum(one.count(word) for one in imported) for word in (CREATED, UPDATED, UNCHANGED)}
        counts["removed"] = sum(len(one.applied.removed) for one in imported)
    else:
        counts["found"] = sum(len(one.definitions) for one in imported)
    counts["refused"] = sum(len(one.source.refusals) for one in imported)
    value = {
        "dry_run": is_dry,
        "counts": counts,
        "schedules": [told for one in imported for told in _schedules(one, now_ms)],
        "removed": [id for one in imported for id in one.applied.removed],
        "stale": [id for one in imported for id in one.applied.stale],
        "refused": [refusal.to_dict() for one in imported for refusal in one.source.refusals],
        "errors": [{"id": id, "error": str(error)} for one in imported for id, error in one.applied.errors],
        "remarks": [remark for one in imported for remark in one.source.remarks],
    }
    if invocation.wants_json:
        invocation.answer(value)
        return
    shown = (line for one in imported for line in _lines(one)) if is_compared else _table(imported, now_ms)
    summary = ", ".join(f"{number:,} {word}" for word, number in counts.items())
    lead = "dry run, nothing was written: " if is_dry else ""
    invocation.answer(value, *map(printable, shown), f"{lead}{summary}")
    _remark(imported)


def tell_undone(invocation: Invocation, owner: str, undone: Undone) -> None:
    """Report the result for each schedule of *owner*."""
    kept = [{"id": id, "reason": reason} for id, reason in undone.kept]
    value = {"owner": owner, "cancelled": undone.cancelled, "given_back": undone.given_back, "kept": kept}
    counts = f"{len(undone.cancelled):,} cancelled, {len(undone.given_back):,} given back, {len(kept):,} kept"
    done = [*(f"{id}: cancelled" for id in undone.cancelled), *(f"{id}: given back" for id in undone.given_back)]
    invocation.answer(value, *_cut(done), counts)
    if not invocation.wants_json:
        for line in _cut([f"{id} stays here: {reason}" for id, reason in undone.kept]):
            say(line)


def _schedules(one: Imported, now_ms: int) -> Iterator[dict[str, Any]]:
    """Every schedule as JSON can say it; ``outcome`` is None where nothing was compared."""
    steps = {step.entry.id: step for step in one.applied.steps}
    moved = {moved.item.id: moved for moved in one.moved}
    for item in one.source.items:
        definition = one.definitions[item.id]
        told: dict[str, Any] = {"outcome": None, "changes": []}
        next_ms = _next_ms(definition, now_ms)
        if item.id in steps:
            step = steps[item.id]
            told = {"outcome": step.outcome, "changes": [change.to_dict() for change in step.changes]}
            next_ms = step.next_ms or next_ms
        elif item.id in moved:
            told["outcome"], next_ms = moved[item.id].outcome, moved[item.id].due_ms
        yield {
            "id": item.id,
            "source": one.source.name,
            "place": item.place,
            "owner": one.source.owner,
            **_when(definition),
            "tz": definition.tz,
            "next_at": iso(next_ms),
            "func": item.func,
            "args": _plain(item.options.get("args")),
            "kwargs": _plain(item.options.get("kwargs")),
            "queue": definition.queue,
            **told,
        }


def _when(definition: Definition) -> dict[str, Any]:
    """The rule under its own name, the others None; ``at`` of a one-shot."""
    when = definition.when
    if not isinstance(when, TriggerSpec):
        return {"cron": None, "every_s": None, "at": iso(getattr(when, "due_ms", None))}
    every_s = int(when.expr) / 1000 if when.kind is EVERY else None
    return {"cron": when.expr if when.kind is CRON else None, "every_s": every_s, "at": None}


def _next_ms(definition: Definition, now_ms: int) -> int | None:
    """Return the next due time by this machine's clock."""
    when = definition.when
    if not isinstance(when, TriggerSpec):
        return getattr(when, "due_ms", None)
    found = occurrences(when, now_ms, now_ms, 1)
    return to_ms(found[0]) if found else None


def _table(imported: Sequence[Imported], now_ms: int) -> Iterator[str]:
    """Yield a table of the schedules, with the next time of each."""
    rows = [
        (item.id, _rule(one.definitions[item.id]), _due(one.definitions[item.id], now_ms), _from(one, item))
        for one in imported
        for item in one.source.items
    ]
    return lines(_HEADER, rows) if rows else iter(())


def _rule(definition: Definition) -> str:
    when = definition.when
    return when.expr if isinstance(when, TriggerSpec) else "once"


def _due(definition: Definition, now_ms: int) -> str:
    due_ms = _next_ms(definition, now_ms)
    return "-" if due_ms is None else local_text(due_ms, definition.tz)


def _from(one: Imported, item: Item) -> str:
    return f"{one.source.name}:{item.place}"


def _lines(one: Imported) -> Iterator[str]:
    """Yield the lines of a schedule that changed."""
    for step in one.applied.steps:
        if step.outcome == UNCHANGED:
            continue
        due = "" if step.next_ms is None else f", next {due_text(step.next_ms, step.entry.definition.tz)}"
        yield f"{step.entry.id}: {step.outcome}{due}"
        yield from (f"  {change.text()}" for change in step.changes)
    yield from (f"{id}: removed" for id in one.applied.removed)
    moved = [f"{moved.item.id}: {moved.outcome}{_moved_at(moved.due_ms)}" for moved in one.moved]
    yield from _cut(moved)


def _moved_at(due_ms: int) -> str:
    return f", moved, due {due_text(due_ms, 'UTC')}"


def _remark(imported: Sequence[Imported]) -> None:
    """On stderr: what is refused, what went wrong, what is no longer there, what is to be known."""
    for one in imported:
        for remark in one.source.remarks:
            say(remark)
        for line in _cut([refusal.text() for refusal in one.source.refusals]):
            say(line)
        for id, error in one.applied.errors[:_SHOWN]:
            say(f"{id}: {error}")
        if one.applied.stale:
            number = len(one.applied.stale)
            shown = some(one.applied.stale, _SHOWN)
            say(f"{plural(number, 'schedule')} of {one.source.owner} no longer there: {shown}; --prune removes")


def _cut(told: Sequence[str]) -> Iterator[str]:
    """The first of many."""
    yield from told[:_SHOWN]
    if len(told) > _SHOWN:
        yield f"… and {len(told) - _SHOWN:,} more; --json lists them"


def _plain(value: Any) -> Any:
    """*value* as JSON has it; as a text what is none of JSON's."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return repr(value)
