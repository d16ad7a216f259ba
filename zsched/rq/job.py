"""
RQ's job under a guard: ``rq worker --job-class zsched.rq.Job``, and in the workers of ``zsched.rq``.

RQ builds each job from its hash by ``restore``: the job that a worker takes, and those that maintenance, dependencies
and tasks look at. So the decision is made there, before ``meta`` is unpickled. The functions of a refused job, its
callbacks among them, are not imported, and its payload stays closed.

A task may rewrite ``meta``, and RQ writes a job again when it retries it. So the worker signs a job with a good
signature again, together with its new ``meta``.
"""

from contextlib import suppress
from typing import Any, Final

import rq.job
from rq.utils import decode_redis_hash

from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.rq.guard import GuardMode, JobRefused, Permission, guard
from zsched.rq.plain import plain_of, trusted_of

_MADE_HERE: Final = Permission("")
_UNREADABLE: Final = "unserialized"  # RQ's key of a meta that it cannot read


def _unless_refused(name: str) -> Any:
    """Return the property *name* of RQ's job; None of a refused job, which RQ's maintenance may find abandoned."""
    return property(lambda job: None if job.refusal else getattr(super(Job, job), name))


class Job(rq.job.Job):
    """RQ's job. ``permission``: the guard's decision; a job that was made in this process may run."""

    def __init__(self, id: str | None = None, connection: Any = None, serializer: Any = None) -> None:
        super().__init__(id, connection, serializer)
        self._guard = guard()
        self.permission = _MADE_HERE
        self._fields: dict[str, Any] = {}  # of its hash
        self._is_meta_foreign = False  # another process wrote it since the decision
        self._trusted = trusted_of(self.serializer)
        if self._guard.is_on:
            self.serializer = plain_of(self.serializer, self._guard.reader)

    @property
    def refusal(self) -> str:
        """The reason why it does not run here; "" if it may. In the mode ``warn`` it may always."""
        return self.permission.refusal if self._guard.mode is GuardMode.ENFORCE else ""

    # -- reading ------------------------------------------------------------------------------------

    def restore(self, raw_data: Any) -> None:
        """Decide on the job; then take over what may be read."""
        if not self._guard.is_on:
            super().restore(raw_data)
            return
        self._guard.is_deciding = True
        try:
            self._fields = decode_redis_hash(raw_data)
            self.permission = self._guard.decide(self.id, self._fields, lambda: int(self.connection.time()[0]))
            super().restore(self._readable)
            self.meta, self._is_meta_foreign = self._meta_of(self._fields.get("meta")), False
        finally:
            self._guard.is_deciding = False

    @property
    def _readable(self) -> dict[str, Any]:
        """The fields for RQ to read. It would inflate a refused payload, and an old traceback, without a limit."""
        found = {name: value for name, value in self._fields.items() if name not in ("meta", "exc_info")}
        return found | {"data": b""} if self.refusal and "data" in found else found

    def _meta_of(self, meta: bytes | None) -> dict[str, Any]:
        if not meta:
            return {}
        found: dict[str, Any] = {_UNREADABLE: meta}
        with suppress(Exception):  # as RQ does
            found = found if self.refusal else self._reader.loads(meta)
        return found

    def get_meta(self, refresh: bool = True) -> dict[str, Any]:
        """
        Return its meta, with *refresh* from Redis. This worker does not sign what another process wrote there. Raises
        NotPlain.
        """
        if not (refresh and self._guard.is_on):
            kept: dict[str, Any] = super().get_meta(refresh)
            return kept
        found: Any = self.connection.hget(self.key, "meta")
        self._is_meta_foreign |= found != self._fields.get("meta")
        self.meta = self.serializer.loads(found) if found else {}
        return self.meta

    @property
    def _reader(self) -> Any:
        """The serializer for its payload and its meta."""
        is_trusted = self.permission.is_trusted or self.permission is _MADE_HERE
        return self._trusted if is_trusted or self._guard.mode is GuardMode.WARN else self.serializer

    def _deserialize_data(self) -> None:
        """Open the payload of a job that may run. Raises JobRefused; DeserializationError: it cannot be read."""
        if not self._guard.is_on:
            super()._deserialize_data()  # type: ignore[no-untyped-call]  # RQ's
            return
        self._demand()
        plain, self.serializer = self.serializer, self._reader
        try:
            super()._deserialize_data()  # type: ignore[no-untyped-call]  # RQ's
        finally:
            self.serializer = plain

    @property
    def func_name(self) -> str | None:
        """The dotted path of its function, also of a refused job."""
        return self.permission.func or None if self.refusal else super().func_name

    @func_name.setter
    def func_name(self, value: str) -> None:
        rq.job.Job.func_name.fset(self, value)  # type: ignore[attr-defined]  # a property

    # -- what a refused job does not do ---------------------------------------------------------------

    def _demand(self) -> None:
        if self.refusal:
            raise JobRefused(self.refusal)

    @property
    def func(self) -> Any:
        """The function. Raises JobRefused."""
        self._demand()
        return super().func

    success_callback = _unless_refused("success_callback")
    failure_callback = _unless_refused("failure_callback")
    stopped_callback = _unless_refused("stopped_callback")

    @property
    def should_retry(self) -> bool:
        """Return True if RQ tries it again after a failure: a refused job would be refused again."""
        return not self.refusal and bool(super().should_retry)

    def send_webhooks(self, *args: Any, **others: Any) -> None:
        """Call the addresses that the job names, unless it is refused."""
        if not self.refusal:
            super().send_webhooks(*args, **others)

    # -- writing ------------------------------------------------------------------------------------

    def to_dict(self, include_meta: bool = True, include_result: bool = True) -> dict[str, Any]:
        """Return the hash to write. It has the signature of its meta, or the meta that was not opened, unchanged."""
        found: dict[str, Any] = super().to_dict(include_meta=include_meta, include_result=include_result)
        if self._guard.is_on and "meta" in found:
            found |= self._signed_meta(found["meta"])
        if self.refusal:
            found["data"] = self._fields["data"]
        return found

    def save_meta(self) -> None:
        """Write its meta, and sign it."""
        if not self._guard.is_on:
            super().save_meta()  # type: ignore[no-untyped-call]  # RQ's
            return
        self.connection.hset(self.key, mapping=self._signed_meta(self._trusted.dumps(self.meta)))

    def _signed_meta(self, meta: bytes) -> dict[Any, Any]:
        """Return the fields to write for *meta*."""
        before, checked = self._fields.get("meta"), self.permission.checked
        if before and (self.refusal or self.meta.keys() == {_UNREADABLE}):
            return {"meta": before}
        if checked is None or self._is_meta_foreign:
            return {"meta": meta}
        if meta != before:
            self._fields["meta"] = meta
            self._fields[SIGNATURE_FIELD] = self._guard.resigned(self.id, self._fields, checked)
        return {"meta": meta, SIGNATURE_FIELD: self._fields[SIGNATURE_FIELD]}
