"""The requests of clients and the replies to them: the first witness."""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


def now_us() -> int:
    """Return the time of this machine, which is Redis's too, in epoch microseconds."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call about one schedule.

    ``outcome``: *done* was acknowledged; *unknown* raised, so it may or may not have happened; *refused* was answered
    with a refusal; *crashed* raised an error that a client must not raise. ``run_id`` and ``due_ms`` belong to a
    one-shot or to the requested run; ``every_ms`` belongs to a recurring schedule.
    """

    verb: str  # put, rule, cancel, pause, resume, skip, leave_out, run_now, enqueue, calendar
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
    """
    Return the cancel that was the last call about a schedule, of all *calls* about it; None if another call was the
    last.
    """
    last = next((call for call in reversed(calls) if call.verb in ("put", "rule", "cancel", "enqueue")), None)
    is_cancelled = last is not None and (last.verb, last.outcome, last.word) == ("cancel", "done", "cancelled")
    return last if is_cancelled else None


class Ledger:
    """The calls of all clients: in memory, and line by line in a file for the analysis of a failure."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._file = path.open("a", buffering=1)

    def add(self, *calls: Call) -> None:
        """Record *calls* in memory and in the file."""
        with self._lock:
            self._calls += calls
            for call in calls:
                facts = {name: value for name, value in asdict(call).items() if value not in (None, "", False)}
                self._file.write(json.dumps(facts) + "\n")

    def calls(self) -> list[Call]:
        """Return all calls recorded until now."""
        with self._lock:
            return list(self._calls)

    def close(self) -> None:
        """Close the file; no calls can be added afterwards."""
        self._file.close()
