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

from zsched.core.difference import Held, restored_row
from zsched.core.log.recovery import Restored
from zsched.core.model import iso
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


def misplaced(known: Held, here: Held | None, places: Sequence[str], status: str) -> Alarm | None:
    """
    Return what is wrong with where a schedule is; None when it is as *known*. *here*: as Redis holds it; *places*: all
    places that it is in; *status*: RQ's of its waiting run, '' when it has none.
    """
    is_scattered = len(places) > 1
    if here is not None and _is_as(known, here) and not is_scattered:
        return None
    event = Event.SCATTERED if is_scattered else Event.MISSING if here is None else Event.DIFFERENT
    found = "in " + " and ".join(places) if is_scattered else "nothing" if here is None else _difference(known, here)
    if known.run and status not in _WAITS:
        found += f"; its run is {status} in RQ"
    if known.run and known.run.partition("-")[0] != str(known.due_ms):  # it was paused when another writer had moved it
        return Alarm(event, known.id, _shown(known), f"{found}; by the log it is not due when its run is")
    row = None if known.place == "quarantine" else restored_row(known)
    return Alarm(event, known.id, _shown(known), found, row)


def _is_as(known: Held, here: Held) -> bool:
    """Return True if both say the same. What a quarantined one says of itself may be why it is there."""
    if known.place != "quarantine":
        return here.is_same(known)
    return (known.place, known.lane, known.due_ms, known.note) == (here.place, here.lane, here.due_ms, here.note)


def unknown_schedule(id: str, places: Sequence[str]) -> Alarm:
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


def may_be_left_out(known: Held, told_ms: int, now_ms: int) -> int | None:
    """
    The occurrence of which there seems to be no record, in ms; None for a schedule of which nothing can be said. What
    the stored rule can make Python raise is for the tick, which quarantines it.

    *told_ms*: the last time that the log's entries say of this schedule. That of its last change, unless the server's
    clock was set back meanwhile.
    """
    if known.run or known.place != "due" or known.nominal_ms is None or known.due_ms != known.nominal_ms:
        return None
    if known.nominal_ms <= told_ms or told_ms >= now_ms - GRACE_MS:  # quick: most are of one of these
        return None
    own = known.split()[1]
    last = RunId.parse(known.last) if known.last else None
    if last is not None:
        told_ms = max(told_ms, last.nominal_ms)
    try:
        spec = spec_of(own["trigger"])
        return missing_occurrence(build(spec, int(own["anchor"])), known.nominal_ms, told_ms, now_ms)
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


def left_out(known: Held, missing_ms: int) -> Alarm:
    """Return the alarm for an occurrence without a record. It fires late if the schedule is put back to that time."""
    back = replace(known, nominal_ms=missing_ms, due_ms=missing_ms)
    found = f"no record of it: next is {iso(known.nominal_ms)}"
    return Alarm(Event.SKIPPED, known.id, f"the occurrence of {iso(missing_ms)}", found, restored_row(back))


# -- words ----------------------------------------------------------------------------------------


def _shown(held: Held) -> str:
    due = "" if held.due_ms is None else f", due {iso(held.due_ms)}"
    return f"{_place(held)}{due}"


def _place(held: Held) -> str:
    return f"{held.lane} lane" if held.place == "due" else held.place


def _difference(known: Held, here: Held) -> str:
    """Name what differs in *here*. Of content, only field names are given: arguments are nobody's business."""
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
    names = sorted(
        {
            name
            for ours, theirs in zip(known.asked_for(), here.asked_for(), strict=True)
            for name in ours.keys() | theirs.keys()
            if ours.get(name) != theirs.get(name)
        }
    )
    if not here.asked_for()[0]:
        said.append("its job is gone" if here.run else "its template is gone")
    elif names:
        said.append(f"other {', '.join(names)}")
    elif known.note != here.note and known.place == here.place:
        said.append("another note")
    return "; ".join(said) or "something else"
