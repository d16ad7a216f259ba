"""
The findings of an audit or an inspection: a schedule that differs from its history, and an occurrence without a
record. Pure.

The expected state follows from the log: its entries, and the rules in them. It is compared with the contents of Redis
and with the promised occurrences.

**Place.** A schedule is in one place, with the content that the log has. If RQ has the run of a waiting one-shot (in
any status except ``scheduled``), the one-shot is not restored, because it would run twice: restore.lua takes it out.
A schedule that is in quarantine by the log, but not in Redis, stays where it is: stopping it would protect nothing, and
would obey a forged entry.

**Quarantine.** A quarantined schedule goes back to its lane, with the content that the log has, if Redis has another
content or none: then that was the cause. It also goes back if the cause is over (``daemon.auditor``).

**Occurrence.** An entry that created the schedule, resumed it with ``skip`` or advanced it has chosen *nominal*: the
rule's first time after that entry's TIME. Later entries that left *nominal* unchanged (``run_now``, a put of the same
rule, pause and resume) came before it; otherwise no conclusion is possible. Let *told* be the time of the last of these
entries. Then no occurrence may lie between *told* and *nominal*. An occurrence there was left out without a record.
``missing_occurrence`` has the conditions in full.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from zsched.core.entry import text
from zsched.core.model import iso
from zsched.core.occurrences.planning import trigger_of
from zsched.core.record import Place, Record
from zsched.core.recovery.difference import restored_row
from zsched.core.runs.run_id import RunId
from zsched.core.triggers.layers import Trigger

GRACE_MS: Final = 60_000  # after its time; then an occurrence counts as missed


class Event(Enum):
    """One kind of finding, by the name of the event that reports it."""

    MISSING = "schedule_missing"  # Redis lacks it, its place, or its hash, template or job
    DIFFERENT = "schedule_different"  # Redis and the log differ in place, time or content
    SCATTERED = "schedule_in_many_places"  # in more than one lane, or in a lane and paused, …
    UNKNOWN = "schedule_unknown"  # in Redis, but never in the log
    OVERDUE = "occurrence_overdue"  # in the right place, its time has passed, and it does not fire
    SKIPPED = "occurrence_missing"  # its rule has an occurrence without a record
    SUPPRESSED = "run_suppressed"  # a job that zsched never pushed has the id of the run
    RELEASED = "schedule_released"  # it was in quarantine, and the cause is over


class Alarm(NamedTuple):
    """A finding in words. ``row``: the row of a restore that repairs it; None if zsched cannot repair it."""

    event: Event
    id: str
    expected: str
    found: str
    row: Record | None = None


def misplaced(known: Record, here: Record | None, *, is_released: bool = False) -> Alarm | None:
    """
    Return the alarm for a schedule's place or content; None if it is as *known*.

    *here*: the schedule in Redis; *is_released*: it is in quarantine, and the cause is over.
    """
    is_scattered = here is not None and len(here.places) > 1
    if here is not None and _is_as(known, here) and not is_scattered:
        return _released(known, here, is_released=is_released) if known.place == Place.QUARANTINE else None
    event = Event.SCATTERED if is_scattered else Event.MISSING if _is_missing(known, here) else Event.DIFFERENT
    found = "nothing" if here is None else _places(here) if is_scattered else _difference(known, here)
    if known.run and not known.is_at_its_time:  # another writer moved it, then it was paused
        return Alarm(event, known.id, _shown(known), f"{found}; by the log it is not due when its run is")
    row = None if known.place == Place.QUARANTINE else restored_row(known)
    return Alarm(event, known.id, _shown(known), found, row)


def _is_missing(known: Record, here: Record | None) -> bool:
    """Return True if Redis lacks the schedule, its place, or its hash, template or job."""
    if here is None or (here.place == Place.ENDED and known.place != Place.ENDED):
        return True
    return here.run == known.run and not (here.job and (here.run or here.own))


def _is_as(known: Record, here: Record) -> bool:
    """Return True if both are equal. The content of quarantined schedules is not compared: it may be the cause."""
    if known.place != Place.QUARANTINE:
        return here.is_same(known)
    return (known.place, known.lane, known.due_ms, known.note) == (here.place, here.lane, here.due_ms, here.note)


def _released(known: Record, here: Record, *, is_released: bool) -> Alarm | None:
    """
    Return the alarm for a quarantined schedule that can go back; None if it cannot. One that another writer moved in
    time would only go back into quarantine, at each pass.
    """
    is_lost = here.request() != known.request()
    if not (is_released or is_lost) or not known.is_at_its_time or not known.job:
        return None
    due = replace(known, place=Place.DUE, note=None)
    reason = (known.note or "").partition(" ")[2]
    return Alarm(Event.RELEASED, known.id, _shown(due), f"quarantine: {reason}", restored_row(due))


def unknown_schedule(here: Record) -> Alarm:
    """Return the alarm for an id that is in Redis and was never in the log. ``fire`` quarantines it when it is due."""
    return Alarm(Event.UNKNOWN, here.id, "nothing", _places(here))


def suppressed(id: str, run_id: str, nominal_ms: int | None) -> Alarm:
    """Return the alarm for an occurrence that was not pushed: a job that zsched never pushed had its run's id."""
    return Alarm(Event.SUPPRESSED, id, f"run {run_id}, {iso(nominal_ms)}", "a job with that id, without a known push")


