"""
Schedules that are put again: with some options changed, or unchanged, signed anew.

A schedule is read, and put again if it is still as it was read. So it keeps what does not change. A signed one is
checked first and then signed again, and one without a signature stays so. One with a signature that is not good is left
as it is: another program may have made it.

Signing anew is for the time after a rotation of keys, before signatures expire, or when signing begins.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from zsched.client.calls import Typed, loaded_task, lost_call
from zsched.client.putting import Putting
from zsched.core.model import MEND, Definition, Schedule, Scheduled
from zsched.core.occurrences.difference import TimesDifference, difference
from zsched.core.occurrences.first_times import REPLANS
from zsched.core.options.arguments import check_version
from zsched.core.options.revision import PAYLOAD, revise
from zsched.core.repair import IdOutcome
from zsched.core.runs.job import SIGNATURE_FIELD, signature_in
from zsched.errors import NOT_GIVEN, Contended, InvalidSchedule, RedisUnavailable, VersionConflict, ZschedError
from zsched.storage.puts import Answer, Put, PutScripts
from zsched.storage.reader import Reader
from zsched.storage.records import rq_fields
from zsched.storage.refusals import NO_VERSION, contended, is_changed
from zsched.storage.signing import BadSignature, called
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
            if is_signed := bool(rq_fields(found.record).get(SIGNATURE_FIELD)):
                self._demand_good(found, "schedule it again with all of its options, by a client with keys")
            put = self._puts.from_definition(self._revised(found, changes), signs=is_signed)
            if put.rule is not None:
                put.rule.is_stored = put.rule.spec == found.trigger
            with suppress(VersionConflict):  # it was changed meanwhile
                return self._putting.scheduled(put, self._putting.answered(put, uuid4().hex))
        raise contended(id)

    def difference(self, id: str, changes: Mapping[str, Any]) -> TimesDifference:
        """Return what *changes* do to the times of a schedule. Raises as ``update``."""
        found = self._found(id, check_version(changes.get("if_version")))
        return difference(found, self._revised(found, changes), self._reader.now_ms(), self._reader.calendars)

    def run_now(self, id: str, if_version: str | None) -> Answer:
        """
        Push the signed one-shot *id* now, signed so that it may run before its time: as ``PutScripts.enqueue``. Raises
        InvalidSchedule: its signature is not good, or this client has no keys; VersionConflict.
        """
        for _ in range(REPLANS):
            found = self._found(id, if_version)
            self._demand_good(found, "let a client with its key run it now")
            answer = self._puts.enqueue(self._revised(found, {}), found.next_ms)
            if not is_changed(answer.word):
                return answer
        raise contended(id)

    def _found(self, id: str, if_version: str | None) -> Schedule:
        """Return one schedule, whose payload may be opened. Raises ScheduleNotFound, VersionConflict."""
        try:
            found = self._reader.get(id)
        except RedisUnavailable as error:
            raise lost_call(error, id) from error
        if if_version not in (None, found.version):
            raise VersionConflict(id, if_version or "", found.version)
        self._puts.check_serializer()
        return found

    def sign(
        self, ids: Sequence[str], if_version: str | None = None, *, takes_unsigned: bool
    ) -> Mapping[str, IdOutcome]:
        """
        Sign the schedules *ids* again, if they have *if_version*: signed, or unchanged. *takes_unsigned*: also those
        without a signature. Errors: another program made or changed it.
        """
        self._puts.check_serializer()  # before a payload is opened
        outcomes: dict[str, IdOutcome] = {id: IdOutcome("not_found") for id in ids}
        puts: list[tuple[int, Put]] = []
        for found in self._reader.schedules(ids):
            id = found.id
            try:
                if if_version not in (None, found.version):
                    raise VersionConflict(id, if_version or "", found.version)
                if signature := rq_fields(found.record).get(SIGNATURE_FIELD, b""):
                    self._demand_good(found, "schedule it again")
                elif not takes_unsigned:
                    self._demand_good(found, "schedule it again, or give unsigned=True (--unsigned)")
                put = self._puts.from_definition(self._revised(found, {}))
            except ZschedError as error:
                outcomes[id] = IdOutcome("", error=error)
                continue
            if signature_in(put.name if put.rule else self._puts.sign(put.shape, put.row)[2]) == signature:
                outcomes[id] = IdOutcome("unchanged")
            else:
                puts.append((len(puts), put))
        for page in self._putting.bulk().put(puts):
            for outcome in page:
                id = outcome.put.id
                if isinstance(outcome.error, VersionConflict):
                    problem = f"schedule {id!r} was changed meanwhile; sign it once more"
                    outcomes[id] = IdOutcome("", error=Contended(problem))
                else:
                    outcomes[id] = IdOutcome("signed", error=outcome.error)
        return outcomes

    def _revised(self, found: Schedule, changes: Mapping[str, Any]) -> Definition:
        """
        Return the stored options, updated by *changes*, to be put if it is still as it was read. The payload is opened
        only if a part of it changes. Raises InvalidSchedule: some of them cannot be read, so not kept either.
        """
        if found.unreadable:
            raise InvalidSchedule("id", found.id, found.damage, MEND)
        fields = rq_fields(found.record)
        data, stored = fields.get("data", b""), self._puts.encoder.options(fields, runs=self._runs_pickles)
        if any(name in changes for name in PAYLOAD):
            if not changes.keys() >= {"args", "kwargs"}:
                stored["args"], stored["kwargs"] = self._opened(found.id, data, changes)
            func = changes.get("func") or loaded_task(found.func)
            if isinstance(func, Typed):
                given = {**stored, **changes}
                func.checked_id(found.id, given.get("args"), given.get("kwargs"))
        definition = revise(found, stored, data, changes, self._putting.urgencies)
        return replace(definition, if_version=found.version or NO_VERSION)

    def _opened(self, id: str, data: bytes, changes: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a stored payload; one of them will stay. Raises InvalidSchedule."""
        try:
            _, args, kwargs = self._puts.encoder.open(data, runs=self._runs_pickles)
        except InvalidSchedule as error:
            kept = " and ".join(name for name in ("args", "kwargs") if name not in changes)
            problem = f"the stored ones of schedule {id!r} cannot be read ({error.__cause__})"
            raise InvalidSchedule(kept, NOT_GIVEN, problem, error.remedy) from error
        return args, kwargs

    def _demand_good(self, found: Schedule, remedy: str) -> None:
        """Check the signature of *found*. Raises InvalidSchedule: another program may have made what stays of it."""
        signer, fields = self._puts.signer, rq_fields(found.record)
        try:
            if signer is None:
                raise BadSignature("it is signed, and this client has no keys")
            signer.check_found(found.id, found.next_ms if found.kind == "once" else None, fields)
            if (path := called(fields).paths[0]) != found.func:  # a new payload would be made with that
                raise BadSignature(f"it shows the function {found.func!r}, and is signed for {path!r}")
        except (BadSignature, NotPlain) as error:
            problem = f"its call cannot be read: {error}" if isinstance(error, NotPlain) else str(error)
            raise InvalidSchedule("id", found.id, problem, remedy) from error
