"""
Reports of archives in Redis: their positions and states; and waiting for an archive.

A report is written after its commit, never before. An archive is *alive* when it follows the log and reported within
the last 30 s; an idle archive reports every 3 s. Older and newer versions read and write the same reports: a report
with an unknown state is ignored.

With ``durable=True`` a change is acknowledged when at least one archive has it on its disk (``Durability``). The
script's entry is identified in the log by its id and time. Then the reports are polled until an archive that follows
this very log has reached it. The cost is one more round trip before the change, and some after it: a few milliseconds,
for the archive's fsync.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Self

from zsched.core.clock import LAST_MS, Clock
from zsched.core.entry import Position
from zsched.core.model import json_of
from zsched.errors import NotArchived, RedisUnavailable
from zsched.storage.connection import Channel, Link
from zsched.storage.keys import Keys
from zsched.storage.lease import Term
from zsched.storage.log import Log, LogPlace
from zsched.storage.scripts import Scripts

ALIVE_MS = 30_000
REPORT_EVERY_MS = 3_000
_LONG_AFTER_MS = 15_000  # five reports: before ALIVE_MS, so that nothing is said of the process that is gone
FORGOTTEN_MS = 3_600_000  # after this time without a report, an archive counts as moved or gone
_PUTS_BACK = "Redis lost data; this archive is restoring it"


class ArchiveState(Enum):
    """The state of an archiver."""

    FOLLOWING = "following"
    BOOTSTRAPPING = "bootstrapping"  # reading the contents of Redis, because the log does not go back far enough
    LOST = "lost"  # Redis lost data that the archive has: it restores them, or waits for `zsched archive recover`
    FAILED = "failed"  # its disk does not take writes; nothing is lost in Redis
    REFUSED = "refused"  # this Redis has another data set than the archive
    OUTDATED = "outdated"  # a newer zsched leads, with a format that the archive's daemon does not know
    STOPPED = "stopped"  # its daemon ended in order: the last report


class Audited(NamedTuple):
    """Result of an audit; ``at_ms`` by the server's clock."""

    at_ms: int
    checked: int
    alarms: int
    repaired: int


