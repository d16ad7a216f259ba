"""The steps of ``zsched import``, the same for every source: check, compare, put, report."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from zsched.cli.files import applied_lines
from zsched.cli.formats import due_text
from zsched.cli.functions import importing, tell_unchecked
from zsched.cli.output import Progress, Table, cut, jsonable, printable
from zsched.cli.program import DONE, FAILED, Invocation, connect
from zsched.client.file_sync import FileSync
from zsched.client.put_checks import check_allowed
from zsched.core.clock import SystemClock
from zsched.core.model import Schedule, iso
from zsched.core.occurrences.difference import foreseen
from zsched.core.story.sentences import local_text
from zsched.core.triggers.spec import Calendars
from zsched.core.wording import plural, some
from zsched.files.applying import CREATED, UNCHANGED, UPDATED
from zsched.files.checking import ClientChecks
from zsched.imports.found import ImportSource, Item, OneShot
from zsched.imports.moving import Importing, Undone, refuse_twins
from zsched.imports.rqjobs import RQJobs
from zsched.storage.rqjob import Encoder


class ImportContext:
    """
    The context of an import. Connections are made at first use. ``jobs``: RQ's, read with the serializer of the
    settings. ``now_ms`` returns the server's time; InvalidSchedule: the namespace uses another serializer.
    """

    def __init__(self, invocation: Invocation) -> None:
        self.invocation, settings = invocation, invocation.settings()
        self.client = connect(settings)
        self.link = self.client._link
        sync, encoder = FileSync(self.client), Encoder(settings.rq.serializer, settings.limits.payload_bytes)
        self.jobs, self.now_ms = RQJobs(self.link, sync.keys.rq, encoder), sync.now_ms
        self.checks = ClientChecks(self.client, partial(check_allowed, settings.rq.allow_callables), importing)


def import_all(
    context: ImportContext,
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
    imported = [Importing(context.client, context.checks, source, takes_over=take_over) for source in sources]
    for one in imported:
        one.check()
    refuse_twins(imported)
    for one in imported if needs_redis else ():
        one.foretell(prune=prune)  # all of them, before anything is written
    if not dry_run:
        _run(context.invocation, imported)
    for source in sources if not dry_run else ():
        if not all(isinstance(item, OneShot) for item in source.items):  # what was moved cannot run twice
            back = f"zsched import undo {shlex.quote(source.owner)}"
            source.remarks.append(f"{advice.format(source.name)}; to go back: {back}")
    tell_import(context.invocation, imported, is_dry=dry_run, is_compared=needs_redis)
    tell_unchecked(context.checks.unchecked)
    return DONE if all(one.is_whole for one in imported) else FAILED


def _run(invocation: Invocation, imported: Sequence[Importing]) -> None:
    total, before = sum(len(one.source.items) for one in imported), 0

    def at(done: int) -> None:
        progress.at(min(before + done, total), total)

    with Progress("importing", is_quiet=invocation.wants_json) as progress:
        progress.at(0, total)
        for one in imported:
            one.run(at)
            before += len(one.source.items)


# -- the report ------------------------------------------------------------------------------------


_SHOWN: Final = 50  # ids of moved one-shots, or refusals, in the text output; --json has all
_HEADER: Final = ("ID", "WHEN", "NEXT", "FROM")


def tell_import(invocation: Invocation, imported: Sequence[Importing], *, is_dry: bool, is_compared: bool) -> None:
    """
    Write results to stdout, and refusals and remarks to stderr. A dry run without Redis (*is_compared* False) shows a
    table of the source's schedules.
    """
    now_ms, sources = SystemClock().now_ms(), [one.source for one in imported]
    applied = [one.applied for one in imported]
    counts = {"found": sum(len(source.items) for source in sources)}
    if is_compared:
        counts = {word: sum(one.count(word) for one in imported) for word in (CREATED, UPDATED, UNCHANGED)}
        counts["removed"] = sum(len(one.removed) for one in applied)
    counts["refused"] = sum(len(source.refusals) for source in sources)
    value = {
        "dry_run": is_dry,
        "counts": counts,
        "schedules": [row for one in imported for row in _schedules(one, now_ms)],
        "removed": [id for one in applied for id in one.removed],
        "stale": [id for one in applied for id in one.stale],
        "refused": [refusal._asdict() for source in sources for refusal in source.refusals],
        "errors": [{"id": id, "error": str(error)} for one in applied for id, error in one.errors],
        "remarks": [remark for source in sources for remark in source.remarks],
    }
    shown = [printable(line) for one in imported for line in _lines(one)] if is_compared else _table(imported, now_ms)
    summary = ", ".join(f"{number:,} {word}" for word, number in counts.items())
    lead = "dry run, nothing was written: " if is_dry else ""
    invocation.answer(value, *shown, f"{lead}{summary}")
    invocation.remark(*(text for one in imported for text in _remarks(one)))


def tell_undone(invocation: Invocation, owner: str, undone: Undone) -> None:
    """Report the result for each schedule of *owner*."""
    counts = f"{len(undone.cancelled):,} cancelled, {len(undone.given_back):,} given back, {len(undone.kept):,} kept"
    done = [*(f"{id}: cancelled" for id in undone.cancelled), *(f"{id}: given back" for id in undone.given_back)]
    invocation.answer({"owner": owner, **asdict(undone)}, *cut(done, _SHOWN), counts)
    invocation.remark(*cut([f"{one['id']} stays here: {one['reason']}" for one in undone.kept], _SHOWN))


def _schedules(one: Importing, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield every schedule for JSON; ``outcome`` is None if nothing was compared."""
    steps = {step.entry.id: step for step in one.applied.steps}
    for item in one.source.items:
        schedule, step = _foreseen(one, item, now_ms), steps.get(item.id)
        kind, expr = schedule.kind, schedule.trigger.expr if schedule.trigger else ""
        yield {
            "id": item.id,
            "source": one.source.name,
            "place": item.place,
            "owner": one.source.owner,
            "cron": expr if kind == "cron" else None,
            "every_s": int(expr) / 1000 if kind == "every" else None,
            "at": iso(schedule.next_ms) if kind == "once" else None,
            "tz": schedule.tz,
            "next_at": iso((step and step.next_ms) or schedule.next_ms),
            "func": item.func,
            "args": jsonable(item.options.get("args"), repr),
            "kwargs": jsonable(item.options.get("kwargs"), repr),
            "queue": schedule.queue,
            "outcome": step.outcome if step else one.moved.get(item.id),
            "changes": [change._asdict() for change in step.changes] if step else [],
        }


