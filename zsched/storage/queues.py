"""
The queues in use, *stalled* queues, from which no worker takes jobs, and the work that workers will get: the number of
runs that are due soon, by queue. Nothing here writes.

A queue is stalled because it is *unheard* (no worker listens to it), or because RQ's workers are *suspended*. At most
some thousand workers and queues are read, and some hundred schedules, in a few round trips.

RQ's workers register when they start, and do not repeat that after a loss of Redis. So a worker also counts if it runs
a job, or if it finished one lately and its heartbeats continue.

Not guaranteed: after a loss, a running worker is unknown until it takes a job. A killed worker counts until RQ forgets
it, some minutes later.

**Due soon.** One-shots: a lane has ids and times; the queue is in the job. So each lane is read in slices, one per
window of time. A slice of up to SAMPLE schedules is read whole, and its numbers are exact. Of a longer one, SAMPLE
schedules are read, some neighbours at each of equal distances, and its exact length is shared out in their proportions.
Throttled ones are left out, as a limit of their queue holds them back. Recurring schedules: their rules are asked for
all occurrences within the time. Of more than MOST_RULES some are asked, and their numbers are shared out. What is
overdue is in the first window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zsched.core.entry import text
from zsched.core.model import Schedule, json_of
from zsched.core.occurrences.future import Future, Spans
from zsched.core.options.choices import Priority
from zsched.core.pages import pages_of
from zsched.core.runs.job import ms_of, whole
from zsched.core.runs.run_id import run_key
from zsched.core.wording import nearest, plural, rough_duration
from zsched.errors import RedisRefused
from zsched.storage.connection import Command, Wire
from zsched.storage.jobs import allowed_replies, members
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms, throttled_sets, zone_in
from zsched.storage.rqkeys import RqKeys
from zsched.storage.throttled import HeldBack
from zsched.storage.workers import OF_LIVING, lives, workers_of

if TYPE_CHECKING:
    from zsched.core.occurrences.recent import RecentActivity


UNATTENDED_MS: Final = 300_000  # longer than a restart of a worker, or a pause between batches

_QUEUES: Final = 2000  # read at most
_SCHEDULES: Final = 500  # recurring ones, and the next of each lane, to find queues in use
_HEAD: Final = 10  # jobs of a queue that are searched for a run of the namespace
_FEW, _MANY = 10, 500  # names of a queue's workers in one reply: a few usually include a living one
_LATEST: Final = 5  # ended jobs of a queue that are searched for their worker, of each kind
_SIMILAR: Final = 0.7  # of two names, as difflib counts: "emial" and "email" have 0.8
WITHIN_MS: Final = {"1m": 60_000, "10m": 600_000, "60m": 3_600_000}
MOST_RULES: Final = 1000  # that are asked: 60 ms
_MINUTE_MS: Final = 60_000
_LAST_MS: Final = max(WITHIN_MS.values())
_OF_RULE: Final = ""  # no queue has this name
_CHUNKS: Final = 10  # of a sample: each is read by one command
SAMPLE: Final = 100  # schedules of a slice whose queue is read: two questions each, 2 ms of Redis in all


class StalledQueue(NamedTuple):
    """
    A queue from which no worker takes jobs. ``waiting``: the number of jobs in it, of any producer. ``waits_ms``: the
    waiting time of the oldest job; None if unknown. ``is_ours``: the namespace's schedules use it, or one of its runs
    is among the next jobs. ``meant``: a queue with workers and a similar name; None if there is none.
    """

    queue: str
    waiting: int
    waits_ms: int | None
    is_ours: bool
    meant: str | None = None

    @property
    def is_stuck(self) -> bool:
        """True if jobs have waited for so long that an operator has to act."""
        return self.waits_ms is not None and self.waits_ms > UNATTENDED_MS

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        waits_s = None if self.waits_ms is None else self.waits_ms // 1000
        return {"queue": self.queue, "waiting": self.waiting, "waits_s": waits_s, "meant": self.meant}


class StalledQueues(NamedTuple):
    """
    ``unheard``: queues without workers that schedules use, or in which jobs wait. ``is_suspended``: RQ's workers wait
    for ``rq resume``. ``suspended``: all queues in which jobs wait then. ``used``: the number of queues that schedules
    use. ``heard``: the number of queues with workers. ``is_after_loss``: Redis lost data lately, maybe the
    registrations of workers.
    """

    unheard: list[StalledQueue]
    is_suspended: bool
    suspended: list[StalledQueue]
    used: int
    heard: int = 0
    is_after_loss: bool = False

    def after(self, recent: RecentActivity) -> StalledQueues:
        """Return them with what *recent* knows of a loss."""
        return self._replace(is_after_loss=recent.rebuilt is not None)

    @property
    def of_ours(self) -> StalledQueues:
        """Return the part with the namespace's own queues."""
        unheard, suspended = ([one for one in queues if one.is_ours] for queues in (self.unheard, self.suspended))
        return self._replace(unheard=unheard, suspended=suspended)


