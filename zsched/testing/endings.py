"""
Ends of runs that were executed here, or expired: written into the log as the leader's tracker does, so
that ``why`` and ``runs`` tell it, and ``pause_after_failures`` counts it.
"""

from __future__ import annotations

from zsched.core.runs import Run, RunStatus, of_job
from zsched.storage.connection import Wire
from zsched.storage.dispatch import Dispatch, Over
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.testing.pushes import Pushes


class ManualEndings:
    """Ends of one namespace's runs; those of RQ's own jobs are returned, and not written down."""

    def __init__(self, wire: Wire, keys: Keys, pushes: Pushes) -> None:
        self._dispatch, self._jobs, self._pushes = Dispatch(wire, keys), Jobs(wire, keys), pushes

    def of(self, run_id: str, went_well: bool, term: Term) -> Run:
        """The run that was executed or expired: over, or queued for its next attempt. RQ may have forgotten it."""
        [job] = self._jobs.look([run_id])
        if job is None:
            return Run(run_id, RunStatus.SUCCEEDED if went_well else RunStatus.FAILED)
        fired_us, seen = self._pushes.fired_us.get(run_id), self._pushes.last
        run = of_job(run_id, job, fired_us, watched_since_ms=0)
        if run.is_over and fired_us is not None and seen is not None:
            seen_job = "gone" if run.status is RunStatus.EXPIRED else job.seen
            self._dispatch.track(term, seen, [Over.of(run, seen_job)])
        return run
