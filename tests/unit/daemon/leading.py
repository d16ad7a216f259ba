"""A leader with passes by hand: its Redis gives the prepared answers, and its clock stands still."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zsched.config.settings import DaemonSettings
from zsched.core.clock import ManualClock
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.spec import TriggerSpec
from zsched.daemon.meter import Meter
from zsched.daemon.tick import Tick, Ticker
from zsched.storage.dispatch import DueRecurring, FireResult, PlannedDue, Stopped, Window
from zsched.storage.lease import Term

BOOTED_MS = 5_000.0  # of the monotonic clock, when a test begins
NOW_MS = 1_767_268_800_000  # of the server's clock then: 2026-01-01T12:00Z
HOUR_MS = 3_600_000
Events = list[MutableMapping[str, Any]]  # of the log
NOTHING = FireResult(NOW_MS * 1000, None, 0, 0, 0, [], [], [], [], [])
TERM = Term("token", 1, "server", 2000, BOOTED_MS + 2000, NOW_MS, 0)


@dataclass
class Scripts:
    """Gives the prepared answers, after ``takes_ms``; remembers the requests."""

    clock: ManualClock
    answer: FireResult | Stopped = NOTHING
    word: str = "fired"
    words: list[str] | None = None  # instead of one for all
    takes_bad: bool = True
    stops: Stopped | None = None  # what advance answers instead
    takes_ms: float = 0.0
    fired: list[tuple[Window, int]] = field(default_factory=list)
    advanced: list[list[bytes]] = field(default_factory=list)
    patience_ms: float | None = None
    limits: list[Mapping[str, float]] = field(default_factory=list)
    bad: list[bytes] = field(default_factory=list)

    def limit(self, term: Term, limits: Mapping[str, float]) -> None:
        self.limits.append(dict(limits))

    def fire(self, term: Term, window: Window, limit: int, lacking: Iterable[str] = ()) -> FireResult | Stopped:
        self.fired.append((window, limit))
        self.clock.advance(self.takes_ms)
        return self.answer

    def advance(
        self, term: Term, window: Window, patience_ms: float, part: Sequence[PlannedDue]
    ) -> list[str] | Stopped:
        self.advanced.append([due.id for due, _ in part])
        self.patience_ms = patience_ms
        self.clock.advance(self.takes_ms)
        return self.stops or self.words or [self.word for _ in part]

    def quarantine(self, term: Term, bad: Sequence[tuple[DueRecurring, bytes]]) -> int:
        self.bad += [one.id for one, _ in bad]
        return len(bad) if self.takes_bad else 0


@dataclass
class RqJobs:
    """RQ's own delayed jobs."""

    look: int | None = None
    asked: list[tuple[int, bool]] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.terms.append("begin")

    def end(self, term: Term) -> None:
        self.terms.append("end")

    def look_if_due(self, term: Term, now_ms: int, *, is_busy: bool) -> int | None:
        self.asked.append((now_ms, is_busy))
        return self.look


class Noted(Meter):
    """A meter that remembers its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def ran(self, script: str, took_ms: float, fired: int) -> None:
        self.told.append((script, took_ms, fired))

    def jumped(self, by_ms: float) -> None:
        self.told.append(("jumped", by_ms))


class TickingLeader:
    """A ticker in its term, with a fake Redis and a manual clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(NOW_MS, BOOTED_MS)
        self.scripts, self.rq, self.meter = Scripts(self.clock), RqJobs(), Noted()
        chosen = DaemonSettings(**settings)
        self.kept_back: set[bytes] = set()  # ids of schedules that must not be advanced
        limits = {"mail": 5.0}
        keep_back: Any = self._keep_back  # in the place of a Redis
        self.ticker = Ticker(self.scripts, self.rq, chosen, self.clock, limits, self.meter, keep_back)
        self.ticker.begin(TERM)

    def _keep_back(self, term: Term, fired: FireResult) -> FireResult:
        return replace(fired, recurring=[due for due in fired.recurring if due.id not in self.kept_back])

    def tick(self, answer: FireResult | Stopped = NOTHING) -> Tick:
        self.scripts.answer = answer
        return self.ticker.tick(TERM)


def hourly(number: int, trigger: str = "") -> DueRecurring:
    """Return schedule s<number> of every hour, or of the text *trigger*, which is due now."""
    text = trigger or TriggerSpec(CRON, "0 * * * *").to_text()
    told = (f"s{number}", "normal", str(NOW_MS), f"{NOW_MS} - - 1-1-1", text, str(NOW_MS - HOUR_MS))
    return DueRecurring(*(each.encode() for each in told))
