"""
The verdict on facts: which of them are problems and warnings, the worst first.

A *problem* makes a namespace unhealthy: something does not fire or is not run, or a lost Redis could not be rebuilt. A
*warning* is for people to look at in daylight, and leaves the exit code alone; else one broken schedule would hide the
next outage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from zsched.health import checks_archives, checks_daemons, checks_queues, checks_recent
from zsched.health.check import Finding, HealthCheck, Severity, checks_of
from zsched.health.facts import DaemonHealth, Facts, RedisUnseen
from zsched.health.shell import Shell

# All that judge facts without asking Redis for more. Warnings stand in this order.
CHECKS: Final[tuple[HealthCheck[object], ...]] = checks_of(
    (checks_recent, checks_daemons, checks_queues, checks_archives)
)

# The names that a verdict's findings may have.
NAMES: Final = tuple(sorted(check.name for check in CHECKS if check.needs not in (DaemonHealth, RedisUnseen)))

# Problems that come before all others: they stop more than these.
WORST: Final = ("redis_unseen", "cannot_lead", "no_leader", "archive_lost", "late", "suspended", "unheard")


class HealthVerdict(NamedTuple):
    """The problems and the warnings, the worst first."""

    problems: list[Finding]
    warnings: list[Finding]

    @property
    def is_healthy(self) -> bool:
        """True without a problem."""
        return not self.problems


def judge_health(facts: Facts, shell: Shell) -> HealthVerdict:
    """Return the verdict on *facts*, with remedies as *shell* writes them."""
    found = [shell.completed(one) for one in _findings(facts.overview, facts.recent, facts.queues)]
    return HealthVerdict(_problems(found), [one for one in found if one.severity is Severity.WARNING])


def problems(*facts: object) -> list[Finding]:
    """Return the problems of *facts*, each of a type that checks need, the worst first."""
    return _problems(_findings(*facts))


def _problems(findings: Iterable[Finding]) -> list[Finding]:
    return sorted((one for one in findings if one.severity is Severity.PROBLEM), key=_rank)


def _rank(finding: Finding) -> int:
    return WORST.index(finding.name) if finding.name in WORST else len(WORST)


def _findings(*facts: object) -> Iterator[Finding]:
    by_type = {type(fact): fact for fact in facts}
    for check in CHECKS:
        if check.needs in by_type:
            yield from check.findings(by_type[check.needs])
