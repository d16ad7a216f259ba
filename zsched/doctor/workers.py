"""Who takes runs from their queues: which RQ the workers are of, and whether anybody listens to each queue in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

from zsched.core.log import text
from zsched.core.model import Priority
from zsched.doctor.finding import Finding, fine, problem, skipped, warning
from zsched.doctor.keyspace import queues_of
from zsched.doctor.patient import Patient
from zsched.doctor.wording import counted, some
from zsched.storage.limits import asides

OLDEST: Final = (2, 8)  # of RQ: what setup.cfg asks for, and tests run with
_WORKERS: Final = 2000  # that are looked at
_SCHEDULES: Final = 500  # whose queues are looked at: of the recurring, and of each lane's next


@dataclass(frozen=True, slots=True)
class Worker:
    """One of RQ's workers, as it registered itself; RQ forgets one that stopped to beat."""

    name: str
    version: str
    queues: frozenset[str]


def workers_of(patient: Patient) -> list[Worker]:
    """The workers that live, of the first some thousand that are registered."""
    names = patient.members("rq:workers", _WORKERS)
    told = patient.ask_all(("HMGET", name, "version", "queues", "death") for name in names)
    return [
        Worker(name.removeprefix("rq:worker:"), text(row[0] or b"?"), frozenset(text(row[1]).split(",")))
        for name, row in zip(names, told, strict=True)
        if row and row[1] and not row[2]
    ]


def look_at_versions(patient: Patient) -> Iterator[Finding]:
    """The RQ of the workers, and of this machine, which writes jobs as that one does."""
    workers, here = workers_of(patient), version("rq")
    versions: dict[str, list[str]] = {}
    for worker in workers:
        versions.setdefault(worker.version, []).append(worker.name)
    old = {found: names for found, names in versions.items() if _release(found) < OLDEST}
    for found, names in sorted(old.items()):
        yield problem(
            f"{counted(len(names), 'worker')} of RQ {found} ({some(sorted(names))}), which zsched does not know",
            "upgrade RQ there to 2.8 or later",
        )
    if len(versions) > 1:
        listed = ", ".join(f"{found} ({len(names)})" for found, names in sorted(versions.items()))
        yield warning(f"workers are of different versions of RQ: {listed}", "upgrade all of them")
    if not workers:
        yield warning("no worker of RQ is registered: what fires waits", "start one: rq worker QUEUE …")
    elif not old and len(versions) == 1:
        yield fine(f"{counted(len(workers), 'worker')} of RQ {workers[0].version}; this machine has {here}")


def look_at_serializer(patient: Patient) -> Iterator[Finding]:
    """How payloads are written here. RQ's workers do not tell how they read them."""
    told = patient.ask("HGET", patient.keys.meta(), "serializer")
    mine = patient.settings.rq.serializer
    if told is None:
        yield fine(f"nothing was scheduled yet; clients with these settings write {mine}")
    elif text(told) != mine:
        yield problem(
            f"the namespace's payloads are {text(told)}, and these settings say {mine}: clients with them are refused",
            f'set [rq] serializer = "{text(told)}", or take another namespace',
        )
    elif mine == "json":
        yield skipped(
            "payloads are json, and RQ's workers do not tell whether they read that",
            "see that each is started with: rq worker --serializer json",
        )
    else:
        yield fine("payloads are pickle, as RQ's workers read them unless told otherwise")


def look_at_queues(patient: Patient) -> Iterator[Finding]:
    """Whether somebody listens to every queue that schedules use, or in which something waits."""
    served = frozenset[str]().union(*(worker.queues for worker in workers_of(patient)))
    used = _used(patient)
    known = sorted(used | set(queues_of(patient)))
    lengths = patient.ask_all(("LLEN", f"rq:queue:{queue}") for queue in known)
    waiting = {queue: length for queue, length in zip(known, lengths, strict=True) if length}
    deaf = [queue for queue in known if queue not in served and (queue in used or queue in waiting)]
    for queue in deaf:
        remedy = f"start a worker for it: rq worker {queue}"
        if queue in waiting:
            yield problem(
                f"nobody listens to queue {queue}, where {counted(waiting[queue], 'job')} should be taken", remedy
            )
        else:
            yield warning(f"nobody listens to queue {queue}, which schedules use", remedy)
    if not deaf:
        yield fine(f"somebody listens to every queue in use ({len(used)})" if used else "no queue is used")


def _used(patient: Patient) -> set[str]:
    """The queues of recurring schedules, and of those that are due next: up to some hundred of each."""
    keys = patient.keys
    recurring = patient.members(keys.recurring(), _SCHEDULES)
    commands: list[tuple[Any, ...]] = [("HGET", keys.template(id), "origin") for id in recurring]
    for lane in Priority:
        flat = patient.ask("ZRANGE", keys.due(lane), 0, _SCHEDULES - 1, "WITHSCORES")
        runs = (keys.run_id(text(id), text(due)) for id, due in zip(flat[::2], flat[1::2], strict=True))
        commands += [("HGET", keys.job(run), "origin") for run in runs]  # of a recurring one there is no such job
    found = {text(queue) for queue in patient.ask_all(commands) if queue}
    return found | {aside.queue for aside in asides(patient.wire, keys)}


def _release(told: str) -> tuple[int, ...]:
    numbers = [part for part in told.split(".")[:2] if part.isdecimal()]
    return tuple(map(int, numbers)) or OLDEST  # what does not say is not judged
