"""
Backfilling: push the past occurrences of a schedule that did not run.

::

    read the schedule ──► find its past occurrences ──► find those that ran ──► push, 100 at a time ──► report
          ▲                 (its rule: core.occurrences.backfill)     (an archive, RQ)         │
          └───────────────────── from the first that is not pushed ──── CHANGED ───┘

An archive knows which occurrences ran, or the log in Redis if no archive answers. If neither goes back far enough,
nothing is pushed, because an occurrence could run twice. Each push is one script with an operation id. It is refused if
the schedule has changed since it was read, and it skips a run if RQ still has its job. So an interrupted call can
simply be repeated.

Not guaranteed: two simultaneous calls for the same period can push a run twice, if RQ forgets the run between the two
pushes (``result_ttl=0``, and a worker quicker than the other call). With ``again``, a second call makes a third run.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from zsched.client.calls import naming_lost_call
from zsched.core.model import Schedule
from zsched.core.occurrences.backfill import MOST, Backfill, Filled, past_of
from zsched.core.occurrences.future import Walk
from zsched.core.options.choices import ScheduleState
from zsched.core.pages import OnProgress, unnoticed
from zsched.core.story.source import Source
from zsched.core.triggers.zones import instant_ms, local_time, shown_zone
from zsched.errors import ArchiveError, InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.history_reader import HistoryReader
from zsched.storage.refusals import NO_VERSION, contended, demand, is_changed
from zsched.storage.store import BACKFILLED_AT_ONCE, Store

_REPLANS: Final = 5  # changes of the schedule in a row, before the call gives up
# The caller's clock may be that far ahead of the server's; future occurrences are never pushed.
_SKEW_MS: Final = 60_000


class _Occurrence(NamedTuple):
    """An occurrence of the past, and what becomes of it: a run ("once"), an extra run ("again"), or nothing ("")."""

    nominal_ms: int
    wanted: str


class Backfiller:
    """
    One backfill of schedule *id*, for one use. *is_again*: run also occurrences that ran. *find* reads a schedule, or
    raises.
    """

    def __init__(
        self, link: Link, store: Store, history: HistoryReader, find: Callable[[str], Schedule], id: str, is_again: bool
    ) -> None:
        self._link, self._store, self._history, self._find = link, store, history, find
        self._id, self._is_again = id, is_again
        self._ran: set[int] = set()

    def fill(self, start: datetime, end: datetime, is_dry_run: bool, on_progress: OnProgress | None) -> Backfill:
        """Push the occurrences in [start, end) that did not run. Raises as ``Client.backfill``."""
        self._schedule = self._recurring()
        tz = self._schedule.tz
        start_ms, end_ms = _range(start, end, tz, self._schedule.read_ms)
        self._past, self._pending = _bounded(self._schedule, start_ms, end_ms)
        with naming_lost_call(self._id, is_repeatable=not self._is_again):
            self._ran, source = self._history.ran(self._id, start_ms, end_ms)
            if not self._is_again:
                self._require(source, start_ms, tz)
            found = self._occurrences()
            runs = self._foreseen(found) if is_dry_run else list(self._push(found, end_ms, on_progress or unnoticed))
        ran, pending = len(found) - len(runs), self._pending
        return Backfill(self._id, tz, start_ms, end_ms, tuple(runs), ran, pending, source, is_dry_run)

    def _require(self, source: Source, start_ms: int, tz: str) -> None:
        """Check that *source* reaches back far enough; otherwise an occurrence could run twice. Raises ArchiveError."""
        since_ms = source.complete_since_ms
        if since_ms is None or since_ms <= start_ms or source.is_untrimmed:
            return
        who = "the archive" if source.archive else f"{source.problem}, and the log in Redis"
        raise ArchiveError(
            f"backfill of {self._id!r}: what ran before {_shown(since_ms, tz)} is not known ({who} goes back no"
            " further); give a later start, run a daemon whose archive has it, or run also what ran: the option again"
        )

    def _occurrences(self) -> list[_Occurrence]:
        """Decide on the past occurrences, by the recorded runs and RQ's jobs."""
        times: list[int] = self._link.compute(list, self._past.times())
        run_id = self._store.keys.run_id
        looked_at = {run_id(self._id, ms): ms for ms in times if self._is_again or ms not in self._ran}
        is_over = {looked_at[id]: is_over for id, is_over in self._history.held(list(looked_at)).items()}
        found = []
        for ms in times:
            wanted = "again" if self._is_again and is_over.get(ms, True) else ""  # an open run is left alone
            if ms not in self._ran and ms not in is_over:
                wanted = "once"
            found.append(_Occurrence(ms, wanted))
        return found

    def _foreseen(self, found: list[_Occurrence]) -> list[Filled]:
        """Return the runs that would be pushed. An extra run gets its id only when it is pushed."""
        run_id = self._store.keys.run_id
        return [Filled(ms, run_id(self._id, ms) if wanted == "once" else None) for ms, wanted in found if wanted]

    def _push(self, found: list[_Occurrence], end_ms: int, on_progress: OnProgress) -> Iterator[Filled]:
        """Push the wanted runs of *found*, and return them. Plan again if the schedule was changed meanwhile."""
        at = replans = 0
        on_progress(at, len(found))  # from here on runs may be pushed that were not yet reported
        while at < len(found):
            some = found[at : at + BACKFILLED_AT_ONCE]
            if wanted := [one for one in some if one.wanted]:
                word, run_ids = self._store.backfill(self._id, self._schedule.version or NO_VERSION, wanted)
                if is_changed(word):
                    if (replans := replans + 1) > _REPLANS:
                        raise contended(self._id, "the runs pushed so far stay; repeat the call to continue from there")
                    self._schedule = self._recurring()
                    self._past, self._pending = _bounded(self._schedule, found[at].nominal_ms, end_ms)
                    found[at:] = self._occurrences()
                    continue
                demand(word, self._id, self._store.keys)
                pushed = zip(wanted, run_ids, strict=True)
                yield from (Filled(one.nominal_ms, run_id) for one, run_id in pushed if run_id is not None)
            at, replans = at + len(some), 0
            on_progress(at, len(found))

    def _recurring(self) -> Schedule:
        """Return the present schedule, if it can be backfilled. Raises ScheduleNotFound, InvalidSchedule."""
        schedule = self._find(self._id)
        if schedule.state is ScheduleState.QUARANTINED:
            demand("QUARANTINED", self._id, self._store.keys)
        if schedule.kind == "once":
            problem = "it is a one-shot and has no past occurrences"
            raise InvalidSchedule("id", schedule.id, problem, "run it now, or retry its run")
        if schedule.trigger is None or schedule.anchor_ms is None:
            problem = "its rule or anchor cannot be read: another writer changed it"
            raise InvalidSchedule("id", schedule.id, problem, "schedule it again")
        return schedule


