"""
The nominal times of recurring schedules, computed here independently: a rule of n ms gives anchor + n, anchor + 2n, …

In each history the times strictly increase and none is left out. Each occurrence continues where the previous one
pointed, and an occurrence that did not fire is in a coalesced, skipped or excluded range. Over all histories together
every occurrence has an outcome, since Redis repeats what it forgot. A put that creates the schedule once more, because
Redis forgot the first one, begins another life: what came between the two belongs to neither.

A rule with a calendar leaps over excluded occurrences, and a changed calendar moves its next one. A put tells by its
first time which ones it leaves out; whoever plans later records them. None fires in a minute that has been excluded for
``KNOWN_US``.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tools.campaign.checks import Audit, Findings
from tools.campaign.clients import CALENDAR
from tools.campaign.histories import SCAN
from zsched.core.entry import Entry, UnknownEntry
from zsched.core.log.fires import AdvanceEntry
from zsched.core.log.lives import NamedTextsEntry, ReplanEntry, ResumeEntry, SkipEntry
from zsched.core.log.puts import CancelEntry, PutRecurringEntry, ScanEntry, restored
from zsched.core.model import iso
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.occurrences.policy import Passed
from zsched.core.record import Record, skipped_in
from zsched.core.runs.run_id import nominal_ms_of
from zsched.core.triggers.calendar_definition import SORT
from zsched.core.triggers.spec import OnExcluded

KNOWN_US = 5_000_000  # after so long the leader plans by a changed calendar, also a new leader
_NOT_DECIDED = (Outcome.BY_HAND.word, Outcome.EXCLUDED.word)  # they may come although the next one is earlier
Key = tuple[str, int, int, int]  # id; when it was created, anchor and distance in ms
_WINDOW = re.compile(r"(\d\d):(\d\d)-\d\d:\d\d")


@dataclass
class Rhythm:
    """A rule as a history has it: its next time ``next_ms``, and its last occurrence. ``leaps``: it has a calendar."""

    id: str
    created_ms: int
    anchor_ms: int
    every_ms: int
    next_ms: int | None
    last_ms: int | None = None
    skipped: set[int] = field(default_factory=set)  # by hand
    leaps: bool = False

    @property
    def key(self) -> Key:
        """The key of the rule, which is equal in every history."""
        return self.id, self.created_ms, self.anchor_ms, self.every_ms

    def take(self, first_ms: int, last_ms: int, next_ms: int | None) -> Findings:
        """
        Note that the occurrences from *first_ms* to *last_ms* had an outcome and that *next_ms* follows. Yield
        violations.
        """
        if (first_ms - self.anchor_ms) % self.every_ms or (last_ms - self.anchor_ms) % self.every_ms:
            yield f"{first_ms} is no time of every {self.every_ms} ms from {self.anchor_ms}"
        if first_ms <= self.anchor_ms or (self.last_ms is not None and first_ms <= self.last_ms):
            yield f"{first_ms} comes after {self.last_ms}"
        if self.next_ms is not None and first_ms != self.next_ms:
            yield f"{first_ms} comes where {self.next_ms} was next"
        expected_ms = last_ms + self.every_ms
        while expected_ms in self.skipped:
            expected_ms += self.every_ms
        if next_ms is not None and (next_ms < expected_ms if self.leaps else next_ms != expected_ms):
            yield f"{next_ms} is said to be next after {last_ms}"
        self.last_ms, self.next_ms = last_ms, next_ms


def out_of_rhythm(audit: Audit) -> Findings:
    """Check that occurrences are the rule's own, in order, without a hole."""
    told: set[str] = set()
    covered: dict[Key, set[int]] = {}
    noted: dict[Key, set[int]] = {}  # excluded or skipped by hand, some of them ahead
    again: dict[str, set[int]] = {}  # nominal times of runs that a recovery put back: an archive knew their push
    for chain in audit.histories.chains:
        rhythms: dict[str, Rhythm] = {}
        for entry in chain:
            try:
                for finding in _follow(rhythms, entry, covered, noted, again):
                    shown = f"{finding} (entry {entry.position})"
                    if shown not in told:
                        told.add(shown)
                        yield shown
            except UnknownEntry:  # told by the check of the log
                continue
    for (id, created_ms, anchor_ms, every_ms), times in covered.items():
        times |= {time for time in again.get(id, ()) if min(times) < time < max(times)}
        known = times | noted.get((id, created_ms, anchor_ms, every_ms), set())
        missing = [time for time in range(min(times), max(times), every_ms) if time not in known]
        if missing:
            shown = f"{len(missing)} occurrences have no outcome in any log, the first at {iso(missing[0])}"
            yield f"{id}, every {every_ms} ms from {anchor_ms}: {shown}"


