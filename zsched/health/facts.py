"""
The model of health: facts, and checks that judge them. A view has some of the facts, and shows the checks that need
them:

    DaemonHealth   state of a daemon's own main loop                   /readyz, status line
    RedisUnseen    no answer from Redis                                /readyz, status line
    Server         INFO of the Redis server                            /readyz, status line, status, doctor
    Overview       counts, leader, archives: one reading of Redis      status line, status, doctor
    RecentActivity the last minutes, from the log in Redis             status, doctor
    StalledQueues  queues from which no worker takes jobs              status, doctor
    SlotWaits      runs that wait for slots of RQ's rate limits        status, doctor
    QueuesUnknown  no right to read the queues                         status
    Probe          Redis itself, for a check's own questions           doctor

A check is a named function that judges one fact, and returns its finding, or yields several:

    @health_check("quarantined", Overview, "quarantine")
    def check_quarantined(overview: Overview) -> Finding:
        if overview.quarantined:
            return warning("2 schedules in quarantine", "zsched ls --state quarantined lists them")
        return fine("no schedule is in quarantine")

Nothing else is needed for a new check: ``zsched status``, ``zsched doctor`` and all other views of its fact show it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from types import ModuleType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from zsched.config.settings import Settings
from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.core.occurrences.recent import RecentActivity
from zsched.storage.connection import Command, Link, Wire
from zsched.storage.jobs import Registries, allowed_replies
from zsched.storage.keys import Keys
from zsched.storage.queues import StalledQueues, stalled_queues
from zsched.storage.reader import Reader
from zsched.storage.rights import Role
from zsched.storage.server import Server

# Redis' timeouts in one pass of a daemon's main loop: for a connection to one address and to another, for a reply, and
# for the rest.
TIMEOUTS: Final = 5


class DaemonHealth:
    """
    Health of a daemon's main loop. Only that loop writes it, except what fails; any thread reads it.

    ``last_pass_ms``: the end of the last pass, by the monotonic clock, as leader or not, with Redis or without.
    ``leads``: True during a term. ``trouble``: the reason why the daemon is neither leader nor standby, or None.
    ``may_not_lead``: the reason why Redis does not let it lead, for its reports. ``failing``: threads beside the main
    loop that fail at present, with reasons (``daemon.loop``); ``archivist_failing``: those of its archivist.
    """

    def __init__(self, clock: Clock) -> None:
        self.last_pass_ms = clock.monotonic_ms()
        self.leads = False
        self.trouble: str | None = "it starts: Redis has not said yet whether it may lead"
        self.may_not_lead: str | None = None
        self.failing: dict[str, str] = {}
        self.archivist_failing: dict[str, str] = {}


class RedisUnseen(NamedTuple):
    """Redis gave no answer, or refused one."""

    reason: str


class QueuesUnknown(NamedTuple):
    """This user may not read which workers take jobs from the queues."""


# -- the doctor's connection to one Redis -----------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """
    One Redis over *wire*, and one namespace in it. ``server``: as it was at the beginning.

    ``roles`` and ``user``: the user whose rights are compared with these roles; None: the connection's user. ``link``:
    for a check that needs its own connection. ``config_file``: the file of the settings, if any.

    Methods that ask Redis raise RedisRefused and RedisUnavailable.
    """

    settings: Settings
    link: Link
    wire: Wire
    keys: Keys
    clock: Clock
    server: Server
    roles: tuple[Role, ...] = (Role.DAEMON,)
    user: str | None = None
    config_file: str | None = None

    @cached_property
    def reader(self) -> Reader:
        """The reader of the namespace, which waits a moment only for a slot that is being moved."""
        return Reader.by_settings(self.settings, Link(self.link.pool, self.link.where, timeout_s=0.25))

    @cached_property
    def recent(self) -> RecentActivity:
        """The last minutes; read once."""
        return self.reader.recent(self.clock)

    @cached_property
    def stalled_queues(self) -> StalledQueues:
        """The queues from which no worker takes jobs; read once."""
        return self.reader.on_wire(stalled_queues).after(self.recent)

    @property
    def is_unfollowed_node(self) -> bool:
        """True if the connection is to one node of a Redis Cluster, and stays there."""
        return self.server.is_in_cluster and not self.wire.follows_slot

    @property
    def own_user(self) -> str:
        """The name of the user of this connection."""
        return self.link.pool.connection_kwargs.get("username") or "default"

    def ask(self, *command: Any) -> Any:
        """Return the reply to *command*."""
        return self.wire.execute(*command)

    def ask_all(self, commands: Iterable[Command]) -> list[Any]:
        """Return the replies to *commands*, pipelined; None for a key of a wrong type, which another check reports."""
        return allowed_replies(self.wire, commands)

    def setting(self, name: str) -> str | None:
        """Return the value of *name* by CONFIG GET; None if this server does not know it."""
        found = self.ask("CONFIG", "GET", name)
        return text(found[1]) if found else None

    def queues(self) -> list[str]:
        """Return the names of the queues that RQ knows, sorted."""
        return Registries(self.wire, self.keys.rq).queues()


# -- checks of facts ----------------------------------------------------------------------------------


Fact = TypeVar("Fact")


class Severity(Enum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"  # advice: nothing is wrong
    WARNING = "warning"  # firing works, but an operator should know
    PROBLEM = "problem"  # something is wrong now, or would be lost
    SKIPPED = "skipped"  # not checked: no permission, or nothing to check


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One result of a check: the text, and the remedy ("" without one).

    ``command``: words of a command that ends the remedy; ``Shell`` writes them for the Redis that was checked.
    ``acts``: commands that the console offers as buttons and links instead of the remedy. ``ids``: schedules and runs
    that the text names. ``since_ms``: its beginning, where that is known.
    ``queues``: those in which nobody takes jobs. ``waits_in``: those in which its runs wait, so it follows from the
    former. ``name``, ``group`` and ``follows`` are the check's.
    """

    severity: Severity
    text: str
    remedy: str = ""
    command: tuple[object, ...] = ()
    acts: tuple[tuple[object, ...], ...] = ()
    ids: tuple[str, ...] = ()
    since_ms: int | None = None
    queues: frozenset[str] = frozenset()
    waits_in: frozenset[str] = frozenset()
    name: str = ""
    group: str = ""
    follows: tuple[str, ...] = ()

    def completed(self, written: Callable[[Sequence[object]], str]) -> Self:
        """Return it with its command, *written* for a shell, at the end of the remedy."""
        if not self.command:
            return self
        remedy = ": ".join(filter(None, (self.remedy, written(self.command))))
        return replace(self, remedy=remedy, command=(), acts=(self.command, *self.acts))

    def about(self, *acts: tuple[object, ...], ids: Iterable[str] = (), since_ms: int | None = None) -> Self:
        """Return it with what the console shows beside it."""
        return replace(self, acts=acts, ids=tuple(ids), since_ms=since_ms)


