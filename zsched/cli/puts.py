"""``zsched add`` and ``zsched set``: the options of ``client.schedule`` on a command line."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import click

from zsched.cli.formats import due_text
from zsched.cli.functions import importing, tell_unchecked
from zsched.cli.parameters import completed_ids, flag_of, table_options
from zsched.cli.program import Invocation, Subcommand, command, connect
from zsched.client.put_checks import check_allowed, doubtful_queues
from zsched.core.clock import to_ms
from zsched.core.model import Scheduled
from zsched.core.options.define import TRIGGERS
from zsched.core.options.forms import Group, Stored, ValueType, zone_name
from zsched.core.options.table import FOR_UPDATE, OPTIONS
from zsched.errors import InvalidSchedule, ScheduleNotFound
from zsched.tasks.lookup import Lookup


class _Put(Subcommand):
    """A command with options of the table: its help has them in their groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups, and then the command's own options."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        for heading in (*Group, "Options"):
            records = [each.get_help_record(ctx) for each in options if heading_of(str(each.name)) == heading]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record])


def heading_of(name: str) -> str:
    """Return the heading above the option *name* of a put's help."""
    return OPTIONS[name].group if name in OPTIONS else "Options"


# By flag: each option that can go back to its default, and the value that means the default.
_CLEARED: Final = {
    flag_of(option): (name, None if option.is_optional else ())
    for name, option in OPTIONS.items()
    if name in FOR_UPDATE and name not in TRIGGERS and option.stored is not Stored.NOT
    if option.is_optional or option.form.value_type is ValueType.LIST
}


@command(cls=_Put)
@click.argument("id")
@click.argument("func")
@table_options(OPTIONS.keys() - {"id"})
def add(invocation: Invocation, /, id: str, func: str, **given: Any) -> None:
    """
    Schedule FUNC, a dotted path that the workers can import, under the name ID. Give exactly one trigger: --at,
    --after, or a rule such as --cron. A schedule with that id is replaced, unless --if-exists says otherwise. Arguments
    of a task are checked if it can be imported here; otherwise stderr says so.

    \b
    Examples:
      zsched add reminder-42 app.tasks.remind --at 2026-12-24T18:00 --tz Asia/Seoul --args '[42]'
      zsched add digest app.tasks.digest --cron '0 9 * * 1-5' --tz America/New_York --queue email
      zsched add beat app.tasks.beat --every 30s --tag ops
    """
    settings = invocation.settings()
    options = {"id": id, **_only_given(given)}
    check_allowed(settings.rq.allow_callables, func, options)
    lookup = Lookup()
    with importing():
        options = lookup.options_for(func, options)
    _refuse_naive(options)
    client = connect(settings)
    scheduled = client.schedule(func, **options)
    _tell(invocation, scheduled, zone_name(options.get("tz")), is_paused=options.get("enabled") is False)
    tell_unchecked(lookup.absent)
    if not invocation.wants_json and scheduled.outcome in ("created", "updated"):
        with suppress(ScheduleNotFound):  # it fired a moment ago
            invocation.remark(*(f"note: {queue}" for queue in doubtful_queues(client, [client.get(id)])))


@command("set", cls=_Put)
@click.argument("id", shell_complete=completed_ids)
@click.option("--func", help="Run this instead.")
@table_options(FOR_UPDATE)
@click.option("--unset", multiple=True, type=click.Choice(list(_CLEARED)), help="Back to the default; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what this does to the times; change nothing.")
def set_(invocation: Invocation, /, id: str, unset: tuple[str, ...], dry_run: bool, **given: Any) -> None:
    """
    Change some options of schedule ID, and keep the others. Local times are read in the schedule's own zone, or in
    --tz. A one-shot stays a one-shot. New arguments are checked as by `zsched add`.

    \b
    Examples:
      zsched set reminder-42 --at 2026-12-24T19:00
      zsched set digest --args '["weekly"]' --unset ends
    """
    settings = invocation.settings()
    changes: dict[str, Any] = dict(_CLEARED[flag] for flag in unset) | _only_given(given)
    if not changes.keys() - {"if_version"}:
        raise click.UsageError("nothing to change; give at least one option")
    client, lookup = connect(settings, invocation.link(settings)), Lookup()
    if changes.keys() & {"func", "args", "kwargs"}:  # new arguments decide what runs
        func = changes.get("func") or client.get(id).func
        check_allowed(settings.rq.allow_callables, func, changes)
        with importing():
            changes["func"] = lookup.find(func) or func  # a task checks its arguments
    else:
        check_allowed(settings.rq.allow_callables, None, changes)
    if dry_run:
        found = client.difference(id, **changes)
        invocation.answer(found.to_dict(), f"{id}: {found.text}", "dry run, nothing was written")
        return
    scheduled, tz = client.update(id, **changes), None
    with suppress(ScheduleNotFound):  # it fired a moment ago
        tz = client.get(id).tz
    _tell(invocation, scheduled, tz)
    tell_unchecked(lookup.absent)


def _only_given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value != ()}


def _refuse_naive(options: Mapping[str, Any]) -> None:
    """Check that a local time has a zone; otherwise it is ambiguous."""
    for name in ("at", "starts", "ends"):
        value = options.get(name)
        if isinstance(value, datetime) and value.utcoffset() is None and "tz" not in options:
            remedy = "give --tz (such as Asia/Seoul), or a time with an offset or Z"
            raise InvalidSchedule(name, value.isoformat(), "a local time without a zone is ambiguous", remedy)


def _tell(invocation: Invocation, scheduled: Scheduled, tz: str | None, is_paused: bool = False) -> None:
    parts = [f"{scheduled.id}: {scheduled.outcome}", *(["paused"] if is_paused else [])]
    if scheduled.next_at is not None:
        parts.append(f"next {due_text(to_ms(scheduled.next_at), tz or 'UTC')}")
    if scheduled.outcome == "already_fired":
        parts = [f"{scheduled.id}: already fired, so nothing was scheduled"]
    if scheduled.run_id is not None:
        parts.append(f"run {scheduled.run_id}")
    invocation.answer(scheduled.to_dict(), ", ".join(parts))
