"""All checks, one after the other; what one of them may not ask or cannot read does not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from zsched.config import Settings
from zsched.core.clock import Clock, SystemClock
from zsched.doctor import (
    archives,
    clocks,
    keyspace,
    leftovers,
    memory,
    namespace,
    passwords,
    persistence,
    rights,
    rivals,
    server,
    walls,
    workers,
)
from zsched.doctor.finding import Finding, skipped
from zsched.doctor.patient import Patient, info_of
from zsched.errors import Garbled, RedisRefused
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.replies import is_denied
from zsched.storage.rights import Role

Check = Callable[[Patient], Iterator[Finding]]

CHECKS: Final[dict[str, Check]] = {
    "redis": server.look_at_version,
    "role": server.look_at_role,
    "eviction": memory.look_at_eviction,
    "memory": memory.look_at_memory,
    "hashes": memory.look_at_hashes,
    "persistence": persistence.look_at_files,
    "append-only file": persistence.look_at_append_only_file,
    "clock": clocks.look_at_offset,
    "test clock": clocks.look_at_test_clock,
    "tzdata": clocks.look_at_zone_rules,
    "rights": rights.look_at_rights,
    "sandbox": walls.look_at_sandbox,
    "databases": walls.look_at_databases,
    "passwords": passwords.look_at_files,
    "key types": keyspace.look_at_types,
    "meta": namespace.look_at_meta,
    "format": namespace.look_at_format,
    "daemons": namespace.look_at_daemons,
    "archives": archives.look_at_archives,
    "quarantine": namespace.look_at_quarantine,
    "leftovers": leftovers.look_at_leftovers,
    "workers": workers.look_at_versions,
    "serializer": workers.look_at_serializer,
    "queues": workers.look_at_queues,
    "rq's scheduler": rivals.look_at_locks,
    "rq-scheduler": rivals.look_at_rq_scheduler,
    "rq's cron": rivals.look_at_rq_cron,
}


def examine(
    settings: Settings,
    link: Link,
    roles: tuple[Role, ...] = (Role.DAEMON,),
    user: str | None = None,
    clock: Clock | None = None,
    config_file: str | None = None,
) -> Iterator[tuple[str, Finding]]:
    """
    Each check's name with what it found, as it is found; *roles*, *user* and *config_file* as in ``Patient``. In
    cluster mode nothing but that is looked at.

    Raises:
        RedisUnavailable: Redis is not reached. RedisRefused: it does not let this user in, or not even tell INFO.
    """
    with closing(link.open()) as wire:
        keys, clock = Keys(settings.namespace), clock or SystemClock()
        patient = Patient(settings, link, wire, keys, clock, info_of(wire), roles, user, config_file)
        for name, check in CHECKS.items():
            yield from ((name, finding) for finding in _looked(check, patient))
            if name == "role" and patient.is_cluster:
                return


def _looked(check: Check, patient: Patient) -> Iterator[Finding]:
    """What *check* finds, and why it ended before its end."""
    try:
        yield from check(patient)
    except Garbled as error:
        yield skipped(error.problem, "a check of its own tells the remedy")
    except RedisRefused as error:
        if is_denied(error):
            yield skipped(str(error.__cause__), "ask as a user who has that right, such as the operator of users.acl")
        else:
            yield skipped(str(error), "look above for a key of a wrong type; or this Redis has no such command")
