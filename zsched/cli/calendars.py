"""``zsched calendars``: the calendars of the namespace, which schedules name in ``exclude``."""

from collections import Counter
from typing import Final

import click

from zsched.cli.formats import due_text
from zsched.cli.output import Table, printable
from zsched.cli.parameters import content
from zsched.cli.program import DONE, Invocation, command, group
from zsched.client.ics import Ics, read_ics
from zsched.core.clock import SystemClock
from zsched.core.model import iso
from zsched.core.triggers.calendar_definition import PARTS, Calendar
from zsched.core.triggers.exclusions import Exclusions
from zsched.core.triggers.zones import zone
from zsched.core.wording import some
from zsched.files.writing import calendar_block

_COLUMNS: Final = ("NAME", "TEXTS", "NEXT", "SCHEDULES", "OWNER")
_AHEAD_MS: Final = 10 * 366 * 86_400_000  # in which the next excluded time is looked for


@group("calendars")
def calendars() -> None:
    """
    Put, list, show and delete calendars: named times without runs, such as holidays. Schedules name them in --exclude.

    \b
    Examples:
      zsched calendars put kr --date '2026-09-24..2026-09-26 Chuseok' --date '01-01 New Year'
      zsched calendars put office --ics office.ics
    """


@command("list", of=calendars)
def list_(invocation: Invocation) -> None:
    """List the calendars, each with its next excluded time in UTC and the number of schedules that name it."""
    client, now_ms, found, rows = invocation.client(), SystemClock().now_ms(), [], []
    named = Counter(text for one in client.list() if one.trigger is not None for text in one.trigger.exclude)
    for name, parts in client.calendars().items():
        calendar = Calendar.of(name, {part: parts[part] for part in PARTS})
        excluded = Exclusions(calendar.closures, zone("UTC")).between(now_ms, now_ms + _AHEAD_MS)
        next_ms = next((max(one.start_ms, now_ms) for one in excluded), None)
        found.append({"name": name, **parts, "next_at": iso(next_ms), "schedules": named[name]})
        number, at = sum(len(parts[part]) for part in PARTS), "-" if next_ms is None else due_text(next_ms, "UTC")
        rows.append((name, str(number), at, str(named[name]), parts["owner"] or "-"))
    nothing = "this namespace has no calendar; zsched calendars put makes one"
    invocation.answer(found, Table(_COLUMNS, rows, nothing=nothing))


@command(of=calendars)
@click.argument("name")
def show(invocation: Invocation, name: str) -> int:
    """Show calendar NAME as a file of schedules has it."""
    parts = invocation.client().calendars().get(name)
    if parts is None:
        return invocation.result(name, "not_found")
    invocation.answer({"name": name, **parts}, *map(printable, calendar_block(name, parts).splitlines()))
    return DONE


@command(of=calendars)
@click.argument("name")
@click.option("--date", "dates", multiple=True, metavar="TEXT", help="A day or days, with a word; may be repeated.")
@click.option("--window", "windows", multiple=True, metavar="TEXT", help="Of the week or day; may be repeated.")
@click.option("--ics", metavar="FILE", help="Events of a calendar program; needs zsched[ics].")
def put(invocation: Invocation, name: str, dates: tuple[str, ...], windows: tuple[str, ...], ics: str | None) -> int:
    """
    Put calendar NAME, or replace it. Schedules that name it are planned anew within seconds.
    """
    read = Ics([], [], ()) if ics is None else read_ics(content(ics, "a .ics file").decode(errors="replace"))
    dates = (*dates, *read.dates)
    word = invocation.client().put_calendar(name, dates=dates, windows=windows, events=read.events)
    if read.left_out:
        invocation.remark(f"left out of {ics}: {some(read.left_out)}")
    return invocation.result(name, word, left_out=read.left_out)


@command(of=calendars)
@click.argument("name")
def delete(invocation: Invocation, name: str) -> int:
    """Delete calendar NAME, which no schedule names."""
    return invocation.result(name, "deleted" if invocation.client().delete_calendar(name) else "not_found")