class QueueSeen(NamedTuple):
    """
    A queue. ``waiting`` and ``waits_ms``: as in ``StalledQueue``. ``workers``: the names of the living workers that
    listen. ``held``: its schedules that its limit holds back, and the limit. ``due``: the number of runs that are due
    within a time, as ``upcoming.due_soon`` counts them.
    """

    queue: str
    waiting: int
    waits_ms: int | None
    workers: Sequence[str]
    held: HeldBack | None
    due: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        waits_s = None if self.waits_ms is None else self.waits_ms // 1000
        per_second, held_back = (None, 0) if self.held is None else (self.held.per_second, self.held.waiting)
        others = {"max_per_second": per_second, "held_back": held_back, "due_within": dict(self.due)}
        return json_of(self, "queue", "waiting", "waits_s", "workers", *others, waits_s=waits_s, **others)


def waiting_text(queues: Sequence[StalledQueue]) -> str:
    """Return ``3 jobs wait, the oldest for 6 min``, for all *queues* together."""
    count = sum(one.waiting for one in queues)
    oldest_ms = max((one.waits_ms for one in queues if one.waits_ms is not None), default=None)
    jobs = f"{plural(count, 'job')} wait{'s' if count == 1 else ''}"
    if oldest_ms is None:
        return jobs
    unit_ms = 60_000 if oldest_ms >= 60_000 else 1000
    return f"{jobs}{', the oldest' if count > 1 else ''} for {rough_duration(max(oldest_ms // unit_ms, 1) * unit_ms)}"


def warned_jobs(wire: Wire, keys: Keys) -> dict[str, int]:
    """Return, by queue, how many jobs guards in the mode ``warn`` let run. Raises RedisRefused, RedisUnavailable."""
    (flat,) = allowed_replies(wire, [("HGETALL", keys.rq.warned())])
    flat = list(map(text, flat or []))
    return {queue: whole(number) for queue, number in zip(flat[::2], flat[1::2], strict=True)}


def registered_queues(wire: Wire, rq: RqKeys) -> set[str]:
    """
    Return the queues with registered workers, among those that have had a job. A client's user may read them, but not
    the workers. So a killed worker counts until RQ removes its name. Raises as above.
    """
    queues = [rq.queue_name(key) for key in members(wire, rq.queues(), _QUEUES)]
    numbers = allowed_replies(wire, (("SCARD", rq.queue_workers(queue)) for queue in queues))
    return {queue for queue, number in zip(queues, numbers, strict=True) if number}


def used_queues(wire: Wire, keys: Keys) -> set[str]:
    """
    Return the queues of some hundred active recurring schedules, and of the next schedules. Raises as above.
    """
    commands: list[Command] = [("HGET", keys.template(id), "origin") for id in _firing(wire, keys)]
    for lane in Priority:
        flat = wire.execute("ZRANGE", keys.due(lane), 0, _SCHEDULES - 1, "WITHSCORES")
        runs = (keys.run_id(text(id), text(due)) for id, due in zip(flat[::2], flat[1::2], strict=True))
        commands += [("HGET", keys.rq.job(run), "origin") for run in runs]  # recurring schedules have no such job
    found = {text(queue) for queue in allowed_replies(wire, commands) if queue}
    return found | {one.queue for one in throttled_sets(wire, keys) if zone_in(one.queue) is None}


