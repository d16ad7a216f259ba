"""Changes of schedule a, and its story as lines."""

from collections.abc import Sequence
from typing import Any

from tests.builders import schedules
from zsched.core.model import Schedule
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run import Run, facts_text
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle, Story, tell

DUE_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
DUE = "2026-01-01 00:00:00+00:00"
MINUTE_MS = 60_000
RUN = f"a-{DUE_MS}"
COMPLETE = Source("host:/a.db", None, "1-9")
PARTIAL = Source("host:/a.db", DUE_MS, "1-9")
REDIS = Source(None, DUE_MS, "1-9", "no archive answered within 2 s")


def change(what: What, at_ms: float = DUE_MS, entry: str = "", **more: Any) -> Change:
    """Return a change of schedule a, in a separate entry unless *entry* names one."""
    return Change("a", what, int(at_ms * 1000), entry or f"1-{int(at_ms * 1000)}", **more)


def put(at_ms: float, due_ms: int | None = DUE_MS, **more: Any) -> Change:
    return change(What.PUT, at_ms, nominal_ms=due_ms, run_id=RUN, **more)


def story(
    *changes: Change, schedule: Schedule | None = None, tz: str | None = None, runs: Sequence[Run] = (), **known: Any
) -> Story:
    return tell(Chronicle("a", known.pop("source", COMPLETE), changes, **known), schedule, DUE_MS, tz, runs)


def texts(*changes: Change, **known: Any) -> list[str]:
    return [text for _, text in story(*changes, **known).lines]


def held(state: ScheduleState = ScheduleState.ACTIVE, **more: Any) -> Schedule:
    """Return schedule a as Redis holds it."""
    given = {"next_ms": DUE_MS + MINUTE_MS, "tz": "UTC"} | more
    return schedules.schedule(state=state, **given)


def answer(told: Story) -> tuple[str, str]:
    return told.verdict.word.value, told.verdict.text


def run_ended(run: Run) -> Change:
    return change(What.RUN_ENDED, run_id=run.id, why=run.status.value, record=facts_text(run))
