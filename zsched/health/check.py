"""
A check: a named function that judges one fact, and its findings.

    @health_check("quarantined", Overview, "quarantine")
    def check_quarantined(overview: Overview) -> Iterator[Finding]:
        if overview.quarantined:
            yield warning("2 schedules in quarantine", "zsched ls --state quarantined lists them")
        else:
            yield fine("no schedule is in quarantine")

Nothing else is needed for a new check: ``zsched status``, ``zsched doctor`` and all other views of its fact show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType
from typing import Any, Generic, TypeVar

Fact = TypeVar("Fact")


class Severity(Enum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"  # advice: nothing is wrong
    WARNING = "warning"  # firing works, but an operator should know
    PROBLEM = "problem"  # something is wrong now, or would be lost
    SKIPPED = "skipped"  # not checked: no permission, or nothing to check


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One result of a check: the text, and the remedy ("" without one).

    ``command``: words of a command that ends the remedy; ``Shell`` writes them for the Redis that was checked.
    ``acts``: commands that the console offers as buttons and links instead of the remedy. ``ids``: schedules and runs
    that the text names. ``since_ms``: its beginning, where that is known.
    ``queues``: those in which nobody takes jobs. ``waits_in``: those in which its runs wait, so it follows from the
    former. ``name``, ``group`` and ``follows`` are the check's.
    """

    severity: Severity
    text: str
    remedy: str = ""
    command: tuple[object, ...] = ()
    acts: tuple[tuple[object, ...], ...] = ()
    ids: tuple[str, ...] = ()
    since_ms: int | None = None
    queues: frozenset[str] = frozenset()
    waits_in: frozenset[str] = frozenset()
    name: str = ""
    group: str = ""
    follows: tuple[str, ...] = ()

    def completed(self, written: Callable[[Sequence[object]], str]) -> Finding:
        """Return it with its command, *written* for a shell, at the end of the remedy."""
        if not self.command:
            return self
        remedy = ": ".join(filter(None, (self.remedy, written(self.command))))
        return replace(self, remedy=remedy, command=(), acts=(self.command, *self.acts))

    def about(self, *acts: tuple[object, ...], ids: Iterable[str] = (), since_ms: int | None = None) -> Finding:
        """Return it with what the console shows beside it."""
        return replace(self, acts=acts, ids=tuple(ids), since_ms=since_ms)


@dataclass(frozen=True, slots=True)
class HealthCheck(Generic[Fact]):
    """
    A check. ``name``: for programs; it never changes. ``group``: the doctor's heading, shared by several checks.
    ``needs``: the type of the fact that ``judge`` takes. ``follows``: the names of problems from which it follows, and
    would lead away: daemons that cannot write cannot report, lead or fire. ``alert``: the text of Prometheus' alert on
    the same, or "".
    """

    name: str
    group: str
    needs: type[Fact]
    judge: Callable[[Fact], Iterator[Finding]]
    follows: tuple[str, ...] = ()
    alert: str = ""

    def findings(self, fact: Fact) -> Iterator[Finding]:
        """Judge *fact*."""
        return map(self.named, self.judge(fact))

    def named(self, finding: Finding) -> Finding:
        """Return *finding* as one of this check."""
        return replace(finding, name=self.name, group=self.group, follows=self.follows)


def health_check(
    name: str, needs: type[Fact], group: str = "", *, follows: tuple[str, ...] = (), alert: str = ""
) -> Callable[[Callable[[Fact], Iterator[Finding]]], HealthCheck[Fact]]:
    """Make a check of a function; without *group*, its group is its name."""
    return lambda judge: HealthCheck(name, group or name, needs, judge, follows, alert)


def checks_of(modules: Iterable[ModuleType]) -> tuple[HealthCheck[Any], ...]:
    """Return the checks in *modules*, in their order."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, HealthCheck))


def fine(text: str) -> Finding:
    """Return a finding without a fault."""
    return Finding(Severity.OK, text)


def note(text: str, remedy: str, *command: object) -> Finding:
    """Return an advice."""
    return Finding(Severity.NOTE, text, remedy, command)


def warning(text: str, remedy: str, *command: object) -> Finding:
    """Return a warning."""
    return Finding(Severity.WARNING, text, remedy, command)


def problem(text: str, remedy: str, *command: object) -> Finding:
    """Return a problem."""
    return Finding(Severity.PROBLEM, text, remedy, command)


def skipped(text: str, remedy: str = "", *command: object) -> Finding:
    """Return the finding of a check that was not made."""
    return Finding(Severity.SKIPPED, text, remedy, command)
