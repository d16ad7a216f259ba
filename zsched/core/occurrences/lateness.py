"""
Reasons why an occurrence was late or was left out, from the history of its schedule and of the leaders.

===================  ==========================================================================================
no daemon led        a term began in the wait, and the wait has no entry before it that only a leader writes
                     (``is_leaders``); the history is complete there
it was paused        the schedule was resumed after it was due
it was put late      the schedule was put after it was due, and not to fire at once
new zone rules       they moved it to a time that had passed
firing was delayed   no other reason: a daemon led, or may have led, and it was not fired
===================  ==========================================================================================

Of several reasons the one that ended last counts: before its end the occurrence could not fire anyway. For occurrences
that were left out, only the reason of the lateness is shown.

Not known: what held it up. A hold after a change of the server, a limit of its queue (``max_per_second``) and the size
of a batch are not in the log. The end of a term is not in the log either: of two terms in one wait, the text has the
last entry of the first and the beginning of the second. A leader that wrote nothing in the whole wait, such as under a
limit of one run in an hour, or because Redis refused its writes, counts as absent.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import Outcome, What
from zsched.core.story.sentences import local_text

LATE_MS: Final = 100.0  # a longer delay is explained
_WAITING: Final = 20_000  # schedules that may fire since a time after their due one

_REASONS: Final = (What.PUT, What.RESUMED, What.REPLANNED)  # changes after which an occurrence may be late
_PASSED: Final = (Outcome.MISSED.reason, Outcome.LIMIT.reason)
_PASSED_THEN: Final = "when its time had passed"
_DELAYED: Final = "firing was on hold, its queue was rate-limited, or other runs were due first"


def waited_since_us(change: Change) -> int | None:
    """Return the due time, in µs, of the late or left out occurrence of *change*; None for other changes."""
    if change.late_ms is not None and change.late_ms > LATE_MS:
        return (change.due_ms or 0) * 1000
    is_left_out = change.what is What.COALESCED or (change.what is What.SKIPPED and change.why in _PASSED)
    return change.first_ms * 1000 if is_left_out and change.first_ms is not None else None


class Waits:
    """
    Lateness of fires, from a log that is read in order. It counts from the due time, or from the later entry that put,
    resumed or moved the schedule to that time: before, nobody could fire it.
    """

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}  # by schedule

    def lates_ms(self, at_us: int, made_due: Iterable[str], fired: Iterable[tuple[str, int]]) -> list[float]:
        """Return the lateness of each occurrence that an entry *fired*; arguments as in ``ParsedEntry``."""
        self._since_us |= dict.fromkeys(made_due, at_us)
        while len(self._since_us) > _WAITING:
            del self._since_us[next(iter(self._since_us))]
        since_us = self._since_us
        return [(at_us - max(due_ms * 1000, since_us.get(id, 0))) / 1000 for id, due_ms in fired]

    def __bool__(self) -> bool:
        """True if a fire may count from another time than the due one."""
        return bool(self._since_us)


class Lateness:
    """
    Explains why occurrences of one schedule were late, from the changes before them. The history is complete since
    *whole_since_us*.
    """

    def __init__(self, whole_since_us: int, tz: str) -> None:
        self._whole_since_us, self._tz = whole_since_us, tz
        self._last_us = dict.fromkeys(_REASONS, 0)

    def note(self, change: Change) -> None:
        """Add *change*: it may be the reason why later ones were late."""
        if change.what in _REASONS:
            self._last_us[change.what] = change.at_us

    def reason(self, change: Change) -> str:
        """Return the reason why the occurrence of *change* was late; empty if there is nothing to explain or to add."""
        waited_us = waited_since_us(change)
        if waited_us is None and not (change.what is What.FIRED and change.ready_us):
            return ""
        due_us = (change.due_ms or 0) * 1000 if waited_us is None else waited_us
        put_us, resumed_us, replanned_us = self._last_us.values()
        are_several = change.late_ms is None
        since_us = max(due_us, put_us, resumed_us)
        if replanned_us > since_us:
            came = f"its zone's new rules came only {self._at(replanned_us)}, {_PASSED_THEN}"
            return "" if are_several else came
        term_us, led_us = change.term_us, change.led_us
        if term_us > since_us > led_us and since_us >= self._whole_since_us:
            since = "then" if since_us == due_us and not are_several else self._at(since_us)
            return f"no daemon led from {since} until {self._at(term_us)}"
        if resumed_us > max(due_us, put_us):
            return f"it was paused until {self._at(resumed_us)}"
        if are_several:
            return ""
        if put_us > due_us + LATE_MS * 1000:  # otherwise it was put to fire at once
            return f"it was put only {self._at(put_us)}, {_PASSED_THEN}"
        if waited_us is None:
            return ""
        if term_us <= since_us:
            return _DELAYED
        led = f"between {self._at(led_us)} and" if led_us >= since_us else "before"
        return f"{_DELAYED}, or no daemon led {led} {self._at(term_us)}"

    def _at(self, us: int) -> str:
        return local_text(us // 1000, self._tz)


class Absences:
    """
    Times without a leader, from the histories of a few schedules: they explain the left out occurrences of others, too.
    Local times are in *tz*.
    """

    def __init__(self, tz: str) -> None:
        self._tz, self._known = tz, set[tuple[int, int, int]]()

    def add(self, changes: Iterable[Change], whole_since_us: int) -> None:
        """Add what one schedule's history knows; *whole_since_us* as in ``Lateness``."""
        self._known |= {(one.term_us, one.led_us, whole_since_us) for one in changes if one.term_us}

    def reason(self, change: Change) -> str:
        """Return ``no daemon led from … until …`` if that is why the occurrence of *change* did not run; else ''."""
        since_us = waited_since_us(change)
        for term_us, led_us, whole_since_us in sorted(self._known) if since_us is not None else ():
            if led_us < (since_us or 0) < term_us <= change.at_us:
                return Lateness(whole_since_us, self._tz).reason(replace(change, term_us=term_us, led_us=led_us))
        return ""
