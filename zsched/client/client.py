# mypy: disable-error-code="override"
# mypy takes a cached property to be read-only; it sets the attribute that a base class declares.
"""
The client: schedule, change, list and cancel, each usually in one round trip.

A call has its id, or an operation id made before the first attempt. When a reply is lost, the same call is sent again,
at most twice, and does nothing the second time. If that fails too, the exception names the id, whether the call may
have been applied, and the effect of repeating it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from zsched.client.calls import caller
from zsched.client.schedules import ScheduleRepair, Schedules
from zsched.config.bounds import VALID_DAYS
from zsched.core.clock import Clock, SystemClock
from zsched.core.options.arguments import check_by, check_id, choice, flag, serializer_name
from zsched.core.options.choices import Refused
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

if TYPE_CHECKING:
    from zsched.client.answers import Answers
    from zsched.client.bulk import BulkChanges
    from zsched.client.putting import Putting
    from zsched.client.updating import Updating
    from zsched.core.model import Many, Scheduled
    from zsched.core.occurrences.difference import TimesDifference
    from zsched.core.options.allowed import Limits
    from zsched.core.options.define import Presets
    from zsched.core.options.table import EnqueueOptions, ScheduleOptions, ScheduleRow, UpdateOptions
    from zsched.core.repair import Repaired
    from zsched.storage.folded import FoldedLog
    from zsched.storage.history_reader import HistoryReader
    from zsched.storage.puts import PutScripts
    from zsched.storage.reader import Reader
    from zsched.storage.reruns import Reruns
    from zsched.storage.rqjob import Encoder
    from zsched.storage.store import Store

# Parts that know the caller, and are made anew for another one.
_NAMED = ("_store", "_updating", "_reruns", "_bulk", "_history", "_answers")


class ClientOptions(TypedDict, total=False):
    """Options of a ``Client`` besides its Redis and its namespace."""

    serializer: str
    rq_prefix: str | None
    payload_limit: int
    durable_timeout_s: float
    urgencies: Presets | None
    clock: Clock | None
    runs_pickles: bool
    by: str | None
    signing_keys_file: str | None
    signing_valid_days: int


class Client(Schedules):
    """
    Schedules in one namespace of one Redis, and their past. Thread-safe; no I/O until used.

    *redis* is a ``redis.Redis`` or ``Sentinel.master_for(…)``: its settings are used, not its retries. A namespace and
    its workers have one *serializer*, "pickle" (RQ's default) or "json", and one *rq_prefix* of RQ's keys (None: RQ's
    own). *durable_timeout_s*: how long a call with ``durable=True`` waits for an archive. *urgencies* change the
    presets of ``urgency``, or add to them. *runs_pickles*: ``update`` unpickles payloads from Redis, which runs code of
    any writer of rq:job:*; otherwise it opens plain values only. *by*: the caller's name in the log, which proves
    nothing; None: ``ZSCHED_BY``, else user@host. *signing_keys_file*: its first key signs what this client schedules
    (docs/how-to/sign-jobs.md). *signing_valid_days*: how long a signature is valid. Arguments that inflate to more than
    10 MB cannot be signed.
    """

    def __init__(
        self,
        redis: Any,
        namespace: str = "default",
        *,
        serializer: str = "pickle",
        rq_prefix: str | None = None,
        payload_limit: int = 262_144,
        durable_timeout_s: float = 5.0,
        urgencies: Presets | None = None,
        clock: Clock | None = None,
        runs_pickles: bool = False,
        by: str | None = None,
        signing_keys_file: str | None = None,
        signing_valid_days: int = VALID_DAYS,
    ) -> None:
        self._link = redis if isinstance(redis, Link) else Link.adopt(redis)
        self._keys, self._clock, self._by = Keys(namespace, rq_prefix), clock or SystemClock(), caller(by)
        self._serializer, self._payload_limit = serializer_name(serializer), payload_limit
        self._durable_timeout_s, self._runs_pickles = durable_timeout_s, runs_pickles
        self._signer, self._urgencies = None, urgencies or None
        if urgencies:  # few clients have their own
            from zsched.core.options.define import merged_presets

            self._urgencies = merged_presets(urgencies)
        if signing_keys_file is not None:
            from zsched.storage.keyfile import KeyFile
            from zsched.storage.meta import server_now_ms
            from zsched.storage.signing import Signer, checked_valid_days

            days, server_ms = checked_valid_days(signing_valid_days), partial(server_now_ms, self._link, self._keys)
            self._signer = Signer(KeyFile(signing_keys_file), self._keys, days, self._clock, server_ms)

    @classmethod
    def from_url(
        cls,
        url: str,
        namespace: str = "default",
        *,
        timeout_s: float = 5.0,
        password: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> Client:
        """
        Make a client of the Redis at *url*. *timeout_s*: for connecting, and for each reply. Raises ConfigError.
        """
        keys = Keys(namespace, options.get("rq_prefix"))
        return cls(Link.from_url(url, timeout_s, password, keys), namespace, **options)

    # -- the caller's name ----------------------------------------------------------------------------

    @property
    def by(self) -> str:
        """The name under which the log has this client's changes."""
        return self._by

    def acting_as(self, by: str, limits: Limits | None = None) -> Client:
        """
        Return a client with the same connections, whose changes the log has under the name *by*. It costs no call of
        Redis. With *limits*, ``get``, ``list`` and changes in bulk find no schedule beyond them, and the history of a
        schedule begins when it came within them. Raises InvalidSchedule.
        """
        other = copy(self)
        other._by, other._limits = check_by(by), limits if limits and any(limits) else None
        for name in _NAMED:
            other.__dict__.pop(name, None)
        other._folded = self._folded  # the kept part of the log
        other._puts = self._puts.acting_as(by)  # what it found out about Redis stays known
        other._putting = copy(self._putting)  # and the shapes of earlier puts
        other._putting._puts = other._puts
        return other

    # -- schedule -----------------------------------------------------------------------------------

    def schedule(self, /, func: str | Callable[..., Any], **options: Unpack[ScheduleOptions]) -> Scheduled:
        """
        Create or replace a schedule. docs/how-to/schedule.md describes the options.

        Raises:
            InvalidSchedule: an option is bad; nothing was written.
            ScheduleInPast: ``at`` has passed by the server's clock, without ``allow_past``.
            ScheduleExists: the id is taken and ``if_exists="error"``.
            VersionConflict: the schedule does not have the version *if_version*.
            NotArchived: ``durable=True``, and no archive has it on disk; see ``is_in_redis``.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused.
        """
        return self._putting.put(func, options)

    def _schedule_as(self, op: str, func: str | Callable[..., Any], /, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """``schedule`` as the operation *op*: for ten minutes another call of the same operation does nothing."""
        return self._putting.put(func, options, op)

    def enqueue(
        self,
        /,
        func: str | Callable[..., Any],
        args: tuple[Any, ...] | list[Any] | None = (),
        kwargs: dict[str, Any] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Scheduled:
        """
        Push a run into its queue at once. With an ``id`` and ``if_exists="keep"`` (or "error"), the same id does not
        run twice within ``unique_for``: such calls answer "kept" with the first run's id, or raise. Raises as
        ``schedule``.
        """
        return self._putting.enqueue(func, {"args": args, "kwargs": kwargs, **options})

    def schedule_many(
        self,
        rows: Iterable[ScheduleRow],
        on_progress: Callable[[int], None] | None = None,
        errors: Literal["raise", "return"] | Refused = Refused.RAISE,
    ) -> Many:
        """
        Schedule many: each row is a dict of ``func`` and the options of ``schedule``.

        All valid rows are scheduled. For others it raises RowsRefused at the end, or with ``errors="return"`` lists
        them in ``Many.errors``. *on_progress* gets the number of rows done. If a row has ``durable=True``, the call
        returns when an archive has all rows.

        Raises:
            RowsRefused: it has the ``Many``.
            NotArchived: as ``schedule``.
            RedisUnavailable: Redis was not reached.
        """
        refused = choice("errors", errors, Refused)
        return self._putting.put_many(rows, on_progress or (lambda done: None), refused)

    def update(self, id: str, /, **changes: Unpack[UpdateOptions]) -> Scheduled:
        """
        Change some options of a schedule, and keep the others. New arguments of a task are checked, if this process has
        imported it. A signed schedule is signed again, and one without a signature stays so.

        Raises:
            ScheduleNotFound: no such schedule.
            InvalidSchedule: a change is invalid, or would turn a recurring schedule into a one-shot or back. Stored
                arguments are not plain values (``runs_pickles``). The signature is not good, or cannot be checked here.
                Another program broke an option.
            VersionConflict: it does not have the version *if_version*.
            Contended: another writer changed it at every attempt.
        """
        return self._updating.update(check_id(id), changes)

    def difference(self, id: str, /, **changes: Unpack[UpdateOptions]) -> TimesDifference:
        """Return what ``update`` with these *changes* would do to the times of a schedule. Raises as ``update``."""
        return self._updating.difference(check_id(id), changes)

    def sign_many(self, unsigned: bool = False, **given: Unpack[ScheduleRepair]) -> Repaired:
        """
        Sign waiting schedules again by this client's first key: after a rotation, or before their signatures expire.
        They keep their times. One whose signature is not good is refused. *unsigned*: also those without a signature,
        when signing begins. Raises as ``retry_many``; InvalidSchedule: this client has no keys.
        """
        if self._signer is None:
            remedy = "give Client(signing_keys_file=…), or [signing] keys_file"
            raise InvalidSchedule("signing_keys_file", None, "this client has no keys", remedy)
        sign = partial(self._updating.sign, takes_unsigned=flag("unsigned", unsigned))
        return self._bulk.change(sign, dict(given))

    # -- parts ----------------------------------------------------------------------------------------
    #
    # Each is imported and made by the first call that needs it. So ``Client.from_url`` costs little more than
    # ``import redis``: a service that only schedules imports no reader of logs and archives. A test counts the modules.

    @cached_property
    def _puts(self) -> PutScripts:
        from zsched.storage.puts import PutScripts

        return PutScripts(self._link, self._keys, self._encoder, self._by, self._signer)

    @cached_property
    def _putting(self) -> Putting:
        from zsched.client.putting import Putting
        from zsched.core.options.define import PRESETS
        from zsched.storage.archivers import Durability

        durability = partial(Durability, self._link, self._keys, self._clock, self._durable_timeout_s)
        return Putting(self._puts, self._urgencies or PRESETS, self._clock, durability)

    @cached_property
    def _encoder(self) -> Encoder:
        from zsched.storage.rqjob import Encoder

        return Encoder(self._serializer, self._payload_limit, signs=self._signer is not None)

    @cached_property
    def _reader(self) -> Reader:
        from zsched.storage.reader import Reader

        return Reader(self._link, self._keys, self._encoder)

    @cached_property
    def _store(self) -> Store:
        from zsched.storage.store import Store

        return Store(self._link, self._keys, self._by, self._reader)

    @cached_property
    def _updating(self) -> Updating:
        from zsched.client.updating import Updating

        return Updating(self._puts, self._reader, self._putting, runs_pickles=self._runs_pickles)

    @cached_property
    def _reruns(self) -> Reruns:
        from zsched.storage.reruns import Reruns

        return Reruns(self._link, self._keys, self._by, self._signer)

    @cached_property
    def _bulk(self) -> BulkChanges:
        from zsched.client.bulk import BulkChanges

        return BulkChanges(self._link, self._keys, self._reader, self._reruns, self._answers, self._limits)

    @cached_property
    def _history(self) -> HistoryReader:
        from zsched.storage.history_reader import HistoryReader

        if self._limits is None:
            return HistoryReader(self._link, self._keys, self._folded)
        from zsched.storage.limited import LimitedHistoryReader

        return LimitedHistoryReader(self._link, self._keys, self._folded, self._reader, self._limits)

    @cached_property
    def _folded(self) -> FoldedLog:
        from zsched.storage.folded import FoldedLog

        return FoldedLog(self._link, self._keys)

    @cached_property
    def _answers(self) -> Answers:
        from zsched.client.answers import Answers
        from zsched.storage.shell import Shell

        return Answers(self._reader, self._history, Shell(self._link, self._serializer, self._keys.rq.prefix))
