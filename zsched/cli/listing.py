"""``zsched ls``, ``zsched show`` and ``zsched next``: list schedules and their next times."""

import sys
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

import click

from zsched.cli.formats import due_text, iso_text, run_table, show_run, utc_text
from zsched.cli.output import Shown, Table, pairs
from zsched.cli.parameters import completed_ids, moment_at, schedule_filters, stacked, table_option, time_option
from zsched.cli.program import Invocation, command
from zsched.client import Client
from zsched.core.clock import SystemClock, from_ms, to_ms
from zsched.core.model import Schedule
from zsched.core.occurrences.planning import nominal_time
from zsched.core.options.checked import definition_of
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run_id import RunId
from zsched.core.story.sentences import local_text, shortened
from zsched.core.triggers.trigger import KINDS, RULES
from zsched.core.triggers.zones import zone
from zsched.core.wording import relative_text, with_name
from zsched.errors import ScheduleNotFound

_FEW: Final = 5  # next times, and last runs, shown per schedule
PAGE: Final = 50  # schedules shown on a terminal unless --limit says otherwise
_TRIGGER_WIDTH: Final = 44  # characters
_DESCRIPTION_WIDTH: Final = 40  # characters
_HEADER: Final = ("ID", "STATE", "NEXT", "", "LAST", "TRIGGER", "FUNC", "QUEUE", "PRIORITY", "DESCRIPTION")


