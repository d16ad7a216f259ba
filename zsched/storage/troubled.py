"""
Recurring schedules that fail or are blocked, and paused schedules that are past their time. Nothing here writes.

A schedule is *failing* when its last runs failed or were lost, and *blocked* when its last occurrences were skipped for
overlap: its run does not end. Both counts are in the schedule's state (lua/lib/state.lua), which an archive restores. A
pause, a resume or a cancel ends the trouble.

Not guaranteed: among many paused schedules, only some thousand are read.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zsched.core.entry import BEFORE_BY, text
from zsched.core.known import Known
from zsched.core.model import iso
from zsched.core.options.forms import whole_number
from zsched.core.record import PROGRESS
from zsched.core.runs.run import Run, RunStatus, of_job
from zsched.core.runs.run_id import run_id_of
from zsched.core.wording import plural
from zsched.errors import RedisRefused
from zsched.storage.connection import Command, Wire
from zsched.storage.jobs import Jobs, allowed_replies
from zsched.storage.keys import Keys

FAILING: Final = 2  # failed runs in a row; one alone may be chance
BLOCKED: Final = 5  # skipped occurrences in a row; fewer are usual for a short interval
_NAMED: Final = 4  # schedules in a text
_LISTED: Final = 100  # schedules in JSON
_PAUSED: Final = 2000  # paused schedules that are read: less than 1 ms of Redis


@dataclass(frozen=True, slots=True)
class Troubled:
    """
    The number of schedules with one kind of trouble. ``worst``: some of them, the worst first, each with its number in
    a row, or its due time in ms. ``is_all`` is False if not every schedule was read.
    """

    count: int = 0
    worst: tuple[tuple[str, int], ...] = ()
    is_all: bool = True

    def named(self, in_a_row: bool = True, more: Mapping[str, str] = {}) -> str:
        """Return ``nightly (2 in a row), weekly (2 in a row) and 7 more``; *more*: a text for some schedules."""
        worst = self.worst[:_NAMED]
        names = ", ".join(f"{id} ({number:,} in a row{more.get(id, '')})" if in_a_row else id for id, number in worst)
        return f"{names} and {self.count - len(worst):,} more" if self.count > len(worst) else names

    @property
    def ids(self) -> tuple[str, ...]:
        """The schedules that ``named`` names."""
        return tuple(id for id, _ in self.worst[:_NAMED])

    @property
    def counted(self) -> str:
        """``1 schedule``, ``at least 2,000 schedules``."""
        return f"{'' if self.is_all else 'at least '}{plural(self.count, 'schedule')}"


_NONE: Final = Troubled()


@dataclass(frozen=True, slots=True)
class Troubles:
    """
    The schedules in trouble, by kind. ``in_the_way``: the runs that the worst blocked schedules are skipped for, by
    schedule, as RQ has them; a run that could not be read is missing.
    """

    failing: Troubled = _NONE
    blocked: Troubled = _NONE
    overdue_paused: Troubled = _NONE
    in_the_way: Mapping[str, Run] = field(default_factory=dict)

    def blocked_by(self, status: RunStatus) -> Troubled:
        """
        Return the blocked schedules whose run in the way has *status*. A run that is not known counts as running, and
        schedules that were not read count as the last one that was.
        """
        read = self.blocked.worst
        known = {id: run.status for id, run in self.in_the_way.items()}
        worst = tuple(one for one in read if known.get(one[0], RunStatus.RUNNING) is status)
        others = self.blocked.count - len(read) if worst and worst[-1] == read[-1] else 0
        return Troubled(len(worst) + others, worst)

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON; the keys are stable."""
        late = self.overdue_paused
        failing = [{"id": id, "in_a_row": number} for id, number in self.failing.worst]
        blocked = [
            {"id": id, "in_a_row": number, "run": _run(self.in_the_way.get(id))} for id, number in self.blocked.worst
        ]
        paused = [{"id": id, "due_at": iso(due_ms)} for id, due_ms in late.worst]
        return {
            "failing": {"count": self.failing.count, "schedules": failing},
            "blocked": {"count": self.blocked.count, "schedules": blocked},
            "overdue_paused": {"count": late.count, "is_all": late.is_all, "schedules": paused},
        }


