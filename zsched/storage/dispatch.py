"""
The leader's scripts: fire, advance, quarantine, limit, record ends, handle lost runs, trim the log, re-plan; and push
RQ's own delayed jobs (``enqueue_at``, ``enqueue_in``, ``Retry(interval=…)``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, NamedTuple

from zsched.core.entry import Position, text
from zsched.core.occurrences.planning import Move
from zsched.core.occurrences.policy import Plan, Policy, passed_text
from zsched.core.options.choices import IfExists, Priority
from zsched.core.pages import pages_of
from zsched.core.runs.job import OFFSET_FIELD, UNSIGNED
from zsched.core.runs.run import FAILURES, GONE, Run, facts_text
from zsched.core.runs.run_id import schedule_of
from zsched.storage.connection import Wire
from zsched.storage.jobs import existing
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.puts import Shape, one_shots_call
from zsched.storage.scripts import Scripts

_CHAINS = 100  # schedules per call of unblock: Redis does nothing else meanwhile
_SILENT_MS = 7 * 86_400_000  # without a report for this long, an archive is no longer listed
_COUNTS = {"succeeded": "+"} | dict.fromkeys(map(str, FAILURES), "!")  # by status, as track.lua counts
_OF_A_PUT = frozenset((b"status", b"created_at", b"zs_version", b"data"))  # fields of a waiting job that put.lua writes
LOCK_S = 30  # a queue is RQ's again this long after the last daemon was killed


class Window(NamedTuple):
    """The range of the server's TIME in which a script may fire, computed from the caller's monotonic clock."""

    from_ms: int
    until_ms: int


class DueRecurring(NamedTuple):
    """
    A due recurring schedule: its place ("<lane>", or "<lane>:<queue>" if it was throttled), and the fields of its rule.
    Unchecked bytes from Redis: another writer may have written anything.
    """

    id: bytes
    lane: bytes
    due_ms: bytes
    progress: bytes  # as lib/progress.lua
    trigger: bytes
    anchor_ms: bytes
    policy: bytes | None = None  # as ``Policy.to_text``


class WrittenPlan(NamedTuple):
    """
    A plan, also in the form for advance.lua. It holds from ``from_ms``, the due time of its occurrence, to
    ``until_ms``, when the next occurrence is due or this one is too late. ``has_chain``: its run may wait for others or
    replace them.
    """

    plan: Plan
    words: bytes
    from_ms: int = 0
    until_ms: int = 0
    has_chain: bool = False


PlannedDue = tuple[DueRecurring, WrittenPlan]


@dataclass(frozen=True, slots=True)
class FireResult:
    """
    Result of one fire, at ``now_us`` by TIME. ``next_ms``: when to fire again; None if nothing waits. ``looked``:
    number of schedules read. ``skipped``, ``expired``: run ids; ``quarantined``: ids, each with the reason;
    ``cancelled``: "<run id>=<RQ status>"; ``wrong``: RQ's keys of a wrong type that were ignored.
    """

    now_us: int
    next_ms: int | None
    looked: int
    runs: int
    uncertain: int
    skipped: list[str]
    expired: list[str]
    cancelled: list[str]
    quarantined: list[tuple[str, str]]
    recurring: list[DueRecurring]
    wrong: list[str] = field(default_factory=list)

    @property
    def now_ms(self) -> int:
        """TIME in whole milliseconds."""
        return self.now_us // 1000


class Stopped(NamedTuple):
    """The script fired nothing: HELD until ``until_ms``, or JUMPED (the server's clock is outside of the window)."""

    word: str
    now_ms: int
    until_ms: int | None = None


class Unblocked(NamedTuple):
    """
    Result of a part of a round through chains: the ``cursor`` for the next part ("0": the round is over), whether runs
    still wait there, and the launched runs, each with the reason.
    """

    cursor: str
    waits: bool
    launched: list[tuple[str, str]]


class RecordedEnds(NamedTuple):
    """
    Result of ends that were recorded. *entry*: the last entry (None: nothing changed). *again*, *ended*: lost runs that
    are in their queues again, and runs that ended. *paused*: schedules.
    """

    entry: Position | None
    again: list[str]
    ended: list[str]
    paused: list[str]


class ReplanResult(NamedTuple):
    """*before*: the version of the present plans, '' if not recorded; *moved*: the moves that were made."""

    before: str
    moved: list[Move]


class Dispatch:
    """The leader's operations, all over one wire. Every call raises Stale or ServerChanged."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)

    def limit(self, term: Term, per_second: Mapping[str, float]) -> None:
        """Replace all limits of queues by *per_second*."""
        rows = [each for queue, rate in per_second.items() for each in (queue, f"{rate:.12g}")]
        self._scripts.call("limits", rows=rows, **term.fence)

    def fire(self, term: Term, window: Window, limit: int, lacking: Iterable[str] = ()) -> FireResult | Stopped:
        """
        Push the due one-shots among the first *limit* due schedules; return the recurring ones among them. *lacking*:
        zones that this machine lacks; schedules that were set aside for them stay there.
        """
        reply = self._scripts.call("fire", limit=limit, lacking=" ".join(lacking), **_guard(term, window))
        if isinstance(reply[0], str):
            return Stopped(*reply)
        now_us, next_ms, looked, runs, skipped, expired, cancelled, quarantined, uncertain, recurring, wrong = reply
        return FireResult(
            now_us=int(now_us),
            next_ms=int(next_ms) if next_ms != b"" else None,
            looked=looked,
            runs=runs,
            uncertain=uncertain,
            skipped=_texts(skipped),
            expired=_texts(expired),
            cancelled=_texts(cancelled),
            quarantined=[(text(id), text(reason)) for id, reason in quarantined],
            recurring=[due for lane, *texts in recurring for due in _due_in(lane, iter(texts))],
            wrong=_texts(wrong),
        )

    def advance(
        self, term: Term, window: Window, patience_ms: int, planned: Sequence[PlannedDue]
    ) -> list[str] | Stopped:
        """
        Fire planned occurrences and set the next ones. Return the word of an ``Outcome`` per schedule.
        """
        rows, order = _advance_rows(planned)
        reply = self._scripts.call("advance", patience_ms=patience_ms, rows=rows, **_guard(term, window))
        if isinstance(reply[0], str):
            return Stopped(*reply)
        words = dict(zip(order, text(reply[1]).split(), strict=True))
        return [words[number] for number in range(len(planned))]

    def unblock(self, term: Term, window: Window, cursor: str) -> Unblocked | Stopped:
        """Launch waiting runs whose turn it is, and withdraw replaced runs. Begin with the cursor "0"."""
        reply = self._scripts.call("unblock", cursor=cursor, count=_CHAINS, **_guard(term, window))
        if isinstance(reply[0], str):
            return Stopped(*reply)
        _now_ms, after, waits, *launched = reply
        texts = _texts(launched)
        return Unblocked(text(after), bool(waits), [*zip(texts[::2], texts[1::2], strict=True)])

    def quarantine(self, term: Term, bad: Sequence[tuple[DueRecurring, bytes]]) -> int:
        """Quarantine schedules that cannot be planned, each with a reason; return the number of moved ones."""
        rows = [each for due, reason in bad for each in (*due[:4], reason)]
        return int(self._scripts.call("quarantine", rows=rows, **term.fence)[1])

    def set_aside(self, term: Term, lacking: Sequence[tuple[DueRecurring, str]]) -> int:
        """Set schedules aside whose zone this machine lacks, each with the zone; return the number of moved ones."""
        rows = [each for due, zone in lacking for each in (*due[:4], zone)]
        return int(self._scripts.call("set_aside", rows=rows, **term.fence)[1])

    def move_once(self, moves: Sequence[Move], by: str) -> list[bool]:
        """Put one-shots at their new times, for *by*; return for each whether it was still as it was read."""
        scripts, done = Scripts(self._wire, self._keys, by), []
        for move in moves:
            record, stored = move.record, move.record.job_fields()
            job = {name: value for name, value in stored.items() if name not in _OF_A_PUT}
            job[OFFSET_FIELD.encode()] = str(move.offset_s).encode()
            version, flat = stored.get(b"zs_version") or stored[b"created_at"], tuple(chain.from_iterable(job.items()))
            shape = Shape(Priority(record.lane), flat, (), IfExists.REPLACE, enabled="", allow_past=True)
            row = record.id, str(move.due_ms), UNSIGNED, stored[b"data"]
            name, rows, arguments = one_shots_call(shape, text(version), row, None)
            done.append(text(scripts.call(name, rows=rows, **arguments)[2]) == "updated")
        return done

    def track(self, term: Term, seen: Position, over: Sequence[tuple[Run, str]]) -> RecordedEnds | None:
        """
        Log that runs are over, fired in the history with the entry *seen*. Each has the state of its job
        (``core.runs.job.JobFacts.seen``, or "gone"), and is left out if that changed meanwhile. Return None (LOST) if
        the log does not contain that entry: the runs may be unknown to this Redis.
        """
        return self._record("track", term, seen, (end_row(run, job) for run, job in over))

    def lose(self, term: Term, seen: Position, dead: Sequence[Sequence[str]], ended_ms: int) -> RecordedEnds | None:
        """
        Put runs of dead workers back into their queues, or log that they are lost since *ended_ms*. *dead*: the rows of
        lost.lua. Runs that are alive, or changed meanwhile, are left alone. Return None (LOST) as ``track``.
        """
        return self._record("lost", term, seen, dead, ended_ms=ended_ms)

    def _record(
        self, script: str, term: Term, seen: Position, runs: Iterable[Sequence[str]], **arguments: int
    ) -> RecordedEnds | None:
        """Call *script* for *runs*. Return None for LOST."""
        rows = chain.from_iterable(runs)
        reply = self._scripts.call(script, seen_entry=seen.id, seen_t=seen.t_us, rows=rows, **arguments, **term.fence)
        if reply[0] == "LOST":
            return None
        _now_ms, entry, t_us, *lists = reply
        return RecordedEnds(None if entry == b"-" else Position.of(entry, t_us), *map(_texts, lists))

    def trim(self, term: Term, first_kept: str, limit: int) -> int:
        """Delete at most *limit* of the log's entries before id *first_kept*; return how many were deleted."""
        reply = self._scripts.call("trim", first_kept=first_kept, limit=limit, silent_ms=_SILENT_MS, **term.fence)
        return int(reply[0])

    def replan(
        self, term: Term, field: str, version: str, moves: Sequence[Move] = (), *, is_done: bool = False
    ) -> ReplanResult:
        """
        Move waiting schedules to their times by *version* of what meta's *field* is about. *is_done*: all schedules are
        planned by it now. Without *moves*, only read the version.
        """
        rows = list[Any]()
        for move in moves:
            record = move.record
            known = record.id, record.own_fields()[b"version"], record.due_ms, record.nominal_ms
            rows += (*known, move.nominal_ms, move.due_ms, passed_text(move.passed))
        reply = self._scripts.call(
            "replan", meta_field=field, plans_by=version, is_done=int(is_done), rows=rows, **term.fence
        )
        words = zip(moves, reply[2:], strict=True)
        return ReplanResult(text(reply[1]), [move for move, word in words if word == b"moved"])


def _guard(term: Term, window: Window) -> dict[str, Any]:
    return {**term.fence, "clock_from_ms": window.from_ms, "clock_until_ms": window.until_ms}


def _due_in(lane: bytes, texts: Iterator[bytes]) -> Iterator[DueRecurring]:
    """Return the due recurring schedules of a place, from their texts in the reply of fire.lua."""
    return map(DueRecurring, texts, repeat(lane), texts, texts, texts, texts, texts)


def _advance_rows(planned: Sequence[PlannedDue]) -> tuple[list[bytes | int], list[int]]:
    """Return the rows of advance.lua, and the number of the schedule for each of its answers."""
    by_plan: dict[tuple[bytes, bytes], list[int]] = {}
    for number, (due, plan) in enumerate(planned):
        by_plan.setdefault((due.lane, plan.words), []).append(number)
    order = list(chain.from_iterable(by_plan.values()))
    dues = [planned[number][0] for number in order]
    plans = (b"%d %b %b" % (len(numbers), *of) for of, numbers in by_plan.items())
    return [len(by_plan), *plans, *(due.id for due in dues), *(due.progress for due in dues)], order


def end_row(run: Run, job: str) -> tuple[str, ...]:
    """
    Return the row of track.lua for *run*, with the state *job* of its job. Failed and lost runs count as failures of
    the schedule, except runs that RQ deleted, because their ends are unknown, and requeued runs that failed before:
    they count once.
    """
    status = str(run.status)
    is_counted = run.was in FAILURES and run.status in FAILURES
    counts = "-" if run.error == GONE or is_counted else _COUNTS.get(status, "-")
    return schedule_of(run.id), run.id, job, counts, status, facts_text(run)


def advance_words(plan: Plan, policy: Policy, flags: str = "") -> bytes:
    """Write a plan for advance.lua, of a schedule with these flag letters."""
    times = ("-" if at_ms is None else str(at_ms) for at_ms in (plan.fire_ms, plan.due_ms))
    next_times = ("-" if at_ms is None else str(at_ms) for at_ms in (plan.next_ms, plan.next_due_ms))
    policies = policy.overlap.value, str(policy.overlap_limit), flags or "-"
    return " ".join((*times, *policies, *next_times, passed_text(plan.passed))).encode()


def _texts(values: Sequence[bytes]) -> list[str]:
    return [text(value) for value in values]


class MovedJobs(NamedTuple):
    """
    Result of one call. ``next_ms``: the time of the next job: ``now_ms`` if it is due, None if no job waits.
    ``others``: queue → holder of its lock, for queues that another scheduler serves. ``broken``: queue → key of a wrong
    type, for queues that cannot be served. ``odd``: queue and id of jobs that were not pushed, with the reason:
    ``gone``, ``no status``, WRONGTYPE, or the status in RQ.
    """

    now_ms: int
    next_ms: int | None
    looked: int
    pushed: int
    others: dict[bytes, str]
    broken: dict[bytes, str]
    odd: list[tuple[bytes, bytes, str]]


class NativeJobs:
    """
    The leader's operations over its wire. A queue is served only while its ``rq:scheduler-lock`` is free or the
    namespace's. So a worker --with-scheduler leaves it alone, and a new leader need not wait.
    """

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire, self._keys, self._scripts = wire, keys, Scripts(wire, keys)
        self._owner = f"zsched:{keys.namespace}"

    def queues(self) -> list[bytes]:
        """The queues that RQ knows, in the order of their names. Raises RedisRefused."""
        rq = self._keys.rq
        members = self._wire.execute("SMEMBERS", rq.queues())
        return sorted(rq.queue_name(member) for member in members if member.startswith(rq.queue(b"")))

    def with_jobs(self, queues: Iterable[bytes]) -> set[bytes]:
        """Return the *queues* that have delayed jobs. Raises RedisRefused."""
        registries = {self._keys.rq.registry("scheduled", queue): queue for queue in queues}
        return {registries[key] for key in existing(self._wire, registries)}

    def move(self, term: Term, queues: Sequence[bytes], limit: int) -> MovedJobs:
        """
        Read the first *limit* jobs of *queues* with a score up to the current second, and push the due ones. Raises
        Stale, ServerChanged, RedisRefused.
        """
        now_ms, next_ms, looked, pushed, others, broken, odd = self._call(term, queues, LOCK_S, limit)
        return MovedJobs(
            now_ms=now_ms,
            next_ms=int(next_ms) if next_ms != b"" else None,
            looked=looked,
            pushed=pushed,
            others={queue: text(holder) for queue, holder in pages_of(others, 2)},
            broken={queue: text(key) for queue, key in pages_of(broken, 2)},
            odd=[(queue, id, text(word)) for queue, id, word in pages_of(odd, 3)],
        )

    def release(self, term: Term, queues: Sequence[bytes]) -> None:
        """Release our locks of *queues*. Raises as ``move``."""
        self._call(term, queues, 0, 0)

    def _call(self, term: Term, queues: Sequence[bytes], lock_s: int, limit: int) -> list[Any]:
        return self._scripts.call("native", owner=self._owner, lock_s=lock_s, limit=limit, rows=queues, **term.fence)
