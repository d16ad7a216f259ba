"""Run ids: what RQ calls a job id, and how schedule and occurrence are read from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RUN_ID = re.compile(r"(?P<schedule>[A-Za-z0-9_-]+)-(?P<ms>\d+)(?:-n(?P<namespace>[a-z0-9_]+))?(?:-r(?P<rerun>\d+))?")


@dataclass(frozen=True, slots=True)
class RunId:
    """
    What a run id says: ``<schedule id>-<ms>[-n<namespace>][-r<k>]``, read from the right.

    ``ms`` is a one-shot's due time or a recurring schedule's nominal time. The id alone must tell,
    since rq-dashboard's requeue button can destroy a job's meta.
    """

    schedule_id: str
    nominal_ms: int
    namespace: str
    rerun: int

    @classmethod
    def parse(cls, run_id: str) -> RunId | None:
        """The parts of *run_id*, or None when it is not one of ours."""
        found = _RUN_ID.fullmatch(run_id)
        if found is None:
            return None
        return cls(found["schedule"], int(found["ms"]), found["namespace"] or "default", int(found["rerun"] or 0))


def schedule_of(run_id: str) -> str:
    """The schedule's id in *run_id*; all of it when it is none of ours. Quick for the usual form, ``<id>-<ms>``."""
    id, _, ms = run_id.rpartition("-")
    if ms.isdigit():
        return id
    parts = RunId.parse(run_id)
    return run_id if parts is None else parts.schedule_id
