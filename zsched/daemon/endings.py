"""
Jobs that ended since the last look, at a cost that grows with them alone and not with what waits.

RQ files a job that ended under the second in which it will forget it: when it ended, plus a lifetime, of which few are
in use (500 s for what succeeded, a year for what failed, unless somebody says otherwise). So for each lifetime there
is a place in the registry where what ends now appears, and it moves with the clock. Every look reads what is there,
from a little before the last look (workers' clocks differ) and leaves out what it told already. Lifetimes that
nobody told of are learnt from a few members taken at random.

Not found here: what is kept for one of more than 16 lifetimes, what RQ keeps for ever or not at all, what a worker
filed whose clock is wrong by more than that little, and what was cancelled or deleted. The tracker finds it in its
rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zsched.core.log import text
from zsched.storage.registries import Registries

_USUAL: Final = {"finished": 500, "failed": 31_536_000}  # RQ's own lifetimes, in s
_SLOW_S: Final = 2  # a worker's clock behind the server's, at most
_FAST_S: Final = 60  # and ahead of it
_BEFORE_S: Final = 30  # at most so far back: what ended while another led, or nobody
_ALIKE_S: Final = 5  # lifetimes that differ by less are one
_MOST: Final = 16  # lifetimes of one registry
_LEARN_EVERY: Final = 20  # looks, from the first on


class Endings:
    """Ended jobs, look by look."""

    def __init__(self) -> None:
        self._lifetimes: dict[str, dict[int, None]] = {}  # by registry, in the order in which they were learnt
        self._told: dict[str, set[bytes]] = {}  # by registry, at the last look
        self._last_s: int | None = None  # of the server, at the last look
        self._looks = 0

    def look(self, registries: Registries) -> list[str]:
        """Jobs that ended since the last look, at the first in the half minute before; RQ's own are among them."""
        now_s, keys = registries.now_s(), registries.keys()
        is_to_learn = self._looks % _LEARN_EVERY == 0
        self._looks += 1
        if is_to_learn:
            self._learn(registries, keys)
        earliest_s = now_s - _BEFORE_S
        since_s = min(max(self._last_s or earliest_s, earliest_s), now_s) - _SLOW_S
        spans = [(key, since_s + s, now_s + s + _FAST_S) for key in keys for s in sorted(self._lifetimes_of(key))]
        read: dict[str, set[bytes]] = {key: set() for key in keys}
        for (key, _, _), members in zip(spans, registries.members(spans), strict=True):
            read[key].update(members)
        ended = {id for key, members in read.items() for id in members - self._told.get(key, set())}
        self._told, self._last_s = read, now_s  # the next look reads nothing that is older than these
        return [text(id) for id in ended]

    def _lifetimes_of(self, key: str) -> dict[int, None]:
        return self._lifetimes.setdefault(key, {_USUAL[key.split(":")[1]]: None})

    def _learn(self, registries: Registries, keys: Iterable[str]) -> None:
        for key, shown in registries.lifetimes(list(keys)).items():
            known = self._lifetimes_of(key)
            for lifetime_s in shown:
                if not any(one < lifetime_s + _SLOW_S and lifetime_s < one + _ALIKE_S for one in known):
                    known[lifetime_s] = None
                    if len(known) > _MOST:  # the one learnt first, but for RQ's own
                        del known[list(known)[1]]