def stalled_queues(wire: Wire, keys: Keys) -> StalledQueues:
    """Return the stalled queues among those that schedules use or RQ knows. Raises as above."""
    used, is_suspended = used_queues(wire, keys), suspended(wire, keys.rq)
    known = used | {keys.rq.queue_name(key) for key in members(wire, keys.rq.queues(), _QUEUES)}
    silent = unheard(wire, keys, known)
    silent -= _lately_served(wire, keys, silent)
    registered = workers_of(wire, keys.rq) if silent else []
    heard = (known - silent).union(*(one.queues for one in registered))
    stalled = _stalled(wire, keys, sorted(known if is_suspended else silent), used)
    unheard_ones = [one for one in stalled if one.queue in silent and (one.waiting or one.queue in used)]
    if len(unheard_ones) <= _FEW:  # more are no typing mistakes, and to compare all names takes seconds
        unheard_ones = [one._replace(meant=similar(one.queue, heard) or None) for one in unheard_ones]
    return StalledQueues(
        unheard_ones, is_suspended, [one for one in stalled if is_suspended and one.waiting], len(used), len(heard)
    )


def queues_seen(
    wire: Wire, keys: Keys, held: Iterable[HeldBack], due: Mapping[str, Mapping[str, int]]
) -> list[QueueSeen]:
    """
    Return the queues that schedules use, that RQ knows or that workers listen to, by name. *held*: as in ``Overview``;
    *due*: as of ``Reader.due_soon``. Raises as above.
    """
    workers, by_queue = workers_of(wire, keys.rq), {one.queue: one for one in held}
    used = used_queues(wire, keys) | due.keys()
    known = used.union(by_queue, *(one.queues for one in workers))
    known |= {keys.rq.queue_name(key) for key in members(wire, keys.rq.queues(), _QUEUES)}
    found = []
    for one in _stalled(wire, keys, sorted(known), used):
        names = sorted(worker.name for worker in workers if one.queue in worker.queues)
        soon = due.get(one.queue, dict.fromkeys(WITHIN_MS, 0))
        found.append(QueueSeen(one.queue, one.waiting, one.waits_ms, names, by_queue.get(one.queue), soon))
    return found


def similar(queue: str, heard: Collection[str]) -> str:
    """Return the queue in *heard* whose name looks like that of *queue*, or "": *queue* may be a typing mistake."""
    return nearest(queue, sorted(heard), _SIMILAR)


def suspended(wire: Wire, rq: RqKeys) -> bool:
    """Return True if RQ's workers are suspended (``rq suspend``). Raises as above."""
    return bool(wire.execute("EXISTS", rq.suspended()))


def unheard(wire: Wire, keys: Keys, queues: Collection[str]) -> frozenset[str]:
    """
    Return the *queues* without a living registered worker and without a running job. A worker that this user may not
    read counts as living; a job that it may not read does not count.

    Raises:
        RedisRefused: it may not even read the number of workers. RedisUnavailable.
    """
    found = _unregistered(wire, keys.rq, sorted(queues))
    since_s = server_now_ms(wire, keys) // 1000
    running = wire.replies(("ZCOUNT", keys.rq.registry("wip", queue), f"({since_s}", "+inf") for queue in found)
    has_run = (isinstance(count, int) and count > 0 for count in running)
    return frozenset(queue for queue, is_heard in zip(found, has_run, strict=True) if not is_heard)


