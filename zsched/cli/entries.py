"""One line for an entry of the log: words for one schedule, counts and the first names for several."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, islice
from typing import Final

from zsched.core.changes import Change, What
from zsched.core.log import Entry, parse
from zsched.core.runs import RunStatus
from zsched.core.sentences import sentence, told_together
from zsched.core.wording import plural, some

_NAMED: Final = 3  # schedules or runs that a line names
# What an entry says of more than one; {} is their number with its noun.
_OF_SCHEDULES: Final = {
    What.PUT: "put {}",
    What.FOUND: "found {} in Redis",
    What.PAUSED: "paused {}",
    What.RESUMED: "resumed {}",
    What.REPLANNED: "planned {} anew, as the rules of their zones changed",
    What.CANCELLED: "cancelled {}",
    What.QUARANTINED: "quarantined {}",
    What.ENDED: "ended {}, as their rules give no more occurrences",
    What.RESTORED: "put back {} that Redis had lost",
    What.WITHDRAWN: "took out {} that are over",
}
_OF_OCCURRENCES: Final = {
    What.SKIPPED: "skipped {}",
    What.EXPIRED: "let {} expire",
    What.COALESCED: "left out {} in favour of later ones",
}
_OF_RUNS: Final = {
    What.FIRED: "fired {}",
    What.ENQUEUED: "enqueued {}",
    What.DUPLICATE: "did not push {} again that were there already",
    What.RUN_AGAIN: "pushed {} again whose workers died",
    What.RELEASED: "put {} into their queues that had waited for others",
    What.PUSHED_AGAIN: "pushed {} again that Redis had lost, marked uncertain",
    What.HELD: "found {} in RQ that Redis had lost, not pushed again",
    What.RUN_ENDED: "{} ended",
}
_ENDS: Final = {
    RunStatus.SUCCEEDED.value: "{} succeeded",
    RunStatus.FAILED.value: "{} failed",
    RunStatus.CANCELLED.value: "{} were cancelled",
    RunStatus.EXPIRED.value: "{} expired in their queues",
    RunStatus.LOST.value: "{} are lost",
}


def summary(entry: Entry, found: list[Change], tz: str) -> str:
    """Summarise *entry* by *found*, its changes; local times in *tz*."""
    if not found:
        return parse(entry).sentence()
    if len({change.id for change in found}) == 1:
        return _told(found, tz)
    by_what = sorted(found, key=lambda change: (list(What).index(change.what), _end_of(change)))
    kinds = groupby(by_what, lambda change: (change.what, _end_of(change)))
    return "; ".join(_counted(what, end, list(some), tz) for (what, end), some in kinds)


def _told(changes: list[Change], tz: str) -> str:
    """Say what happened to the one schedule of *changes*."""
    return f"{changes[0].id}: " + "; ".join(sentence(change, tz) for change in told_together(changes))


def _counted(what: What, end: str, changes: list[Change], tz: str) -> str:
    if len(changes) == 1:
        return _told(changes, tz)
    if what in _OF_OCCURRENCES:
        names, number = [one.id for one in changes], plural(sum(one.count for one in changes), "occurrence")
        text = _OF_OCCURRENCES[what]
    elif what in _OF_RUNS:
        names, number = [one.run_id or one.id for one in changes], plural(len(changes), "run")
        text = _ENDS.get(end, _OF_RUNS[what])
    else:
        names, number = [one.id for one in changes], plural(len(changes), "schedule")
        text = _OF_SCHEDULES[what]
    return f"{text.format(number)}: {some(list(dict.fromkeys(names)), _NAMED)}"


def _end_of(change: Change) -> str:
    """Return the status with which the run of *change* ended."""
    return change.why if change.what is What.RUN_ENDED else ""


def unknown_entry_text(entry: Entry) -> str:
    """Describe an entry that this version does not know, without its values, which may be arguments."""
    names = ", ".join(name.decode(errors="backslashreplace") for name, _ in islice(_pairs(entry), _NAMED))
    size = len(entry.body) // 2
    more = ", …" if size > _NAMED else ""
    return f"unknown kind or form, {plural(size, 'field')}: {names}{more}"


def _pairs(entry: Entry) -> Iterable[tuple[bytes, bytes]]:
    return zip(entry.body[::2], entry.body[1::2], strict=False)
