"""
Jobs that ended since the last scan. The cost grows only with these jobs, not with the waiting ones.

RQ's registries have a score for each ended job: the second in which RQ will forget it. That is its end plus a lifetime.
Few lifetimes are in use: 500 s for succeeded jobs, a year for failed ones, unless configured otherwise. So for each
lifetime, newly ended jobs appear at one place in the registry, and that place moves with the clock. Every scan reads
that place, beginning a little before the last scan (workers' clocks differ), and leaves out reported jobs. Unknown
lifetimes are learnt from a few random members.

Not found here: jobs with a lifetime beyond the 16 known ones; jobs that RQ keeps forever or not at all; jobs of a
worker with a clock that is wrong by more than the margin; cancelled or deleted jobs. The tracker's rounds find these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zsched.core.entry import text
from zsched.storage.registries import Registries

_USUAL: Final = {"finished": 500, "failed": 31_536_000}  # RQ's own lifetimes, in s
_SLOW_S: Final = 2  # a worker's clock behind the server's, at most
_FAST_S: Final = 60  # and ahead of it
_BEFORE_S: Final = 30  # the first scan's range: jobs that ended under another leader, or without one
_ALIKE_S: Final = 5  # lifetimes that differ by less are the same
_MOST: Final = 16  # lifetimes of one registry
_LEARN_EVERY: Final = 20  # scans, from the first on


class Endings:
    """Finds ended jobs, scan by scan."""

    def __init__(self) -> None:
        self._lifetimes: dict[str, dict[int, None]] = {}  # by registry, in the order in which they were learnt
        self._reported: dict[str, set[bytes]] = {}  # by registry, at the last scan
        self._last_s: int | None = None  # of the server, at the last scan
        self._scans = 0

    def scan(self, registries: Registries) -> list[str]:
        """
        Return the jobs that ended since the last scan; at the first scan, in the last half minute. RQ's own are
        included.
        """
        now_s, keys = registries.now_s(), registries.keys()
        for key, kind in keys.items():
            self._lifetimes.setdefault(key, {_USUAL[kind]: None})
        is_to_learn = self._scans % _LEARN_EVERY == 0
        self._scans += 1
        if is_to_learn:
            self._learn(registries, keys)
        earliest_s = now_s - _BEFORE_S
        since_s = min(max(self._last_s or earliest_s, earliest_s), now_s) - _SLOW_S
        spans = [(key, since_s + s, now_s + s + _FAST_S) for key in keys for s in sorted(self._lifetimes[key])]
        read: dict[str, set[bytes]] = {key: set() for key in keys}
        for (key, _, _), members in zip(spans, registries.members(spans), strict=True):
            read[key].update(members)
        ended = {id for key, members in read.items() for id in members - self._reported.get(key, set())}
        self._reported, self._last_s = read, now_s  # the next scan reads nothing older than these
        return [text(id) for id in ended]

    def _learn(self, registries: Registries, keys: Iterable[str]) -> None:
        for key, shown in registries.lifetimes(list(keys)).items():
            known = self._lifetimes[key]
            for lifetime_s in shown:
                if not any(one < lifetime_s + _SLOW_S and lifetime_s < one + _ALIKE_S for one in known):
                    known[lifetime_s] = None
                    if len(known) > _MOST:  # drop the lifetime that was learnt first, except RQ's own
                        del known[list(known)[1]]
