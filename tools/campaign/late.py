"""
One-shots with ``done_by``: each missed deadline is in the log once, not before its time, and not of a run that was
received in time; and each run that was received too late missed its deadline.
"""

from collections import defaultdict

from tools.campaign.checks import LAG_US, Audit, Findings
from tools.campaign.clients import DONE_BY, DONE_BY_S
from zsched.core.entry import Entry
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What

_SLACK_US = 1_500_000  # from a receipt to the end of its run in RQ, on a busy machine


def out_of_time(audit: Audit) -> Findings:
    """Check the deadlines of all such one-shots."""
    for id, changes in audit.histories.changes.items():
        if not id.endswith(DONE_BY):
            continue
        missed = defaultdict[int, list[Change]](list)
        for change in changes:
            if change.what is What.DEADLINE_MISSED and change.nominal_ms is not None:
                missed[change.nominal_ms].append(change)
        for nominal_ms, found in missed.items():
            at_us = (nominal_ms + DONE_BY_S * 1000) * 1000
            yield from (f"{id}: {one.entry} is before {at_us}" for one in found if one.at_us < at_us)
            if len(found) > 1 and not audit.losses_between(found[0].at_us - LAG_US, found[0].at_us + LAG_US):
                yield f"{id}: {[one.entry for one in found]} log one deadline"
            in_time = [one for one in audit.received.get(f"{id}-{nominal_ms}", ()) if one.t_us < at_us - _SLACK_US]
            has_failed = found[0].why.startswith(("failed", "is lost"))  # its worker died after the receipt
            if not in_time or has_failed or audit.is_disturbed(in_time[0].t_us, _SLACK_US):  # it could not tell its end
                continue
            if not audit.losses_between(in_time[0].t_us - LAG_US, at_us + LAG_US):
                yield f"{id}: {found[0].entry} says {found[0].why!r}, and it was received at {in_time[0].t_us}"
        yield from _silent(audit, id, changes, set(missed))


def _came_late(audit: Audit, history: list[Entry], id: str, at_us: int) -> bool:
    """Return True if an archive with this *history*, a new one, got the schedule by a restore after *at_us*."""
    changes = (change for entry in history for change in audit.histories.of(entry.position) if change.id == id)
    first = next(changes, None)
    return first is not None and first.what is What.RESTORED and first.at_us > at_us


def _silent(audit: Audit, id: str, changes: list[Change], told: set[int]) -> Findings:
    """Yield the runs that were received long after their deadline, which no entry has, although nobody paused them."""
    puts = {one.nominal_ms: one for one in reversed(changes) if one.what is What.PUT}
    for push in audit.histories.pushes_by_id[id]:
        put, received = puts.get(push.nominal_ms), audit.received.get(push.run_id)
        if put is None or received is None or push.nominal_ms is None or push.nominal_ms in told or push.is_asked_for:
            continue
        at_us = (push.nominal_ms + DONE_BY_S * 1000) * 1000
        is_late = put.at_us < at_us < received[0].t_us - _SLACK_US
        is_paused = put.why or any(one.what is What.PAUSED and one.at_us < at_us for one in changes)
        if not is_late or is_paused or audit.losses_between(put.at_us, put.at_us + LAG_US):
            continue
        if any(_came_late(audit, history, id, at_us) for history in audit.witnesses.histories):
            audit.tolerated["deadline passed before an empty archive had its schedule"] += 1
        elif audit.is_repaired(put.at_us, at_us):
            audit.tolerated["put, and its deadline passed, while no archive followed the log"] += 1
        else:
            late_ms = (received[0].t_us - at_us) // 1000
            yield f"{push.run_id} was received {late_ms} ms after its deadline, and nothing says so"
