"""
Every Redis key that zsched owns, with its type and its members. ``rqkeys.py`` has RQ's keys.

Keys live under ``zsched:{<namespace>}:``; the braces are a Redis Cluster hash tag. Instants are
integer epoch milliseconds written as decimal text. Scripts name their keys in their header, and
``Keys.named`` resolves each name to the function of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from zsched.core.options.choices import Priority
from zsched.core.runs.run_id import suffix_of
from zsched.errors import InvalidSchedule
from zsched.storage.rqkeys import NamedKey, RqKeys

if TYPE_CHECKING:
    from zsched.config.settings import Settings

NAMESPACE = re.compile(r"[a-z0-9_]{1,32}")


class Keys:
    """The keys of one namespace; ``rq`` has RQ's keys. *rq_prefix*: as in ``RqKeys``."""

    def __init__(self, namespace: str, rq_prefix: str | None = None) -> None:
        if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
            raise InvalidSchedule("namespace", namespace, "not a namespace", "give 1 to 32 of a-z, 0-9 and _")
        self.namespace, self.rq = namespace, RqKeys(rq_prefix)
        self.prefix = f"zsched:{{{namespace}}}:"
        self.run_suffix = suffix_of(namespace)
        vars(self).update({name: getattr(self, name) for name, key in vars(Keys).items() if isinstance(key, NamedKey)})

    # -- one key for the namespace ----------------------------------------------------------

    # With PX: token ``<daemon uuid>:<epoch>:<lease ms>:<nonce>`` of the current term.
    lease = NamedKey("lease", "string")
    # gen, epoch, seq, server, hold, doubt, format, serializer, rq_prefix, tzdata (version), calendars,
    # planned_calendars (entries), throttled; in tests also offset_ms, frozen_ms, frozen_by.
    meta = NamedKey("meta", "hash")
    # Every change; ids ``<epoch>-<seq>``, seq dense; fields kind, t (µs), the kind's own.
    log = NamedKey("log", "stream")

    def due(self, lane: Priority) -> str:
        """ZSET, one per lane: schedule id → due time in ms."""
        return f"{self.prefix}due:{lane.value}"

    due_high = NamedKey("due:high", "zset")  # drained before the others
    due_normal = NamedKey("due:normal", "zset")  # drained after high
    due_low = NamedKey("due:low", "zset")  # drained last

    def throttled(self, lane: Priority, queue: str) -> str:
        """
        ZSET, as a lane: due schedules without room in their queue, by the queue's limit. ``meta.throttled`` lists the
        sets that may exist, as words "<lane>:<queue>"; see lua/lib/lanes.lua.
        """
        return f"{self.due(lane)}:{queue}"

    # queue → ``<runs per second> <µs>``, by the leader's settings; ``- 0``: none; see lua/lib/capacity.lua.
    limits = NamedKey("limits", "hash")
    paused = NamedKey("paused", "hash")  # id → ``<lane> <due ms> <since ms> <note>``
    quarantine = NamedKey("quarantine", "hash")  # id → ``<lane> <due ms> <since ms> <reason>``
    # id → ``<overlap policy> <run id> …``: its pushed runs that may be open; see lua/lib/chain.lua.
    chains = NamedKey("chains", "hash")
    # run id → time at which it expires in its queue, until its end is recorded; see lua/lib/deadline.lua.
    deadlines = NamedKey("deadlines", "zset")
    recurring = NamedKey("recurring", "set")  # ids of recurring schedules, so that lanes with millions need no scan
    # id of a signed one-shot that was given as local time, and that a change of its zone's rules did not move →
    # ``<due ms> <due ms by the new rules>``.
    kept_local = NamedKey("kept_local", "hash")
    # ``calendar:<name>``, ``known_failure:<name>`` → ``<t of its change> <text>``; -: deleted.
    named_texts = NamedKey("named_texts", "hash")
    # id of a schedule that is paused until a time → that time; maybe of others, too.
    resumes = NamedKey("resumes", "zset")
    failing = NamedKey("failing", "zset")  # recurring id → failed runs in a row; see lua/lib/state.lua
    blocked = NamedKey("blocked", "zset")  # recurring id → skips for overlap in a row
    # Channel: ``<due ms>`` when an earlier due time was put; ``0`` from a worker when a run is over for which others
    # may wait; ``lease`` when a leader left.
    wake = NamedKey("wake")
    # archive id → ``<entry id> <t> <server ms> <state> <JSON>``, see ``storage/archivers.py``.
    archivers = NamedKey("archivers", "hash")
    notified = NamedKey("notified", "hash")  # teller of the notifier → how far it has come; see ``daemon/notifier.py``
    # id of a daemon inside a worker → time at which its seat lapses; see lua/seat.lua.
    seats = NamedKey("seats", "zset")
    ask = NamedKey("ask", "list")  # questions to any archive, JSON; see ``storage/questions.py``

    # -- one key per schedule or call ---------------------------------------------------------

    schedule_prefix = NamedKey("schedule:")  # the text before a schedule's id in its key
    template_prefix = NamedKey("template:")  # the text before a schedule's id in its template's key
    op_prefix = NamedKey("op:")  # the text before the id of a call in the key of its reply
    waiting_prefix = NamedKey("waiting:")  # the text before a schedule's id in the key of its waiting runs

    def schedule(self, id: str) -> str:
        """
        HASH, recurring only: progress, trigger, anchor, policy, digest, lane, func, tags, name, owner,
        created_at, updated_at, ended_at, pause_after.
        """
        return self.schedule_prefix() + id

    def template(self, id: str) -> str:
        """HASH, recurring only: the RQ fields that its runs are copied from."""
        return self.template_prefix() + id

    def waiting(self, id: str) -> str:
        """LIST, with ``overlap="queue"``: ids of the runs that wait for a run of this schedule, oldest first."""
        return self.waiting_prefix() + id

    def op(self, op: str) -> str:
        """STRING with PX: the reply of a call that has no id of its own, so that a re-send is a no-op."""
        return self.op_prefix() + op

    # the text before a retried run's id in its key, a STRING with PX: the id of the new run; see lua/retry.lua.
    retried_prefix = NamedKey("retried:")
    # the text before an id in the key of its guard, a STRING with PX: ``<until ms> <run id>``.
    unique_prefix = NamedKey("unique:")
    # the text before the id of a one-shot that an import took from RQ, a STRING with PX: created_at of RQ's job; see
    # lua/lib/moved.lua.
    moved_prefix = NamedKey("moved:")

    def answer(self, question: str) -> str:
        """LIST with PX: the answer to a question, JSON."""
        return f"{self.prefix}answer:{question}"

    def lapsing_prefixes(self) -> tuple[str, ...]:
        """The beginnings of the keys that all lapse by themselves."""
        return self.op_prefix(), self.answer(""), self.retried_prefix(), self.unique_prefix(), self.moved_prefix()

    # -- names ----------------------------------------------------------------------------------

    def run_id(self, schedule_id: str, nominal_ms: int | str) -> str:
        """Return the id of the run of *schedule_id* at *nominal_ms*; unique over namespaces."""
        return f"{schedule_id}-{nominal_ms}{self.run_suffix}"

    def types(self) -> dict[str, str]:
        """Return the keys that exist once per namespace, with their types."""
        named = {name: key.type for name, key in vars(Keys).items() if isinstance(key, NamedKey) and key.type}
        return {getattr(self, name)(): type for name, type in named.items()}

    def named(self, name: str) -> Callable[..., str]:
        """Return the function for the key *name* in headers of scripts; RQ's names begin with ``rq_``."""
        function: Callable[..., str] = getattr(*((self.rq, name[3:]) if name.startswith("rq_") else (self, name)))
        return function


def keys_of(settings: Settings) -> Keys:
    """Return the keys for *settings*. Raises ConfigError."""
    return Keys(settings.namespace, settings.rq.prefix)