@dataclass(frozen=True, slots=True)
class HealthCheck(Generic[Fact]):
    """
    A check. ``name``: for programs; it never changes. ``group``: the doctor's heading, shared by several checks.
    ``needs``: the type of the fact that ``judge`` takes. ``follows``: the names of problems from which it follows, and
    would lead away: daemons that cannot write cannot report, lead or fire. ``alert``: the text of Prometheus' alert on
    the same, or "".
    """

    name: str
    group: str
    needs: type[Fact]
    judge: Callable[[Fact], Finding | Iterator[Finding]]
    follows: tuple[str, ...] = ()
    alert: str = ""

    def findings(self, fact: Fact) -> Iterator[Finding]:
        """Judge *fact*."""
        found = self.judge(fact)
        return map(self.named, [found] if isinstance(found, Finding) else found)

    def named(self, finding: Finding) -> Finding:
        """Return *finding* as one of this check."""
        return replace(finding, name=self.name, group=self.group, follows=self.follows)


def health_check(
    name: str, needs: type[Fact], group: str = "", *, follows: tuple[str, ...] = (), alert: str = ""
) -> Callable[[Callable[[Fact], Finding | Iterator[Finding]]], HealthCheck[Fact]]:
    """Make a check of a function; without *group*, its group is its name."""
    return lambda judge: HealthCheck(name, group or name, needs, judge, follows, alert)


def checks_of(modules: Iterable[ModuleType]) -> tuple[HealthCheck[Any], ...]:
    """Return the checks in *modules*, in their order."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, HealthCheck))


def fine(text: str) -> Finding:
    """Return a finding without a fault."""
    return Finding(Severity.OK, text)


def note(text: str, remedy: str, *command: object) -> Finding:
    """Return an advice."""
    return Finding(Severity.NOTE, text, remedy, command)


def warning(text: str, remedy: str, *command: object) -> Finding:
    """Return a warning."""
    return Finding(Severity.WARNING, text, remedy, command)


def problem(text: str, remedy: str, *command: object) -> Finding:
    """Return a problem."""
    return Finding(Severity.PROBLEM, text, remedy, command)


def skipped(text: str, remedy: str = "", *command: object) -> Finding:
    """Return the finding of a check that was not made."""
    return Finding(Severity.SKIPPED, text, remedy, command)