def is_overdue(here: Record, now_ms: int) -> bool:
    """Return True if the schedule in Redis should have fired by *now_ms*. A throttled one is late by intent."""
    is_throttled = any(":" in place for place in here.places)
    return here.place == Place.DUE and not is_throttled and (here.due_ms or now_ms) < now_ms - GRACE_MS


def late(here: Sequence[Record]) -> Alarm:
    """Return the alarm for the oldest of the overdue schedules *here*."""
    oldest = min(here, key=lambda each: (each.due_ms, each.id))
    others = f", with {len(here) - 1} others" if len(here) > 1 else ""
    return Alarm(Event.OVERDUE, oldest.id, f"fired {iso(oldest.due_ms)}", f"waiting{others}")


def may_be_left_out(known: Record, told_ms: int, now_ms: int) -> int | None:
    """
    Return the occurrence that seems to have no record, in ms; None if there is none, or no conclusion is possible.

    A stored rule that cannot be evaluated is ignored here; the tick quarantines it. *told_ms*: the latest time in the
    log's entries of this schedule. It is the time of its last change, unless the server's clock was set back.
    """
    if known.run or known.place != Place.DUE or known.nominal_ms is None or known.due_ms != known.nominal_ms:
        return None
    if known.nominal_ms <= told_ms or told_ms >= now_ms - GRACE_MS:  # a quick test for most schedules
        return None
    last = RunId.parse(known.last) if known.last else None
    if last is not None:
        told_ms = max(told_ms, last.nominal_ms)
    try:
        return missing_occurrence(trigger_of(known), known.nominal_ms, told_ms, now_ms)
    except Exception:
        return None


def missing_occurrence(trigger: Trigger, nominal_ms: int, told_ms: int, now_ms: int) -> int | None:
    """
    Return the first occurrence of *trigger* that is later than *told_ms*, earlier than *nominal_ms*, and past by more
    than GRACE_MS; None if there is none.

    If the rule depends on a zone, *nominal_ms* must be an occurrence too. A machine with other zone rules may have
    planned it, and a promised occurrence stays promised (``core.occurrences.policy.plan``).

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    if nominal_ms <= told_ms:
        return None
    first_ms = trigger.next_after(told_ms)
    if first_ms is None or first_ms >= nominal_ms or first_ms >= now_ms - GRACE_MS:
        return None
    if trigger.spec.is_of_zone and trigger.last_until(nominal_ms) != nominal_ms:
        return None
    return first_ms


def left_out(known: Record, missing_ms: int) -> Alarm:
    """Return the alarm for an occurrence without a record. It fires late if the schedule is restored to that time."""
    back = replace(known, nominal_ms=missing_ms, due_ms=missing_ms)
    found = f"no record of it: next is {iso(known.nominal_ms)}"
    return Alarm(Event.SKIPPED, known.id, f"the occurrence of {iso(missing_ms)}", found, restored_row(back))


# -- words ----------------------------------------------------------------------------------------


def _shown(record: Record) -> str:
    due = "" if record.due_ms is None else f", due {iso(record.due_ms)}"
    return f"{_place(record)}{due}"


def _places(here: Record) -> str:
    return "in " + " and ".join(here.places or (here.place,))


def _place(record: Record) -> str:
    return f"{record.lane} lane" if record.place == Place.DUE else record.place


def _difference(known: Record, here: Record) -> str:
    """Name the differences in *here*. Of the content only field names are shown: arguments may be confidential."""
    said: list[str] = []
    if _place(known) != _place(here):
        said.append(_place(here))
    if known.due_ms != here.due_ms:
        said.append(f"due {iso(here.due_ms)}")
    if known.nominal_ms != here.nominal_ms:
        said.append(f"nominal {iso(here.nominal_ms)}")
    if bool(known.run) != bool(here.run):
        said.append("a one-shot" if here.run else "recurring")
    elif known.last != here.last:
        said.append(f"last run {here.last}")
    names = sorted({
        text(name)
        for ours, theirs in zip(known.request(), here.request(), strict=True)
        for name in ours.keys() | theirs.keys()
        if ours.get(name) != theirs.get(name)
    })  # fmt: skip
    if not here.request()[0]:
        said.append("its job is gone" if here.run else "its template is gone")
    elif names:
        said.append(f"other {', '.join(names)}")
    elif known.note != here.note and known.place == here.place:
        said.append("another note")
    return "; ".join(said) or "something else"
