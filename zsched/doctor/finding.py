"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What is to be thought of it."""

    OK = "ok"
    WARNING = "warning"  # it works, and somebody should know
    PROBLEM = "problem"  # something is wrong now, or will be lost
    SKIPPED = "skipped"  # it could not be asked, or there is nothing to ask


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: what was found, and what to do about it; "" where there is nothing to do."""

    verdict: Verdict
    said: str
    remedy: str = ""


def fine(said: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, said)


def warning(said: str, remedy: str) -> Finding:
    """Somebody should know."""
    return Finding(Verdict.WARNING, said, remedy)


def problem(said: str, remedy: str) -> Finding:
    """Something is wrong."""
    return Finding(Verdict.PROBLEM, said, remedy)


def skipped(said: str, remedy: str = "") -> Finding:
    """It was not looked at."""
    return Finding(Verdict.SKIPPED, said, remedy)
