"""Suppressed occurrences, for the auditor: another program's job kept their run from being pushed."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from zsched.archive import History
from zsched.archive.ran import find_suppressed
from zsched.core.recovery.audit import Alarm, suppressed

_LASTS_MS: Final = 3_600_000  # how long it counts as an alarm; it cannot be repaired


class SuppressedRuns:
    """Alarms of one archive, read as its history grows. The first look goes back an hour."""

    def __init__(self) -> None:
        self._read_to: int | None = None
        self._at_ms = deque[int]()

    def read_new(self, path: Path, now_ms: int) -> tuple[list[Alarm], int]:
        """Return the new alarms, and the number of earlier ones of the last hour. Raises ArchiveError."""
        while self._at_ms and self._at_ms[0] < now_ms - _LASTS_MS:
            self._at_ms.popleft()
        others = len(self._at_ms)
        with History(path) as history:
            changes, self._read_to = find_suppressed(history, (now_ms - _LASTS_MS) * 1000, self._read_to)
        alarms = [suppressed(one.id, one.run_id or "", one.nominal_ms) for one in changes]
        self._at_ms.extend([now_ms] * len(alarms))
        return alarms, others
