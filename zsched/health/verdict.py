"""
The verdict on facts: their problems and warnings, the worst first.

A *problem* makes a namespace unhealthy: schedules do not fire, runs are not executed, or a lost Redis could not be
rebuilt. A *warning* can wait for working hours, and does not change the exit code: otherwise one broken schedule would
hide the next outage.

Remedies end with commands to copy into a shell. Each command reaches the Redis that was checked.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from zsched.health import checks_archives, checks_daemons, checks_recent, checks_server
from zsched.health.facts import DaemonHealth, Finding, Probe, RedisUnseen, Severity, checks_of
from zsched.storage.shell import Shell

# All checks of facts, which do not ask Redis for more. Warnings have this order.
_MODULES: Final = (checks_server, checks_recent, checks_daemons, checks_archives)
CHECKS: Final = tuple(check for check in checks_of(_MODULES) if check.needs is not Probe)

# The names that a verdict's findings may have.
NAMES: Final = tuple(sorted(check.name for check in CHECKS if check.needs not in (DaemonHealth, RedisUnseen)))

# Problems that come before all others, because they stop more.
WORST: Final = (
    *("redis_unseen", "writes", "memory", "cannot_lead", "no_leader", "archive_lost", "late", "suspended", "unheard"),
)


class HealthVerdict(NamedTuple):
    """The problems and the warnings, the worst first."""

    problems: list[Finding]
    warnings: list[Finding]

    @property
    def is_healthy(self) -> bool:
        """True if there is no problem."""
        return not self.problems


def judge_health(*facts: object, shell: Shell | None = None) -> HealthVerdict:
    """Return the verdict on *facts*, each of a type that checks need; *shell* writes the commands of remedies."""
    by_type = {type(fact): fact for fact in facts}
    checks = [(check, by_type[check.needs]) for check in CHECKS if check.needs in by_type]
    found = causes_of(one for check, fact in checks for one in check.findings(fact))
    if shell is not None:
        found = [one.completed(shell.written) for one in found]
    problems = (one for one in found if one.severity is Severity.PROBLEM)
    worst_first = sorted(problems, key=lambda one: (*WORST, one.name).index(one.name))
    return HealthVerdict(worst_first, [one for one in found if one.severity is Severity.WARNING])


def causes_of(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* without those that only follow from another one."""
    found = list(findings)
    present = {one.name for one in found if one.severity is Severity.PROBLEM}
    stalled = frozenset[str]().union(*(one.queues for one in found))
    causes = (one for one in found if present.isdisjoint(one.follows))
    return [one for one in causes if not one.waits_in or not one.waits_in <= stalled]
