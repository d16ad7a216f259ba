"""
Schedules that are put again: with some options changed, or as they are, signed anew.

A schedule is read, and put again if it is still as it was read. So it keeps what does not change. A signed one is
checked first and then signed again, and one without a signature stays so. One with a signature that is not good is left
as it is: another program may have made it.

Signing anew is for the time after a rotation of keys, before signatures expire, or when signing begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from zsched.client.calls import Typed, loaded_task, lost_call
from zsched.client.putting import Putting
from zsched.core.entry import text
from zsched.core.model import MEND, Definition, Scheduled
from zsched.core.occurrences.first_times import REPLANS
from zsched.core.options.arguments import check_version
from zsched.core.options.revision import PAYLOAD, revise
from zsched.core.repair import IdOutcome
from zsched.core.runs.signature import signature_in
from zsched.errors import NOT_GIVEN, Contended, InvalidSchedule, RedisUnavailable, VersionConflict, ZschedError
from zsched.storage.called import called
from zsched.storage.puts import Answer, Put, PutScripts
from zsched.storage.reader import Reader, StoredSchedule
from zsched.storage.refusals import NO_VERSION, contended, is_changed
from zsched.storage.signing import BadSignature
from zsched.storage.unpickling import NotPlain


class Updating:
    """Puts schedules again. *runs_pickles*: unpickles payloads from Redis as a worker does."""

    def __init__(self, puts: PutScripts, reader: Reader, putting: Putting, *, runs_pickles: bool) -> None:
        self._puts, self._reader, self._putting, self._runs_pickles = puts, reader, putting, runs_pickles

    def update(self, id: str, changes: Mapping[str, Any]) -> Scheduled:
        """Change some options of a schedule. Raises as ``Client.update``."""
        if_version = check_version(changes.get("if_version"))
        for _ in range(REPLANS):
            found = self._found(id, if_version)
            if found.signature:
                self._demand_good(found, "schedule it again with all of its options, by a client with keys")
            put = self._puts.from_definition(self._revised(found, changes), signs=bool(found.signature))
            if put.rule is not None:
                put.rule.is_stored = put.rule.spec == found.schedule.trigger
            answer = self._putting.answered(put, uuid4().hex)
            if not is_changed(answer.word):
                return self._putting.scheduled(put, answer)
        raise contended(id)

    def run_now(self, id: str, if_version: str | None) -> Answer:
        """
        Push the signed one-shot *id* now, signed so that it may run before its time: as ``PutScripts.enqueue``. Raises
        InvalidSchedule: its signature is not good, or this client has no keys; VersionConflict.
        """
        for _ in range(REPLANS):
            found = self._found(id, if_version)
            self._demand_good(found, "let a client with its key run it now")
            answer = self._puts.enqueue(self._revised(found, {}), found.schedule.next_ms)
            if not is_changed(answer.word):
                return answer
        raise contended(id)

    def _found(self, id: str, if_version: str | None) -> StoredSchedule:
        """Return one schedule, whose payload may be opened. Raises ScheduleNotFound, VersionConflict."""
        try:
            found = self._reader.get(id)
        except RedisUnavailable as error:
            raise lost_call(error, id) from error
        if if_version not in (None, found.schedule.version):
            raise VersionConflict(id, if_version or "", found.schedule.version)
        self._puts.check_serializer()
        return found

    def sign(self, ids: Sequence[str], *, takes_unsigned: bool) -> Mapping[str, IdOutcome]:
        """
        Sign the schedules *ids* again: signed, or unchanged. *takes_unsigned*: also those without a signature. Errors:
        another program made or changed it.
        """
        self._puts.check_serializer()  # before a payload is opened
        outcomes: dict[str, IdOutcome] = {id: IdOutcome("not_found") for id in ids}
        puts: list[tuple[int, Put]] = []
        for found in self._reader.find_many(ids):
            id = found.schedule.id
            try:
                if found.signature:
                    self._demand_good(found, "schedule it again")
                elif not takes_unsigned:
                    self._demand_good(found, "schedule it again, or give unsigned=True (--unsigned)")
                put = self._puts.from_definition(self._revised(found, {}))
            except ZschedError as error:
                outcomes[id] = IdOutcome("", error=error)
                continue
            if self._signature_of(put) == found.signature:
                outcomes[id] = IdOutcome("unchanged")
            else:
                puts.append((len(puts), put))
        for page in self._putting.bulk().put(puts):
            for outcome in page:
                if is_changed(text(outcome.word)):
                    problem = f"schedule {outcome.id!r} was changed meanwhile; sign it once more"
                    outcomes[outcome.id] = IdOutcome("", error=Contended(problem))
                else:
                    outcomes[outcome.id] = IdOutcome("signed", error=outcome.refusal(self._puts.keys))
        return outcomes

    def _signature_of(self, put: Put) -> bytes:
        return signature_in(put.name if put.rule else self._puts.sign(put.shape, put.row)[2])

    def _revised(self, found: StoredSchedule, changes: Mapping[str, Any]) -> Definition:
        """
        Return the stored options, updated by *changes*, to be put if it is still as it was read. The payload is opened
        only if a part of it changes. Raises InvalidSchedule: some of them cannot be read, so not kept either.
        """
        if found.schedule.unreadable:
            raise InvalidSchedule("id", found.schedule.id, found.schedule.damage, MEND)
        data = found.data
        stored = self._puts.encoder.options(found.fields, runs=self._runs_pickles)
        if any(name in changes for name in PAYLOAD) and not changes.keys() >= {"args", "kwargs"}:
            stored["args"], stored["kwargs"] = self._opened(found.schedule.id, data, changes)
        func = changes.get("func") or loaded_task(found.schedule.func)
        if isinstance(func, Typed) and any(name in changes for name in PAYLOAD):
            given = {**stored, **changes}
            func.checked_id(found.schedule.id, given.get("args"), given.get("kwargs"))
        definition = revise(found.schedule, stored, data, changes, self._putting.urgencies)
        return replace(definition, if_version=found.schedule.version or NO_VERSION)

    def _opened(self, id: str, data: bytes, changes: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a stored payload; one of them will stay. Raises InvalidSchedule."""
        try:
            _, args, kwargs = self._puts.encoder.open(data, runs=self._runs_pickles)
        except InvalidSchedule as error:
            kept = " and ".join(name for name in ("args", "kwargs") if name not in changes)
            problem = f"the stored ones of schedule {id!r} cannot be read ({error.__cause__})"
            raise InvalidSchedule(kept, NOT_GIVEN, problem, error.remedy) from error
        return args, kwargs

    def _demand_good(self, found: StoredSchedule, remedy: str) -> None:
        """Check the signature of *found*. Raises InvalidSchedule: another program may have made what stays of it."""
        signer, schedule = self._puts.signer, found.schedule
        try:
            if signer is None:
                raise BadSignature("it is signed, and this client has no keys")
            signer.check_found(schedule.id, schedule.next_ms if schedule.kind == "once" else None, found.fields)
            if (path := _function_of(found)) != schedule.func:  # a new payload would be made with that
                raise BadSignature(f"it shows the function {schedule.func!r}, and is signed for {path!r}")
        except BadSignature as error:
            raise InvalidSchedule("id", schedule.id, str(error), remedy) from error


def _function_of(found: StoredSchedule) -> str:
    """Return the path of the function in the payload. Raises BadSignature."""
    try:
        return called(found.fields).paths[0]
    except NotPlain as error:
        raise BadSignature(f"its call cannot be read: {error}") from error
