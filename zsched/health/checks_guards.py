"""
Checks of guards and signatures: which workers say that they run only signed jobs, and which schedules they will refuse.

A worker's mode is a field in RQ's keys, so every writer of these can give it to every worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zsched.core.runs.signature import SIGNATURE_FIELD, parts_of
from zsched.core.wording import plural, rough_duration, some
from zsched.health.check import Finding, fine, health_check, note, problem, warning
from zsched.health.facts import Probe
from zsched.storage.queues import workers_of
from zsched.storage.registries import members

_SCHEDULES: Final = 2000  # recurring ones, looked at most
_SOON_MS: Final = 30 * 86_400_000  # before the end of a signature, when it should be renewed


@health_check("guards", Probe)
def check_guards(probe: Probe) -> Iterator[Finding]:
    """Report which workers say that they run only signed jobs ([worker] guard)."""
    by_mode: dict[str, list[str]] = {"enforce": [], "warn": []}
    others = list[str]()
    workers = workers_of(probe.wire, probe.keys.rq)
    for worker in workers:
        by_mode.get(worker.guard, others).append(worker.name)
    enforcing, telling = by_mode["enforce"], by_mode["warn"]
    if others and enforcing:
        yield problem(
            f"workers that do not say that they run only signed jobs: {some(sorted(others))}; "
            f"that say so: {len(enforcing)}",
            'start the first ones as zsched worker, with [worker] guard = "enforce"',
        )
    elif enforcing and not telling:
        yield fine(f"all workers ({len(enforcing)}) say that they run only signed jobs, as any writer of RQ's keys can")
    elif not telling:
        yield fine("workers run any job, as with RQ ([worker] guard = off)" if workers else "no worker is registered")
    if telling:
        refused = sum(worker.warned for worker in workers if worker.guard == "warn")
        said = f"workers ({len(telling)}) say that they would have refused {plural(refused, 'job')}, and ran all"
        remedy = 'their logs have the reasons; then set [worker] guard = "enforce"'
        yield note(f"{said}: {some(sorted(telling))}", remedy)


@health_check("signatures", Probe)
def check_signatures(probe: Probe) -> Iterator[Finding]:
    """Check the signatures of recurring schedules: missing ones, and those that end soon. It needs no keys."""
    ids = members(probe.wire, probe.keys.recurring(), _SCHEDULES)[:_SCHEDULES]
    replies = probe.replies(("HGET", probe.keys.template(id), SIGNATURE_FIELD) for id in ids)
    ends_ms: dict[str, int] = {}
    for id, reply in zip(ids, replies, strict=True):
        parts = parts_of(reply) if isinstance(reply, bytes) else None
        if parts is not None:
            ends_ms[id] = parts[1] * 1000
    if not ends_ms:
        yield fine("no recurring schedule is signed")
        return
    unsigned = sorted(set(ids) - ends_ms.keys())
    if unsigned:
        yield warning(
            f"{plural(len(unsigned), 'recurring schedule')} without a signature beside {len(ends_ms):,} with one: "
            f"{some(unsigned)}",
            "schedule each again by a client with keys; zsched keys sign --unsigned signs them as they are",
        )
    now_ms = probe.clock.now_ms()
    ending = sorted((id for id, end_ms in ends_ms.items() if end_ms < now_ms + _SOON_MS), key=ends_ms.__getitem__)
    if ending:
        left_ms = ends_ms[ending[0]] - now_ms
        when = f"ends in {rough_duration(left_ms)}" if left_ms > 0 else "has ended"
        yield (warning if left_ms > 0 else problem)(
            f"the signature of {plural(len(ending), 'recurring schedule')} {when}, then workers with a guard refuse "
            f"the runs: {some(ending)}",
            "zsched keys sign --match '*' --kind recurring",
        )
    elif not unsigned:
        yield fine(f"{plural(len(ends_ms), 'recurring schedule')} signed, for 30 days or more")
