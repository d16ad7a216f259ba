"""
The audit: a function per promise, each of which yields the violations.

Targets are matched with runs like in Jepsen's test of Chronos: acknowledged calls say which runs must have happened,
and received runs say which calls must have been made. Effects that the design does not promise to prevent are counted
(``Audit.tolerated``), not ignored.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from tools.campaign import places
from tools.campaign.calls import Call, last_cancel
from tools.campaign.histories import Histories, Push
from tools.campaign.receipts import Receipt
from tools.campaign.witnesses import Loss, Witnesses
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What
from zsched.core.runs.run_id import RunId

LAG_US = 1_500_000  # how far behind an archive may be when Redis is lost
_LATE_US = 1_000_000  # p99 of lateness while nothing is wrong
_SLACK_US = 200_000  # between a moment and its being written down
_QUEUED_US = 10_000_000  # that a run may wait in its queue before a worker has it
_REPLACING = ("put", "rule", "cancel", "skip", "run_now")
_OF_A_RUN = ("put", "enqueue", "run_now")
_ENTRANCES = (What.PUT, What.RESUMED, What.RESTORED, What.QUARANTINED, What.FOUND)

_WRITTEN = {
    "put": (What.PUT,), "rule": (What.PUT,), "enqueue": (What.ENQUEUED,), "run_now": (What.ENQUEUED,),
    "cancel": (What.CANCELLED,), "pause": (What.PAUSED,), "resume": (What.RESUMED,), "skip": (What.SKIPPED,),
    "leave_out": (What.SKIP_ASKED,), "calendar": (),
}  # fmt: skip

Findings = Iterator[str]


class Audit:
    """The witnesses, sorted for the checks. ``tolerated`` counts effects that are allowed and should be reported."""

    def __init__(self, witnesses: Witnesses) -> None:
        self.witnesses, self.histories = witnesses, Histories([*witnesses.histories, witnesses.log])
        self.tolerated: Counter[str] = Counter()
        self.lag_us = 0  # of what was lost in the archive's lag: the longest time from its acknowledgement to the loss
        self.late_us: list[int] = []  # of runs that were due while nothing was wrong
        self.all_late_us: list[int] = []
        self.received: dict[str, list[Receipt]] = defaultdict(list)
        for receipt in sorted(witnesses.receipts, key=lambda receipt: receipt.t_us):
            self.received[receipt.run_id].append(receipt)
        self.calls: dict[str, list[Call]] = defaultdict(list)
        for call in witnesses.calls:
            self.calls[call.id].append(call)
        end = witnesses.log[-1].position if witnesses.log else None
        chains = [chain for chain in self.histories.chains if any(entry.position == end for entry in chain)]
        self.final = {entry.position for chain in chains for entry in chain}
        self.places = defaultdict(list)
        for place in witnesses.places:
            self.places[place.id].append(place)

    def is_in_lag(self, call: Call) -> bool:
        """
        Return True if no archive had the change of *call* when Redis lost it: it was acknowledged shortly before the
        loss, and is in no history. A change that an archive had must come back.
        """
        return bool(self._losses_at(call)) and not self._is_known(call)

    def _losses_at(self, call: Call) -> list[Loss]:
        """Return the losses during the call or shortly after its answer."""
        return [
            loss
            for loss in self.witnesses.losses
            if call.began_us <= loss.at_us + _SLACK_US and loss.at_us - LAG_US <= call.ended_us
        ]

    def _is_known(self, call: Call) -> bool:
        """
        Return True if a history has the change of *call*. A call that names a run must be found with that run, not with
        an earlier one.
        """
        from_us, until_us = call.began_us - _SLACK_US, call.ended_us + _SLACK_US
        run_id = _run_of(call) if call.verb in _OF_A_RUN else None
        return any(
            change.what in _WRITTEN[call.verb] and from_us <= change.at_us <= until_us
            for change in self.histories.changes[call.id]
            if run_id is None or change.run_id == run_id
        )

    def lag_of(self, call: Call) -> int:
        """Return the time between the answer to *call* and the loss for which ``is_in_lag`` excuses it."""
        return max(0, *(loss.at_us - call.ended_us for loss in self._losses_at(call)))

    def is_in_repair(self, call: Call) -> bool:
        """
        Return True if *call* was answered by a Redis that had lost data and did not have it back. The answer "nothing
        to do" is then true for the contents of Redis, is in no log, and may be false for the restored data.
        """
        return self.is_repaired(call.ended_us)

    def is_repaired(self, *times_us: int) -> bool:
        """Return True if Redis, at all of these times, had lost data and did not have it back."""
        windows = self.witnesses.windows
        ends = [
            (loss.at_us, window.until_us)
            for loss in self.witnesses.losses
            for window in windows
            if window.from_us <= loss.at_us <= window.until_us
        ]
        return any(all(from_us - _SLACK_US <= at_us <= until_us for at_us in times_us) for from_us, until_us in ends)

    def did_nothing(self, call: Call) -> bool:
        """Return True if *call* was answered during a repair and is in no history: the call found nothing to do."""
        return self.is_in_repair(call) and not self._is_known(call)

    def losses_between(self, from_us: int, until_us: int) -> list[Loss]:
        """Return the losses of Redis in that time."""
        return [loss for loss in self.witnesses.losses if from_us <= loss.at_us <= until_us]

    def is_disturbed(self, at_us: int, margin_us: int = 0) -> bool:
        """Return True if a fault was active at *at_us*, give or take *margin_us*."""
        windows = self.witnesses.windows
        return any(window.from_us - margin_us <= at_us <= window.until_us + margin_us for window in windows)

    def is_shifted(self) -> bool:
        """Return True if a fault moved Redis's clock, so that other clocks cannot be compared with it."""
        return any(window.fault.startswith("clock-") for window in self.witnesses.windows)


