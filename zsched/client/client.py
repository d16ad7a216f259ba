"""
The client: schedule, change, list and cancel, each usually in one round trip.

A call has its id, or an operation id made before the first attempt. When a reply is lost, the same call is sent again,
at most twice, and does nothing the second time. If that fails too, the exception names the id, whether the call may
have been applied, and the effect of repeating it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from zsched.client.caller import caller
from zsched.client.repairs import Repairs, ScheduleRepair
from zsched.config.bounds import VALID_DAYS
from zsched.core.clock import Clock, SystemClock
from zsched.core.options.arguments import check_by, check_id, choice, flag, serializer_name
from zsched.core.options.choices import Refused
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.keys import Keys

if TYPE_CHECKING:
    from zsched.client.doubtful_queues import MisspeltQueue, Prioritized, SharedQueue
    from zsched.core.model import Many, Schedule, Scheduled
    from zsched.core.occurrences.recent import Recent
    from zsched.core.options.arguments import ScheduleFilters
    from zsched.core.options.define import Presets
    from zsched.core.options.table import EnqueueOptions, RuleOptions, ScheduleOptions, ScheduleRow, UpdateOptions
    from zsched.core.repair import Repaired
    from zsched.storage.accounts import Limits
    from zsched.storage.overview import Overview
    from zsched.storage.queues import StalledQueues
    from zsched.storage.signer import Signer


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
    ``core.options.define``, or add to them. *runs_pickles*: ``update`` unpickles payloads from Redis as a worker does.
    This runs code that any writer of rq:job:* may have put there. Otherwise it opens plain values only. *by*: the name
    under which the log has this client's changes, a label that proves nothing; None: ``ZSCHED_BY``, else user@host.
    *signing_keys_file*: its first key signs what this client schedules, for workers that demand it
    (docs/how-to/sign-jobs.md); None: nothing is signed. A signature is valid for *signing_valid_days* after the due
    time of a one-shot, or the put of a recurring schedule. Arguments that inflate to more than 10 MB cannot be signed.
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
        self._urgencies = _checked_urgencies(urgencies)
        self._signer = None
        if signing_keys_file is not None:
            self._signer = _signer(self._link, self._keys, self._clock, signing_keys_file, signing_valid_days)

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
        return self._by

    def acting_as(self, by: str, limits: Limits | None = None) -> Client:
        """
        Return a client with the same connections, whose changes the log has under the name *by*. It costs no call of
        Redis, so a server can make one per request. With *limits*, the history of a schedule begins when it came within
        them. Raises InvalidSchedule.
        """
        return self._named(check_by(by), limits)

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
        return self._putting.put(func, options)

    def schedule_as(self, op: str, func: str | Callable[..., Any], /, **options: Unpack[ScheduleOptions]) -> Scheduled:
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
        Push a run into its queue at once, through the same script and log.

        With an ``id`` and ``if_exists="keep"`` (or "error"), the same id does not run twice. For ``unique_for`` after
        the push, by default a day, such calls answer "kept" with the first run's id (or raise). That run may be queued,
        running, or over; only a cancelled run does not count. Raises as ``schedule``.
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
        return self._putting.put_many(rows, on_progress or (lambda done: None), refused)

    def update(self, id: str, /, **changes: Unpack[UpdateOptions]) -> Scheduled:
        """
        Change some options of a schedule, for example only the time or only the payload; the others stay. New arguments
        of a task are checked, if this process has imported it. A signed schedule is signed again, and one without a
        signature stays so.

        Raises:
            ScheduleNotFound: no such schedule.
            InvalidSchedule: a change is invalid, or would turn a recurring schedule into a one-shot or back. Or stored
                args or kwargs would stay and are not plain values (``runs_pickles``). Or this client cannot check its
                signature, or it is not good. Or another program broke an option of it.
            VersionConflict: it does not have the version ``if_version``.
            Contended: another writer changed it at every attempt.
        """
        return self._updating.update(check_id(id), changes)

    def sign_many(self, unsigned: bool = False, **given: Unpack[ScheduleRepair]) -> Repaired:
        """
        Sign waiting schedules again by this client's first key: after a rotation, or before their signatures expire.
        They keep their times. A schedule is refused if its signature is not good, as another program may have made it.
        *unsigned*: sign also schedules that have no signature, as they are; so signing can begin. Raises as
        ``Repairs``; InvalidSchedule: this client has no keys.
        """
        if self._signer is None:
            remedy = "give Client(signing_keys_file=…), or [signing] keys_file"
            raise InvalidSchedule("signing_keys_file", None, "this client has no keys", remedy)
        sign = partial(self._updating.sign, takes_unsigned=flag("unsigned", unsigned))
        return self._portions.change(sign, dict(given))

    # -- reading ------------------------------------------------------------------------------------

    def list(
        self, *, limit: int | None = None, after: str | None = None, **filters: Unpack[ScheduleFilters]
    ) -> Iterator[Schedule]:
        """
        List schedules: active ones by due time, then paused, quarantined and ended ones by id; read page by page.

        *match* is a glob over ids; *owner* "": without an owner. *after* is the ``cursor`` of the last listed schedule:
        the listing continues after it. Raises InvalidSchedule at once for an invalid filter.
        """
        from zsched.core.listing import Filter, select

        return select(Filter.of(limit=limit, after=after, **filters), self._reader)

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
        from zsched.client.preview import next_times

        schedule = None if id is None else self.get(id)
        return next_times(self._link, self._clock, schedule, trigger, n, start)

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


def _checked_urgencies(urgencies: Presets | None) -> Presets | None:
    if not urgencies:
        return None
    from zsched.core.options.define import merged_presets  # few clients have their own

    return merged_presets(urgencies)


def _signer(link: Link, keys: Keys, clock: Clock, file: str, valid_days: int) -> Signer:
    from zsched.storage.keyfile import KeyFile
    from zsched.storage.meta import server_now_ms
    from zsched.storage.signer import Signer, checked_valid_days

    days = checked_valid_days(valid_days)
    return Signer(KeyFile(file), keys, days, clock, partial(server_now_ms, link, keys))
