"""Does every key hold what it must? One of another type stops those scripts that need it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from zsched.core.log import text
from zsched.core.model import Priority
from zsched.core.wording import plural, some
from zsched.doctor.commands import redis_cli
from zsched.doctor.finding import Finding, fine, problem, skipped
from zsched.doctor.patient import Patient
from zsched.errors import RedisRefused
from zsched.storage.limits import asides

_QUEUES: Final = 500  # of RQ's that are looked at
_SCHEDULES: Final = 500  # of the recurring
_REGISTRIES: Final = ("deferred", "scheduled", "finished", "failed", "wip", "canceled")


def look_at_types(patient: Patient) -> Iterator[Finding]:
    """The type of each key that a namespace has one of, of some of its schedules, and of RQ's that scripts use."""
    wanted = dict(_ours(patient)) | dict(_schedules(patient)) | dict(_rqs(patient))
    types = patient.replies(("TYPE", key) for key in wanted)
    told = {key: type.decode() for key, type in zip(wanted, types, strict=True) if isinstance(type, bytes)}
    wrong = {key: type for key, type in told.items() if type not in (wanted[key], "none")}
    for key, type in wrong.items():
        yield problem(
            f"{key} is a {type}, and has to be a {wanted[key]}: what needs it is refused",
            f"find out who wrote it, then take it out of the way: {redis_cli(patient, 'RENAME', key, f'wrong:{key}')}",
        )
    if denied := [key for key in wanted if key not in told]:
        yield skipped(f"this user may not ask for the type of {some(denied)}", "ask as a user who may")
    if told and not wrong:
        yield fine(f"{plural(len(told), 'key')} looked at: each has its type, or is not there")


def queues_of(patient: Patient) -> Iterator[str]:
    """The names of the queues that RQ knows, sorted."""
    [members] = patient.ask_all([("SMEMBERS", patient.keys.rq_queues())])
    return iter(sorted(text(member).removeprefix("rq:queue:") for member in members or ()))


def _ours(patient: Patient) -> Iterator[tuple[str, str]]:
    keys = patient.keys
    yield from ((keys.meta(), "hash"), (keys.log(), "stream"), (keys.lease(), "string"), (keys.ask(), "list"))
    yield keys.ask_names(), "list"
    for key in (keys.paused(), keys.quarantine(), keys.chains(), keys.limits(), keys.archivers()):
        yield key, "hash"
    for key in (*(keys.due(lane) for lane in Priority), keys.deadlines()):
        yield key, "zset"
    yield keys.recurring(), "set"
    if _is_readable(patient, "HGET", keys.meta(), "aside"):
        yield from ((aside.key(keys), "zset") for aside in asides(patient.wire, keys))


def _schedules(patient: Patient) -> Iterator[tuple[str, str]]:
    keys = patient.keys
    if not _is_readable(patient, "SCARD", keys.recurring()):
        return
    for id in patient.members(keys.recurring(), _SCHEDULES):
        yield keys.schedule(id), "hash"
        yield keys.template(id), "hash"


def _rqs(patient: Patient) -> Iterator[tuple[str, str]]:
    yield patient.keys.rq_queues(), "set"
    yield "rq:workers", "set"
    if not _is_readable(patient, "SCARD", patient.keys.rq_queues()):
        return
    for queue in islice(queues_of(patient), _QUEUES):
        yield f"rq:queue:{queue}", "list"
        yield from ((f"rq:{registry}:{queue}", "zset") for registry in _REGISTRIES)


def _is_readable(patient: Patient, *command: str) -> bool:
    """Whether *command* is answered: its key is of a wrong type else, or not this user's, and said to be so."""
    [reply] = patient.replies([command])
    return not isinstance(reply, RedisRefused)
