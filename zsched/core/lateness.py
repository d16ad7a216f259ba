"""
Reasons why an occurrence was late or was left out, by the past of its schedule and by who led.

===================  ==========================================================================================
no daemon led        a term began in the wait, and before it nothing in the wait is there that only a leader
                     writes (``is_leaders``); the history is known to be whole there
it was paused        the schedule was resumed after it was due
it was put late      the schedule was put after it was due, and not to fire at once
new zone rules       they moved it to a time that had passed
it was held up       none of these: a daemon led, or may have led, and it was not fired
===================  ==========================================================================================

Of several the one that ended last counts, as before that it could not fire anyway. Of occurrences that were left out,
for which being late is reason enough, only what made them late is told.

Not known: what held it up. A hold after a change of the server, a limit of its queue (``max_per_second``) and room in
a batch are in no log, and neither is when a term ended: of two terms in one wait it is told when the first was seen
last and when the second began. A leader that wrote nothing in the whole wait, as by a limit of one run in an hour or
since Redis refused its writes, is taken for absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from zsched.core.changes import Change, What
from zsched.core.log import Entry, is_leaders
from zsched.core.log.lives import TermEntry
from zsched.core.policy import Why
from zsched.core.sentences import local_text

LATE_MS: Final = 100.0  # what is later than this is explained

_PASSED: Final = (Why.MISSED.value, Why.LIMIT.value)
_PASSED_THEN: Final = "when its time had passed"
_HELD_UP: Final = "it was held up, by a hold, a limit of its queue or others that were due"


def waited_since_us(change: Change) -> int | None:
    """Return the due time of what *change* says was late or left out, in µs; None when there is nothing to explain."""
    if change.late_ms is not None and change.late_ms > LATE_MS:
        return (change.due_ms or 0) * 1000
    is_left_out = change.what is What.COALESCED or (change.what is What.SKIPPED and change.why in _PASSED)
    return change.first_ms * 1000 if is_left_out and change.first_ms is not None else None


class LeadersBack:
    """
    The leaders before what was late, from a log that is read from its end: by log entry, in ``terms`` when the last
    term before it began, in ``led`` when a leader before that wrote last (µs).
    """

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}
        self.led: dict[str, int] = {}
        self._before_term: list[str] = []
        self._before_leader: list[str] = []

    def see(self, entry: Entry, changes: Iterable[Change]) -> None:
        """The entry before those seen so far, with what it says of the schedule."""
        if is_leaders(entry):
            self.led |= dict.fromkeys(self._before_leader, entry.position.t_us)
            self._before_leader = []
        if TermEntry.of(entry):
            self.terms |= dict.fromkeys(self._before_term, entry.position.t_us)
            self._before_term, self._before_leader = [], self._before_term
        self._before_term += [change.entry for change in changes if waited_since_us(change) is not None]


class Lateness:
    """
    Tells of one schedule why its occurrences were late, from the changes before them. *terms* and *led* are as in
    ``LeadersBack``, what is older than a wait may be in them or not. The history is whole since *whole_since_us*.
    """

    def __init__(self, terms: Mapping[str, int], led: Mapping[str, int], whole_since_us: int, tz: str) -> None:
        self._terms, self._led, self._whole_since_us, self._tz = terms, led, whole_since_us, tz
        self._put_us = self._resumed_us = self._replanned_us = 0

    def note(self, change: Change) -> None:
        """Take in *change*: it may be why later ones were late."""
        if change.what is What.PUT:
            self._put_us = change.at_us
        elif change.what is What.RESUMED:
            self._resumed_us = change.at_us
        elif change.what is What.REPLANNED:
            self._replanned_us = change.at_us

    def reason(self, change: Change) -> str:
        """Say why the occurrence of *change* was late; empty when there is nothing to explain, or no more to say."""
        due_us = waited_since_us(change)
        if due_us is None:
            return ""
        are_several = change.late_ms is None
        since_us = max(due_us, self._put_us, self._resumed_us)
        if self._replanned_us > since_us:
            came = f"its zone's new rules came only {self._at(self._replanned_us)}, {_PASSED_THEN}"
            return "" if are_several else came
        term_us, led_us = self._terms.get(change.entry, 0), self._led.get(change.entry, 0)
        if term_us > since_us > led_us and since_us >= self._whole_since_us:
            since = "then" if since_us == due_us and not are_several else self._at(since_us)
            return f"no daemon led from {since} until {self._at(term_us)}"
        if self._resumed_us > max(due_us, self._put_us):
            return f"it was paused until {self._at(self._resumed_us)}"
        if are_several:
            return ""
        if self._put_us > due_us + LATE_MS * 1000:  # else it was put to fire at once
            return f"it was put only {self._at(self._put_us)}, {_PASSED_THEN}"
        if term_us <= since_us:
            return _HELD_UP
        led = f"between {self._at(led_us)} and" if led_us >= since_us else "before"
        return f"{_HELD_UP}, or for want of a leader {led} {self._at(term_us)}"

    def _at(self, us: int) -> str:
        return local_text(us // 1000, self._tz)