def _foreseen(one: Importing, item: Item, now_ms: int) -> Schedule:
    """Return the schedule that *item* becomes, by this machine's clock."""
    return foreseen(None, one.definitions[item.id], now_ms, Calendars)


def _table(imported: Sequence[Importing], now_ms: int) -> list[Table]:
    """Return the table of the schedules, with the next time of each; none without schedules."""
    rows = [_row(one, item, now_ms) for one in imported for item in one.source.items]
    return [Table(_HEADER, rows)] if rows else []


def _row(one: Importing, item: Item, now_ms: int) -> tuple[str, ...]:
    found = _foreseen(one, item, now_ms)
    due = "-" if found.next_ms is None else local_text(found.next_ms, found.tz)
    return item.id, found.trigger.expr if found.trigger else "once", due, f"{one.source.name}:{item.place}"


def _lines(one: Importing) -> Iterator[str]:
    """Yield a line for each schedule that changed."""
    yield from applied_lines(one.applied)
    moved = (item for item in one.source.items if isinstance(item, OneShot) and item.id in one.moved)
    yield from cut([f"{it.id}: {one.moved[it.id]}, moved, due {due_text(it.due_ms, 'UTC')}" for it in moved], _SHOWN)


def _remarks(one: Importing) -> Iterator[str]:
    """Yield notes, refusals, errors, and the schedules that are gone at the source."""
    yield from one.source.remarks
    yield from cut([refusal.text() for refusal in one.source.refusals], _SHOWN)
    yield from (f"{id}: {error}" for id, error in one.applied.errors[:_SHOWN])
    if stale := one.applied.stale:
        number = f"{plural(len(stale), 'schedule')} of {one.source.owner}"
        yield f"{number} no longer there: {some(stale, _SHOWN)}; --prune removes"
