"""What people and programs changed between two times: the net effect on each schedule, equal ones together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.outcomes import What

_SAME: Final = {What.RESUMED: What.PAUSED, What.SKIP_TAKEN_BACK: What.SKIP_ASKED}  # the last of them counts
_OF_RUNS: Final = (What.ENQUEUED, What.RETRIED, What.RUN_ENDED)  # each counts
_WORDS: Final = {
    What.SKIP_ASKED: "skips an occurrence",
    What.SKIP_TAKEN_BACK: "skips an occurrence no more",
    What.RUN_ENDED: "run",
}


class Effect(NamedTuple):
    """
    Net *words* for *number* schedules, *by* somebody ('': a daemon), between two times in µs; *ids*: the first ones.
    """

    words: str
    by: str
    number: int
    first_us: int
    last_us: int
    ids: tuple[str, ...] = ()

    @classmethod
    def of_list(cls, given: Any) -> Self:
        """Return it from JSON. Raises TypeError, ValueError."""
        words, by, number, first_us, last_us, ids = given
        return cls(str(words), str(by), int(number), int(first_us), int(last_us), tuple(map(str, ids)))

    def also(self, other: Effect, most: int) -> Effect:
        """Return it together with an equal one, with the ids of *most* schedules."""
        times = min(self.first_us, other.first_us), max(self.last_us, other.last_us)
        return Effect(self.words, self.by, self.number + other.number, *times, (self.ids + other.ids)[:most])


def net(changes: Iterable[Change]) -> list[Change]:
    """
    Return what is left of *changes* to one schedule, in order: of equal and opposite ones the last one; of runs their
    number as ``count``; and of all before a cancel only a put.
    """
    left = dict[tuple[What, object], Change]()
    for one in changes:
        if one.what is What.CANCELLED:
            left = {key: each for key, each in left.items() if each.what is What.PUT}
        kind = _SAME.get(one.what, one.what)
        key = kind, one.nominal_ms if kind is What.SKIP_ASKED else kind in _OF_RUNS and one.why
        before = left.pop(key, None)
        left[key] = replace(one, count=before.count + 1) if before and kind in _OF_RUNS else one
    return list(left.values())


def effect_text(one: Change) -> str:
    """Return a left change in a few words, with a note or reason: ``paused: the text is not approved``."""
    word = _WORDS.get(one.what, one.what.value.replace("_", " "))
    if one.what in _OF_RUNS and one.what is not What.RETRIED and one.why:
        word = one.why if one.what is What.ENQUEUED else f"{word} {one.why}"
    note = f": {one.why}" if one.what is What.PAUSED and one.why else ""
    return f"{word}{note}{f' ×{one.count:,}' if one.what in _OF_RUNS and one.count > 1 else ''}"
