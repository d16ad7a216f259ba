"""``zsched add`` and ``zsched set``: the options of ``client.schedule`` as a command line says them."""

from __future__ import annotations

import functools
import os
import pwd
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from zsched.cli.functions import check_allowed, importing, tell_unchecked
from zsched.cli.invocation import Invocation, connect, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.times import due_text
from zsched.cli.values import duration, instant, json_array, json_object
from zsched.core.arguments import zone_name
from zsched.core.clock import to_ms
from zsched.core.model import IfExists, OnLost, OnUncertain, Priority, Scheduled
from zsched.core.policy import CatchUp, Overlap
from zsched.core.triggers import KINDS, Fold, Gap
from zsched.errors import InvalidSchedule
from zsched.tasks.lookup import Lookup

F = TypeVar("F", bound=Callable[..., Any])


def _words(enum: Any) -> click.Choice[str]:
    return click.Choice([member.value for member in enum])


_TRIGGERS: Final = (
    click.option(
        "--at", type=instant, metavar="TIME", help="Once, at this time: local in --tz, or with an offset or Z."
    ),
    click.option(
        "--after", type=duration, metavar="DURATION", help="Once, this long from now: seconds, or 5m, 1h30m, 2d, 500ms."
    ),
    *(
        click.option(f"--{kind.name}", type=duration if kind.is_duration else str, metavar=kind.metavar, help=kind.help)
        for kind in KINDS
    ),
    click.option("--tz", metavar="ZONE", help="IANA zone of local times and rules, such as Asia/Seoul; default UTC."),
    click.option("--starts", type=instant, metavar="TIME", help="A rule's first possible time."),
    click.option("--ends", type=instant, metavar="TIME", help="A rule's last possible time."),
    click.option("--count", type=int, metavar="N", help="How many occurrences a rule has in all."),
    click.option("--gap", type=_words(Gap), help="For a local time that summer time skips."),
    click.option("--fold", type=_words(Fold), help="For a local time that winter time repeats."),
)
_POLICY: Final = (
    click.option("--jitter", type=duration, metavar="DURATION", help="Due up to so much later, spread over the ids."),
    click.option(
        "--expires-after", type=duration, metavar="DURATION", help="A run not begun so long after its time never is."
    ),
    click.option("--urgency", metavar="NAME", help="A preset: asap, time_sensitive, digest, or one of [urgency]."),
    click.option("--overlap", type=_words(Overlap), help="When a rule's run before is not over; default skip."),
    click.option("--overlap-limit", type=int, metavar="N", help="How many runs of --overlap queue wait; default 100."),
    click.option("--catch-up", type=_words(CatchUp), help="For a rule's times that were missed; default latest."),
    click.option("--catch-up-window", type=duration, metavar="DURATION", help="Nothing later is run; default 1d."),
    click.option("--catch-up-limit", type=int, metavar="N", help="How many --catch-up all runs; default 100."),
)
_PAYLOAD: Final = (
    click.option("--args", type=json_array, metavar="JSON", help="Positional arguments, a JSON array."),
    click.option("--kwargs", type=json_object, metavar="JSON", help="Named arguments, a JSON object."),
    click.option("--queue", metavar="NAME", help='The RQ queue; default "default".'),
    click.option("--priority", type=_words(Priority), help="Due work of a higher one is pushed first."),
    click.option("--at-front/--at-back", default=None, help="Which end of the queue; default the back."),
    click.option("--on-uncertain", type=_words(OnUncertain), help="When a lost Redis may have pushed the run already."),
    click.option("--on-lost", type=_words(OnLost), help="When its worker dies: again while --retry allows, or lost."),
    click.option(
        "--pause-after-failures", type=int, metavar="N", help="Pause a rule when so many runs failed in a row."
    ),
    click.option("--timeout", metavar="TIME", help="How long a run may take: seconds, 5m, 1h, or -1: no limit."),
    click.option("--retry", type=int, metavar="N", help="How often RQ tries a failed run again."),
    click.option("--result-ttl", type=duration, metavar="DURATION", help="How long RQ keeps a result; -1: for ever."),
    click.option(
        "--failure-ttl", type=duration, metavar="DURATION", help="How long RQ keeps a failed run; -1: for ever."
    ),
    click.option("--meta", type=json_object, metavar="JSON", help="RQ's job.meta, a JSON object."),
    click.option("--on-success", metavar="FUNC", help="Dotted path of RQ's callback."),
    click.option("--on-failure", metavar="FUNC", help="Dotted path of RQ's callback."),
    click.option("--description", metavar="TEXT", help="One line for people."),
    click.option("--tag", "tags", multiple=True, metavar="TEXT", help="A label to find it by; may be repeated."),
    click.option("--created-by", metavar="TEXT", help="Default for add: user@host of this machine."),
    click.option("--managed-by", metavar="TEXT", help="Which program or file takes care of it."),
    click.option("--durable", is_flag=True, default=None, help="Return only when an archive has it on its disk."),
    click.option("--allow-past", is_flag=True, default=None, help="Accept a time that has passed: it runs at once."),
)
_CLEARABLE: Final = tuple(
    "args kwargs starts ends count gap fold pause-after-failures timeout retry result-ttl failure-ttl meta on-success "
    "on-failure description tag created-by managed-by jitter expires-after overlap overlap-limit catch-up "
    "catch-up-window catch-up-limit".split()
)


