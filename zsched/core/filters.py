"""Filters of schedules, occurrences and runs, as a caller gives them; None: no condition."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from zsched.core.choices import ScheduleState


class FacetFilters(TypedDict, total=False):
    """Filters that schedules, occurrences and runs share: the glob ``match`` over ids, the others exact."""

    match: str | None
    func: str | None
    queue: str | None
    tag: str | None
    owner: str | None
    name: str | None


class ScheduleFilters(FacetFilters, total=False):
    """Filters of schedules, as a caller gives them; times are aware."""

    state: str | ScheduleState | None
    kind: str | None
    due_after: datetime | None
    due_before: datetime | None


class SearchFilters(FacetFilters, total=False):
    """
    Filters of the history: values are those that the schedule had then. ``since`` (included) and ``until`` (excluded)
    are aware times of the outcome, or of the end of a run that did not succeed.
    """

    since: datetime | None
    until: datetime | None
