"""
The findings of an audit: a schedule that is not where its history says, an occurrence of which nobody gives account.
Pure.

What should be follows from definitions: the state that the log adds up to, and the rules in it. It is compared with
what Redis holds, and with what was promised. "Expected to fire, and no record of it" is the alarm that matters most:
everything else is told by the log.

**Place.** A schedule is in one place, with the content that the log says. A waiting one-shot whose run RQ has (any
status but ``scheduled``) is not put back, it would run twice: restore.lua takes it out. What a quarantined one says of
itself is no matter: the log told that it is broken. One that the log has in quarantine and Redis has not is left where
it is: to stop a schedule protects nothing, and would enforce a forged entry.

**Occurrence.** *nominal* was chosen by the entry that created the schedule, resumed it with ``skip`` or advanced it, as
the rule's first time after that entry's TIME. Entries that came later and left it as it was (``run_now``, a put of the
same rule, pause and resume) came before *nominal*, else there is nothing to say. So at the time *told* of whichever of
them was last, no occurrence lies between *told* and *nominal*; one that does was left out, and nobody said so.
``missing_occurrence`` has the conditions in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from zsched.core.held import Held
from zsched.core.log.recovery import Restored
from zsched.core.model import iso
from zsched.core.recovery import Known, restored_row
from zsched.core.run_id import RunId
from zsched.core.triggers import Trigger, build, spec_of

GRACE_MS: Final = 60_000  # past its time, before an occurrence is missed
_WAITS: Final = ("", "scheduled")  # statuses of a job, '' for none, that RQ has nothing to do with


class Event(Enum):
    """One kind of finding, by the name of the event that reports it."""

    MISSING = "schedule_missing"  # the log has it, Redis does not
    DIFFERENT = "schedule_different"  # Redis has it otherwise than the log: elsewhere, at another time, another content
    SCATTERED = "schedule_in_many_places"  # in more than one lane, or in one and paused, …
    UNKNOWN = "schedule_unknown"  # Redis has it, the log never had it
    OVERDUE = "occurrence_overdue"  # it is where it should be, its time has passed, and it does not fire
    SKIPPED = "occurrence_missing"  # its rule has an occurrence of which there is no record
    SUPPRESSED = "run_suppressed"  # a job that zsched never pushed stood where the run should be


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong, in words for people; ``row`` is what puts it right, None when that is not for us."""

    event: Event
    id: str
    expected: str
    found: str
    row: Restored | None = None


def misplaced(known: Known, there: Held | None, places: Sequence[str], status: str) -> Alarm | None:
    """
    Return what is wrong with the place of a schedule; None when it is as *known*. *there*: as Redis holds it; *places*:
    all places that it is in; *status*: RQ's of its waiting run, '' when it has none.
    """
    held = known.held
    is_scattered = len(places) > 1
    if there is not None and _is_as(held, there) and not is_scattered:
        return None
    event = Event.SCATTERED if is_scattered else Event.MISSING if there is None else Event.DIFFERENT
    found = "in " + " and ".join(places) if is_scattered else "nothing" if there is None else _difference(held, there)
    if held.run and status not in _WAITS:
        found += f"; its run is {status} in RQ"
    if held.run and held.run.partition("-")[0] != str(held.due_ms):  # it was paused at a time that another writer set
        return Alarm(event, held.id, _shown(held), f"{found}; by the log it is not due when its run is")
    row = None if held.place == "quarantine" else restored_row(known)
    return Alarm(event, held.id, _shown(held), found, row)


def _is_as(held: Held, there: Held) -> bool:
    """Return True if both say the same. The content of a quarantined one does not count: it may be why it is there."""
    if held.place != "quarantine":
        return there.is_same(held)
    return (held.place, held.lane, held.due_ms, held.note) == (there.place, there.lane, there.due_ms, there.note)


def unknown(id: str, places: Sequence[str]) -> Alarm:
    """Return the alarm for an id that is in Redis and never was in the log. ``fire`` quarantines it when it is due."""
    return Alarm(Event.UNKNOWN, id, "nothing", "in " + " and ".join(places))


