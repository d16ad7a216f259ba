"""``zsched forecast``: what will fire, how much of it, and whether the workers keep up."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, Final

import click

from zsched.cli.output import Progress, Shown, Table
from zsched.cli.parameters import Moment, duration, facet_filters, moment_at, time_option, workers_option, zone_option
from zsched.cli.program import Invocation, command
from zsched.core.occurrences.forecast import By, Forecast
from zsched.core.occurrences.simulation import Backlog
from zsched.core.story.sentences import local_text
from zsched.core.wording import duration_text, plural, relative_text, some

_LIMIT: Final = 50  # rows
_MANY: Final = 500  # rules; counting more shows a progress bar


@command()
@time_option("--to", "Until then.", "end", or_span=True, default="10m", show_default=True)
@time_option("--from", "From then on; default now.", "start")
@click.option("--by", type=click.Choice([one.value for one in By]), help="Count, the highest peak first.")
@click.option("--bucket", type=duration, metavar="DURATION", help="Of a peak: default 1m; 1h and 1d for long times.")
@workers_option("Show the backlog of so many; repeatable.")
@click.option("--suggest", is_flag=True, help="Suggest what would flatten the highest peaks.")
@click.option("--quiet-window", type=duration, metavar="DURATION", help="Find the first gap of this length.")
@facet_filters("schedules")
@click.option("--limit", type=click.IntRange(1, 100_000), default=_LIMIT, show_default=True, metavar="N", help="Rows.")
@zone_option("Read and show times in this zone.")
def forecast(invocation: Invocation, /, start: Any, end: Moment, tz: str, limit: int, **asked: Any) -> None:
    """
    Show what will fire: each occurrence, or how many --by queue, minute or function. Overdue ones fire now. Paused and
    quarantined schedules are only counted.

    \b
    Examples:
      zsched forecast --to 10m
      zsched forecast --to 24h --by queue --workers email=4 --suggest
      zsched forecast --to 24h --quiet-window 5m
    """
    until: Any = end if isinstance(end, timedelta) else moment_at(end, "to", tz)
    with Progress("rules", is_quiet=invocation.wants_json, least=_MANY, counted="rules counted") as progress:
        found = invocation.client().forecast(
            until, moment_at(start, "from", tz), limit=limit, on_progress=progress.at, **asked
        )
    invocation.answer(found.to_dict(), *_lines(found, limit, tz, asked["quiet_window"]), tz=tz)
    tell_left_out(invocation, found.left_out)
    if found.is_cut:
        invocation.remark(f"too many schedules: the forecast ends at {local_text(found.end_ms, tz)}; filter them")
    if found.moved_ms:
        invocation.remark(f"jitter may move a part of the counted by up to {duration_text(found.moved_ms)}")


def _lines(found: Forecast, limit: int, tz: str, quiet_window: timedelta | None) -> Iterator[Shown]:
    """Yield the parts that were asked for."""
    if found.by is not None:
        last = ("PEAK", f"IN {duration_text(found.bucket_ms)} FROM") if found.by is not By.MINUTE else ("MOST",)
        loads = (
            (one.key, f"{one.number:,}", f"{one.peak:,}", local_text(one.peak_ms, tz)) if found.by is not By.MINUTE else
            (local_text(one.peak_ms, tz), f"{one.number:,}", ", ".join(f"{n:,} {f} in {q}" for f, q, n in one.parts))
            for one in islice(found.loads, limit)
        )  # fmt: skip
        yield Table((found.by.value.upper(), "OCCURRENCES", *last), loads, nothing="nothing fires")
    elif not found.backlogs and quiet_window is None and not found.suggestions:
        fires = (
            (local_text(one.due_ms, tz), relative_text(one.due_ms, found.now_ms), one.id, one.schedule.queue,
             one.schedule.func) for one in found.occurrences
        )  # fmt: skip
        yield Table(("FIRES", "", "ID", "QUEUE", "FUNCTION"), fires, nothing="nothing fires")
        if found.has_more:
            yield "there are more: give --limit, or count them with --by queue"
    yield from (backlog_text(one, tz) for one in found.backlogs)
    if quiet_window is not None:
        times = found.quiet and " until ".join(local_text(ms, tz) for ms in found.quiet)
        yield f"quiet from {times}" if times else "there is no such gap; give a later --to, or a shorter window"
    for one in found.suggestions:
        where = f"the {one.peak:,} of {one.queue} in the minute from {local_text(one.peak_ms, tz)}"
        yield f"{where} become {one.after:,} by {one.change}"


def tell_left_out(invocation: Invocation, left_out: Mapping[str, int]) -> None:
    """Say how many schedules have no future, by state."""
    if left_out:
        invocation.remark(f"left out: {', '.join(f'{number:,} {state}' for state, number in left_out.items())}")


def backlog_text(one: Backlog, tz: str) -> str:
    """Return a sentence about a backlog."""
    gone = "not gone by the end" if one.gone_ms is None else f"gone by {local_text(one.gone_ms, tz)}"
    peak = f"at most {one.peak:,} wait, at {local_text(one.peak_ms, tz)}, {gone}" if one.peak else "nothing waits"
    now = f"{one.waiting:,} wait now; " if one.waiting else ""
    unknown = f"; no duration is known of {some(one.unknown)}" if one.unknown else ""
    return f"{one.queue} with {plural(one.workers, 'worker')}: {now}{peak}{unknown}"
