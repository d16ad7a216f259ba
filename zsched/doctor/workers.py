"""Who takes runs from their queues: which RQ the workers are of, and whether anybody takes jobs from each in use."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from zsched.core.log import text
from zsched.core.wording import plural, some
from zsched.doctor.commands import redis_cli, rq_worker
from zsched.doctor.finding import Finding, fine, problem, skipped, warning
from zsched.doctor.patient import Patient
from zsched.storage.listeners import attendance, used_queues, waiting_text, workers_of

OLDEST: Final = (2, 8)  # of RQ: what setup.cfg asks for, and tests run with


def look_at_versions(patient: Patient) -> Iterator[Finding]:
    """The RQ of the workers, and of this machine, which writes jobs as that one does."""
    workers, here = workers_of(patient.wire), version("rq")
    versions: dict[str, list[str]] = {}
    for worker in workers:
        versions.setdefault(worker.version, []).append(worker.name)
    old = {found: names for found, names in versions.items() if _release(found) < OLDEST}
    for found, names in sorted(old.items()):
        yield problem(
            f"{plural(len(names), 'worker')} of RQ {found} ({some(sorted(names))}), which zsched does not know",
            "upgrade RQ there to 2.8 or later",
        )
    if len(versions) > 1:
        listed = ", ".join(f"{found} ({len(names)})" for found, names in sorted(versions.items()))
        yield warning(f"workers are of different versions of RQ: {listed}", "upgrade all of them")
    if not workers:
        queues = sorted(used_queues(patient.wire, patient.keys)) or ["default"]
        yield warning("no worker of RQ is registered: what fires waits", f"start one: {rq_worker(patient, *queues)}")
    elif not old and len(versions) == 1:
        yield fine(f"{plural(len(workers), 'worker')} of RQ {workers[0].version}; this machine has {here}")


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
            f"see that each is started as: {rq_worker(patient, 'QUEUE')}",
        )
    else:
        yield fine("payloads are pickle, as RQ's workers read them unless told otherwise")


def look_at_queues(patient: Patient) -> Iterator[Finding]:
    """Whether somebody takes jobs from every queue that schedules use, or in which something waits."""
    unheard, is_suspended, suspended = attendance(patient.wire, patient.keys)
    if is_suspended:
        said = problem if any(one.is_stuck for one in suspended) else warning
        where = f": {waiting_text(suspended)} in {some([one.queue for one in suspended])}" if suspended else ""
        yield said(f"RQ's workers are suspended{where}", f"rq resume, or: {redis_cli(patient, 'DEL', 'rq:suspended')}")
    for one in unheard:
        said = problem if one.is_stuck else warning
        what = f"where {waiting_text([one])}" if one.waiting else "which schedules use"
        remedy = f"restart one that ran when Redis lost its data, or start one: {rq_worker(patient, one.queue)}"
        yield said(f"nobody listens to queue {one.queue}, {what}", remedy)
    if not unheard and not is_suspended:
        used = used_queues(patient.wire, patient.keys)
        yield fine(f"somebody listens to every queue in use ({len(used)})" if used else "no queue is used")


def _release(told: str) -> tuple[int, ...]:
    numbers = [part for part in told.split(".")[:2] if part.isdecimal()]
    return tuple(map(int, numbers)) or OLDEST  # what does not say is not judged