@command()
@schedule_filters
@time_option("--due-after", "Due later; local in --tz, or with an offset or Z.")
@time_option("--due-before", "Due earlier.")
@click.option("--tz", metavar="ZONE", help="Read and show times in this zone instead of each schedule's own.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"At most N; default {PAGE} on a terminal.")
@click.option("--after", metavar="CURSOR", help="Continue after the last schedule of an earlier listing.")
def ls(invocation: Invocation, /, tz: str | None, limit: int | None, **filters: Any) -> None:
    """
    List schedules: active ones by due time, then paused, quarantined and ended ones by id. LAST is the nominal time of
    the last run: that of its rule, without jitter. With --json: an array with the keys of `zsched show --json`, except
    "next", "runs" and "source", and a "cursor".

    \b
    Examples:
      zsched ls --queue email --due-before 2026-12-25T00:00 --tz Asia/Seoul
      zsched ls --state paused --json | jq -r '.[].id'
    """
    for name in ("due_after", "due_before"):
        filters[name] = moment_at(filters[name], name, tz)
    if limit is None and sys.stdout.isatty() and not invocation.wants_json:
        limit = PAGE
    found = invocation.client().list(limit=None if limit is None else limit + 1, **filters)
    shown = found if limit is None or invocation.wants_json else list(islice(found, limit))
    values = ({**one.to_dict(), "cursor": one.cursor} for one in islice(shown, limit))
    now_ms = SystemClock().now_ms()
    nothing = "no schedule matches" if any(filters.values()) else "nothing is scheduled"
    rows = (_row(one, tz, now_ms) for one in shown)
    invocation.answer(values, Table(_HEADER, rows, nothing=nothing), tz=tz or _only_zone(shown))
    if isinstance(shown, list) and next(found, None) is not None:
        click.echo(f"there are more: zsched ls … --after {shown[-1].cursor}", err=True)


@command()
@click.argument("id", metavar="ID|RUN_ID", shell_complete=completed_ids)
def show(invocation: Invocation, /, id: str) -> None:
    """
    Show all options of schedule ID, its next 5 times and its last 5 runs; or, with a run id (RQ's job id), the run with
    each attempt and the last lines of its traceback. Arguments are shown only if the serializer is json: reading a
    pickle runs it.

    \b
    Examples:
      zsched show reminder-42 --json
      zsched show reminder-42-1785283200000
      zsched show digest --json | jq -r '.runs[].status'
    """
    client = invocation.client()
    try:
        schedule = client.get(id)
    except ScheduleNotFound:
        if RunId.parse(id) is None:
            raise
        show_run(invocation, *client.get_run(id))
        return
    times, runs, story = client._coming(schedule, _FEW), client.runs(id, limit=_FEW), client.why(id)
    authors = {"created_by": story.created_by, "changed_by": story.changed_by}
    known = [(name, by) for name, by in authors.items() if by is not None]
    value = {
        **schedule.to_dict(),
        **authors,
        "next": [{"utc": utc_text(at), "local": iso_text(at)} for at in times],
        "runs": [run.to_dict() for run in runs],
        "source": runs.source.to_dict(),
    }
    is_excluded = story.verdict.word == "EXCLUDED"  # its class would be made for each listing
    lines: list[Shown] = [
        *((f"{story.verdict.word}: {story.verdict.text}", "") if is_excluded else ()),
        *pairs([*definition_of(schedule, lambda ms: due_text(ms, schedule.tz)), *known]),
        "",
        "next times:",
        *(f"  {due_text(to_ms(at), schedule.tz)}" for at in times),
    ]
    lines += [] if times else ["  none"]
    lines += ["", "last runs:", run_table(runs, schedule.tz, indent=2)] if runs else ["", "no run yet"]
    invocation.answer(value, *lines, tz=schedule.tz)
    if schedule.unreadable:
        invocation.remark(f"{story.verdict.text}; {story.verdict.remedy}")
    if runs.source.archive is None:
        invocation.tell_source(runs.source)


def _row(one: Schedule, tz: str | None, now_ms: int) -> tuple[str, ...]:
    due_ms = one.next_ms
    return (
        with_name(one.id, one.name),
        one.state.value,
        "-" if due_ms is None else local_text(due_ms, tz or one.tz),
        "" if due_ms is None else _distance(one, due_ms, now_ms),
        "-" if one.last_nominal_ms is None else relative_text(one.last_nominal_ms, now_ms),
        shortened(one.rule_text, _TRIGGER_WIDTH),
        one.func,
        one.queue,
        one.priority.value,
        "" if one.description in (None, one.func) else shortened(one.description or "", _DESCRIPTION_WIDTH),
    )


def _only_zone(shown: Iterable[Schedule]) -> str | None:
    """Return the zone of all schedules of a page; None if there are several, or the listing has no pages."""
    zones = {one.tz or "UTC" for one in shown} if isinstance(shown, list) else set()
    return zones.pop() if len(zones) == 1 else None


def _distance(one: Schedule, due_ms: int, now_ms: int) -> str:
    """Return ``in 3d 4h``; of a paused schedule, whether it waits for its time or to be resumed."""
    distance = relative_text(due_ms, now_ms)
    if one.state is not ScheduleState.PAUSED:
        return distance
    if one.resumes_ms is not None:
        return f"paused until {local_text(one.resumes_ms, one.tz)}"
    return f"{distance}, if resumed" if due_ms > now_ms else f"was due {distance}, waits"


# -- zsched next ------------------------------------------------------------------------------------


@command("next")
@click.argument("id", required=False, shell_complete=completed_ids)
@stacked(*(table_option(kind.name, f"A rule instead of a schedule. {kind.help}") for kind in KINDS))
@click.option("--tz", metavar="ZONE", help="The zone of the rule and of --from; default UTC, or the schedule's own.")
@click.option("--number", type=click.IntRange(1, 100_000), default=10, show_default=True, metavar="K", help="How many.")
@time_option("--from", "Show times after this: local in --tz, or with an offset or Z; default now.", "start")
def next_(invocation: Invocation, /, id: str | None, number: int, start: datetime | None, **given: Any) -> None:
    """
    Show the next times of schedule ID, or of a rule, which needs no Redis; --every counts from --from. With --json: an
    array of {"utc", "local"}. With jitter these are the due time, and "nominal" is the nominal time in UTC.

    \b
    Examples:
      zsched next digest --number 3
      zsched next --cron '30 2 * * *' --tz America/New_York --from 2026-03-07T00:00 --number 3
    """
    rule = {name: value for name, value in given.items() if value is not None}
    if (id is not None) == any(name in rule for name in RULES):
        raise click.UsageError(f"give either a schedule's ID or one of {', '.join(f'--{name}' for name in RULES)}")
    found: list[_Time]
    if id is None:
        # A rule is computed here: this client never connects to Redis, so its settings don't matter.
        found = [_Time(at) for at in Client.from_url("redis://localhost").preview(n=number, start=start, **rule)]
    else:
        found = _of_schedule(invocation.client(), id, number, start, rule.get("tz"))
    header = ("LOCAL", "UTC", *["NOMINAL"] * any(one.nominal for one in found), *[""] * any(one.note for one in found))
    times = (one.to_dict() for one in found if not one.note)
    invocation.answer(times, Table(header, (one.row()[: len(header)] for one in found)))


class _Time(NamedTuple):
    """A next time: when it is due; its nominal time, if it has jitter; and a note, if it does not fire."""

    at: datetime
    nominal: datetime | None = None
    note: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return it for JSON."""
        shown = {"utc": utc_text(self.at), "local": iso_text(self.at)}
        return shown if self.nominal is None else shown | {"nominal": utc_text(self.nominal)}

    def row(self) -> tuple[str, ...]:
        """Return its cells."""
        texts = iso_text(self.at), utc_text(self.at), *([] if self.nominal is None else [iso_text(self.nominal)])
        return *(text.replace("T", " ") for text in texts), self.note


def _of_schedule(client: Client, id: str, number: int, start: datetime | None, tz: str | None) -> list[_Time]:
    """
    Return the due times of schedule *id*, in its own zone or in *tz*, and the nominal times if it has jitter; with the
    skipped ones among them. A local *start* is read in the same zone.
    """
    schedule = client.get(id)
    place = zone(tz or schedule.tz)
    after, found = moment_at(start, "from", place.key), list[_Time]()
    for at in client.preview(id, n=number, start=after):
        nominal = from_ms(nominal_time(schedule, to_ms(at))).astimezone(place) if schedule.jitter_ms else None
        found.append(_Time(at.astimezone(place), nominal))
    skipped = [at.astimezone(place) for at in schedule.skipped if not after or at > after]
    shown = (_Time(at, at if schedule.jitter_ms else None, "skipped by hand") for at in skipped)
    last = found[-1].at if found else None
    return sorted([*found, *(one for one in shown if last is None or one.at < last)], key=attrgetter("at"))
