"""
The server's clock, estimated by the daemon's monotonic clock: when to wake up, and whether TIME jumped.

Many replies have TIME, read by the server between our sending and receiving: a fire's reply in microseconds, others in
whole milliseconds. So each reply bounds the difference of the two clocks from both sides. The tightest lower bound is
kept, and relaxed slowly (clocks may be slewed by 500 ppm, adjtimex(2)).

A script that is sent a little before the due time arrives at the due time. How much before is learned from replies in
microseconds: the shortest way to the server counts, so a script seldom arrives too early. One that does finds nothing
due, and is sent again.
"""

from __future__ import annotations

import math

from zsched.core.clock import LAST_MS, Clock
from zsched.storage.dispatch import Window

JUMP_MS = 2000  # a difference too large for slewing or a slow network
STEADY_MS = 2000.0  # how long TIME must be steady after a jump before it is believed
_SLEW = 500e-6  # ms per ms


class ServerClock:
    """An estimate, updated by every reply with TIME, and used before sleeping and firing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._least: float | None = None  # lower bound of (server's ms − monotonic ms)
        self._least_at = 0.0
        self._arrival: float | None = None  # the least of (TIME at the arrival − monotonic ms at the sending)
        self._arrival_at = 0.0
        self._round_trip_ms = 0.0  # of the last reply
        self._unsteady_since: float | None = None

    def observe(self, now_ms: float, sent_ms: float, grain_ms: float = 1.0) -> int:
        """
        Take TIME from a reply that has just arrived, to a request sent at *sent_ms* (monotonic): it was *now_ms*, or up
        to *grain_ms* later.

        Return the jump of TIME in ms; 0 if TIME is within the bounds, the round trip considered.
        """
        received_ms = self._clock.monotonic_ms()
        self._round_trip_ms = received_ms - sent_ms
        low, high = now_ms - received_ms, now_ms + grain_ms - sent_ms
        known = self._decayed(received_ms)
        jumped = 0
        if known is not None and (low > known + JUMP_MS or high < known - JUMP_MS):
            jumped = round((low if low > known else high) - known)
            self._unsteady_since = received_ms
            known = self._arrival = None
        self._least, self._least_at = low if known is None else max(low, min(known, high)), received_ms
        if grain_ms < 1:
            relaxed = math.inf if self._arrival is None else self._arrival + (sent_ms - self._arrival_at) * _SLEW
            self._arrival, self._arrival_at = min(relaxed, now_ms - sent_ms), sent_ms
        return jumped

    def now_ms(self) -> float:
        """Return the server's time: never ahead of it, and seldom behind by a millisecond."""
        now = self._clock.monotonic_ms()
        known = self._decayed(now)
        return now + known if known is not None else 0.0

    def arrival_offset_ms(self) -> float:
        """Return the server's time when a script that is sent now arrives, less the monotonic clock."""
        return self.now_ms() - self._clock.monotonic_ms() if self._arrival is None else self._arrival

    def window(self) -> Window:
        """Return the window in which TIME must be when a script that is sent now is run."""
        if self._least is None:
            return Window(0, LAST_MS)
        now = self.now_ms()
        return Window(int(now) - JUMP_MS, int(now + self._round_trip_ms) + JUMP_MS)

    def steady_in_ms(self) -> float:
        """Return the ms to wait until TIME is trusted again after a jump; 0 if it is trusted."""
        if self._unsteady_since is None:
            return 0.0
        left = self._unsteady_since + STEADY_MS - self._clock.monotonic_ms()
        if left <= 0:
            self._unsteady_since = None
        return max(left, 0.0)

    def _decayed(self, at_ms: float) -> float | None:
        return None if self._least is None else self._least - (at_ms - self._least_at) * _SLEW