def _lately_served(wire: Wire, keys: Keys, queues: Collection[str]) -> set[str]:
    """
    Return the *queues* of which a living worker finished a job lately. RQ's registries are sorted by the end of the
    time for which a job is kept, so a job that is kept shorter than others may be missed.
    """
    kinds = [(queue, keys.rq.registry(kind, queue)) for queue in queues for kind in ("finished", "failed")]
    pages = wire.replies(("ZRANGE", key, -_LATEST, -1) for _, key in kinds)
    ended = [(queue, id) for (queue, _), page in zip(kinds, pages, strict=True) for id in _listed(page)]
    if not ended:
        return set()
    jobs = wire.replies(("HMGET", keys.rq.job(id), "ended_at", "worker_name") for _, id in ended)
    since_ms = server_now_ms(wire, keys) - UNATTENDED_MS
    served = {
        (queue, text(job[1]))
        for (queue, _), job in zip(ended, jobs, strict=True)
        if isinstance(job, list) and all(job) and (ms_of(text(job[0])) or 0) > since_ms
    }
    names = sorted({name for _, name in served})
    found = wire.replies(("HMGET", keys.rq.worker(name), "last_heartbeat", "death") for name in names)
    about = dict(zip(names, found, strict=True))
    return {queue for queue, name in served if (seen := _listed(about[name])) and seen[0] and not seen[1]}


def _listed(reply: Any) -> list[Any]:
    """Return a list of a reply; [] for a key of a wrong type, and for one that this user may not read."""
    return reply if isinstance(reply, list) else []


def _unregistered(wire: Wire, rq: RqKeys, queues: list[str]) -> list[str]:
    """Return the *queues* without a living registered worker. Names of killed workers stay registered for a while."""
    numbers = allowed_replies(wire, (("SCARD", rq.queue_workers(queue)) for queue in queues))
    found = [queue for queue, number in zip(queues, numbers, strict=True) if not number]
    cursors, size = {queue: b"0" for queue, number in zip(queues, numbers, strict=True) if number}, _FEW
    while cursors:
        pages = wire.replies((("SSCAN", rq.queue_workers(queue), at, "COUNT", size) for queue, at in cursors.items()))
        read = {queue: page for queue, page in zip(cursors, pages, strict=True) if not isinstance(page, RedisRefused)}
        names = sorted({name for _, page in read.values() for name in page})
        states = dict(zip(names, wire.replies(("HMGET", name, *OF_LIVING) for name in names), strict=True))
        without = {queue: at for queue, (at, page) in read.items() if not any(lives(states[name]) for name in page)}
        found += [queue for queue, at in without.items() if at == b"0"]
        cursors, size = {queue: at for queue, at in without.items() if at != b"0"}, _MANY
    return found


def waiting_in(wire: Wire, keys: Keys, queues: Collection[str]) -> dict[str, int]:
    """Return the numbers of jobs that wait in *queues*, without empty ones. Raises as above."""
    lengths = allowed_replies(wire, (("LLEN", keys.rq.queue(queue)) for queue in queues))
    return {queue: length for queue, length in zip(queues, lengths, strict=True) if length}


def _stalled(wire: Wire, keys: Keys, queues: list[str], used: set[str]) -> list[StalledQueue]:
    waiting = waiting_in(wire, keys, queues)
    pages = allowed_replies(wire, (("LRANGE", keys.rq.queue(queue), 0, _HEAD - 1) for queue in waiting))
    heads = {queue: head for queue, head in zip(waiting, pages, strict=True) if head}
    waits_ms = _waits_ms(wire, keys, heads, [queue for queue in heads if waiting[queue] > _HEAD])
    ours = used | {queue for queue, head in heads.items() if any(run_key(text(id), keys.namespace) for id in head)}
    return [StalledQueue(queue, waiting.get(queue, 0), waits_ms.get(queue), queue in ours) for queue in queues]


