"""
Questions about the past: answered by a daemon's archive or, if none answers, by the folded log (``folded``).

Every answer names its source, the time since when that is complete, and its last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from zsched.core.clock import LAST_MS
from zsched.core.entry import Entry, Position, UnknownEntry, text
from zsched.core.log.kinds import changes
from zsched.core.occurrences.backfill import ran_at
from zsched.core.occurrences.changes import Change, SearchCursor, Wanted, kept
from zsched.core.occurrences.counts import CountedCell, WantedCounts
from zsched.core.runs.run import OPEN, Run, RunStatus, as_seen, of_job
from zsched.core.runs.run_id import RunId
from zsched.core.story.source import Source
from zsched.core.story.story import Chronicle
from zsched.core.story.verdict import Stalled
from zsched.core.wording import in_a_line
from zsched.errors import ArchiveError, RedisRefused
from zsched.storage.connection import Link, Wire
from zsched.storage.folded import FoldedLog
from zsched.storage.jobs import Jobs
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.questions import ask_archives
from zsched.storage.queues import registered_queues, suspended, unheard
from zsched.storage.workers import slot_holders

if TYPE_CHECKING:
    from zsched.storage.folded import Fold

T = TypeVar("T")
MOST_AT_ONCE: Final = 1000  # hits of a search in one answer
_PAGE: Final = 100  # log entries in one read or answer
_LOOKED_AT: Final = 50_000  # entries of the log in Redis, at most
_WAIT_MS: Final = 1000  # for new entries, between checks for a loss of the log
_NOT_UNDERSTOOD: Final = (KeyError, TypeError, ValueError, RecursionError)


_NEWEST: Final = str(SearchCursor(Position(0, 0, LAST_MS * 1000)))  # before the newest entry


class HistoryPage(NamedTuple):
    """
    A part of a search. ``after``: the cursor to continue from; None: there is no more. ``reached_us``: the time of the
    last entry that was read; None: the beginning was reached.
    """

    occurrences: list[Change]
    source: Source
    after: str | None
    reached_us: int | None


class HistoryReader:
    """Questions about one namespace's past over one link. Raises RedisUnavailable, RedisRefused."""

    _is_limited = False  # the limits of a caller are about the puts of a schedule

    def __init__(self, link: Link, keys: Keys, folded: FoldedLog | None = None) -> None:
        self._link, self._keys, self._folded = link, keys, folded or FoldedLog(link, keys)
        self._log, self._jobs = Log(link, keys), Jobs(link, keys)
        self._place = f"namespace {keys.namespace} of {link.where}"
        self._wait_ms = max(1, min(_WAIT_MS, int(link.timeout_s * 500)))  # 0 would wait for ever

    def chronicle(self, id: str, newest: int = 40) -> Chronicle:
        """Return the first change of schedule *id* and its *newest* ones."""
        answer, source = HistoryQuery(self, id).ask("schedule", id=id, newest=newest, is_limited=self._is_limited)
        return Chronicle(id, source, answer["changes"], answer["left_out"])

    def search(self, wanted: Wanted, after: str | None = None) -> Iterator[HistoryPage]:
        """
        Yield the *wanted* occurrences part by part, the newest first, until there are enough, or no more; *after* the
        cursor of an earlier search. Open runs are updated from RQ.

        Raises:
            ArchiveError: an archive stops to answer, or gives the same part again and again.
        """
        left, query, over = wanted.limit, HistoryQuery(self, wanted.id), list[Change]()
        if after is None and wanted.words is not None and wanted.statuses:
            still_open = replace(wanted, whats=frozenset(), statuses=OPEN, limit=MOST_AT_ONCE)
            answer, _ = query.ask("search", wanted=still_open, after=None)
            over = self._now(answer["occurrences"], wanted)  # in RQ; the archive may have their ends a moment later
        while True:
            answer, source = query.ask("search", wanted=replace(wanted, limit=min(left, MOST_AT_ONCE)), after=after)
            if answer["after"] is not None and answer["after"] == after:
                raise ArchiveError(f"archive {source.archive} makes no progress in its history: ask again")
            found = self._now(answer["occurrences"], wanted)
            known = {one.run_id for one in found}
            new, over = [one for one in over if one.run_id not in known][:left], []
            left -= len(new)
            after = answer["after"]
            if not left:
                after = _NEWEST
            elif len(found) > left or (len(found) == left and after is not None):
                after = found[left - 1].cursor
            found, left = found[:left], max(left - len(found), 0)
            yield HistoryPage([*new, *found], source, after, answer["reached_us"])
            if after is None or not left:
                return

    def _now(self, found: list[Change], wanted: Wanted) -> list[Change]:
        """Return *found* with its open runs as RQ has them, without those that are not *wanted* any more."""
        now = {run.id: run for run in self.updated([one.run for one in found if one.run is not None])}
        return kept([one if one.run is None else replace(one, run=now[one.run.id]) for one in found], wanted)

    def updated(self, runs: Sequence[Run]) -> list[Run]:
        """Return *runs*, updated from RQ: those without a known end, and those that did not succeed and came back."""
        unsure = list(dict.fromkeys(run.id for run in runs if run.status is not RunStatus.SUCCEEDED))
        jobs = dict(zip(unsure, self._jobs.read(unsure), strict=True)) if unsure else {}
        return [as_seen(run, jobs[run.id]) if run.id in jobs else run for run in runs]

    def in_rq(self, run_ids: Sequence[str]) -> list[Run]:
        """Return the runs of *run_ids* that were pushed and that RQ has, by RQ alone."""
        ours = [id for id in run_ids if RunId.ours(id, self._keys.namespace) is not None]
        jobs = zip(ours, self._jobs.read(ours), strict=True)
        return [of_job(id, job, None) for id, job in jobs if job is not None and job.queued_at]

    def stalled(self, runs: Iterable[Run]) -> dict[str, Stalled]:
        """Return the stalled queues in which some of *runs* wait; none if this user may not check."""
        if not (queues := {run.queue for run in runs if run.status is RunStatus.QUEUED and run.queue}):
            return {}
        if self._in_rq(lambda wire: suspended(wire, self._keys.rq), False):
            return dict.fromkeys(queues, Stalled.SUSPENDED)
        found = self._in_rq(lambda wire: unheard(wire, self._keys, queues), frozenset[str]())
        return dict.fromkeys(found, Stalled.UNHEARD)

    def heard_queues(self) -> set[str] | None:
        """Return the queues with registered workers; None if this user may not read them."""
        return self._in_rq(lambda wire: registered_queues(wire, self._keys.rq), None)

    def slot_holders(self, run: Run) -> list[Run]:
        """Return some jobs with a slot of the rate limit that *run* waits for; none if this user may not read them."""
        limit = self._in_rq(lambda wire: wire.execute("HGET", self._keys.rq.job(run.id), "rate_limit_key"), None)
        return self._in_rq(lambda wire: slot_holders(wire, self._keys, text(limit)), []) if limit else []

    def host_of(self, worker: str) -> str | None:
        """Return the host of *worker*; None if RQ has forgotten it, or if this user may not read it."""
        host = self._in_rq(lambda wire: wire.execute("HGET", self._keys.rq.worker(worker), "hostname"), None)
        return in_a_line(text(host)) if host else None

    def _in_rq(self, read: Callable[[Wire], T], otherwise: T) -> T:
        """Return what *read* reads of RQ's queues and workers; *otherwise* if this user may not."""
        with suppress(RedisRefused), self._link.wire() as wire:
            return read(wire)
        return otherwise

    def entries(self, since_us: int | None, limit: int) -> tuple[Iterator[Entry], Source]:
        """
        Return entries of the log, in order (with t >= *since_us*, or the newest *limit*), and their source. The source
        is an archive, which has also entries that Redis lost, unless Redis' own log goes back further.
        """
        answer, source = self._ask_archive(
            "entries", since_us=since_us, behind=None, limit=limit if since_us is None else _PAGE
        )
        if answer is None:
            return self._entries_of_log(since_us, limit), self._of_log(source)
        redis = self._of_log(Source(None, None, None, place=self._place))
        if source.complete_since_ms is not None and (redis.complete_since_ms or LAST_MS) < source.complete_since_ms:
            return self._entries_of_log(since_us, limit), redis
        return islice(self._entries_of_archive(answer), None if since_us is not None else limit), source

    def follow(self, after: Position | None, gather_s: float = 0.0) -> Iterator[Entry]:
        """
        Yield new entries after *after*, without end; None: from the log's beginning. If Redis loses entries that were
        yielded already, continue with later ones. *gather_s*: wait so long for more after the first new entry.
        """
        is_full = False
        while True:
            if self._log.wait(after.id if after else "0-0", self._wait_ms) and gather_s and not is_full:
                self._link.pause(gather_s)
            page = self._log.read(after.id if after else "-", _PAGE)
            found, is_full = iter(page), len(page) == _PAGE
            if after is not None and ((first := next(found, None)) is None or first.position != after):
                found = self._later_than(after.t_us)  # Redis lost or trimmed it; its id may be of another history now
            for entry in found:
                after = entry.position
                yield entry

    def counts(self, wanted: WantedCounts) -> tuple[dict[str, Any], Source]:
        """Return counts of the past as ``archive.counts.counts_of`` does, and their source."""
        return HistoryQuery(self, None).ask("counts", wanted=wanted)

    def log_search(self, **wanted: Any) -> tuple[list[Entry], int | None, Source]:
        """Return entries as ``archive.lookups.log_search`` does, the time that it reached, and their source."""
        answer, source = HistoryQuery(self, None).ask("log_search", **wanted)
        return answer["entries"], answer["reached_us"], source

    def effects(self, since_ms: int, until_ms: int) -> tuple[dict[str, Any], Source]:
        """Return the net effects of what people and programs did in [since_ms, until_ms), and their source."""
        return HistoryQuery(self, None).ask("effects", since_us=since_ms * 1000, until_us=until_ms * 1000)

    def ran(self, id: str, start_ms: int, end_ms: int) -> tuple[set[int], Source]:
        """
        Return the occurrences of schedule *id* in [start_ms, end_ms) that ran, as nominal times; see
        ``core.occurrences.backfill``.

        An archive answers part by part. Parts may come from different archives, each with its own cursor. Entries in
        Redis after the archive's last one are read here, because the archive may be late.

        Raises:
            ArchiveError: an archive gives the same part again and again.
        """
        ran, read_to, query = set[int](), dict[str, int](), HistoryQuery(self, id)
        while True:
            answer, source = query.ask("ran", id=id, start_ms=start_ms, end_ms=end_ms, read_to=read_to)
            ran.update(answer["ran"])
            if answer["read_to"] is None:
                break
            if answer["read_to"] <= read_to.get(answer["by"], -1):
                raise ArchiveError(f"archive {source.archive} makes no progress in its history: ask again")
            read_to[answer["by"]] = answer["read_to"]
        later = self._log.entries(f"({source.as_of}", _PAGE) if source.as_of else iter(())
        for entry in islice(later, _LOOKED_AT):
            with suppress(UnknownEntry):
                instants = [ran_at(change) for change in changes(entry, self._keys.run_suffix) if change.id == id]
                ran.update(ms for ms in instants if ms is not None)
        return {ms for ms in ran if start_ms <= ms < end_ms}, source

    def held(self, run_ids: Sequence[str]) -> dict[str, bool]:
        """Return the runs of *run_ids* that RQ has, with True if the run is over."""
        jobs = zip(run_ids, self._jobs.read(run_ids), strict=True)
        return {id: as_seen(Run(id, RunStatus.QUEUED), job).is_over for id, job in jobs if job is not None}

    def last(self) -> Position | None:
        """The position of the log's newest entry."""
        last = self._log.last()
        return last.position if last else None

    # -- the log itself -----------------------------------------------------------------------------

    def _of_log(self, source: Source) -> Source:
        first = self._log.first()
        return source.of_log(first and first.position, self.last())

    def _later_than(self, t_us: int) -> Iterator[Entry]:
        later = self._log.search(lambda position: position.t_us > t_us)
        return self._log.entries(later.id, _PAGE) if later else iter(())

    def _entries_of_log(self, since_us: int | None, limit: int) -> Iterator[Entry]:
        if since_us is None:
            return reversed(list(self._log.back(min(limit, _LOOKED_AT))))
        return self._later_than(since_us - 1)

    def _entries_of_archive(self, answer: dict[str, Any]) -> Iterator[Entry]:
        """
        Yield the entries from *answer* on, page by page; pages may come from different archives.
        """
        while answer["entries"]:
            last = answer["entries"][-1]
            yield from answer["entries"]
            further, source = self._ask_archive("entries", since_us=None, behind=last.position, limit=_PAGE)
            if further is None:
                problem = f"{source.problem}; what follows log entry {last.position.id} is missing here"
                raise ArchiveError(f"{problem}: ask again, or for what is since then")
            answer = further

    # -- query ---------------------------------------------------------------------------------------

    def _ask_archive(self, about: str, **arguments: Any) -> tuple[dict[str, Any] | None, Source]:
        """Return a daemon's answer and its source; or None, and the problem."""
        answer = ask_archives(self._link, self._keys, about, **arguments)
        if "error" in answer:
            problem = str(answer["error"])
        else:
            try:
                return understood(answer), source_of(answer, self._place)
            except _NOT_UNDERSTOOD as error:
                problem = f"this version does not understand the archive's answer ({error!r})"
        return None, Source(None, None, None, problem, place=self._place)