# -- no loss --------------------------------------------------------------------------------------------------


def lost(audit: Audit) -> Findings:
    """Check that everything acknowledged has run, waits, or has a recorded outcome."""
    for id, calls in audit.calls.items():
        if id in audit.witnesses.foreign:
            audit.tolerated["broken by another writer"] += 1
            continue
        for number, call in enumerate(calls):
            if call.outcome == "done" and not _is_replaced(call, calls[number + 1 :]):
                yield from _fate(audit, call)


def _is_replaced(call: Call, later: list[Call]) -> bool:
    """Return True if a later call may have replaced the result of *call*."""
    if call.verb in ("enqueue", "run_now"):
        return False
    if call.verb not in ("put", "rule"):
        return True
    for other in later:
        if other.outcome == "refused" or other.verb not in _REPLACING:
            continue
        if other.verb == call.verb and other.outcome == "unknown" and _run_of(other) == _run_of(call):
            continue  # the same once more
        if other.verb == "cancel" and other.outcome == "done" and other.word != "cancelled":
            continue  # it had run, or was not there
        if call.verb == "rule" and other.verb in ("run_now", "skip"):
            continue
        return True
    return False


def _fate(audit: Audit, call: Call) -> Findings:
    run_id, where = _run_of(call), audit.places[call.id]
    if call.verb == "rule":
        is_there = any(place.place in ("due", "paused", "quarantine") for place in where)
        told = f"recurring {call.id} is nowhere"
    else:
        is_there = run_id in audit.received or _has_outcome(audit, call.id, run_id)
        is_there |= call.verb == "put" and any(_still_waits(audit, call, place.due_ms) for place in where)
        told = f"{run_id} was not received"
        pushes = audit.histories.pushes.get(run_id, ())
        if not is_there and (_is_given_up(audit, call.id, run_id) or any(push.entry in audit.final for push in pushes)):
            pushed_us = max(push.t_us for push in audit.histories.pushes[run_id])
            if audit.is_disturbed(pushed_us, _QUEUED_US):
                audit.tolerated["pushed, and lost by a disturbed worker"] += 1
                return
            told = f"{run_id} was pushed and not received"
    if is_there:
        return
    calls = audit.calls[call.id]
    if any(each.began_us > call.began_us and audit.is_in_repair(each) for each in calls if each.outcome == "done"):
        audit.tolerated["changed before it was back, so the new history won"] += 1
        return
    if audit.is_in_lag(call) and not call.is_durable:
        audit.tolerated["in the archive's lag"] += 1
        audit.lag_us = max(audit.lag_us, audit.lag_of(call))
        return
    if any(place.place == "paused" for place in where):
        told = f"{told}, for it is paused"
        paused = [each for each in calls if each.verb in ("pause", "resume") and each.outcome == "done"]
        resume = paused[-1] if paused and paused[-1].verb == "resume" else None
        if resume and audit.is_in_lag(resume):
            audit.tolerated["resumed in the archive's lag"] += 1
            return
        if resume and audit.did_nothing(resume):
            audit.tolerated["resumed before its pause was back, so nothing was to do"] += 1
            return
        if resume and audit.is_in_repair(call):  # a put leaves it paused
            audit.tolerated["put before its resume was back, so the new history won"] += 1
            return
    places_ = ", ".join(place.place for place in where) or "nowhere"
    ago = [f"{(loss.at_us - call.ended_us) / 1e6:.2f} s before {loss.fault}" for loss in audit.witnesses.losses]
    after = next((each for each in ago if not each.startswith("-")), "with no loss after it")
    durable = ", durable" if call.is_durable else ""
    yield f"{told}: {call.verb} acknowledged {after}{durable}; it is {places_}; log: {_story(audit, call.id)}"


