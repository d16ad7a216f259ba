"""
Runs with ``overlap="queue"``: no two of a schedule at the same time, and each one that waited was received.

Runs on request are no part of a chain, and may run beside it.
"""

from itertools import pairwise

from tools.campaign.checks import LAG_US, Audit, Findings
from tools.campaign.clients import QUEUED
from zsched.core.occurrences.outcomes import What

_ENDED = (What.RUN_ENDED, What.CANCELLED)


def out_of_turn(audit: Audit) -> Findings:
    """Check the runs of each such schedule."""
    ends = {(end.run_id, end.pid): end.t_us for end in audit.witnesses.ends}
    for id, pushes in audit.histories.pushes_by_id.items():
        if not id.endswith(QUEUED):
            continue
        runs = {push.run_id for push in pushes if not push.is_asked_for}
        runs -= {push.run_id for push in pushes if push.is_asked_for or push.is_uncertain}
        received = [receipt for run_id in runs for receipt in audit.received.get(run_id, ())]
        spans = [(one.t_us, ends[one.run_id, one.pid], one.run_id) for one in received if (one.run_id, one.pid) in ends]
        for (_, until_us, before), (from_us, _, after) in pairwise(sorted(spans)):
            if from_us < until_us and not audit.losses_between(from_us - LAG_US, until_us + LAG_US):
                yield f"{after} began {until_us - from_us} µs before {before} was over"
        over = {change.run_id for change in audit.histories.changes[id] if change.what in _ENDED}
        last = {push.run_id: push for push in pushes}
        for run_id in runs - over - {receipt.run_id for receipt in received}:
            if not audit.losses_between(last[run_id].t_us - LAG_US, audit.witnesses.ended_us):
                yield f"{run_id} was pushed by {last[run_id].entry}, and no worker received it"
