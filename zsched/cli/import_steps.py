"""The steps of ``zsched import``, the same for every source: check, compare, put, report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from zsched.cli.files import applied_lines
from zsched.cli.formats import due_text
from zsched.cli.functions import importing, tell_unchecked
from zsched.cli.lines import Table, printable
from zsched.cli.output import Progress, jsonable
from zsched.cli.program import DONE, FAILED, Invocation, connect
from zsched.client import Client
from zsched.client.allowed import check_allowed
from zsched.client.keeper import Keeper
from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock, to_ms
from zsched.core.model import Definition, iso
from zsched.core.occurrences.planning import occurrences
from zsched.core.story.sentences import local_text
from zsched.core.triggers import TriggerSpec
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.wording import plural, some
from zsched.files import ClientChecks
from zsched.files.applying import CREATED, UNCHANGED, UPDATED
from zsched.imports.found import ImportSource, Item
from zsched.imports.moving import Undone
from zsched.imports.putting import Imported, Importing, refuse_twins
from zsched.imports.rqjobs import RQJobs
from zsched.storage.connection import Link, link_of
from zsched.storage.rqjob import Encoder


@dataclass(frozen=True, slots=True)
class Ground:
    """The context of an import. Connections are made at first use."""

    invocation: Invocation
    settings: Settings
    client: Client
    link: Link
    checks: ClientChecks

    @classmethod
    def of(cls, invocation: Invocation) -> Ground:
        settings = invocation.settings()
        client = connect(settings)
        checks = ClientChecks(client, partial(check_allowed, settings.rq.allow_callables), importing)
        return cls(invocation, settings, client, link_of(settings), checks)

    @property
    def jobs(self) -> RQJobs:
        """RQ's jobs, read with the serializer of the settings."""
        encoder = Encoder(self.settings.rq.serializer, self.settings.limits.payload_bytes)
        return RQJobs(self.link, Keeper(self.client).keys.rq, encoder)

    def now_ms(self) -> int:
        """The server's time. Raises InvalidSchedule: the namespace uses another serializer."""
        return Keeper(self.client).now_ms()


def import_all(
    ground: Ground,
    sources: Sequence[ImportSource],
    advice: str,
    *,
    dry_run: bool,
    prune: bool = False,
    take_over: bool = False,
    needs_redis: bool = True,
) -> int:
    """
    Check, compare, put unless it is a dry run, and report; return the exit code. *advice* is shown when schedules were
    copied, and may contain the source's name. Without *needs_redis*, a dry run compares nothing.
    """
    allow = partial(check_allowed, ground.settings.rq.allow_callables)
    steps = [Importing(ground.client, one, ground.checks, allow, ground.link, takes_over=take_over) for one in sources]
    imported = [step.check() for step in steps]
    refuse_twins(imported)
    for step in steps if needs_redis else ():
        step.foretell(prune=prune)  # all of them, before anything is written
    if not dry_run:
        _run(ground.invocation, steps)
    for one in imported if not dry_run else ():
        if any(item.origin is None for item in one.source.items):  # what was moved cannot run twice
            back = f"zsched import undo {shlex.quote(one.source.owner)}"
            one.source.remarks.append(f"{advice.format(one.source.name)}; to go back: {back}")
    tell_import(ground.invocation, imported, is_dry=dry_run, is_compared=needs_redis)
    tell_unchecked(ground.checks.unchecked)
    return DONE if all(one.is_whole for one in imported) else FAILED


def _run(invocation: Invocation, steps: Sequence[Importing]) -> None:
    total, before = sum(len(step.imported.source.items) for step in steps), 0

    def at(done: int) -> None:
        progress.at(min(before + done, total), total)

    with Progress("importing", is_quiet=invocation.wants_json) as progress:
        progress.at(0, total)
        for step in steps:
            step.run(at)
            before += len(step.imported.source.items)


# -- the report ------------------------------------------------------------------------------------


_SHOWN: Final = 50  # ids of moved one-shots, or refusals, in the text output; --json has all
_HEADER: Final = ("ID", "WHEN", "NEXT", "FROM")