def _waits_ms(wire: Wire, keys: Keys, heads: dict[str, list[bytes]], long: list[str]) -> dict[str, int]:
    """
    Return, by queue, the waiting time of the job that was pushed first: the first of *heads* or, among jobs pushed at
    the front, the last. In *long* queues that job is not among the heads.
    """
    lasts = dict(
        zip(long, allowed_replies(wire, (("LINDEX", keys.rq.queue(queue), -1) for queue in long)), strict=True)
    )
    ends = list({(queue, id) for queue, head in heads.items() for id in (head[0], lasts.get(queue) or head[-1])})
    pushed = allowed_replies(wire, (("HGET", keys.rq.job(id), "enqueued_at") for _, id in ends))
    now_ms, found = server_now_ms(wire, keys), dict[str, int]()
    for (queue, _), at in zip(ends, pushed, strict=True):
        if at and (at_ms := ms_of(text(at))) is not None:
            found[queue] = max(found.get(queue, 0), now_ms - at_ms)
    return found


def _firing(wire: Wire, keys: Keys) -> list[str]:
    """Return the active recurring schedules: not paused, not in quarantine, not ended."""
    if not (ids := members(wire, keys.recurring(), _SCHEDULES)):
        return []
    paused, quarantined = (wire.execute("HMGET", key, *ids) for key in (keys.paused(), keys.quarantine()))
    ended = allowed_replies(wire, (("HGET", keys.schedule(id), "ended_at") for id in ids))
    return [id for id, *rests in zip(ids, paused, quarantined, ended, strict=True) if not any(rests)]


def due_soon(wire: Wire, keys: Keys, rules: Sequence[Schedule], of_rules: int) -> dict[str, dict[str, int]]:
    """
    Return, by queue, the number of runs that are due within each of WITHIN_MS, by its name. *rules*: recurring
    schedules, all or some *of_rules*.

    Raises:
        RedisRefused, RedisUnavailable.
    """
    now_ms = server_now_ms(wire, keys)
    found: list[Counter[str]] = [Counter() for _ in WITHIN_MS]
    for lane in Priority:
        counts = allowed_replies(wire, (("ZCOUNT", keys.due(lane), "-inf", now_ms + ms) for ms in WITHIN_MS.values()))
        for number, (begin, end) in enumerate(pairwise([0, *(count or 0 for count in counts)])):
            found[number].update(_by_queue(wire, keys, lane, begin, end))
    minutes = Future(rules, now_ms, now_ms, now_ms + _LAST_MS).counts(
        Spans(now_ms, _MINUTE_MS, _LAST_MS // _MINUTE_MS), lambda one: one.queue
    )
    for queue, row in minutes.rows.items():
        for number, (begin, end) in enumerate(pairwise([0, *(ms // _MINUTE_MS for ms in WITHIN_MS.values())])):
            found[number][queue] += round(sum(row[begin:end]) * of_rules / len(rules))
    sums = list(accumulate(found))
    names = sorted({queue for one in sums for queue in one})
    return {queue: {within: one[queue] for within, one in zip(WITHIN_MS, sums, strict=True)} for queue in names}


def _by_queue(wire: Wire, keys: Keys, lane: Priority, begin: int, end: int) -> dict[str, int]:
    """Count the one-shots of *lane* from rank *begin* up to *end*, by queue."""
    size, per_chunk = max(end - begin, 0), SAMPLE // _CHUNKS
    starts = range(begin, end, max(size // _CHUNKS, per_chunk))
    pages = allowed_replies(
        wire, (("ZRANGE", keys.due(lane), at, min(at + per_chunk, end) - 1, "WITHSCORES") for at in starts)
    )
    members = [(text(id), text(due)) for flat in pages for id, due in pages_of(flat or (), 2)]
    places = ((keys.template(id), keys.rq.job(keys.run_id(id, due))) for id, due in members)
    found = pages_of(allowed_replies(wire, (("HGET", key, "origin") for pair in places for key in pair)), 2)
    seen = Counter(_OF_RULE if template else text(job) for template, job in found if template or job)  # or it is gone
    shared = _shared(seen, size)
    shared.pop(_OF_RULE, None)
    return shared


def _shared(seen: Counter[str], size: int) -> dict[str, int]:
    """Share *size* out by the numbers in *seen*: at least one for each, as it was seen."""
    total = seen.total()
    return {queue: max(round(size * number / total), 1) if size > total else number for queue, number in seen.items()}
