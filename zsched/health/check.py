"""
A check: a named function that judges one fact, and what it found.

    @health_check("quarantined", Overview, "quarantine")
    def check_quarantined(overview: Overview) -> Iterator[Finding]:
        if overview.quarantined:
            yield warning("2 schedules in quarantine", "zsched ls --state quarantined lists them")
        else:
            yield fine("no schedule is in quarantine")

A new check needs no more: ``zsched status``, ``zsched doctor`` and the other views that have its fact show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType
from typing import Any, Generic, TypeVar

Fact = TypeVar("Fact")


class Severity(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # it works, and somebody should know
    PROBLEM = "problem"  # something is wrong now, or will be lost
    SKIPPED = "skipped"  # it could not be asked, or there is nothing to ask


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One result: what was found, and what to do about it; "" where there is nothing to do. A ``command`` completes the
    remedy: its words, which ``Shell`` writes for the Redis that was looked at. ``name`` and ``group`` are the check's.
    """

    severity: Severity
    text: str
    remedy: str = ""
    command: tuple[object, ...] = ()
    name: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class HealthCheck(Generic[Fact]):
    """
    ``name``: for programs; a promise. ``group``: the doctor's heading, which several checks may share. ``needs``: the
    type of the fact that ``judge`` looks at. ``alert``: the words of Prometheus' alert on the same, "" without one.
    """

    name: str
    group: str
    needs: type[Fact]
    judge: Callable[[Fact], Iterator[Finding]]
    alert: str = ""

    def findings(self, fact: Fact) -> Iterator[Finding]:
        """Judge *fact*."""
        return map(self.named, self.judge(fact))

    def named(self, finding: Finding) -> Finding:
        """Return *finding* as one of this check."""
        return replace(finding, name=self.name, group=self.group)


def health_check(
    name: str, needs: type[Fact], group: str = "", *, alert: str = ""
) -> Callable[[Callable[[Fact], Iterator[Finding]]], HealthCheck[Fact]]:
    """Make a check of a function; its group is its name, if there is no other."""
    return lambda judge: HealthCheck(name, group or name, needs, judge, alert)


def checks_of(modules: Iterable[ModuleType]) -> tuple[HealthCheck[Any], ...]:
    """Return the checks that stand in *modules*, in their order."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, HealthCheck))


def fine(text: str) -> Finding:
    """All is well."""
    return Finding(Severity.OK, text)


def warning(text: str, remedy: str, *command: object) -> Finding:
    """Somebody should know."""
    return Finding(Severity.WARNING, text, remedy, command)


def problem(text: str, remedy: str, *command: object) -> Finding:
    """Something is wrong."""
    return Finding(Severity.PROBLEM, text, remedy, command)


def skipped(text: str, remedy: str = "", *command: object) -> Finding:
    """It was not looked at."""
    return Finding(Severity.SKIPPED, text, remedy, command)
