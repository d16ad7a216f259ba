"""``zsched status``: is somebody leading, and does it keep up?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from zsched.cli.exits import DONE, UNHEALTHY
from zsched.cli.invocation import Invocation, connect, pass_invocation
from zsched.cli.program import Subcommand
from zsched.cli.tables import pairs
from zsched.cli.values import duration_text
from zsched.config.redaction import redact
from zsched.core.model import Priority, iso
from zsched.storage.reader import Overview

LATE_MS: Final = 10_000  # something overdue for longer is no passing hiccup: a take-over is over by then


@click.command(cls=Subcommand)
@pass_invocation
def status(invocation: Invocation) -> int:
    """
    Show who leads, what waits and how late it is. Exit code 4 when nobody leads, or something is overdue by more
    than 10 seconds.

    \b
    Example:
      zsched status --json | jq .problems
    """
    settings = invocation.settings()
    overview = connect(settings).overview()
    problems = _problems(overview)
    place = {"namespace": settings.namespace, "redis": redact(settings.redis.url)}
    invocation.answer(place | _to_dict(overview, problems), *pairs([*place.items(), *_fields(overview, problems)]))
    return UNHEALTHY if problems else DONE


def _late_ms(overview: Overview) -> int:
    """How late the oldest waiting schedule is; 0 when none is."""
    return 0 if overview.oldest_due_ms is None else max(overview.now_ms - overview.oldest_due_ms, 0)


def _problems(overview: Overview) -> list[str]:
    problems = []
    if overview.leader is None:
        problems.append("nobody leads: no daemon of this namespace is running")
    if _late_ms(overview) > LATE_MS:
        problems.append(f"the oldest due schedule is {duration_text(_late_ms(overview))} late")
    return problems


def _to_dict(overview: Overview, problems: list[str]) -> dict[str, Any]:
    return {
        "healthy": not problems,
        "problems": problems,
        "now": iso(overview.now_ms),
        "leader": overview.leader,
        "lease_ms": overview.lease_ms,
        "epoch": overview.epoch,
        "waiting": {lane.value: overview.waiting[lane] for lane in Priority},
        "overdue": {lane.value: overview.overdue[lane] for lane in Priority},
        "oldest_due_at": iso(overview.oldest_due_ms),
        "late_ms": _late_ms(overview),
        "recurring": overview.recurring,
        "paused": overview.paused,
        "quarantined": overview.quarantined,
        "log_length": overview.log_length,
        "hold_until": iso(overview.hold_ms or None),
    }


def _fields(overview: Overview, problems: list[str]) -> Iterator[tuple[str, str]]:
    leader = "nobody"
    if overview.leader is not None:
        leader = f"{overview.leader}, epoch {overview.epoch}, lease for {overview.lease_ms} ms more"
    yield "leader", leader
    for lane in Priority:
        yield f"{lane.value} lane", f"{overview.waiting[lane]:,} waiting, {overview.overdue[lane]:,} of them due"
    late_ms = _late_ms(overview)
    yield "late", duration_text(late_ms) if late_ms else "nothing is overdue"
    yield (
        "schedules",
        f"{overview.recurring:,} recurring, {overview.paused:,} paused, {overview.quarantined:,} quarantined",
    )
    yield "log", f"{overview.log_length:,} entries"
    if overview.hold_ms > overview.now_ms:
        yield "hold", f"nothing fires for {duration_text(overview.hold_ms - overview.now_ms)} more"
    yield "health", "; ".join(problems) or "good"