def _follow(
    rhythms: dict[str, Rhythm],
    entry: Entry,
    covered: dict[Key, set[int]],
    noted: dict[Key, set[int]],
    again: dict[str, set[int]],
) -> Findings:
    if entry.kind == "put_recurring":
        for _, put in PutRecurringEntry(entry).found:
            _begin(rhythms, put)
            if (rhythm := rhythms.get(put.id)) is not None and rhythm.leaps and rhythm.next_ms is not None:
                leapt = range(rhythm.next_ms - rhythm.every_ms, entry.position.t_us // 1000, -rhythm.every_ms)
                noted.setdefault(rhythm.key, set()).update(leapt)
    elif entry.kind == SCAN:
        for _, found in ScanEntry(entry).found:
            if not found.run:
                _begin(rhythms, found)
    elif entry.kind == "restore":
        for back in restored(entry):
            if back.is_schedule:
                rhythms.pop(back.id, None)
                _begin(rhythms, back)
            elif (nominal_ms := nominal_ms_of(back.run)) is not None:
                again.setdefault(back.id, set()).add(nominal_ms)
    elif entry.kind == "cancel":
        for id, _ in CancelEntry(entry).cancelled:
            rhythms.pop(id, None)
    elif entry.kind == "advance":
        for row in AdvanceEntry(entry).moves:
            rhythm = rhythms.get(row.id)
            if rhythm is not None and row.word != "quarantined":
                by_hand = [one.first_ms for one in row.passed if one.why == Outcome.BY_HAND.word]
                excluded = list(_excluded(row.passed, rhythm.every_ms))
                others = [one for one in row.passed if one.why not in _NOT_DECIDED]
                times = [at_ms for one in others for at_ms in (one.first_ms, one.last_ms)]
                times += [] if row.nominal_ms is None else [row.nominal_ms]
                if not times:  # it was its turn, and somebody skipped or excluded it
                    times = [rhythm.next_ms or max([*by_hand, *excluded])]
                if rhythm.next_ms in excluded:
                    rhythm.next_ms = min(times)
                yield from _told(rhythm, rhythm.take(min(times), max(times), row.next_nominal_ms))
                noted.setdefault(rhythm.key, set()).update(by_hand, excluded)
                covered.setdefault(rhythm.key, set()).update(range(min(times), max(times) + 1, rhythm.every_ms))
    elif entry.kind == "replan":
        for move in ReplanEntry(entry).moved:
            if (rhythm := rhythms.get(move.id)) is not None:
                rhythm.next_ms = move.new_nominal_ms
                noted.setdefault(rhythm.key, set()).update(_excluded(move.passed, rhythm.every_ms))
    elif entry.kind == "skip":
        for asked in SkipEntry(entry).rows():
            if (rhythm := rhythms.get(asked.id)) is not None:
                rhythm.skipped, rhythm.next_ms = set(skipped_in(asked.state)), asked.nominal_ms
                noted.setdefault(rhythm.key, set()).update(rhythm.skipped, _excluded(asked.passed, rhythm.every_ms))
    elif entry.kind == "resume":
        for skip in ResumeEntry(entry).resumed:
            rhythm = rhythms.get(skip.id)
            if rhythm is not None and skip.passed and skip.due_ms is not None:
                first_ms, last_ms = skip.passed[0].first_ms, skip.passed[0].last_ms
                yield from _told(rhythm, rhythm.take(first_ms, last_ms, skip.due_ms))
                noted.setdefault(rhythm.key, set()).update(_excluded(skip.passed, rhythm.every_ms))
                covered.setdefault(rhythm.key, set()).update(range(first_ms, last_ms + 1, rhythm.every_ms))


def _begin(rhythms: dict[str, Rhythm], record: Record) -> None:
    """Begin the rule of *record*; an unchanged rule continues."""
    id, own = record.id, record.own_fields()
    if b"trigger" not in own or b"anchor" not in own:
        return
    trigger, anchor_ms = json.loads(own[b"trigger"]), int(own[b"anchor"])
    if trigger["kind"] != "every" or trigger.get("on_excluded") == OnExcluded.NEXT_OPEN.value:
        return  # what moves to the end of a minute has no rhythm
    every_ms, before = int(trigger["expr"]), rhythms.get(id)
    is_same = before is not None and (before.anchor_ms, before.every_ms) == (anchor_ms, every_ms)
    last_ms = before.last_ms if before is not None and is_same else None
    rule = int(own.get(b"created_at", 0)), anchor_ms, every_ms
    rhythms[id] = Rhythm(id, *rule, record.nominal_ms, last_ms, set(skipped_in(record.state)))
    rhythms[id].leaps = "exclude" in trigger


def _excluded(passed: Iterable[Passed], every_ms: int) -> Iterator[int]:
    for one in passed:
        if one.why == Outcome.EXCLUDED.word:
            yield from range(one.first_ms, one.last_ms + 1, every_ms)


def fired_while_closed(audit: Audit) -> Findings:
    """Check that no rule with the calendar fires an occurrence of a minute that is known to be excluded."""
    told: set[str] = set()
    for chain in audit.histories.chains:
        closed, since_us, named = -1, 0, set[str]()
        for entry in chain:
            if entry.kind == "named_texts":
                [stored] = NamedTextsEntry(entry).rows()
                found = _WINDOW.search(stored.texts.get(SORT + CALENDAR, ""))
                closed, since_us = -1 if found is None else int(found[1]) * 60 + int(found[2]), entry.position.t_us
            elif entry.kind == "put_recurring":
                for _, put in PutRecurringEntry(entry).found:
                    (named.add if b"exclude" in put.own_fields().get(b"trigger", b"") else named.discard)(put.id)
            elif entry.kind == "advance" and entry.position.t_us > since_us + KNOWN_US:
                for row in AdvanceEntry(entry).moves:
                    if row.id in named and row.nominal_ms is not None and row.nominal_ms // 60_000 % 1440 == closed:
                        told.add(f"{row.id} fired {iso(row.nominal_ms)}, excluded since {iso(since_us // 1000)}")
    yield from told


def _told(rhythm: Rhythm, findings: Iterator[str]) -> Findings:
    for finding in findings:
        yield f"{rhythm.id}, every {rhythm.every_ms} ms: {finding}"
