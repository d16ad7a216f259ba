"""
A namespace's counts, leader, backlog and archives at one moment, read in one round trip. Nothing here writes.

The archives' reports also describe their daemons: every daemon has an archiver, which reports at least every 3 s, as
leader or standby, and once more when it stops.

A leader says so in its reports. If it has no lease any more, it was killed, or has not reported since.

Not guaranteed: another daemon that reported within SILENT_MS may have been killed since, and so may a leader that led
for less than 3 s. A daemon that has not reported yet is unknown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from zsched.config.settings import LONGEST_LEASE_MS
from zsched.core.clock import LAST_MS
from zsched.core.entry import Entry, Position, text
from zsched.core.known import Known
from zsched.core.log.lives import TermEntry
from zsched.core.model import json_of
from zsched.core.options.choices import Priority
from zsched.core.runs.job import ms_of
from zsched.core.runs.run_id import run_id_of
from zsched.errors import RedisRefused
from zsched.storage import archivers
from zsched.storage.archivers import ArchiveState, Report, SinkSeen, number_in, text_in
from zsched.storage.connection import Command, Link, Wire
from zsched.storage.jobs import is_denied
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.meta import NUMBERS, Throttled, asking, numbers, server_now_ms, throttled_sets, zone_in
from zsched.storage.records import due_from_score
from zsched.storage.server import Server
from zsched.storage.throttled import HeldBack, held_back
from zsched.storage.troubled import Troubles, runs_in_the_way, trouble_commands, troubles_of, without_known

_FIRST: Final = 10  # schedules of a lane that are read
_EMPTY: Final = {"ZCARD": 0, "ZCOUNT": 0, "SCARD": 0, "HLEN": 0, "HSCAN": (b"0", [])}  # replies; of others []
_LATE_MS: Final = 1000  # a longer wait is explained by a late put, or not
SILENT_MS: Final = 10_000  # without a report; three reports are missing then, so a slow disk is not enough


class DaemonRole(Enum):
    """The role of a daemon."""

    LEADS = "leader"
    STANDS_BY = "standby"
    BARRED = "barred"  # it runs, but may not lead, so it cannot take over
    SILENT = "silent"  # killed, cut off, or its Redis refuses the report: none for SILENT_MS, or not since it led
    STOPPED = "stopped"  # it stopped in order


@dataclass(frozen=True, slots=True)
class DaemonSeen:
    """
    One daemon, from its last report at *told_ms* (the server's time). A missing fact is None. ``worker``: RQ's name of
    the worker that it is inside of. ``started_ms`` is by the clock of its host. ``tzdata`` is its version of the zone
    rules. ``ahead_ms``: its host's clock before that of Redis. ``memory``: bytes of its processes. ``may_not_lead`` is
    the reason why it is BARRED. ``failing`` holds its failing threads, chores and kinds of questions, each with the
    reason. ``archive``: its whole report.
    """

    id: str
    role: DaemonRole
    host: str | None
    worker: str | None
    pid: int | None
    started_ms: int | None
    told_ms: int
    version: str | None
    python: str | None
    redis_py: str | None
    rq: str | None
    tzdata: str | None
    ahead_ms: int | None
    memory: int | None
    archive: Report
    may_not_lead: str | None
    failing: Mapping[str, str]

    @property
    def is_running(self) -> bool:
        """True if it is the leader, a standby, or BARRED."""
        return self.role in (DaemonRole.LEADS, DaemonRole.STANDS_BY, DaemonRole.BARRED)

    @property
    def place(self) -> str:
        """``<host>, pid <pid>``, as far as they are known."""
        return f"{self.host or '?'}, pid {'?' if self.pid is None else self.pid}"

    def to_dict(self) -> dict[str, Any]:
        """Return the daemon for JSON, by ``json_of``; the keys are stable."""
        process = "host", "worker", "pid", "started_at", "told_at", "ahead_s", "memory"
        versions = "version", "python", "redis_py", "rq", "tzdata"
        return json_of(self, "id", "role", *process, *versions, "may_not_lead", "failing")


_TEXTS: Final = ("host", "worker", "version", "python", "redis_py", "rq", "tzdata")


def daemons_of(reports: Iterable[Report], leader: str | None, now_ms: int) -> list[DaemonSeen]:
    """Return the daemons of *reports*: the *leader* first, then by role, host and id."""
    order = list(DaemonRole)
    seen = [_seen(report, leader, now_ms) for report in reports if report.daemon is not None]
    return sorted(seen, key=lambda one: (order.index(one.role), one.host or "", one.id))


def _seen(report: Report, leader: str | None, now_ms: int) -> DaemonSeen:
    about = report.about
    failing = found if isinstance(found := about.get("failing"), dict) else {}
    if about["daemon"] == leader:  # it has the lease, so its report does not matter
        role = DaemonRole.LEADS
    elif report.is_stopped:
        role = DaemonRole.STOPPED
    elif about.get("leads") is True or not report.is_recent(now_ms, SILENT_MS):  # it lost its lease without a word
        role = DaemonRole.SILENT
    else:
        role = DaemonRole.STANDS_BY if _bar(report) is None else DaemonRole.BARRED
    return DaemonSeen(
        id=about["daemon"],
        role=role,
        **{name: text_in(about, name) for name in _TEXTS},
        pid=number_in(about, "pid"),
        ahead_ms=number_in(about, "ahead_ms", -LAST_MS),
        memory=number_in(about, "memory"),
        archive=report,
        started_ms=number_in(about, "started"),
        told_ms=report.told_ms,
        may_not_lead=_bar(report) if role is DaemonRole.BARRED else None,
        failing={part: text for part, text in failing.items() if isinstance(text, str)},
    )


def _bar(report: Report) -> str | None:
    """
    Return the reason why its daemon may not lead, or None. The archive may be the first to report a newer format.
    """
    reason = text_in(report.about, "may_not_lead")
    if reason is None and report.state is ArchiveState.OUTDATED:
        return text_in(report.about, "trouble") or "a newer zsched leads"
    return reason


class KeptLocal(NamedTuple):
    """
    A signed one-shot that was given as local time, and stays at ``due_ms`` after a change of its zone's rules; by these
    it would be due at ``new_due_ms``.
    """

    id: str
    due_ms: int
    new_due_ms: int


@dataclass(frozen=True, slots=True)
class Overview:
    """
    The namespace at one moment. ``lease_ms``: the rest of the leader's lease; None without a leader. ``archives``: the
    last report of each file, of any age; an archive may have advanced since, up to ``log_last``, the log's last entry.
    ``held_back``: schedules that a queue's limit throttles; they count as waiting, not as overdue. ``led_since_ms``:
    the beginning of the leader's term; None without a leader, or if the log was trimmed since. ``wrong_types``: keys of
    a wrong type, with their type and the right one. ``troubles``: schedules that need a look.
    ``server``: the Redis that was asked; None if this user may not ask for INFO. ``overdue_since_ms``: the time since
    when a schedule could fire and did not, None: ``oldest_due_ms``; later than that if it was put or resumed late.
    """

    now_ms: int
    waiting: dict[Priority, int]
    overdue: dict[Priority, int]
    oldest_due_ms: int | None
    recurring: int
    paused: int
    quarantined: int
    leader: str | None
    lease_ms: int | None
    led_since_ms: int | None
    epoch: int
    log_length: int
    log_last: Position | None
    hold_ms: int
    archives: list[Report]
    held_back: list[HeldBack]
    wrong_types: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept_local: list[KeptLocal] = field(default_factory=list)
    doubt_ms: int = 0
    namespace: str = "default"
    troubles: Troubles = field(default_factory=Troubles)
    server: Server | None = None
    overdue_since_ms: int | None = None

    def behind(self, report: Report) -> int | None:
        """Count the log entries that an archive lacks; None if it is empty, or has entries of another history."""
        last, position = self.log_last, report.position
        if position is None or last is None or position.order > last.order:
            return None
        return None if position.order == last.order and position != last else last.seq - position.seq

    @property
    def late_ms(self) -> int:
        """Milliseconds by which the oldest waiting schedule is late; 0 if no schedule is late."""
        since_ms = self.overdue_since_ms if self.overdue_since_ms is not None else self.oldest_due_ms
        return 0 if since_ms is None else max(self.now_ms - since_ms, 0)

    @property
    def held_ms(self) -> int:
        """Time for which nothing fires. A longer hold is from before the clock was set back (lib/hold.lua)."""
        held_ms = self.hold_ms - self.now_ms
        return held_ms if 0 < held_ms <= LONGEST_LEASE_MS else 0

    @property
    def known_archives(self) -> list[Report]:
        """The archives that reported within an hour, by place, so that their order is the same in each call."""
        return sorted(
            archivers.remembered(self.archives, self.now_ms), key=lambda report: (report.place, report.archive)
        )

    @property
    def present_archives(self) -> list[Report]:
        """The archives that reported within 30 s and have not stopped, by place."""
        return [one for one in self.known_archives if one.is_present(self.now_ms)]

    @property
    def daemons(self) -> list[DaemonSeen]:
        """The daemons that reported at any time."""
        return daemons_of(self.archives, self.leader, self.now_ms)

    @property
    def known_daemons(self) -> list[DaemonSeen]:
        """The daemons that reported within an hour, and the leader."""
        return [
            one for one in self.daemons if one.is_running or abs(self.now_ms - one.told_ms) <= archivers.FORGOTTEN_MS
        ]

    @property
    def sinks(self) -> list[SinkSeen]:
        """The sinks of the leader's notifier; without a leader, those of any daemon that runs."""
        running = [one.archive for one in self.daemons if one.is_running]
        return next(filter(None, (one.sinks for one in running)), [])

    def of_role(self, role: DaemonRole) -> list[DaemonSeen]:
        """Return the daemons with *role*."""
        return [one for one in self.daemons if one.role is role]


def read_overview(link: Link, keys: Keys, known: Sequence[Known] = ()) -> Overview:
    """
    Read the namespace now. A report or a lease that another writer wrote is ignored, or shown unchanged. Schedules that
    fail as *known* count as not failing.

    Raises:
        Garbled: a number of meta is invalid, or a key has a wrong type. RedisRefused, RedisUnavailable.
    """
    now_ms, throttled = server_now_ms(link, keys), throttled_sets(link, keys)
    with link.wire() as wire:
        found = _replies(wire, _commands(keys, now_ms, throttled), (keys.meta(), keys.log(), keys.lease()))
        server = None
        with suppress(RedisRefused):
            server = Server.read(wire)
        troubles = without_known(wire, keys, troubles_of(found, now_ms), known, now_ms)
        if troubles.blocked.worst:
            troubles = replace(troubles, in_the_way=runs_in_the_way(wire, keys, troubles.blocked))
        firsts = {one.key(keys): found[f"first {one.key(keys)}"] for one in throttled}
        firsts |= {lane.value: found[f"head {lane}"] for lane in Priority}
        since_ms = _since_ms(wire, keys, firsts, now_ms)
        meta = numbers(keys, found["meta"])
        kept = _kept_local(wire, keys, found["kept_local"])
        began = Log(wire, keys).read(f"{max(meta['epoch'], 0)}-0", 1)  # the first entry of a term
    wrong_types = {
        key: (text(found[f"type {key}"]), type)
        for key, type in _types(keys, throttled).items()
        if found[f"type {key}"] not in (type.encode(), b"none")
    }
    blocked = {one.queue: key for one in throttled if (key := keys.rq.queue(one.queue)) in wrong_types}
    counts = [(one, found[one.key(keys)], since_ms.get(one.key(keys))) for one in throttled]
    heads = [due_from_score(head[1]) for lane in Priority if (head := found[f"head {lane}"])]
    lease, last = found["lease"], found["last"]
    return Overview(
        now_ms=now_ms,
        waiting={
            lane: found[f"waiting {lane}"] + sum(n for one, n, _ in counts if one.lane is lane) for lane in Priority
        },
        overdue={lane: found[f"overdue {lane}"] for lane in Priority},
        oldest_due_ms=min(heads, default=None),
        **{name: found[name] for name in ("recurring", "paused", "quarantined", "log_length")},
        leader=text(lease).split(":")[0] if lease else None,
        lease_ms=found["lease_ms"] if lease else None,
        led_since_ms=_began_ms(began, meta["epoch"]) if lease else None,
        epoch=meta["epoch"],
        log_last=Entry.of(*last[0]).position if last else None,
        hold_ms=meta["hold"],
        archives=archivers.of_present_files(archivers.reports_of(found["archivers"])),
        held_back=held_back(counts, found["limits"], blocked),
        wrong_types=wrong_types,
        kept_local=kept,
        doubt_ms=meta["doubt"],
        namespace=keys.namespace,
        troubles=troubles,
        server=server,
        overdue_since_ms=min((since_ms[lane.value] for lane in Priority if lane.value in since_ms), default=None),
    )


def _kept_local(wire: Wire, keys: Keys, flat: Sequence[bytes]) -> list[KeptLocal]:
    """Return the stored one-shots that still wait for that time."""
    found = []
    for id, value in zip(flat[::2], flat[1::2], strict=True):
        due, _, new_due = text(value).partition(" ")
        if due.isdecimal() and new_due.isdecimal():
            found.append(KeptLocal(text(id), int(due), int(new_due)))
    waits = wire.replies(("HGET", keys.rq.job(keys.run_id(one.id, str(one.due_ms))), "status") for one in found)
    return [one for one, status in zip(found, waits, strict=True) if status == b"scheduled"]


def _since_ms(wire: Wire, keys: Keys, firsts: Mapping[str, list[bytes]], now_ms: int) -> dict[str, int]:
    """
    Return, by name, since when the *firsts* of each ZSET could fire: the due time, or the later put or resume of a
    one-shot, which its waiting job has.
    """
    rows = [
        (name, text(id), due_from_score(score))
        for name, flat in firsts.items()
        for id, score in zip(flat[::2], flat[1::2], strict=True)
    ]
    is_late = any(due_ms < now_ms - _LATE_MS for _, _, due_ms in rows)
    jobs = [keys.rq.job(run_id_of(id, f"{due_ms}{keys.run_suffix}")) for _, id, due_ms in rows]
    asked = (("HMGET", job, "created_at", "zs_version") for job in jobs)
    replies = wire.replies(asked) if is_late else [()] * len(jobs)
    found: dict[str, int] = {}
    for (name, _, due_ms), reply in zip(rows, replies, strict=True):
        times = [] if isinstance(reply, RedisRefused) else [ms_of(text(at)) or 0 for at in reply if at]
        found[name] = min(found.get(name, LAST_MS), max(due_ms, *times, 0))
    return found


def _types(keys: Keys, throttled: Sequence[Throttled]) -> dict[str, str]:
    """Return zsched's own keys, and those of RQ that firing needs, each with its right type."""
    sets = {one.key(keys): "zset" for one in throttled}
    queues = {keys.rq.queue(one.queue): "list" for one in throttled if zone_in(one.queue) is None}
    return keys.types() | sets | {keys.rq.queues(): "set"} | queues


def _commands(keys: Keys, now_ms: int, throttled: list[Throttled]) -> dict[str, Command]:
    commands: dict[str, Command] = {}
    for lane in Priority:
        commands[f"waiting {lane}"] = ("ZCARD", keys.due(lane))
        commands[f"overdue {lane}"] = ("ZCOUNT", keys.due(lane), "-inf", now_ms)
        commands[f"head {lane}"] = ("ZRANGE", keys.due(lane), 0, _FIRST - 1, "WITHSCORES")
    commands |= {one.key(keys): ("ZCARD", one.key(keys)) for one in throttled}
    commands |= {f"first {one.key(keys)}": ("ZRANGE", one.key(keys), 0, _FIRST - 1, "WITHSCORES") for one in throttled}
    commands |= {f"type {key}": ("TYPE", key) for key in _types(keys, throttled)}
    commands |= trouble_commands(keys) | {
        "recurring": ("SCARD", keys.recurring()),
        "paused": ("HLEN", keys.paused()),
        "quarantined": ("HLEN", keys.quarantine()),
        "limits": ("HGETALL", keys.limits()),
        "kept_local": ("HGETALL", keys.kept_local()),
        "lease": ("GET", keys.lease()),
        "lease_ms": ("PTTL", keys.lease()),
        "meta": ("HMGET", keys.meta(), *NUMBERS),
        "log_length": ("XLEN", keys.log()),
        "archivers": ("HGETALL", keys.archivers()),
    }
    # read after the reports, so that none is ahead of it
    return commands | {"last": ("XREVRANGE", keys.log(), "+", "-", "COUNT", 1)}


def _replies(wire: Wire, commands: dict[str, Command], needed: Collection[str]) -> dict[str, Any]:
    """
    Return the replies to *commands* by name. A key of a wrong type counts as empty. Raises Garbled for one of *needed*.
    """
    found = dict(zip(commands, wire.replies(commands.values()), strict=True))
    for name, reply in found.items():
        if isinstance(reply, RedisRefused):
            if commands[name][1] not in needed and not is_denied(reply):
                found[name] = _EMPTY.get(str(commands[name][0]), [])
                continue
            with asking(commands[name][1]):
                raise reply
    return found


def _began_ms(entries: list[Entry], epoch: int) -> int | None:
    """Return the time of the ``term`` entry in *entries*, or None."""
    terms = (entry.position for entry in entries if TermEntry.of(entry) and entry.position.epoch == epoch)
    return next((position.t_us // 1000 for position in terms), None)
