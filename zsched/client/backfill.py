"""
Backfilling: the occurrences that a schedule had in the past and did not run, pushed now.

::

    read the schedule ──► which occurrences were there ──► which of them ran ──► push, 100 at a time ──► what was done
          ▲                 (its rule: core.backfill)        (an archive, RQ)       │
          └───────────────────── from the first that is not pushed ──── CHANGED ────┘

What ran is known by an archive or, without one, by the log that Redis still holds; if that does not go back far enough
nothing is pushed, since it could run twice. Each push is one script, with an operation id, on condition that the
schedule is as it was read; a run whose job RQ has is not pushed again there either. So a call that broke off is simply
made again: what it pushed ran.

Not guaranteed: that two calls at once for one stretch push nothing twice, if RQ forgets a run between the one's push
and the other's (``result_ttl=0``, and a worker that is quicker than the other call). With ``again`` a second call is a
third run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from zsched.client.calls import named, new_id
from zsched.core.arguments import instant_ms
from zsched.core.backfill import MOST, Backfill, Filled, Stretch
from zsched.core.clock import from_ms
from zsched.core.model import Schedule, ScheduleState
from zsched.core.story import Source
from zsched.core.triggers import zone
from zsched.errors import ArchiveError, InvalidSchedule, RedisUnavailable
from zsched.storage.inquiry import Inquiry
from zsched.storage.reader import Found
from zsched.storage.refusals import refusal
from zsched.storage.store import BACKFILLED_AT_ONCE, Store

_REPLANS: Final = 5  # times that the schedule may change under the call before it gives up


class _Planned(NamedTuple):
    """An occurrence, and what is to become of it: a first run, one more, or none (both False)."""

    nominal_ms: int
    is_wanted: bool
    is_again: bool


class Filling:
    """One backfill of schedule *id*; *again*: what ran runs once more. *find* reads a schedule, or raises."""

    def __init__(
        self, store: Store, inquiry: Inquiry, find: Callable[[str], Found], id: str, is_again: bool
    ) -> None:
        self._store, self._inquiry, self._find = store, inquiry, find
        self._id, self._is_again = id, is_again
        self._ran: set[int] = set()

    def fill(
        self, start: datetime, end: datetime, is_dry_run: bool, on_progress: Callable[[int, int], None]
    ) -> Backfill:
        """Push what did not run in [start, end). Raises as ``Client.backfill``."""
        found = self._find(self._id)
        schedule = _recurring(found.schedule)
        start_ms, end_ms = _range(start, end, schedule.tz, found.now_ms)
        stretch = _bounded(schedule, start_ms, end_ms)
        with named(self._id, is_repeatable=True):
            self._ran, source = self._inquiry.ran(self._id, start_ms, end_ms)
            if not self._is_again:
                self._require(source, start_ms, schedule.tz)
            planned = self._plan(stretch)
        if is_dry_run:
            runs = [self._foreseen(one) for one in planned if one.is_wanted]
        else:
            with named(self._id, is_repeatable=not self._is_again):
                runs, planned, stretch = self._push(schedule, planned, stretch, end_ms, on_progress)
        ran, times = len(planned) - len(runs), (start_ms, end_ms)
        return Backfill(self._id, schedule.tz, *times, tuple(runs), ran, stretch.pending, source, is_dry_run)

    def _require(self, source: Source, start_ms: int, tz: str) -> None:
        """What ran must be known, or it could run twice. Raises ArchiveError."""
        since_ms = source.complete_since_ms
        if since_ms is None or since_ms <= start_ms:
            return
        why = source.problem or "its archive" if source.archive else f"{source.problem}, and Redis' log"
        raise ArchiveError(
            f"backfill of {self._id!r}: what ran before {_shown(since_ms, tz)} is not known ({why} goes back no"
            " further), and must not run twice; give a later start, run a daemon whose archive has it, or again=True"
        )

    def _plan(self, stretch: Stretch) -> list[_Planned]:
        times = list(stretch.times())
        run_ids = {ms: self._store.keys.run_id(self._id, ms) for ms in times if self._is_again or ms not in self._ran}
        held = self._inquiry.held(list(run_ids.values()))
        is_over = {ms: held[run_id] for ms, run_id in run_ids.items() if run_id in held}
        planned = []
        for ms in times:
            is_again = ms in self._ran or ms in is_over
            is_wanted = not is_again or (self._is_again and is_over.get(ms, True))
            planned.append(_Planned(ms, is_wanted, is_again and is_wanted))
        return planned

    def _push(
        self,
        schedule: Schedule,
        planned: list[_Planned],
        stretch: Stretch,
        end_ms: int,
        on_progress: Callable[[int, int], None],
    ) -> tuple[list[Filled], list[_Planned], Stretch]:
        """Push what is wanted; all that was pushed, and the plan and stretch that it came to."""
        runs: list[Filled] = []
        at, replans = 0, 0
        while at < len(planned):
            chunk = planned[at : at + BACKFILLED_AT_ONCE]
            wanted = [one for one in chunk if one.is_wanted]
            word = "backfilled"
            if wanted:
                rows = [(one.nominal_ms, one.is_again) for one in wanted]
                word, run_ids = self._store.backfill(self._id, schedule.version or "", rows, new_id())
                pushed = zip(wanted, run_ids, strict=word == "backfilled")
                runs += [Filled(one.nominal_ms, run_id) for one, run_id in pushed if run_id is not None]
            if word == "CHANGED":
                replans += 1
                if replans > _REPLANS:
                    raise RedisUnavailable("it was changed by others at every attempt", may_have_been_applied=True)
                schedule = _recurring(self._find(self._id).schedule)
                stretch = _bounded(schedule, chunk[0].nominal_ms, end_ms)
                planned = planned[:at] + self._plan(stretch)
                continue
            self._expect(word)
            at += len(chunk)
            on_progress(at, len(planned))
        return runs, planned, stretch

    def _foreseen(self, one: _Planned) -> Filled:
        """The id of an extra run is given when it is pushed."""
        run_id = None if one.is_again else self._store.keys.run_id(self._id, one.nominal_ms)
        return Filled(one.nominal_ms, run_id)

    def _expect(self, word: str) -> None:
        error = refusal(word, self._id, namespace=self._store.keys.namespace)
        if error is not None:
            raise error


def _recurring(schedule: Schedule) -> Schedule:
    """*schedule*, if it can be backfilled. Raises InvalidSchedule."""
    if schedule.state is ScheduleState.QUARANTINED:
        error = refusal("QUARANTINED", schedule.id)
        assert error is not None
        raise error
    if schedule.trigger is None:
        problem = "it is a one-shot, so has no past occurrences"
        raise InvalidSchedule("id", schedule.id, problem, "run it now, or retry its run")
    return schedule


def _range(start: datetime, end: datetime, tz: str, now_ms: int) -> tuple[int, int]:
    """*start* and *end* in ms. Raises InvalidSchedule."""
    start_ms, end_ms = instant_ms("start", start, tz), instant_ms("end", end, tz)
    if end_ms <= start_ms:
        raise InvalidSchedule("end", end, f"not later than start={_shown(start_ms, tz)}", "swap them, or move one")
    if end_ms > now_ms:
        problem = f"it is {_shown(now_ms, tz)} on the Redis server, and what comes is scheduled already"
        raise InvalidSchedule("end", end, problem, "give a time up to now")
    return start_ms, end_ms


def _bounded(schedule: Schedule, start_ms: int, end_ms: int) -> Stretch:
    """The occurrences of *schedule* in [start_ms, end_ms). Raises InvalidSchedule when they are too many."""
    stretch = Stretch.of(schedule, start_ms, end_ms)
    if stretch.count > MOST:
        last = _shown(stretch.nth(MOST + 1), schedule.tz)
        problem = f"{stretch.count:,} occurrences lie between start and end, more than {MOST:,} in one call"
        remedy = f"give end={last}, which is the first {MOST:,}, and go on from there"
        raise InvalidSchedule("end", _shown(end_ms, schedule.tz), problem, remedy)
    return stretch


def _shown(ms: int, tz: str) -> str:
    return from_ms(ms).astimezone(zone(tz)).isoformat()