def _run_of(call: Call) -> str:
    return call.run_id or f"{call.id}-{call.due_ms}"


def _has_outcome(audit: Audit, id: str, run_id: str) -> bool:
    for change in audit.histories.changes[id]:
        is_its = change.run_id == run_id or change.what is What.QUARANTINED
        if is_its and change.what in (What.SKIPPED, What.CANCELLED, What.QUARANTINED, What.DUPLICATE):
            return True
    return False


def _is_given_up(audit: Audit, id: str, run_id: str) -> bool:
    """
    Return True if RQ says that the run failed. It applies to a run that no worker received, because a worker lost it on
    its way.
    """
    ends = (change for change in audit.histories.changes[id] if change.what is What.RUN_ENDED)
    return any(change.run_id == run_id and change.why in ("failed", "cancelled", "lost") for change in ends)


def _still_waits(audit: Audit, call: Call, due_ms: int | None) -> bool:
    return due_ms is not None and due_ms == call.due_ms and due_ms * 1000 > audit.witnesses.ended_us


def cancelled_and_back(audit: Audit) -> Findings:
    """Check that a cancelled schedule neither runs nor waits."""
    for id, calls in audit.calls.items():
        last = last_cancel(calls)
        if last is None:
            continue
        pushes = audit.histories.pushes_by_id[id]
        after = [push for push in pushes if push.t_us > last.ended_us and not push.is_asked_for]
        if not after and not audit.places[id]:
            continue
        if audit.is_in_lag(last):
            audit.tolerated["cancelled in the archive's lag"] += 1
        else:
            yield f"{id} was cancelled at {last.ended_us}, and is there again; log: {_story(audit, id)}"


# -- no double ------------------------------------------------------------------------------------------------