class SinkSeen(NamedTuple):
    """A sink of the notifier, as its daemon reports it. ``last``: its last message; ``error``: why it fails now."""

    name: str
    kind: str
    address: str
    on: tuple[str, ...]
    last: str | None = None
    last_ms: int | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, by ``json_of``; every key is always present and stable."""
        return json_of(self, "name", "kind", "address", "on", "last", "last_at", "error")


def text_in(about: Mapping[str, Any], name: str) -> str | None:
    """Return a text of a report, in which another writer may have left anything; None for any other value."""
    value = about.get(name)
    return value if isinstance(value, str) else None


def number_in(about: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    """Return a whole number of a report from *least* on, up to the last time; None for any other value."""
    value = about.get(name)
    return value if type(value) is int and least <= value <= LAST_MS else None


@dataclass(frozen=True, slots=True)
class Report:
    """
    The last report of one archive. ``position`` is on its disk; ``told_ms`` is the report's time, by the server.

    ``about``: its path, the time since when it is complete, its trouble, ``awaits_people`` if somebody has to run
    `zsched archive recover`, ``fleeting`` for a file system that ends with its container, and the facts of its daemon,
    with ``may_not_lead``, the reason why the daemon may not lead, if any.
    """

    archive: str
    position: Position | None
    told_ms: int
    state: ArchiveState
    about: dict[str, Any]

    @property
    def is_stopped(self) -> bool:
        """True if it was the last report before its daemon stopped in order."""
        return self.state is ArchiveState.STOPPED

    @property
    def daemon(self) -> str | None:
        """The id of its daemon; None for an archivist without one."""
        return text_in(self.about, "daemon")

    @property
    def names(self) -> str | None:
        """The names of the data set that it followed, separated by blanks, or None."""
        return " ".join((text_in(self.about, "names") or "").split()) or None

    @property
    def place(self) -> str:
        """The place of the archive: host and path."""
        return f"{self.about.get('host', '?')}:{self.about.get('path', '?')}"

    @property
    def awaits_people(self) -> bool:
        """True if it has data that Redis lost, and waits for a person: [archive] recovery = "manual"."""
        return self.state is ArchiveState.LOST and self.about.get("awaits_people") is True

    @property
    def trouble(self) -> str | None:
        """The reason why it does not follow the log, from its report."""
        if self.state is ArchiveState.LOST and not self.awaits_people:
            return _PUTS_BACK  # earlier trouble no longer matters
        trouble = self.about.get("trouble")
        return None if trouble is None else str(trouble)

    @property
    def looked_at(self) -> frozenset[str]:
        """Lost positions of other archives that it checked. A ``merged`` entry has the positions in its history."""
        positions = self.about.get("looked_at")
        return frozenset(str(each) for each in positions) if isinstance(positions, list) else frozenset()

    @property
    def audit(self) -> Audited | None:
        """The result of the last audit by its daemon as leader, or None."""
        summary = self.about.get("audit")
        if not isinstance(summary, dict):
            return None
        numbers: list[Any] = [summary.get(name) for name in ("at", "checked", "alarms", "repaired")]
        is_good = all(type(number) is int for number in numbers) and 0 <= numbers[0] <= LAST_MS
        return Audited(*numbers) if is_good else None

    @property
    def at_risk(self) -> list[tuple[str, int, int]]:
        """Id, deadline and usual duration, in ms, of schedules that its daemon as leader expects to be late."""
        rows = self.about.get("at_risk") if self.about.get("leads") is True else None
        lists = [row for row in rows if isinstance(row, list)] if isinstance(rows, list) else []
        well = (row for row in lists if [*map(type, row)] == [str, int, int])
        return [(id, at_ms, ms) for id, at_ms, ms in well if 0 <= at_ms <= LAST_MS and 0 <= ms <= LAST_MS]

    @property
    def sinks(self) -> list[SinkSeen]:
        """The sinks of its daemon's notifier; what another writer may have left is dropped."""
        found, sinks = [], self.about.get("sinks")
        for name, one in sinks.items() if isinstance(sinks, dict) else ():
            if isinstance(one, dict):
                kind, address, last, error = (text_in(one, key) for key in ("kind", "address", "last", "error"))
                on = tuple(map(str, one["on"])) if isinstance(one.get("on"), list) else ()
                last_ms = number_in(one, "last_ms")
                found.append(SinkSeen(name, kind or "?", address or "?", on, last, last_ms, error))
        return found

    @property
    def unknown_entries(self) -> int:
        """Number of log entries that its zsched cannot read. Its state lacks their changes, so no audit uses it."""
        return number_in(self.about, "unknown_entries") or 0

    @property
    def unreadable_entries(self) -> int:
        """Number of these entries that are of a known kind. It reads their effects from Redis."""
        return number_in(self.about, "unreadable_entries") or 0

    def shows(self, doubt_ms: int) -> bool:
        """
        Return True if it shows that nothing it had was lost at the change of server at *doubt_ms*: it began before, and
        follows the log since (rules: ALL_SHOW, OLD_SHOW).
        """
        began_us = self.about.get("began_us")
        is_old = type(began_us) is int and 0 <= began_us < doubt_ms * 1000
        return is_old and self.state is ArchiveState.FOLLOWING and self.told_ms > doubt_ms

    def is_alive(self, now_ms: int) -> bool:
        """Return True if it follows the log, and reported within ALIVE_MS."""
        return self.state is ArchiveState.FOLLOWING and self.is_recent(now_ms)

    def is_present(self, now_ms: int) -> bool:
        """Return True if it reported within ALIVE_MS, in any state, and its daemon has not stopped."""
        return self.is_recent(now_ms) and not self.is_stopped

    def is_recent(self, now_ms: int, within_ms: int = ALIVE_MS) -> bool:
        """Return True if its time is within *within_ms* of *now_ms*. The clock may have been set back."""
        return abs(now_ms - self.told_ms) <= within_ms

    @classmethod
    def parse(cls, archive: bytes, text: bytes) -> Self | None:
        """Return the report in a field of the hash; None if another writer wrote it."""
        try:
            entry, entry_t, at_ms, state, about = text.decode().split(" ", 4)
            position = Position.of(entry.encode(), entry_t.encode())
            found = cls(archive.decode(), position, int(at_ms), ArchiveState(state), json.loads(about))
        except (ValueError, RecursionError):
            return None
        return found if 0 <= found.told_ms <= LAST_MS and isinstance(found.about, dict) else None


def reports_of(flat: list[bytes]) -> list[Report]:
    """
    Return the reports in the hash *flat*, the latest first. A daemon has one archive at a time: its earlier reports,
    of another archive or without one, are left out.
    """
    parsed = (Report.parse(archive, text) for archive, text in zip(flat[::2], flat[1::2], strict=True))
    reports = sorted((report for report in parsed if report), key=lambda report: -report.told_ms)
    by_daemon: dict[str, Report] = {}
    for report in reports:
        by_daemon.setdefault(str(report.about.get("daemon") or report.archive), report)
    return list(by_daemon.values())


def of_present_files(reports: Iterable[Report]) -> list[Report]:
    """
    Return *reports*, the latest first, without those of processes that are gone: another daemon has reported of the
    same file, long after. Two daemons that run with one path are both kept.
    """
    latest_ms: dict[tuple[object, object], int] = {}
    kept = []
    for report in reports:
        file = report.about.get("host"), report.about.get("path")
        is_known = all(isinstance(part, str) for part in file)
        if not is_known or latest_ms.setdefault(file, report.told_ms) - report.told_ms <= _LONG_AFTER_MS:
            kept.append(report)
    return kept