def _run(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    shown = run.to_dict()
    return {name: shown[name] for name in ("id", "status", "worker")} | {"queue": run.queue, "since": iso(run.since_ms)}


def trouble_commands(keys: Keys) -> dict[str, Command]:
    """Return the commands that read the troubles, by name."""
    commands: dict[str, Command] = {}
    for kind, key, least in (("failing", keys.failing(), FAILING), ("blocked", keys.blocked(), BLOCKED)):
        commands[f"{kind} count"] = ("ZCOUNT", key, least, "+inf")
        commands[kind] = ("ZRANGE", key, "+inf", least, "BYSCORE", "REV", "LIMIT", 0, _LISTED, "WITHSCORES")
    return commands | {"paused page": ("HSCAN", keys.paused(), 0, "COUNT", _PAUSED)}


def troubles_of(replies: Mapping[str, Any], now_ms: int) -> Troubles:
    """Return the troubles by the *replies* to ``trouble_commands``, by name; [] for a key of a wrong type."""
    cursor, flat = replies["paused page"]
    due = [(text(id), due_ms) for id, value in zip(flat[::2], flat[1::2], strict=True) if (due_ms := _due(value))]
    late = sorted(((id, due_ms) for id, due_ms in due if due_ms <= now_ms), key=lambda one: (one[1], one[0]))
    failing, blocked = (
        Troubled(replies[f"{kind} count"] or 0, _scored(replies[kind])) for kind in ("failing", "blocked")
    )
    return Troubles(failing, blocked, Troubled(len(late), tuple(late[:_LISTED]), cursor == b"0"))


def _scored(flat: list[bytes]) -> tuple[tuple[str, int], ...]:
    return tuple((text(id), int(float(score))) for id, score in zip(flat[::2], flat[1::2], strict=True))


def _due(value: bytes) -> int | None:
    """Return the due time in a value of ``paused``; None: the pause has an end, or another program wrote the value."""
    words = text(value).split(" ", 2)
    if text(value).count(BEFORE_BY) > 1:
        return None
    try:
        return whole_number(words[1])
    except (IndexError, ValueError):
        return None


def runs_in_the_way(wire: Wire, keys: Keys, blocked: Troubled) -> dict[str, Run]:
    """
    Return the runs that the worst *blocked* schedules are skipped for, by schedule: the first one of a chain, else the
    last one. Those that this user may not read are left out. Raises RedisUnavailable.
    """
    ids = [id for id, _ in blocked.worst]
    with suppress(RedisRefused):
        texts = allowed_replies(wire, (("HGET", keys.schedule(id), "progress") for id in ids))
        chains = allowed_replies(wire, (("HGET", keys.chains(), id) for id in ids))
        found = {id: _first_run(id, *each) for id, *each in zip(ids, chains, texts, strict=True)}
        runs = {id: run for id, run in found.items() if run}
        jobs = Jobs(wire, keys, tracebacks=False).read(list(runs.values())) if runs else []
        return {id: of_job(run, job, None) for (id, run), job in zip(runs.items(), jobs, strict=True)}
    return {}


def without_known(wire: Wire, keys: Keys, troubles: Troubles, known: Sequence[Known], now_ms: int) -> Troubles:
    """
    Return *troubles* without the failing schedules whose last run failed as *known*; while that is open, its function
    decides. Raises RedisUnavailable.
    """
    failing = troubles.failing
    runs = runs_in_the_way(wire, keys, failing) if known else {}
    funcs = allowed_replies(wire, (("HGET", keys.schedule(id), "func") for id in runs))
    errors = [run.error if run.is_over else None for run in runs.values()]
    left_out = {
        id
        for id, func, error in zip(runs, funcs, errors, strict=True)
        if any(one.matches(text(func or b""), error, now_ms) for one in known)
    }
    worst = tuple(one for one in failing.worst if one[0] not in left_out)
    return replace(troubles, failing=replace(failing, count=failing.count - len(left_out), worst=worst))


def _first_run(id: str, chain: bytes | None, progress: bytes | None) -> str:
    """Return the run in the way, by the text of its schedule's chain (lua/lib/chain.lua) and its progress."""
    words = text(chain or b"").split(" ")
    if len(words) > 1 and words[1]:
        return words[1]
    found = PROGRESS.fullmatch(text(progress or b""))
    return run_id_of(id, found[2]) if found and found[2] != "-" else ""