def _options(command: F) -> F:
    return functools.reduce(lambda inner, option: option(inner), reversed(_TRIGGERS + _POLICY + _PAYLOAD), command)


@click.command(cls=Subcommand)
@click.argument("id")
@click.argument("func")
@_options
@click.option("--if-exists", type=_words(IfExists), help="What to do when the id is taken; default replace.")
@pass_invocation
def add(invocation: Invocation, /, id: str, func: str, **given: Any) -> None:
    """
    Schedule FUNC, a dotted path that the workers can import, under the name ID.

    Give exactly one trigger: --at, --after, or a rule such as --cron. A schedule of that id is replaced, unless
    --if-exists says otherwise; the same command again changes nothing. If FUNC is a task, and can be imported from
    here, its arguments are checked and its own options count where none are given; stderr tells if it cannot.

    \b
    Examples:
      zsched add reminder-42 app.tasks.remind --at 2026-12-24T18:00 --tz Asia/Seoul --args '[42]'
      zsched add digest app.tasks.digest --cron '0 9 * * 1-5' --tz America/New_York --queue email
      zsched add beat app.tasks.beat --every 30s --tag ops
    """
    settings = invocation.settings()
    options = {"id": id, **_only_given(given)}
    check_allowed(settings, func, options)
    lookup = Lookup()
    with importing():
        options = lookup.options_for(func, options)
    _refuse_naive(options)
    options.setdefault("created_by", _who())
    _tell(invocation, connect(settings).schedule(func, **options), zone_name(options.get("tz")))
    tell_unchecked(lookup.absent)


@click.command("set", cls=Subcommand)
@click.argument("id")
@click.option("--func", help="Run this instead, a dotted path.")
@_options
@click.option("--unset", multiple=True, type=click.Choice(_CLEARABLE), help="Back to the default; may be repeated.")
@pass_invocation
def set_(invocation: Invocation, /, id: str, unset: tuple[str, ...], **given: Any) -> None:
    """
    Change some options of schedule ID; those not given stay. Local times are read in the schedule's own
    zone, or in --tz. A one-shot stays one and a recurring schedule recurring. New arguments are checked if its function
    is a task that can be imported from here; stderr tells if it cannot.

    \b
    Examples:
      zsched set reminder-42 --at 2026-12-24T19:00
      zsched set digest --args '["weekly"]' --unset ends
    """
    settings = invocation.settings()
    changes: dict[str, Any] = {
        "tags" if name == "tag" else name.replace("-", "_"): () if name == "tag" else None for name in unset
    }
    changes |= _only_given(given)
    if not changes:
        raise click.UsageError("nothing to change; give at least one option")
    client, lookup = connect(settings), Lookup()
    if changes.keys() & {"func", "args", "kwargs"}:  # to change its arguments is to decide what runs
        func = changes.get("func") or client.get(id).func
        check_allowed(settings, func, changes)
        with importing():
            changes["func"] = lookup.find(func) or func  # a task checks what it is called with
    else:
        check_allowed(settings, None, changes)
    _tell(invocation, client.update(id, **changes), changes.get("tz"))
    tell_unchecked(lookup.absent)


def _only_given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value != ()}


def _refuse_naive(options: Mapping[str, Any]) -> None:
    """A local time names an instant only together with a zone."""
    for name in ("at", "starts", "ends"):
        value = options.get(name)
        if isinstance(value, datetime) and value.utcoffset() is None and "tz" not in options:
            remedy = "give --tz (such as Asia/Seoul), or a time with an offset or Z"
            raise InvalidSchedule(name, value.isoformat(), "a local time without a zone names no instant", remedy)


def _who() -> str:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's made-up user
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _tell(invocation: Invocation, scheduled: Scheduled, tz: str | None) -> None:
    parts = [f"{scheduled.id}: {scheduled.outcome}"]
    if scheduled.next_at is not None:
        parts.append(f"next {due_text(to_ms(scheduled.next_at), tz or 'UTC')}")
    if scheduled.outcome == "already_fired":
        parts = [f"{scheduled.id}: already fired, so nothing was scheduled"]
    if scheduled.run_id is not None:
        parts.append(f"run {scheduled.run_id}")
    invocation.answer(scheduled.to_dict(), ", ".join(parts))