class HistoryQuery:
    """
    A question, or the parts of a search, about all schedules or *id*: if no archive answers the first one, the folded
    log answers all.
    """

    def __init__(self, history: HistoryReader, id: str | None) -> None:
        self._history, self._id, self._was_answered = history, id, False
        self._fold: Fold | None = None
        self._source: Source  # of the last answer

    def ask(self, about: str, **arguments: Any) -> tuple[dict[str, Any], Source]:
        """Return the answer, and its source. Raises ArchiveError: an archive answered, and now none does."""
        if self._fold is None:
            answer, self._source = self._history._ask_archive(about, **arguments)
            if answer is not None:
                self._was_answered = True
                return answer, self._source
            if self._was_answered:
                after = arguments.get("after")
                remedy = "ask again" if after is None else f"the search continues after cursor {after}"
                raise ArchiveError(f"{self._source.problem}; {remedy}")
            self._fold = self._history._folded.fold(self._id, is_searched=about == "search")
            self._source = self._source.of_log(self._fold.first, self._fold.last)
        from zsched.storage.answering import answer_from  # most clients fold nothing

        return self._history._link.compute(answer_from, self._fold.history(), about, arguments), self._source


def understood(answer: dict[str, Any]) -> dict[str, Any]:
    """Return *answer* with its changes and entries as values. Raises KeyError, TypeError, ValueError."""
    values = dict(answer)
    if "changes" in answer:
        values["changes"] = [Change.of_dict(change) for change in answer["changes"]]
        values["left_out"] = int(answer["left_out"])
    if "occurrences" in answer:
        values["occurrences"] = [Change.of_dict(one) for one in answer["occurrences"]]
        values["after"] = None if answer["after"] is None else str(SearchCursor.parse(answer["after"]))
    if "totals" in answer:
        values["totals"] = _cells(answer["totals"])
        values["rows"] = [(str(name), bool(is_once), _cells(cells)) for name, is_once, cells in answer["rows"]]
        values["more_rows"] = int(answer["more_rows"])
    if "ran" in answer:
        values["ran"] = set(map(int, answer["ran"]))
        values["by"], values["read_to"] = str(answer["by"]), answer["read_to"] and int(answer["read_to"])
    if "reached_us" in answer:
        values["reached_us"] = None if answer["reached_us"] is None else int(answer["reached_us"])
    if "entries" in answer:
        values["entries"] = [_entry(*entry) for entry in answer["entries"]]
    return values


def _entry(position: list[int], kind: str, body: list[str], by: str) -> Entry:
    texts = [text.encode("latin-1") for text in (by, *body)]
    return Entry(Position(*map(int, position)), str(kind), texts[1:], texts[0])


def _cells(given: Iterable[Any]) -> list[CountedCell]:
    return [(int(place), str(word), int(number)) for place, word, number in given]


def source_of(answer: dict[str, Any], place: str) -> Source:
    """Return the archive as the source."""
    source, since = answer["source"], answer["source"]["complete_since"]
    since_ms = None if since == "start" else int(since) // 1000
    as_of_us = source.get("as_of_us")  # a daemon of an older version does not tell it
    as_of_ms = None if as_of_us is None else int(as_of_us) // 1000
    return Source(str(source["archive"]), since_ms, source["as_of"], place=place, as_of_ms=as_of_ms)