def remembered(reports: Iterable[Report], now_ms: int) -> list[Report]:
    """Return the *reports* that are valid at *now_ms*, in their order; also of daemons that stopped since."""
    return [report for report in reports if report.is_recent(now_ms, FORGOTTEN_MS)]


def last_audit(reports: Iterable[Report], now_ms: int) -> Audited | None:
    """Return the last audit in *reports*; None if there is none, or if it is too old at *now_ms*."""
    audits = [audit for report in remembered(reports, now_ms) if (audit := report.audit) is not None]
    return max(audits, key=lambda audit: audit.at_ms, default=None)


class Archivers:
    """The reports of one namespace over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys)

    def report(
        self, archive: str, position: Position | None, state: ArchiveState, about: dict[str, Any], hold_for_ms: int = 0
    ) -> int:
        """
        Report the *position* of *archive*, which must be on its disk. Nothing fires for *hold_for_ms* after that.
        Return TIME in ms.
        """
        reply = self._scripts.call(
            "report",
            archive=archive,
            entry=position.id if position else "-",
            entry_t=position.t_us if position else 0,
            state=state.value,
            about=json.dumps(about),
            hold_for_ms=hold_for_ms,
        )
        return int(reply[0])

    def forget(self, archive: str) -> None:
        """Delete the report of *archive*."""
        self._channel.execute("HDEL", self._keys.archivers(), archive)

    def reports(self) -> list[Report]:
        """Return the last report of every archiver, the latest first."""
        return reports_of(self._channel.execute("HGETALL", self._keys.archivers()))

    def has_followed(self, daemon: str, term: Term) -> bool:
        """
        Return True if the archive of *daemon* has followed the log into *term*. Also return True if it reported since
        then that it cannot: it found a loss, and has set a hold with that report; or it is unusable.
        """
        own = next((one for one in self.reports() if one.daemon == daemon), None)
        if own is None or own.told_ms < term.now_ms:
            return False
        if own.state is not ArchiveState.FOLLOWING:
            return True
        if own.position is None or own.position.epoch < term.epoch:
            return False
        return Log(self._channel, self._keys).contains(own.position)

    def alive(self) -> int:
        """Count the archives that are alive."""
        return int(self._archived(LogPlace("-", 0))[1])

    def archived(self, place: LogPlace) -> str:
        """Return the state of the log up to *place*: archived (on a disk), waiting or LOST."""
        return str(self._archived(place)[0].decode())

    def _archived(self, place: LogPlace) -> list[Any]:
        is_before = "" if place.is_written else "1"
        at: dict[str, Any] = {"entry": place.entry, "entry_ms": place.at_ms, "is_before": is_before}
        return self._scripts.call("archived", **at, alive_ms=ALIVE_MS)


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02  # between two readings of the reports
_NOTHING = "it is not in Redis either: schedule it again"


class Durability:
    """Waits for the archives of one namespace, *timeout_s* at most."""

    def __init__(self, link: Link, keys: Keys, clock: Clock, timeout_s: float) -> None:
        self._archivers = Archivers(link, keys)
        self._link, self._clock, self._timeout_s = link, clock, timeout_s

    def require(self, written: str = "nothing was written") -> None:
        """
        Check before a write that there is an archive to wait for. *written*: the present state, for the message.

        Raises:
            NotArchived: no archive is alive.
        """
        if not self._archivers.alive():
            problem = "no daemon with an archive follows this namespace, so durable=True cannot be kept"
            raise NotArchived(f"{problem}; {written}; start zsched daemon", is_in_redis=False)

    def wait_for(self, places: Iterable[LogPlace], what: str, again: str = "waits again") -> None:
        """
        Wait until an archive has the log up to each of *places*, the last one first. For the message: *what* was
        changed, and what the same call does *again*.

        Raises:
            NotArchived: not within the timeout, or Redis lost that part of the log.
            RedisUnavailable: the result is unknown; the change was written.
        """
        try:
            for place in places:
                self._wait_for(place, what, again)
        except RedisUnavailable as error:
            message = f"{what}: written, but whether an archive has it is not known: {error.problem}"
            raise error.but(message, may_have_been_applied=True) from error

    def _wait_for(self, place: LogPlace, what: str, again: str) -> None:
        pause_s, until_ms = _FIRST_PAUSE_S, self._clock.monotonic_ms() + self._timeout_s * 1000
        while (word := self._archivers.archived(place)) == "waiting" and self._clock.monotonic_ms() < until_ms:
            self._link.pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if word == "LOST":
            which = f"log entry {place.entry}" if place.is_written else f"the end of its log before {place.entry}"
            raise NotArchived(f"{what}: Redis lost {which} before an archive had it; {_NOTHING}", is_in_redis=False)
        if word == "waiting":
            problem = f"{what}: in Redis, but no archive had it on disk within {self._timeout_s:g} s"
            remedy = f"it fires unless Redis loses it; the same call again {again}; see zsched status"
            raise NotArchived(f"{problem}; {remedy}", is_in_redis=True)