def _range(start: datetime, end: datetime, tz: str, now_ms: int) -> tuple[int, int]:
    """Return *start* and *end* in ms. Raises InvalidSchedule."""
    start_ms, end_ms = instant_ms("start", start, tz), instant_ms("end", end, tz)
    if end_ms <= start_ms:
        problem = f"not later than the beginning, {_shown(start_ms, tz)}"
        raise InvalidSchedule("end", end, problem, "swap them, or move one")
    if end_ms > now_ms + _SKEW_MS:
        problem = f"it is {_shown(now_ms, tz)} on the Redis server, and later occurrences are scheduled already"
        raise InvalidSchedule("end", end, problem, "give a time up to now")
    return start_ms, end_ms


def _bounded(schedule: Schedule, start_ms: int, end_ms: int) -> tuple[Walk, int]:
    """Return ``past_of``. Raises InvalidSchedule when there are too many."""
    past, pending = past_of(schedule, start_ms, end_ms)
    if past.size > MOST:
        last = _shown(past.nth(MOST + 1), schedule.tz)
        problem = f"{past.size:,} occurrences lie between these times, more than {MOST:,} in one call"
        remedy = f"end at {last}, which is the first {MOST:,}, and continue from there"
        raise InvalidSchedule("end", _shown(end_ms, schedule.tz), problem, remedy)
    return past, pending


def _shown(ms: int, tz: str) -> str:
    return local_time(ms, shown_zone(tz)).isoformat()
