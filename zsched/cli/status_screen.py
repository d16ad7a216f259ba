"""
A namespace's status for people: first the verdict with remedies, then section after section; also as a live screen.

Lines that do not fit at the bottom of a live screen are not shown, so the verdict always is. A lost Redis does not end
the live screen: the last state stays below the present problem.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from zsched.cli.output import Shown, Style, StyledLine, Table, Terminal, pairs, with_remedy
from zsched.core.model import Schedule
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.recent import Failure, RecentActivity, Stretch
from zsched.core.options.choices import Priority
from zsched.core.runs.cells import remark
from zsched.core.runs.run import RunStatus
from zsched.core.story.sentences import local_text
from zsched.core.wording import duration_text, plural, relative_text, rough_duration
from zsched.errors import RedisRefused, RedisUnavailable, needing
from zsched.health.checks_archives import audit_text, entries_text
from zsched.health.status import StatusView, complete_since
from zsched.storage.archivers import Report
from zsched.storage.overview import DaemonRole, DaemonSeen, Overview

if TYPE_CHECKING:
    from rich.console import Console

_DAEMONS: Final = ("DAEMON", "HOST", "PID", "VERSION", "STARTED", "TZDATA", "HEARD OF", "ID")
_LATELY: Final = (
    "LAST", "FIRED", "PER S", "LATE UP TO", "FAILED", "LOST", "SUCCEEDED", "LEFT OUT", "ENQUEUED", "PUT",
)  # fmt: skip
_NEXT: Final = ("NEXT", "DUE", "SCHEDULE", "FUNC", "QUEUE")
_FAILURES: Final = ("FAILED, LOST OR EXPIRED", "STATE", "RUN", "ERROR OR NOTE")
_ID_WIDTH: Final = 8  # characters of a daemon's id, enough to find it in a log


def status_lines(view: StatusView, tz: str) -> Iterator[Shown]:
    """Yield the lines of the whole *view*; times are local in *tz*."""
    overview, recent = view.overview, view.recent
    yield from verdict_lines(view)
    daemons = [_daemon(one, overview) for one in overview.known_daemons]
    no_failure = f"no run failed, was lost or expired in the last {_window(recent.stretches[-1])}"
    sections: Iterable[Iterable[Shown]] = (
        [Table(_DAEMONS, daemons, nothing="no daemon has reported lately")],
        pairs(_counts(view, tz)),
        [Table(_LATELY, [*map(_stretch, recent.stretches)]), *_gaps(recent)],
        [_upcoming(view, tz)],
        [Table(_FAILURES, [_failure(one, overview.now_ms) for one in recent.failures], nothing=no_failure)],
        pairs(_copies(view)),
    )
    for section in sections:
        yield ""
        yield from section


def verdict_lines(view: StatusView) -> Iterator[Shown]:
    """Yield "healthy", or each problem; then the warnings. Each has its remedy below."""
    problems, warnings = view.verdict
    if not problems:
        yield StyledLine(f"healthy: {view.in_short}", Style.GOOD)
    for number, problem in enumerate(problems):
        yield from with_remedy(f"{'also' if number else 'UNHEALTHY'}: {problem.text}", problem.remedy, Style.BAD)
    for warning in warnings:
        yield from with_remedy(f"warning: {warning.text}", warning.remedy, Style.WARNING)


def _daemon(daemon: DaemonSeen, overview: Overview) -> tuple[str, ...]:
    return (
        daemon.role.value,
        (daemon.host or "?") + (f" (worker {daemon.worker})" if daemon.worker else ""),
        "?" if daemon.pid is None else str(daemon.pid),
        daemon.version or "?",
        "?" if daemon.started_ms is None else relative_text(daemon.started_ms, overview.now_ms),
        daemon.tzdata or "?",
        relative_text(daemon.told_ms, overview.now_ms),
        daemon.id[:_ID_WIDTH],
    )


# -- the backlog --------------------------------------------------------------------------------------


def _counts(view: StatusView, tz: str) -> Iterator[tuple[str, str]]:
    overview = view.overview
    yield "namespace", f"{view.namespace}, on {view.redis}"
    yield "now", local_text(overview.now_ms, tz)
    yield "leader", _leader(overview, tz)
    if overview.held_ms:
        yield "hold", f"nothing fires for {duration_text(overview.held_ms)} more"
    for lane in Priority:
        yield f"{lane.value} lane", f"{overview.waiting[lane]:,} waiting, {overview.overdue[lane]:,} of them due"
    yield from (("held back", f"{held.waiting:,}, by {held.cause}") for held in overview.held_back)
    yield from (("held back", f"{one.waiting:,} runs, by RQ's limit {one.limit}") for one in view.slots.limits)
    yield "late", rough_duration(overview.late_ms) if overview.late_ms else "nothing is overdue"
    recurring, paused, quarantined = overview.recurring, overview.paused, overview.quarantined
    yield "schedules", f"{recurring:,} recurring, {paused:,} paused, {quarantined:,} quarantined"
    if known := view.known:
        until = local_text(known[0].until_ms, tz)
        yield "known", f"{plural(len(known), 'kind')} of failures, left out here until {until}; zsched ack lists them"


def _leader(overview: Overview, tz: str) -> str:
    if overview.leader is None:
        return "nobody"
    parts = [next((one.place for one in overview.of_role(DaemonRole.LEADS)), overview.leader)]
    if overview.led_since_ms is not None:
        for_ms = max(overview.now_ms - overview.led_since_ms, 0)
        parts.append(f"since {local_text(overview.led_since_ms, tz)} ({rough_duration(for_ms)})")
    return ", ".join([*parts, f"epoch {overview.epoch}", f"lease for {overview.lease_ms} ms more"])


# -- recent and next events ---------------------------------------------------------------------------


def _stretch(stretch: Stretch) -> tuple[str, ...]:
    happened, ended = stretch.happened, stretch.ended
    counts = [ended.get(status, 0) for status in (RunStatus.FAILED, RunStatus.LOST, RunStatus.SUCCEEDED)]
    requested = happened.get(What.ENQUEUED, 0) + happened.get(What.RETRIED, 0)
    counts += [stretch.left_out, requested, happened.get(What.PUT, 0)]
    return (
        _window(stretch),
        f"{happened.get(What.FIRED, 0):,}",
        _rate(stretch.per_second(What.FIRED)),
        "" if stretch.late_ms is None else rough_duration(max(stretch.late_ms, 0.0)),
        *(f"{count:,}" for count in counts),
    )


def _window(stretch: Stretch) -> str:
    span = duration_text(stretch.span_ms if stretch.span_ms < 1000 else stretch.span_ms // 1000 * 1000)
    return span if stretch.is_whole else f"{span}*"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2f}"


def _gaps(recent: RecentActivity) -> Iterator[str]:
    if not all(stretch.is_whole for stretch in recent.stretches):
        yield "* Redis lost a part of that time: zsched history has more"
    if recent.is_cut:
        yield "the log begins later, or is too long to read at once: zsched history has more"


def _upcoming(view: StatusView, tz: str) -> Shown:
    if view.next is None:
        return "the next fires are not known: this user may not run scripts"
    rows = [_next(one, view.overview.now_ms, tz) for one in view.next]
    return Table(_NEXT, rows, nothing="nothing is scheduled")


def _next(schedule: Schedule, now_ms: int, tz: str) -> tuple[str, ...]:
    due_ms = schedule.next_ms
    when, due = ("-", "-") if due_ms is None else (relative_text(due_ms, now_ms), local_text(due_ms, tz))
    return when, due, schedule.id, schedule.func, schedule.queue


def _failure(failure: Failure, now_ms: int) -> tuple[str, ...]:
    run = failure.run
    ended = "-" if run.ended_ms is None else relative_text(run.ended_ms, now_ms)
    state = run.status.value + (f" ×{failure.times:,}" if failure.times > 1 else "")
    return ended, ", ".join(filter(None, (state, failure.repair))), run.id, remark(run)


# -- copies -------------------------------------------------------------------------------------------


def _copies(view: StatusView) -> Iterator[tuple[str, str]]:
    overview = view.overview
    yield "log", entries_text(overview.log_length)
    yield from (("archive", _archive(report, overview)) for report in overview.known_archives)
    if view.audit is not None:
        yield "audit", audit_text(view.audit, overview.now_ms)


def _archive(report: Report, overview: Overview) -> str:
    behind, since = overview.behind(report), complete_since(report, "the beginning")
    parts = [report.place, "its daemon has stopped" if report.is_stopped else report.state.value]
    if report.position is None:
        parts.append("nothing on its disk yet")
    elif behind is None:
        parts.append(f"at {report.position.id}, which this log does not have")
    else:
        parts.append(f"{entries_text(behind)} behind" if behind else "up to date")
    if since is not None:
        parts.append(f"complete since {since}")
    if not report.is_recent(overview.now_ms):
        parts.append(f"last report {relative_text(report.told_ms, overview.now_ms)}")
    return ", ".join(parts) + (f": {report.trouble}" if report.trouble else "")


# -- live -------------------------------------------------------------------------------------------


def watch(look: Callable[[], Iterable[Shown]], every_s: float, tz: str, console: Console | None = None) -> None:
    """
    Show the lines of *look* every *every_s* seconds, until Ctrl-C; then restore the terminal.

    Raises:
        ConfigError: rich is not installed.
    """
    with needing("ops", "--watch"):
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    console = console or Console(highlight=False)
    seen: list[Shown] = []
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                seen = lines = list(look())
            except (RedisUnavailable, RedisRefused) as error:
                lines = [*_no_answer(error, every_s), *seen]
            terminal = Terminal.live(console.width, has_colour=not console.no_color)
            live.update(Text.from_ansi("\n".join(terminal.shown(lines, tz))), refresh=True)
            time.sleep(every_s)  # not an Event: Ctrl-C inside its lock is a traceback


def _no_answer(error: RedisUnavailable | RedisRefused, every_s: float) -> list[Shown]:
    problem, remedy = (error.problem, error.remedy) if isinstance(error, RedisUnavailable) else (str(error), "")
    last = f"  → retrying every {every_s:g} s; last seen:"
    return [*with_remedy(f"UNHEALTHY: {problem}", remedy, Style.BAD), last, ""]