def suppressed(id: str, run_id: str, nominal_ms: int | None) -> Alarm:
    """Return the alarm for an occurrence that was not pushed: RQ had a job of a run that the history never pushed."""
    return Alarm(
        Event.SUPPRESSED, id, f"run {run_id}, {iso(nominal_ms)}", "a job of that id, and no push of it is known"
    )


def is_overdue(held: Held, since_ms: int, now_ms: int) -> bool:
    """Return True if *held* should have fired by *now_ms*, where schedules fire since *since_ms*."""
    return held.place == "due" and held.due_ms is not None and max(held.due_ms, since_ms) < now_ms - GRACE_MS


def may_be_left_out(known: Known, told_ms: int, now_ms: int) -> int | None:
    """
    The occurrence of which there seems to be no record, in ms; None for a schedule of which nothing can be said. What
    the stored rule can make Python raise is for the tick, which quarantines it.

    *told_ms*: the last time that the log's entries say of this schedule. That of its last change, unless the server's
    clock was set back meanwhile.
    """
    held = known.held
    if held.run or held.place != "due" or held.nominal_ms is None or held.due_ms != held.nominal_ms:
        return None
    if held.nominal_ms <= told_ms or told_ms >= now_ms - GRACE_MS:  # quick: most are of one of these
        return None
    own = held.split()[1]
    last = RunId.parse(held.last) if held.last else None
    if last is not None:
        told_ms = max(told_ms, last.nominal_ms)
    try:
        spec = spec_of(own["trigger"])
        return missing_occurrence(build(spec, int(own["anchor"])), held.nominal_ms, told_ms, now_ms)
    except Exception:
        return None


def missing_occurrence(trigger: Trigger, nominal_ms: int, told_ms: int, now_ms: int) -> int | None:
    """
    The first occurrence of *trigger* that is later than *told_ms*, earlier than *nominal_ms*, and past by more than
    GRACE_MS; None when there is none.

    Where the zone decides, *nominal_ms* must be an occurrence too: it was planned by a machine that may have known
    other rules of the zone, and what was promised then stands (``core.policy.plan``).

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


def left_out(known: Known, missing_ms: int) -> Alarm:
    """An occurrence of which there is no record; it fires late when the schedule is put back to that time."""
    held = known.held
    back = Known(replace(held, nominal_ms=missing_ms, due_ms=missing_ms), known.t_us)
    found = f"no record of it: next is {iso(held.nominal_ms)}"
    return Alarm(Event.SKIPPED, held.id, f"the occurrence of {iso(missing_ms)}", found, restored_row(back))


# -- words ----------------------------------------------------------------------------------------


def _shown(held: Held) -> str:
    due = "" if held.due_ms is None else f", due {iso(held.due_ms)}"
    return f"{_place(held)}{due}"


def _place(held: Held) -> str:
    return f"{held.lane} lane" if held.place == "due" else held.place


def _difference(mine: Held, there: Held) -> str:
    """Name what differs in *there*. Of content, only field names are given: arguments are nobody's business."""
    told: list[str] = []
    if _place(mine) != _place(there):
        told.append(_place(there))
    if mine.due_ms != there.due_ms:
        told.append(f"due {iso(there.due_ms)}")
    if mine.nominal_ms != there.nominal_ms:
        told.append(f"nominal {iso(there.nominal_ms)}")
    if bool(mine.run) != bool(there.run):
        told.append("a one-shot" if there.run else "recurring")
    elif mine.last != there.last:
        told.append(f"last run {there.last}")
    names = sorted(
        {
            name
            for ours, theirs in zip(mine.asked_for(), there.asked_for(), strict=True)
            for name in ours.keys() | theirs.keys()
            if ours.get(name) != theirs.get(name)
        }
    )
    if not there.asked_for()[0]:
        told.append("its job is gone" if there.run else "its template is gone")
    elif names:
        told.append(f"other {', '.join(names)}")
    elif mine.note != there.note and mine.place == there.place:
        told.append("another note")
    return "; ".join(told) or "something else"
