"""Schedules as clients see them."""

from typing import Any

from tests.builders.records import DUE_MS
from zsched.core.model import Schedule
from zsched.core.options.choices import ScheduleState


def schedule(id: str = "a", **options: Any) -> Schedule:
    """Return an active schedule: a one-shot, unless *options* have a trigger."""
    trigger = options.get("trigger")
    kind = "once" if trigger is None else trigger.kind.name
    usual = {"state": ScheduleState.ACTIVE, "kind": kind, "func": "app.task", "next_ms": DUE_MS}
    return Schedule(id, **(usual | options))