def doubled(audit: Audit) -> Findings:
    """
    Check that a run is pushed once per history. A run that was pushed in a lost history may be pushed again if marked
    uncertain.
    """
    for before, after in audit.histories.doubles():
        yield f"{after.run_id} was pushed twice in one history: {_shown(before)}, {_shown(after)}"
    for run_id, pushes in audit.histories.pushes.items():
        for before, after in pairwise(pushes):
            if after.is_uncertain:
                continue
            if _is_put_as_new(audit, run_id, after.t_us):
                audit.tolerated["put again in a data set that was taken for new"] += 1
            else:
                yield f"{run_id} was pushed again and is not marked: {_shown(before)}, {_shown(after)}"
        received = audit.received.get(run_id, [])
        if len(received) > len(pushes):
            yield from _received_again(audit, run_id, received, pushes)
        again = [push for push in pushes[1:] if not _is_put_as_new(audit, run_id, push.t_us)]
        if _is_at_most_once(audit, pushes[0].id) and again:
            yield f"{run_id} says on_uncertain=skip and was pushed {len(pushes)} times: {_shown(pushes[-1])}"


def _is_put_as_new(audit: Audit, run_id: str, pushed_us: int) -> bool:
    """
    Return True if a client itself put the run again after a loss that no present archive knew of (daemon/data_set.py).
    Such a run counts as new. A run that an archive restores must be marked.
    """
    loss = next((loss for loss in reversed(audit.witnesses.losses) if loss.at_us < pushed_us), None)
    if loss is None or loss.fault != "empty-archive-first":
        return False
    calls = audit.calls[run_id.rpartition("-")[0]]
    return any(call.verb == "put" and loss.at_us < call.began_us < pushed_us for call in calls)


def _received_again(audit: Audit, run_id: str, received: list[Receipt], pushes: list[Push]) -> Findings:
    between = audit.losses_between(received[0].t_us - _SLACK_US, received[-1].t_us + _SLACK_US)
    if any(loss.brings_back for loss in between):
        told = [change for change in audit.histories.changes[pushes[0].id] if change.run_id == run_id]
        was_over = any(change.what is What.RUN_ENDED and change.at_us < received[-1].t_us for change in told)
        if was_over and all(change.what is not What.RAN_AGAIN for change in told):
            story = _story(audit, pushes[0].id)
            yield f"{run_id} was over, a rollback brought it back, and no log says that it ran again: {story}"
        audit.tolerated["brought back in RQ's queue by a rollback"] += 1
    elif between and all(push.is_uncertain for push in pushes) and not _is_at_most_once(audit, pushes[0].id):
        audit.tolerated["pushed again, marked, after a push in the archive's lag"] += 1
    else:
        times = ", ".join(str(receipt.t_us) for receipt in received)
        ago = ", ".join(f"{loss.fault} at {loss.at_us}" for loss in between) or "no loss"
        story = _story(audit, pushes[0].id)
        yield f"{run_id} was received at {times} and pushed {len(pushes)} times ({ago} between them); log: {story}"


def _is_at_most_once(audit: Audit, id: str) -> bool:
    puts = [call for call in audit.calls.get(id, ()) if call.verb in ("put", "rule")]
    return bool(puts) and all(call.is_skip for call in puts)


def unaccounted(audit: Audit) -> Findings:
    """Check that every received run was pushed by a script that logged it."""
    for run_id, received in audit.received.items():
        if run_id in audit.histories.pushes:
            continue
        t_us = received[0].t_us
        if audit.losses_between(t_us - LAG_US - _QUEUED_US, t_us + LAG_US + _SLACK_US):
            audit.tolerated["received, and its push was in the archive's lag"] += 1
        else:
            yield f"{run_id} was received at {t_us}, and no log says that it was pushed"


# -- times ----------------------------------------------------------------------------------------------------


def early(audit: Audit) -> Findings:
    """Check that no run is pushed or received before its time, by the script's clock and by the worker's."""
    for pushes in audit.histories.pushes.values():
        for push in pushes:
            if not push.is_asked_for and push.nominal_ms is not None and push.t_us < push.nominal_ms * 1000:
                yield f"{push.run_id} was pushed {push.nominal_ms * 1000 - push.t_us} µs early: {_shown(push)}"
    for run_id, received in audit.received.items():
        run, pushes = RunId.parse(run_id), audit.histories.pushes.get(run_id, [])
        if run is None or run.rerun or any(push.is_asked_for for push in pushes):
            continue
        if received[0].t_us < run.nominal_ms * 1000:
            yield f"{run_id} was received {run.nominal_ms * 1000 - received[0].t_us} µs early"


