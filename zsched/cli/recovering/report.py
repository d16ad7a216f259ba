"""Findings and outcome of a recovery, for people and programs: counted and listed rows, and both histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from shlex import quote
from typing import Any, Final

from zsched.cli.output import Shown, Table, pairs
from zsched.cli.recovering.archives import OpenedArchive, entry_text
from zsched.core.entry import Position, text
from zsched.core.model import iso, json_of, seconds
from zsched.core.record import Place, Record
from zsched.core.recovery.difference import Verdict
from zsched.core.runs.run_id import nominal_ms_of
from zsched.core.story.sentences import local_text
from zsched.core.wording import plural, rough_duration

SHOWN: Final = 50  # differences of a kind that are listed
_RUNS_SHOWN: Final = 1000  # listed runs in doubt, which an operator has to check
_HEADER: Final = ("WHAT", "ID", "DUE", "FUNC", "RUN")


class Action(Enum):
    """
    The action for one difference, on a schedule or a run: its verb before and after it is done, the end of its count,
    and the place of its rows in a merge; the rows of all other places are restored.
    """

    PUT_BACK = "restore", "restored", "", ""
    PUSH_AGAIN = "push again", "pushed again", " that may have been executed, marked uncertain", "open"
    SKIP = "skip", "skipped", " that may have been executed, as its schedule demands", "skipped"
    TAKE_OUT = "remove", "removed", ", over by what the archive knows", "gone"
    LEAVE_TO_RQ = "leave to RQ", "left to RQ", " that may have been executed, and whose job RQ has", "held"
    WITHDRAW = "withdraw", "withdrew", " from queues, over by what the archive knows", "over"
    MARK = "mark", "marked", " that were over, and run again, or will", "again"
    LEAVE = "leave", "could not push again", ": something else has the key of its queue", "refused"

    def __init__(self, verb: str, done: str, about: str, place: str) -> None:
        self.verb, self.done, self.about, self.place = verb, done, about, place
        self.word = self.name.lower()  # in JSON
        self.is_of_runs = self.name not in ("PUT_BACK", "TAKE_OUT")  # these are of schedules


_BY_PLACE: Final = {what.place: what for what in Action}


def _listed(row: Record) -> Record:
    """Return *row* of a merge with its function as its only field, and with the due time of its run."""
    job, due_ms = row.job_fields(), nominal_ms_of(row.run) if row.due_ms is None else row.due_ms
    # zsched's field, or RQ's description if zsched's field is missing
    func = row.own_fields().get(b"func") or job.get(b"zs_func") or job.get(b"description") or b""
    return replace(row, due_ms=due_ms, job=(), own=(b"func", func), shape=None)


def _row_dict(what: Action, row: Record) -> dict[str, Any]:
    """Return a listed row for JSON."""
    state, func = row.place.value if what is Action.PUT_BACK else None, text(row.own[1]) or None
    return json_of(row, "what", "id", "due_at", "state", "func", "run_id", what=what.word, state=state, func=func)


def _cells(what: Action, row: Record, tz: str, *, is_done: bool) -> tuple[str, ...]:
    """Return the cells of a listed row for a table."""
    is_elsewhere = what is Action.PUT_BACK and row.place is not Place.DUE
    word = (what.done if is_done else what.verb) + (f" ({row.place})" if is_elsewhere else "")
    due = "-" if row.due_ms is None else local_text(row.due_ms, tz)
    return word, row.id, due, text(row.own[1]) or "-", row.run_id or ""


class Difference:
    """Differences, added row by row: all are counted, and only the listed rows are kept (*keeps_all*: all)."""

    def __init__(self, now_ms: int, *, keeps_all: bool) -> None:
        self._now_ms, self._keeps_all = now_ms, keeps_all
        self.counts: Counter[Action] = Counter()
        self.overdue = self.schedules = 0  # schedules that should have fired by now; number of different ids
        self._rows: dict[Action, list[Record]] = {what: [] for what in Action}
        self._last_id: str | None = None

    def add(self, rows: Iterable[Record]) -> None:
        """Add *rows*; rows with the same id must be adjacent."""
        for row in rows:
            what = _BY_PLACE.get(row.place, Action.PUT_BACK)
            self.counts[what] += 1
            self.overdue += row.place is Place.DUE and row.due_ms is not None and row.due_ms <= self._now_ms
            self.schedules += row.id != self._last_id
            self._last_id = row.id
            if self._keeps_all or len(self._rows[what]) < (_RUNS_SHOWN if what.is_of_runs else SHOWN):
                self._rows[what].append(_listed(row))

    def __bool__(self) -> bool:
        return bool(self.counts)

    def emptied(self) -> Difference:
        """Return an empty one with the same options."""
        return Difference(self._now_ms, keeps_all=self._keeps_all)

    def to_dict(self, left: int) -> dict[str, Any]:
        """Return counts and the kept rows; *left*: schedules without a difference."""
        counts = {what.word: self.counts[what] for what in Action if what is not Action.LEAVE}
        counts |= {"overdue": self.overdue, "left_as_is": left, "refused": self.counts[Action.LEAVE]}
        return {"counts": counts, "rows": [_row_dict(what, row) for what, row in self._kept(Action)]}

    def summary(self, left: int, *, is_done: bool) -> Iterator[str]:
        """Yield the counts, a line each."""
        for what in Action:
            if number := self.counts[what]:
                noun = plural(number, "run" if what.is_of_runs else "schedule")
                overdue = f", {self.overdue:,} of them overdue" if what is Action.PUT_BACK else ""
                yield f"{what.done if is_done else what.verb} {noun}{overdue}{what.about}"
        if not self:
            yield "nothing is missing in Redis"
        elif left:
            it = "it is" if left == 1 else "they are"
            yield f"{'left' if is_done else 'leave'} {plural(left, 'schedule')} as {it}"

    def table(self, whats: Collection[Action], tz: str, *, is_done: bool) -> Iterator[Shown]:
        """Yield the rows of *whats*, and the number of rows that are not listed."""
        if not any(self.counts[what] for what in whats):
            return
        yield ""
        yield Table(_HEADER, (_cells(what, row, tz, is_done=is_done) for what, row in self._kept(whats)))
        for what in whats:
            if more := self.counts[what] - len(self._rows[what]):
                yield f"… and {more:,} more to {what.verb}; --all lists them"

    def _kept(self, whats: Iterable[Action]) -> Iterator[tuple[Action, Record]]:
        """Yield the listed rows, each with its action."""
        return ((what, row) for what in whats for row in self._rows[what])


@dataclass(frozen=True, slots=True)
class HistoryFindings:
    """
    Result of comparing the histories. ``gen``: names of the data set in Redis. ``now_ms``: its time. ``objection``: why
    the archive belongs to another data set, or None.
    """

    known: OpenedArchive
    verdict: Verdict
    objection: str | None
    is_nothing_lost: bool  # the log continues from the archive, or an archive recorded that nothing is missing
    common: Position | None  # the last entry that both have
    is_known: bool  # there is a common entry, or an archive's entry in the log names an entry of this archive
    first: Position | None
    last: Position | None
    gen: str | None
    now_ms: int

    @property
    def behind(self) -> int:
        """Number of log entries after the last common one."""
        if self.last is None or self.first is None:
            return 0
        return self.last.seq - (self.common.seq if self.common else self.first.seq - 1)

    def refusal(self, *, is_named: bool, is_forced: bool) -> str | None:
        """Return why the recovery is refused, or None. *is_named*: the operator named this archive."""
        known, again = self.known, f"zsched archive recover --from {quote(str(self.known.path))}"
        mine = f"the archive {known.path} ends with log entry {entry_text(known.position)}"
        theirs = f"the log in Redis goes from {entry_text(self.first)} to {entry_text(self.last)}"
        if self.verdict is Verdict.UNRELATED and not is_named:
            return f"{self.objection}; {mine}, {theirs}; {again} restores it anyway"
        if self.verdict is Verdict.LEFT_BEHIND and not (is_named and is_forced):
            unknown = "what happened between is unknown, and would be repeated"
            return f"{mine}, {theirs}: {unknown}; {again} --force restores it anyway"
        return None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """One recovery, done or (not *is_done*) previewed. ``warnings``: reasons for a refusal, or remaining steps."""

    place: dict[str, str]
    found: HistoryFindings
    difference: Difference
    left: int
    is_done: bool
    merged: Position | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        found, known = self.found, self.found.known
        return {
            **self.place,
            "archive": {"path": str(known.path), "id": known.recall.archive, **_to_dict(known.position)},
            "verdict": None if found.is_nothing_lost else found.verdict.value,
            "common": found.common and _to_dict(found.common),
            "common_age_s": seconds(self._age_ms),
            "log": {"first": found.first and found.first.id, "last": found.last and found.last.id},
            "behind_common": found.behind,
            "done": self.is_done,
            "merged": self.merged and self.merged.id,
            "warnings": self.warnings,
            **self.difference.to_dict(self.left),
        }

    def lines(self, tz: str) -> Iterator[Shown]:
        """Yield the outcome as lines for people."""
        found = self.found
        if found.is_nothing_lost and not self.difference:
            yield f"Nothing to do: Redis lost nothing of what the archive knows ({found.known.text(tz)})."
            return
        if not self.is_done:
            yield from pairs(self._fields(tz))
            yield ""
        if found.is_nothing_lost:
            yield "Redis has the whole history; but keys of single schedules were deleted or changed."
        listed = [what for what in Action if what.is_of_runs or not self.is_done]
        yield from self.difference.summary(self.left, is_done=self.is_done)
        yield from self.difference.table(listed, tz, is_done=self.is_done)
        if self.is_done and self.merged is not None:
            yield f"All that the archive {found.known.path} knows is in Redis; log entry {self.merged.id} says so."
        yield from (f"Note: {warning}" for warning in self.warnings)

    def _fields(self, tz: str) -> Iterator[tuple[str, str]]:
        found = self.found
        common = "none: Redis has nothing of what the archive has"
        if found.is_known:
            common = "no entry, but another archive restored a part of this one's data"
        if found.common is not None:
            age = rough_duration(self._age_ms or 0)
            common = f"log entry {entry_text(found.common, tz)}, {age} ago"
        last = "nothing" if found.last is None else f"entry {entry_text(found.last, tz)}"
        yield "archive", found.known.text(tz)
        yield "redis", f"{self.place['redis']}, namespace {self.place['namespace']}; its log ends with {last}"
        yield "both have", common
        yield "since then", f"{found.behind:,} {'entry' if found.behind == 1 else 'entries'} in the log"
        yield "history", _VERDICTS[found.verdict]

    @property
    def _age_ms(self) -> int | None:
        common = self.found.common
        return None if common is None else max(self.found.now_ms - common.t_us // 1000, 0)


_VERDICTS: Final = {
    Verdict.LOST: "Redis lost what the archive has behind that",
    Verdict.LEFT_BEHIND: "the log was trimmed past the archive",
    Verdict.UNRELATED: "this Redis is another data set than the archive's",
}


def _to_dict(position: Position) -> dict[str, Any]:
    return {"entry": position.id, "at": iso(position.t_us // 1000)}
