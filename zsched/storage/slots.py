"""Slots of RQ's rate limits: the typed call of free_slots.lua; and who waits for them and who has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zsched.core.entry import text
from zsched.core.model import iso
from zsched.core.pages import pages_of
from zsched.core.runs.job import whole
from zsched.core.runs.run import Run, of_job
from zsched.core.runs.run_id import run_key
from zsched.core.wording import in_a_line
from zsched.storage.connection import Command, Wire
from zsched.storage.jobs import Jobs, allowed_replies, members
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts

_MOST: Final = 100  # jobs of a limit per script
_LIMITS: Final = 200  # read at most
_HEAD: Final = 10  # jobs that wait longest, searched for a run of the namespace
_HOLDERS: Final = 3  # jobs with a slot that are named


class SlotWait(NamedTuple):
    """
    A rate limit of RQ, ``gw (1)``, for whose slots runs of the namespace wait. ``waiting``: the number of jobs that
    wait, of any producer; ``since_ms``: the beginning of the longest wait. ``holders``: some jobs with a slot.
    """

    limit: str
    waiting: int
    since_ms: int
    holders: tuple[Run, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        holders = [{"id": one.id, "status": one.status.value, "worker": one.worker or None} for one in self.holders]
        return {"limit": self.limit, "waiting": self.waiting, "since": iso(self.since_ms), "holders": holders}


class SlotWaits(NamedTuple):
    """The rate limits of RQ for whose slots runs of the namespace wait, at *now_ms* of the server."""

    now_ms: int
    limits: Sequence[SlotWait] = ()


def slot_waits(wire: Wire, keys: Keys) -> SlotWaits:
    """Return the waits for slots. RQ 2 has none. Raises RedisRefused, RedisUnavailable."""
    rq, now_ms = keys.rq, server_now_ms(wire, keys)
    limits = members(wire, rq.limits(), _LIMITS)
    heads = allowed_replies(wire, (("ZRANGE", rq.limit_waiting(one), 0, _HEAD - 1, "WITHSCORES") for one in limits))
    waited = {one: head for one, head in zip(limits, heads, strict=True) if head and _is_ours(head[::2], keys)}
    commands: list[Command] = [
        *(("ZCARD", rq.limit_waiting(one)) for one in waited),
        *(("HGET", rq.limit(one), "concurrency") for one in waited),
        *(_oldest_slots(keys, one) for one in waited),
    ]
    counts, sizes, slots = pages_of(allowed_replies(wire, commands), len(waited)) if waited else ((), (), ())
    found = []
    for (limit, head), waiting, most, holders in zip(
        waited.items(), counts, sizes, _runs(wire, keys, slots), strict=True
    ):
        shown = f"{in_a_line(limit)} ({whole(text(most or b''))})"
        found.append(SlotWait(shown, waiting or 0, int(float(head[1]) * 1000), tuple(holders)))
    return SlotWaits(now_ms, found)


def slot_holders(wire: Wire, keys: Keys, limit: str) -> list[Run]:
    """Return some jobs with a slot of *limit*, those with the oldest slots. Raises as above."""
    return _runs(wire, keys, allowed_replies(wire, [_oldest_slots(keys, limit)]))[0]


def _oldest_slots(keys: Keys, limit: str) -> Command:
    return "ZRANGE", keys.rq.limit_allowed(limit), 0, _HOLDERS - 1


def _runs(wire: Wire, keys: Keys, slots: Iterable[Sequence[bytes] | None]) -> list[list[Run]]:
    """Return the runs of each of *slots*, replies with ids, all read together."""
    pages = [[text(id) for id in page or ()] for page in slots]
    ids = [id for page in pages for id in page]
    jobs = dict(zip(ids, Jobs(wire, keys, tracebacks=False).read(ids), strict=True))
    return [[of_job(id, job, None) for id in page if (job := jobs[id]) is not None] for page in pages]


def _is_ours(ids: Sequence[bytes], keys: Keys) -> bool:
    return any(run_key(text(id), keys.namespace) for id in ids)


class RateLimits:
    """The leader's calls about rate limits, over one wire. Raises RedisUnavailable, RedisRefused."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._scripts, self._limits_key = wire, Scripts(wire, keys), keys.rq.limits()

    def limits(self) -> list[bytes]:
        """Return the keys of all limits; none if another writer replaced their set."""
        if self._wire.execute("TYPE", self._limits_key) != b"set":
            return []
        return sorted(self._wire.execute("SMEMBERS", self._limits_key))

    def free(self, term: Term, limits: Mapping[bytes, int]) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """
        Free the slots that no job needs any more. *limits*: limit → number of its jobs that were checked before. Return
        the numbers of freed slots, and the limits with unchecked jobs in the form of *limits*.

        Raises:
            Stale, ServerChanged.
        """
        reply = self._scripts.call(
            "free_slots", most=_MOST, rows=[x for row in limits.items() for x in row], **term.fence
        )
        counts = dict(zip(limits, pages_of(reply, 2), strict=True))
        freed = {limit: count for limit, (count, _) in counts.items() if count}
        return freed, {limit: passed for limit, (_, passed) in counts.items() if passed >= 0}
