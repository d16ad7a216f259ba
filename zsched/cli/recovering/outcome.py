"""What a comparison of an archive with Redis showed, and what was made of it: for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from zsched.cli.recovering.archives import OpenedArchive, entry_text
from zsched.cli.recovering.difference import RUNS, Action, Difference
from zsched.cli.tables import pairs
from zsched.core.clock import LAST_MS
from zsched.core.log import Position
from zsched.core.model import iso
from zsched.core.recovery import Verdict
from zsched.core.sentences import rough_duration


@dataclass(frozen=True, slots=True)
class Found:
    """
    Result of comparing the histories. ``gen``: names of the data set in Redis. ``now_ms``: its time. ``objection``: why
    the archive belongs to another data set, or None.
    """

    known: OpenedArchive
    verdict: Verdict
    objection: str | None
    is_nothing_lost: bool  # the log goes on from the archive's last entry, or an archive said that it lacks nothing
    common: Position | None  # the last entry that both have
    is_known: bool  # it has one, or what archives said of theirs in the log names one of its own
    first: Position | None
    last: Position | None
    gen: str | None
    now_ms: int

    @property
    def behind(self) -> int:
        """How many entries the log has behind the last one that both have."""
        if self.last is None or self.first is None:
            return 0
        return self.last.seq - (self.common.seq if self.common else self.first.seq - 1)

    def refusal(self, *, is_named: bool, is_forced: bool) -> str | None:
        """Why it must not be done; None when it may. *is_named*: people said that it is to be this archive."""
        known, again = self.known, f"zsched recover --from {self.known.path}"
        mine = f"the archive {known.path} ends with log entry {_entry(known.position)}"
        theirs = f"the log in Redis goes from {_entry(self.first)} to {_entry(self.last)}"
        if self.verdict is Verdict.UNRELATED and not is_named:
            return f"{self.objection}; {mine}, {theirs}; {again} puts it in all the same"
        if self.verdict is Verdict.LEFT_BEHIND and not (is_named and is_forced):
            unknown = "what happened between them is not known, and would be done again"
            return f"{mine}, {theirs}: {unknown}; {again} --force puts it in all the same"
        return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What would be done, or (*is_done*) was. ``warnings``: why it would be refused, or what is still to be done."""

    place: dict[str, str]
    found: Found
    difference: Difference
    left: int
    is_done: bool
    merged: Position | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can say it."""
        found, known = self.found, self.found.known
        return {
            **self.place,
            "archive": {"path": str(known.path), "id": known.recall.archive, **_to_dict(known.position)},
            "verdict": None if found.is_nothing_lost else found.verdict.value,
            "common": found.common and _to_dict(found.common),
            "common_age_ms": self._age_ms,
            "log": {"first": found.first and found.first.id, "last": found.last and found.last.id},
            "behind_common": found.behind,
            "done": self.is_done,
            "merged": self.merged and self.merged.id,
            "warnings": self.warnings,
            **self.difference.to_dict(self.left),
        }

    def lines(self, tz: str) -> Iterator[str]:
        """For people."""
        found = self.found
        if found.is_nothing_lost:
            yield f"Nothing to do: Redis lost nothing of what the archive knows ({found.known.text(tz)})."
            return
        if not self.is_done:
            yield from pairs(self._fields(tz))
            yield ""
        yield from self.difference.summary(self.left, is_done=self.is_done)
        yield from self.difference.table(RUNS if self.is_done else Action, tz, is_done=self.is_done)
        if self.is_done and self.merged is not None:
            yield f"All that the archive {found.known.path} knows is in Redis; log entry {self.merged.id} says so."
        for warning in self.warnings:
            yield f"Note: {warning}"

    def _fields(self, tz: str) -> Iterator[tuple[str, str]]:
        found = self.found
        common = "none: Redis has nothing of what the archive has"
        if found.is_known:
            common = "no entry, but another archive put back a part of what this one has"
        if found.common is not None:
            age = rough_duration(self._age_ms or 0)
            common = f"log entry {found.common.id} of {entry_text(found.common, tz)}, {age} ago"
        last = "nothing" if found.last is None else f"entry {found.last.id} of {entry_text(found.last, tz)}"
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


def _entry(position: Position | None) -> str:
    return "nothing" if position is None else f"{position.id} of {entry_text(position)}"


def _to_dict(position: Position) -> dict[str, Any]:
    return {"entry": position.id, "at": iso(min(position.t_us // 1000, LAST_MS))}
