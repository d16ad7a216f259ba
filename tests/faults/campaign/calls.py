"""What clients asked for and were told: the first witness."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


def now_us() -> int:
    """The time of this machine, which is Redis's too, in epoch microseconds."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call about one schedule.

    ``outcome``: *done* was acknowledged; *unknown* raised, so it may have happened or not; *refused* was answered
    with no; *crashed* raised what a client must not. ``run_id`` and ``due_ms`` are of a one-shot or of the run that
    was asked for; ``every_ms`` is a recurring schedule's.
    """

    verb: str  # put, rule, cancel, pause, resume, skip, run_now, enqueue
    id: str
    began_us: int
    ended_us: int
    outcome: str = "done"
    word: str = ""
    run_id: str | None = None
    due_ms: int | None = None
    every_ms: int | None = None
    is_durable: bool = False
    is_skip: bool = False  # on_uncertain="skip"
    is_relative: bool = False  # after=: the due time is the server's to say


def last_cancel(calls: Sequence[Call]) -> Call | None:
    """The cancel that was the last word on a schedule, of all *calls* about it; None where it was not."""
    last = next((call for call in reversed(calls) if call.verb in ("put", "rule", "cancel", "enqueue")), None)
    is_cancelled = last is not None and (last.verb, last.outcome, last.word) == ("cancel", "done", "cancelled")
    return last if is_cancelled else None


class Ledger:
    """The calls of all clients, in memory and, line by line, in a file for whoever examines a failure."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._file = path.open("a", buffering=1)

    def add(self, *calls: Call) -> None:
        """Write them down."""
        with self._lock:
            self._calls += calls
            for call in calls:
                facts = {name: value for name, value in asdict(call).items() if value not in (None, "", False)}
                self._file.write(json.dumps(facts) + "\n")

    def calls(self) -> list[Call]:
        """All until now."""
        with self._lock:
            return list(self._calls)

    def close(self) -> None:
        """No more calls."""
        self._file.close()
