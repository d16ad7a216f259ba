"""
The verdict on facts: their problems and warnings, the worst first.

A *problem* makes a namespace unhealthy: schedules do not fire, runs are not executed, or a lost Redis could not be
rebuilt. A *warning* can wait for working hours, and does not change the exit code: otherwise one broken schedule would
hide the next outage.

Remedies end with commands to copy into a shell. Each command reaches the Redis that was checked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import redis

from zsched.health import checks_archives, checks_daemons, checks_recent, checks_schedules, checks_writes
from zsched.health.check import Finding, HealthCheck, Severity, checks_of
from zsched.health.facts import DaemonHealth, Facts, RedisUnseen
from zsched.storage.connection import Link
from zsched.storage.remedies import Endpoint
from zsched.storage.rqkeys import RQ_PREFIX, RQ_PREFIX_VARIABLE


@dataclass(frozen=True, slots=True)
class Shell:
    """Writes commands for the Redis of *link*, and for workers with this serializer and this prefix of keys."""

    link: Link
    serializer: str = "pickle"
    rq_prefix: str = RQ_PREFIX

    def completed(self, finding: Finding) -> Finding:
        """Return *finding* with its command at the end of the remedy."""
        if not finding.command:
            return finding
        remedy = ": ".join(filter(None, (finding.remedy, self.written(finding.command))))
        return replace(finding, remedy=remedy, command=())

    def written(self, command: Sequence[object]) -> str:
        """
        Return *command* for a shell.

        ``redis-cli`` gets host and port, but no user: the user of the settings seldom has the rights that a remedy
        needs. Behind Sentinels the host is MASTER, because it changes; in a Cluster it is OWNER. ``rq worker`` gets
        the namespace's serializer. It gets prefix and URL by the environment: RQ reads the prefix only there, and all
        users may read arguments. RQ reads Sentinels only from a module, so ``zsched worker`` is named then: it reads
        the settings.
        """
        words = list(map(str, command))
        if words[0] == "redis-cli":
            return self._server.cli(*words[1:])
        if words[:2] == ["rq", "worker"] and self.link.finds_master and not self.link.is_to_cluster:
            words[:2] = ["zsched", "worker"]
        elif words[:2] == ["rq", "worker"]:
            if self.serializer == "json":
                words[2:2] = ["--serializer", "json"]
            prefix = "" if self.rq_prefix == RQ_PREFIX else f"{RQ_PREFIX_VARIABLE}={shlex.quote(self.rq_prefix)} "
            if self.link.is_to_cluster:
                words[2:2] = ["--connection-class", "zsched.cluster.ClusterRedis"]
            is_named = self.link.is_to_cluster or not self._is_usual
            url = f"RQ_REDIS_URL={shlex.quote(self._url)} " if is_named else ""
            return prefix + url + shlex.join(words)
        return shlex.join(words)

    @property
    def _given(self) -> dict[str, Any]:
        return dict(self.link.pool.connection_kwargs)

    @property
    def _server(self) -> Endpoint:
        name = {"host": "OWNER" if self.link.is_to_cluster else "MASTER"} if self.link.finds_master else {}
        has_tls = issubclass(self.link.pool.connection_class, redis.SSLConnection)
        return Endpoint({**self._given, **name}, is_tls=has_tls)

    @property
    def _is_usual(self) -> bool:
        """True if this is the Redis that RQ uses by default."""
        return self._server.is_usual and not (self._given.get("password") or self._given.get("username"))

    @property
    def _url(self) -> str:
        """Return the URL, with placeholders USER and PASSWORD for a worker's own."""
        given = self._given
        who = "USER:PASSWORD@" if given.get("username") else ":PASSWORD@" if given.get("password") else ""
        return re.sub("://([^/?@]*@)?", f"://{who}", self.link.where, count=1)


# -- the verdict ------------------------------------------------------------------------------------


# All checks of facts, which do not ask Redis for more. Warnings have this order.
CHECKS: Final[tuple[HealthCheck[object], ...]] = checks_of(
    (checks_writes, checks_recent, checks_schedules, checks_daemons, checks_archives)
)

# The names that a verdict's findings may have.
NAMES: Final = tuple(sorted(check.name for check in CHECKS if check.needs not in (DaemonHealth, RedisUnseen)))

# Problems that come before all others, because they stop more.
WORST: Final = (
    *("redis_unseen", "writes", "memory", "cannot_lead", "no_leader", "archive_lost", "late", "suspended", "unheard"),
)
# What follows from a problem, and would lead away from it: daemons that cannot write cannot report, lead or fire.
FOLLOWS: Final = {
    "writes": frozenset(
        "no_leader no_standby no_replica no_archive archive_silent daemon_failing late held_back rate_limited "
        "schedules_waiting".split()
    ),
    "no_leader": frozenset({"held_back"}),
}


# Findings that name stalled queues. What follows from such queues is left out: what waits for runs there.
NAME_QUEUES: Final = frozenset({"unheard", "no_worker", "suspended"})
OF_QUEUES: Final = frozenset({"schedules_waiting", "rate_limited"})


class HealthVerdict(NamedTuple):
    """The problems and the warnings, the worst first."""

    problems: list[Finding]
    warnings: list[Finding]

    @property
    def is_healthy(self) -> bool:
        """True if there is no problem."""
        return not self.problems


def judge_health(facts: Facts, shell: Shell) -> HealthVerdict:
    """Return the verdict on *facts*, with the commands of remedies written by *shell*."""
    seen = facts.overview.server, facts.overview, facts.recent, facts.queues, facts.slots
    found = [shell.completed(one) for one in _findings(*seen)]
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
    yield from causes_of(
        one for check in CHECKS if check.needs in by_type for one in check.findings(by_type[check.needs])
    )


def causes_of(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* without those that only follow from another one."""
    found = list(findings)
    present = {one.name for one in found if one.severity is Severity.PROBLEM}
    left_out = frozenset[str]().union(*(FOLLOWS[name] for name in present & FOLLOWS.keys()))
    stalled = frozenset[str]().union(*(one.queues for one in found if one.name in NAME_QUEUES))
    causes = (one for one in found if one.name not in left_out)
    return [one for one in causes if one.name not in OF_QUEUES or not one.queues or not one.queues <= stalled]
