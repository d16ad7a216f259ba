"""
The client: schedule, change, list and cancel, each usually in one round trip.

A call has its id, or an operation id made before the first attempt. When a reply is lost, the same call is sent again,
at most twice, and does nothing the second time. If that fails too, the exception names the id, whether the call may
have been applied, and the effect of repeating it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from zsched.client.caller import caller
from zsched.client.calls import Typed, completed, effect_again, loaded_task, naming_lost_call, new_id
from zsched.client.first_times import REPLANS, FirstTimes, outdated
from zsched.client.many import BulkPut, put_rows
from zsched.client.repairs import Repairs, ScheduleRepair
from zsched.client.rows import PutFacts, PutItem, Recurring, RowReader, item_of
from zsched.client.signing import sign_again
from zsched.core.arguments import check_by, check_id, check_version, choice, flag, instant_ms
from zsched.core.clock import Clock, SystemClock, from_ms, to_ms
from zsched.core.listing import Filter, select
from zsched.core.model import Definition, Many, Refused, RowsRefused, Schedule, Scheduled, ScheduleState
from zsched.core.option_table import EnqueueOptions, RuleOptions, ScheduleOptions, ScheduleRow, UpdateOptions
from zsched.core.options import Presets, define, define_now, define_trigger, merged_presets
from zsched.core.planning import local_time, occurrences
from zsched.core.revision import PAYLOAD, revise
from zsched.core.triggers import check, zone
from zsched.errors import NOT_GIVEN, Contended, Garbled, InvalidSchedule, VersionConflict
from zsched.storage.archivers import Durability
from zsched.storage.connection import Link
from zsched.storage.keyfile import KeyFile
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.reader import Reader, StoredSchedule
from zsched.storage.refusals import NO_VERSION, is_changed
from zsched.storage.rqjob import Encoder
from zsched.storage.signer import VALID_DAYS, Signer, checked_valid_days
from zsched.storage.signing import BadSignature
from zsched.storage.store import Answer, RecurringRow, Store

if TYPE_CHECKING:
    from zsched.client.doubtful_queues import MisspeltQueue, Prioritized, SharedQueue
    from zsched.core.recent import Recent
    from zsched.core.repair import IdOutcome, Repaired
    from zsched.storage.overview import Overview
    from zsched.storage.queues import StalledQueues


_REMEMBERED: Final = 1000  # shapes of single puts


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


class Client(Repairs):
    """
    Schedules in one namespace of one Redis, and their past (``Past``). Thread-safe; no I/O until used.

    *redis* is a ``redis.Redis``, also ``Sentinel.master_for(…)`` (its settings are used, not its retries), or a Link.
    *serializer* is "pickle" (RQ's default) or "json", the same for a whole namespace and its workers. *rq_prefix*: the
    prefix of RQ's keys, also the same for all; None: RQ's own, which is ``RQ_KEY_PREFIX`` of the environment or "rq".
    *durable_timeout_s*: how long a call with ``durable=True`` waits for an archive. *urgencies* change the presets of
    ``core.options``, or add to them. *runs_pickles*: ``update`` unpickles payloads from Redis as a worker does. This
    runs code that any writer of rq:job:* may have put there. Otherwise it opens plain values only. *by*: the name under
    which the log has this client's changes, a label that proves nothing; None: ``ZSCHED_BY``, else user@host.
    *signing_keys_file*: its first key signs what this client schedules, for workers that demand it
    (docs/how-to/sign-jobs.md); None: nothing is signed. A signature is valid for *signing_valid_days* after the due
    time of a one-shot, or the put of a recurring schedule.
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
        link = redis if isinstance(redis, Link) else Link.adopt(redis)
        self._clock, self._urgencies = clock or SystemClock(), merged_presets(urgencies or {})
        self._runs_pickles = runs_pickles
        keys, self._encoder = Keys(namespace, rq_prefix), Encoder(serializer, payload_limit)
        signer = None
        if signing_keys_file is not None:
            file, days = KeyFile(signing_keys_file), checked_valid_days(signing_valid_days)
            signer = Signer(file, keys, days, self._clock, partial(server_now_ms, link, keys))
        store = Store(link, keys, self._encoder, caller(by), signer)
        super().__init__(link, keys, store, Reader(link, keys, self._encoder))
        self._durability = Durability(link, keys, self._clock, durable_timeout_s)
        self._define = partial(_defined, self._urgencies)  # not a method: a cycle of references would keep connections
        self._rows = RowReader(store, self._define, _REMEMBERED)

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
        Make a client of the Redis at *url*; *timeout_s* holds for connecting and for each reply. Raises ConfigError.
        """
        keys = Keys(namespace, options.get("rq_prefix"))
        return cls(Link.from_url(url, timeout_s, password, keys), namespace, **options)

    # -- the caller's name ----------------------------------------------------------------------------

    @property
    def by(self) -> str:
        """The name under which the log has this client's changes."""
        return self._store.by

    def acting_as(self, by: str) -> Client:
        """
        Return a client with the same connections, whose changes the log has under the name *by*. It costs no call of
        Redis, so a server can make one per request. Raises InvalidSchedule.
        """
        other = copy(self)
        other._store = self._store.acting_as(check_by(by))
        for name in ("_reruns", "_portions"):  # they have this client's name
            other.__dict__.pop(name, None)
        return other

    # -- schedule -----------------------------------------------------------------------------------

    def schedule(self, /, func: str | Callable[..., Any], **options: Unpack[ScheduleOptions]) -> Scheduled:
        """
        Create or replace a schedule. docs/how-to/schedule.md describes the options.

        Raises:
            InvalidSchedule: an option is bad; nothing was written.
            ScheduleInPast: ``at`` has passed by the server's clock, without ``allow_past``.
            ScheduleExists: the id is taken and ``if_exists="error"``.
            VersionConflict: the schedule does not have the version ``if_version``.
            NotArchived: ``durable=True``, and no archive has it on disk; see ``is_in_redis``.
            RedisUnavailable, RedisRefused: Redis was not reached, or refused.
        """
        return self._put(func, options)

    def schedule_as(self, op: str, func: str | Callable[..., Any], /, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """``schedule`` as the operation *op*: for ten minutes another call of the same operation does nothing."""
        return self._put(func, options, op)

    def enqueue(
        self,
        /,
        func: str | Callable[..., Any],
        args: tuple[Any, ...] | list[Any] | None = (),
        kwargs: dict[str, Any] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Scheduled:
        """
        Push a run into its queue at once, through the same script and log.

        With an ``id`` and ``if_exists="keep"`` (or "error"), the same id does not run twice. For ``unique_for`` after
        the push, by default a day, such calls answer "kept" with the first run's id (or raise). That run may be queued,
        running, or over; only a cancelled run does not count. Raises as ``schedule``.
        """
        given = completed(func, {"args": args, "kwargs": kwargs, **options}, at_once=True)
        definition = define_now(func, given, _fallback_id(given), self._urgencies)
        with naming_lost_call(definition.id, is_repeatable=definition.unique_ms > 0):
            answer = self._durably(
                definition.id,
                lambda: self._store.enqueue(definition, op=new_id()),
                is_durable=definition.durable,
                again="waits again" if definition.unique_ms else "runs it a second time",
            )
        self._store.demand(answer.word, definition.id, run_id=answer.detail)
        next_at = None if answer.word == "kept" else from_ms(answer.now_ms)
        return Scheduled(definition.id, answer.word, next_at, answer.detail)

    def schedule_many(
        self,
        rows: Iterable[ScheduleRow],
        on_progress: Callable[[int], None] | None = None,
        errors: Literal["raise", "return"] | Refused = Refused.RAISE,
    ) -> Many:
        """
        Schedule many: each row is a dict of ``func`` and the options of ``schedule``.

        All valid rows are scheduled, and RowsRefused is raised at the end if others were invalid. With
        ``errors="return"`` they are only listed in ``Many.errors``. *on_progress* is called with the number of rows
        done, every few hundred. When the connection is lost, the call raises, and the rows done so far stay in Redis.
        Repeating the call is safe when the rows have ids. If a row has ``durable=True``, the call returns when an
        archive has all rows.

        Raises:
            RowsRefused: rows were refused; all others were written. It has the ``Many``.
            NotArchived: as ``schedule``.
            RedisUnavailable: Redis was not reached.
        """
        refused = choice("errors", errors, Refused)
        is_durable = False

        def define(func: Any, options: Mapping[str, Any]) -> Definition:  # once per shape of rows
            nonlocal is_durable
            definition = self._define(func, options)
            if definition.durable and not is_durable:
                self._durability.require("no row with durable=True was written")
                is_durable = True
            return definition

        reader, puts = RowReader(self._store, define), self._bulk_put()
        many = put_rows(rows, reader, puts, self._keys, on_progress or (lambda done: None))
        if is_durable and many.done > len(many.errors):
            self._durability.wait_for_all(f"{many.done - len(many.errors)} rows")
        if many.errors and refused is Refused.RAISE:
            raise RowsRefused(many)
        return many

    def update(self, id: str, /, **changes: Unpack[UpdateOptions]) -> Scheduled:
        """
        Change some options of a schedule, for example only the time or only the payload; the others stay. New arguments
        of a task are checked, if this process has imported it. A signed schedule is signed again, and one without a
        signature stays so.

        Raises:
            ScheduleNotFound: no such schedule.
            InvalidSchedule: a change is invalid, or would turn a recurring schedule into a one-shot or back. Or stored
                args or kwargs would stay and are not plain values (``runs_pickles``). Or this client cannot check its
                signature, or it is not good.
            VersionConflict: it does not have the version ``if_version``.
            Contended: another writer changed it at every attempt.
            Garbled: another program broke its rule.
        """
        check_id(id)
        for _ in range(REPLANS):
            found = self._find(id)
            if_version = check_version(changes.get("if_version"))
            if if_version not in (None, found.schedule.version):
                raise VersionConflict(id, if_version or "", found.schedule.version)
            if found.schedule.kind != "once" and found.schedule.trigger is None:
                raise Garbled(
                    f"the rule of schedule {id!r} cannot be read", "schedule it again by its id, or cancel it"
                )
            self._store.check_serializer()  # before its payload is opened
            definition = replace(self._revised(found, changes), if_version=found.schedule.version or NO_VERSION)
            item = item_of(self._signing_again(found), definition)
            answer = self._answered(item, facts := PutFacts.of(item), new_id())
            if not is_changed(answer.word):
                return self._scheduled(facts, answer)
        raise Contended(
            f"schedule {id!r} was changed by another writer at every attempt; nothing was written: call again"
        )

    def sign_many(self, unsigned: bool = False, **given: Unpack[ScheduleRepair]) -> Repaired:
        """
        Sign waiting schedules again by this client's first key: after a rotation, or before their signatures expire.
        They keep their times. A schedule is refused if its signature is not good, as another program may have made it.
        *unsigned*: sign also schedules that have no signature, as they are; so signing can begin. Raises as
        ``Repairs``; InvalidSchedule: this client has no keys.
        """
        signer = self._store.signer
        if signer is None:
            remedy = "give Client(signing_keys_file=…), or [signing] keys_file"
            raise InvalidSchedule("signing_keys_file", None, "this client has no keys", remedy)
        self._store.check_serializer()  # before a payload is opened
        is_unsigned = flag("unsigned", unsigned)

        def act(ids: Sequence[str]) -> Mapping[str, IdOutcome]:
            puts = self._bulk_put()
            return sign_again(ids, self._reader, self._keys, signer, self._as_found, puts, takes_unsigned=is_unsigned)

        return self._portions.change(act, dict(given))

    def _as_found(self, found: StoredSchedule) -> PutItem:
        """Return *found* as it is, to be put if it still is so."""
        definition = replace(self._revised(found, {}), if_version=found.schedule.version or NO_VERSION)
        return item_of(self._store, definition)

    # -- reading ------------------------------------------------------------------------------------

    def list(
        self,
        *,
        state: str | ScheduleState | None = None,
        kind: str | None = None,
        func: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        match: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Iterator[Schedule]:
        """
        List schedules: active ones by due time, then paused, quarantined and ended ones by id; read page by page.

        *match* is a glob over ids, *owner* the ``created_by``. *after* is the ``cursor`` of the last listed schedule:
        the listing continues after it. Raises InvalidSchedule at once for an invalid filter.
        """
        wanted = Filter.of(
            state=state, kind=kind, func=func, queue=queue, tag=tag, owner=owner, match=match, limit=limit, after=after,
            due_after=due_after, due_before=due_before,
        )  # fmt: skip
        return select(wanted, self._reader)

    def preview(
        self, /, id: str | None = None, *, n: int = 10, start: datetime | None = None, **trigger: Unpack[RuleOptions]
    ) -> Sequence[datetime]:
        """
        Return the due times of the next *n* occurrences, strictly after *start* (default: now), aware, in the
        schedule's zone.

        Give a schedule's id (its jitter is applied), or trigger options (every, cron, rrule, tz …), which need no
        Redis.

        Raises:
            InvalidSchedule: both or neither given, an invalid rule, or a rule with jitter, which depends on the id.
            ScheduleNotFound: no schedule has this id.
        """
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 100_000:
            raise InvalidSchedule("n", n, "not a number of occurrences", "give 1 to 100000")
        if (id is None) == (not trigger):
            raise InvalidSchedule("id", id, "preview takes one schedule or one rule", "give an id, or trigger options")
        schedule = None if id is None else self.get(id)
        if schedule is not None and schedule.trigger is None:
            due = [] if schedule.next_ms is None else [local_time(schedule.next_ms, zone(schedule.tz))]
            start_ms = 0 if start is None else instant_ms("start", start, schedule.tz)
            return [at for at in due if to_ms(at) > start_ms]
        spec = define_trigger(trigger) if schedule is None else schedule.trigger
        assert spec is not None  # for a schedule without a rule it returned above
        now_ms = self._clock.now_ms()
        start_ms = now_ms if start is None else instant_ms("start", start, spec.tz)
        if schedule is None:
            check(spec, start_ms)
            return self._link.compute(occurrences, spec, start_ms, start_ms, n)
        first_ms = schedule.nominal_ms if start_ms >= now_ms else None
        anchor_ms = schedule.anchor_ms or start_ms
        return self._link.compute(occurrences, spec, anchor_ms, start_ms, n, schedule.id, first_ms or 0)

    def overview(self) -> Overview:
        """Return counts, backlog and leader of the namespace at this moment, for ``zsched status``."""
        return self._reader.overview()

    def stalled_queues(self) -> StalledQueues:
        """
        Return the queues without an RQ worker that schedules use or in which jobs wait, of a few thousand queues at
        most; and whether workers are suspended.

        Raises:
            RedisRefused: also if this user may not list workers, such as ``zsched-client`` of deploy/redis.
        """
        return self._reader.stalled_queues()

    def doubtful_queues(self, put: Iterable[Prioritized]) -> Sequence[SharedQueue | MisspeltQueue]:
        """
        Return the queues of *put* that urgent (high) and bulk (low) schedules share, among each other or with the next
        few hundred of each priority in Redis; and those without a worker whose name is similar to one with workers.
        """
        from zsched.client.doubtful_queues import misspelt_queues, shared_queues  # for `zsched add` and `apply`

        given, heard = list(put), self._inquiry.heard()
        return [*shared_queues(self._reader, given), *misspelt_queues(heard or set(), given)]

    def recent(self) -> Recent:
        """
        Count the events of the last 1, 5 and 30 minutes, and list the latest failed runs. This reads the end of the log
        in Redis, for a quarter of a second at most. ``is_cut``: the time was too short, so the last period is
        incomplete.
        """
        return self._reader.recent(self._clock)

    # -- how ----------------------------------------------------------------------------------------

    def _put(self, func: Any, options: Mapping[str, Any], op: str | None = None) -> Scheduled:
        item = self._rows.read({**options, "func": func})
        facts = PutFacts.of(item)
        named = func.options if isinstance(func, Typed) and options.get("id") is None else options
        has_own_id = named.get("id") is not None
        if op is None and (facts.is_relative or facts.is_conditional or not has_own_id):
            op = new_id()  # to send the call twice could act twice, or answer differently
        return self._scheduled(facts, self._answered(item, facts, op, has_own_id=has_own_id))

    def _answered(self, item: PutItem, facts: PutFacts, op: str | None, *, has_own_id: bool = True) -> Answer:
        put: Callable[[], Answer]
        if isinstance(item, Recurring):
            put = partial(self._put_recurring, item, op)
        else:
            put = partial(self._store.put, *item, op)
        with naming_lost_call(facts.id, is_repeatable=not facts.is_relative):
            again = effect_again(has_own_id, facts.is_relative)
            return self._durably(facts.id, put, is_durable=facts.is_durable, again=again)

    def _bulk_put(self) -> BulkPut:
        return BulkPut(self._store, FirstTimes(self._clock, self._reader))

    def _durably(self, id: str, put: Callable[[], Answer], *, is_durable: bool, again: str) -> Answer:
        """
        Return the answer of *put*, if it has to be durable once an archive has it. *again*: the effect of the same call
        once more. Raises NotArchived.
        """
        if not is_durable:
            return put()
        self._durability.require()
        answer, what = put(), f"schedule {id!r}"
        if answer.entry is not None:
            self._durability.wait_for(answer.entry, answer.now_ms, what, again)
        elif answer.word in ("unchanged", "kept", "already_fired"):  # written by an earlier call
            self._durability.wait_for_all(what)
        return answer

    def _put_recurring(self, item: Recurring, op: str | None) -> Answer:
        first_times = FirstTimes(self._clock, self._reader)
        for _ in range(REPLANS):
            plan = first_times.plan(item.rule, item.record.id)
            answer = self._store.put_recurring(RecurringRow(item.record, item.rule.text, plan, item.seen_version), op)
            if answer.word != "AGAIN":
                return answer
            first_times.tell(answer.now_ms)
        raise outdated()

    def _revised(self, found: StoredSchedule, changes: Mapping[str, Any]) -> Definition:
        """Return the stored options, updated by *changes*. The payload is opened only if a part of it changes."""
        fields = found.fields
        data = bytes(fields.get("data", b""))  # type: ignore[arg-type]  # bytes
        stored = self._encoder.options(fields, runs=self._runs_pickles)
        if any(name in changes for name in PAYLOAD) and not changes.keys() >= {"args", "kwargs"}:
            stored["args"], stored["kwargs"] = self._opened(found.schedule.id, data, changes)
        func = changes.get("func") or loaded_task(found.schedule.func)
        if isinstance(func, Typed) and any(name in changes for name in PAYLOAD):
            given = {**stored, **changes}
            func.checked_id(found.schedule.id, given.get("args"), given.get("kwargs"))
        return revise(found.schedule, stored, data, changes, self._urgencies)

    def _signing_again(self, found: StoredSchedule) -> Store:
        """
        Return the store for a change of *found*, which signs it if it is signed. Raises InvalidSchedule: another
        program may have made what stays of it.
        """
        signer, schedule = self._store.signer, found.schedule
        if not found.signature:
            return self._store.without_signer()
        due_ms = schedule.next_ms if schedule.kind == "once" else None
        try:
            if signer is None:
                raise BadSignature("it is signed, and this client has no keys")
            signer.check_found(schedule.id, due_ms, found.fields)
        except BadSignature as error:
            remedy = "schedule it again with all of its options, by a client with keys"
            raise InvalidSchedule("id", schedule.id, str(error), remedy) from error
        return self._store

    def _opened(self, id: str, data: bytes, changes: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a stored payload; one of them will stay. Raises InvalidSchedule."""
        try:
            _, args, kwargs = self._encoder.open(data, runs=self._runs_pickles)
        except InvalidSchedule as error:
            kept = " and ".join(name for name in ("args", "kwargs") if name not in changes)
            problem = f"the stored ones of schedule {id!r} cannot be read ({error.__cause__})"
            raise InvalidSchedule(kept, NOT_GIVEN, problem, error.remedy) from error
        return args, kwargs

    def _scheduled(self, facts: PutFacts, answer: Answer) -> Scheduled:
        due_ms = None if answer.detail is None else int(answer.detail)
        self._store.demand(answer.word, facts.id, due_ms=due_ms, now_ms=answer.now_ms, if_version=facts.if_version)
        run_id = self._keys.run_id(facts.id, due_ms) if facts.is_one_shot and due_ms is not None else None
        next_ms = None if answer.word == "already_fired" else due_ms
        next_at = None if next_ms is None else from_ms(next_ms)
        return Scheduled(facts.id, answer.word, next_at, run_id, answer.version)


def _defined(urgencies: Presets, func: Any, options: Mapping[str, Any]) -> Definition:
    return define(func, options, _fallback_id(options), urgencies)


def _fallback_id(options: Mapping[str, Any]) -> str:
    """Return an id for a call without one."""
    return new_id() if options.get("id") is None else ""
