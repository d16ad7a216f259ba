"""
All checks, one after the other: ``zsched doctor``.

Nothing is written, in Redis or elsewhere. No daemon is needed, and no right except reading. A check without the right
to read, or with an unreadable reply, is skipped with the reason; the others continue. A check of many objects is
bounded, and reports the bound.

Not guaranteed: that a finding is still true a moment later; the state of schedules beyond the bounds; properties of
workers that RQ does not record, such as their serializer.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from typing import Any, Final

from zsched.config.settings import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.core.occurrences.recent import RecentActivity
from zsched.errors import Garbled, RedisRefused, SlotMoves
from zsched.health import checks_namespace, checks_rights, checks_rq, checks_server, checks_web, verdict
from zsched.health.facts import Finding, HealthCheck, Probe, Severity, checks_of, skipped
from zsched.storage.connection import Link
from zsched.storage.jobs import is_denied
from zsched.storage.keys import keys_of
from zsched.storage.overview import Overview
from zsched.storage.queues import StalledQueues
from zsched.storage.rights import Role
from zsched.storage.server import Server
from zsched.storage.shell import Shell
from zsched.storage.workers import SlotWaits, slot_waits

Ask = Callable[[], Any]


def _checks() -> tuple[HealthCheck[Any], ...]:
    """
    Return all checks that a doctor can make, by group. If a check of facts and a check that asks Redis have the same
    name, the latter replaces the former, because it looks closer.
    """
    modules = (checks_server, checks_rights, checks_namespace, checks_rq, checks_web)
    probing = [check for check in checks_of(modules) if check.needs is Probe]
    closer = {check.name for check in probing}
    facts = (Server, Overview, RecentActivity, StalledQueues, SlotWaits)
    known = [check for check in verdict.CHECKS if check.needs in facts]
    every = [*probing, *(check for check in known if check.name not in closer)]
    groups = list(dict.fromkeys(check.group for check in every))
    return tuple(sorted(every, key=lambda check: groups.index(check.group)))


CHECKS: Final = _checks()


def examine(
    settings: Settings,
    link: Link,
    roles: tuple[Role, ...] = (Role.DAEMON,),
    user: str | None = None,
    clock: Clock | None = None,
    config_file: str | None = None,
) -> Iterator[Finding]:
    """
    Yield the findings of each check; *roles*, *user* and *config_file* as in ``Probe``.

    If the link does not follow the slots of a Cluster, that is the only finding. Keys of a slot that is being moved are
    not checked.

    Raises:
        RedisUnavailable: Redis is not reached. RedisRefused: it refuses this user's login, or INFO.
    """
    with closing(link.open()) as wire:
        keys, clock = keys_of(settings), clock or SystemClock()
        probe = Probe(settings, link, wire, keys, clock, Server.read(wire), roles, user, config_file)
        shell, facts = Shell(link, settings.rq.serializer, keys.rq.prefix), _facts(probe)
        refusals = set[tuple[str, str]]()  # one of a group is enough
        for check in CHECKS:
            try:
                for finding in _findings(check, facts[check.needs]):
                    refusal = finding.group, finding.text
                    if finding.severity is not Severity.SKIPPED or refusal not in refusals:
                        yield finding.completed(shell.written)
                    if finding.severity is Severity.SKIPPED:
                        refusals.add(refusal)
            except SlotMoves as error:  # its keys cannot be read now
                yield check.named(skipped(error.problem, error.remedy))
                return
            if check.name == "role" and probe.is_unfollowed_node:
                return


def _facts(probe: Probe) -> dict[type, Ask]:
    """Return the facts that checks need, by type; each is read once."""
    return {
        Probe: lambda: probe,
        Server: lambda: probe.server,
        Overview: cache(lambda: probe.reader.overview(probe.reader.known())),
        RecentActivity: lambda: probe.recent,
        StalledQueues: lambda: probe.stalled_queues,
        SlotWaits: cache(lambda: probe.reader.on_wire(slot_waits)),
    }


def _findings(check: HealthCheck[Any], fact: Ask) -> Iterator[Finding]:
    """Yield the findings of *check*, and the reason if it ended early."""
    try:
        yield from check.findings(fact())
    except Garbled as error:
        yield check.named(skipped(error.problem, "another check has the remedy"))
    except RedisRefused as error:
        if is_denied(error):
            remedy = "ask as a user who has that right, such as the operator of users.acl"
            yield check.named(skipped(str(error.__cause__), remedy))
        else:
            remedy = "look above for a key of a wrong type; or this Redis has no such command"
            yield check.named(skipped(str(error), remedy))