def late(audit: Audit) -> Findings:
    """Check that 99 of 100 runs are pushed within a second of their time while no fault is active."""
    for pushes in audit.histories.pushes.values():
        for push in pushes:
            if push.is_asked_for or push.is_uncertain or push.nominal_ms is None:
                continue
            changes = audit.histories.changes[push.id]
            came = [change.at_us for change in changes if change.what in _ENTRANCES and change.at_us <= push.t_us]
            since_us = max([push.nominal_ms * 1000, *came[-1:]])
            audit.all_late_us.append(push.t_us - since_us)
            if not audit.is_disturbed(since_us):
                audit.late_us.append(push.t_us - since_us)
    if audit.late_us and percentile(audit.late_us, 99) > _LATE_US:
        yield f"p99 is {percentile(audit.late_us, 99) / 1000:.0f} ms outside of faults"


def percentile(values: list[int], share: int) -> int:
    """Return the value that *share* of 100 do not exceed; 0 if *values* is empty."""
    return sorted(values)[min(len(values) * share // 100, len(values) - 1)] if values else 0


# -- the log, and Redis ---------------------------------------------------------------------------------------


def broken_log(audit: Audit) -> Findings:
    """
    Check that the log has no hole, ends where Redis counted to, has no falling epochs, and can be read completely.
    """
    log, seq = audit.witnesses.log, audit.witnesses.seq
    for before, after in pairwise(entry.position for entry in log):
        if after.seq != before.seq + 1:
            yield f"after {before.id} comes {after.id}"
        if after.epoch < before.epoch:
            yield f"the epoch falls from {before.id} to {after.id}"
        if after.t_us < before.t_us and not audit.is_shifted():
            yield f"time goes back from {before} to {after}"
    if log and seq is not None and log[-1].position.seq != seq:
        yield f"it ends with {log[-1].position.id}, and Redis counted to {seq}"
    yield from audit.histories.unreadable


def misplaced(audit: Audit) -> Findings:
    """
    Check that every active schedule has one place, and that no due schedule was left behind. A rule that exists
    although it was cancelled fires until the daemons stop: ``cancelled_and_back`` judges it.
    """
    yield from places.faults_in(audit.witnesses.places, audit.witnesses.foreign)
    for place in audit.witnesses.places:
        has_passed = place.place == "due" and (place.due_ms or 0) * 1000 < audit.witnesses.ended_us
        if has_passed and last_cancel(audit.calls[place.id]) is None:
            yield f"{place.id} is still waiting for {place.due_ms}, which has passed"


def said(audit: Audit) -> Findings:
    """
    Check that no process ended by itself, no archive differs, and no client saw an error of another class than
    zsched's.
    """
    yield from audit.witnesses.said
    for call in audit.witnesses.calls:
        if call.outcome == "crashed":
            yield f"{call.verb} {call.id}: {call.word}"


def _shown(push: Push) -> str:
    return f"{push.entry} ({UNCERTAIN_WORD[push.is_uncertain]})"


UNCERTAIN_WORD = {True: "uncertain", False: "certain"}


def _story(audit: Audit, id: str) -> str:
    """Return the last known facts about a schedule."""
    told: list[Change] = audit.histories.changes[id][-6:]
    return " · ".join(f"{change.what.value} {change.entry}" for change in told) or "nothing"


CHECKS: dict[str, Callable[[Audit], Findings]] = {
    "lost": lost,
    "cancelled and back": cancelled_and_back,
    "doubled": doubled,
    "unaccounted": unaccounted,
    "early": early,
    "late": late,
    "the log": broken_log,
    "places": misplaced,
    "said": said,
}