def tell_import(
    invocation: Invocation, imported: Sequence[Imported], *, is_dry: bool, is_compared: bool, clock: Clock | None = None
) -> None:
    """
    Write results to stdout, and refusals and remarks to stderr. A dry run without Redis (*is_compared* False) shows a
    table of the source's schedules.
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
        "schedules": [row for one in imported for row in _schedules(one, now_ms)],
        "removed": [id for one in imported for id in one.applied.removed],
        "stale": [id for one in imported for id in one.applied.stale],
        "refused": [refusal._asdict() for one in imported for refusal in one.source.refusals],
        "errors": [{"id": id, "error": str(error)} for one in imported for id, error in one.applied.errors],
        "remarks": [remark for one in imported for remark in one.source.remarks],
    }
    shown = [printable(line) for one in imported for line in _lines(one)] if is_compared else _table(imported, now_ms)
    summary = ", ".join(f"{number:,} {word}" for word, number in counts.items())
    lead = "dry run, nothing was written: " if is_dry else ""
    invocation.answer(value, *shown, f"{lead}{summary}")
    invocation.remark(*(text for one in imported for text in _remarks(one)))


def tell_undone(invocation: Invocation, owner: str, undone: Undone) -> None:
    """Report the result for each schedule of *owner*."""
    kept = [{"id": id, "reason": reason} for id, reason in undone.kept]
    value = {"owner": owner, "cancelled": undone.cancelled, "given_back": undone.given_back, "kept": kept}
    counts = f"{len(undone.cancelled):,} cancelled, {len(undone.given_back):,} given back, {len(kept):,} kept"
    done = [*(f"{id}: cancelled" for id in undone.cancelled), *(f"{id}: given back" for id in undone.given_back)]
    invocation.answer(value, *_cut(done), counts)
    invocation.remark(*_cut([f"{id} stays here: {reason}" for id, reason in undone.kept]))


def _schedules(one: Imported, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield every schedule for JSON; ``outcome`` is None if nothing was compared."""
    steps = {step.entry.id: step for step in one.applied.steps}
    moved = {moved.item.id: moved for moved in one.moved}
    for item in one.source.items:
        definition = one.definitions[item.id]
        result: dict[str, Any] = {"outcome": None, "changes": []}
        next_ms = _next_ms(definition, now_ms)
        if item.id in steps:
            step = steps[item.id]
            result = {"outcome": step.outcome, "changes": [change._asdict() for change in step.changes]}
            next_ms = step.next_ms or next_ms
        elif item.id in moved:
            result["outcome"], next_ms = moved[item.id].outcome, moved[item.id].due_ms
        yield {
            "id": item.id,
            "source": one.source.name,
            "place": item.place,
            "owner": one.source.owner,
            **_when(definition),
            "tz": definition.tz,
            "next_at": iso(next_ms),
            "func": item.func,
            "args": jsonable(item.options.get("args"), repr),
            "kwargs": jsonable(item.options.get("kwargs"), repr),
            "queue": definition.queue,
            **result,
        }


def _when(definition: Definition) -> dict[str, Any]:
    """Return the trigger under its own name, and None for the others; ``at`` for a one-shot."""
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


def _table(imported: Sequence[Imported], now_ms: int) -> list[Table]:
    """Return the table of the schedules, with the next time of each; none without schedules."""
    rows = [_row(one, item, now_ms) for one in imported for item in one.source.items]
    return [Table(_HEADER, rows)] if rows else []


def _row(one: Imported, item: Item, now_ms: int) -> tuple[str, ...]:
    definition = one.definitions[item.id]
    when, due_ms = definition.when, _next_ms(definition, now_ms)
    due = "-" if due_ms is None else local_text(due_ms, definition.tz)
    return item.id, when.expr if isinstance(when, TriggerSpec) else "once", due, f"{one.source.name}:{item.place}"


def _lines(one: Imported) -> Iterator[str]:
    """Yield a line for each schedule that changed."""
    yield from applied_lines(one.applied)
    yield from _cut([f"{it.item.id}: {it.outcome}, moved, due {due_text(it.due_ms, 'UTC')}" for it in one.moved])


def _remarks(one: Imported) -> Iterator[str]:
    """Yield notes, refusals, errors, and the schedules that are gone at the source."""
    yield from one.source.remarks
    yield from _cut([refusal.text() for refusal in one.source.refusals])
    yield from (f"{id}: {error}" for id, error in one.applied.errors[:_SHOWN])
    if stale := one.applied.stale:
        number = f"{plural(len(stale), 'schedule')} of {one.source.owner}"
        yield f"{number} no longer there: {some(stale, _SHOWN)}; --prune removes"


def _cut(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first lines, and a count of the rest."""
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"… and {len(lines) - _SHOWN:,} more; --json lists them"
