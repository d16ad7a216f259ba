"""
The server's clock, known by the daemon's monotonic one: when to wake, and whether TIME jumped.

Many replies have TIME, read by the server somewhere between sending and receiving: a fire's in microseconds, others in
whole milliseconds. So each reply bounds the difference of the two clocks from both sides. The tightest lower bound is
kept, and given up slowly (clocks may be slewed by 500 ppm, adjtimex(2)); a sleep by it ends at the due time or a
fraction of a millisecond after it, not before.
"""

from __future__ import annotations

from zsched.core.clock import LAST_MS, Clock
from zsched.storage.dispatch import Window

JUMP_MS = 2000  # a difference that is no slewing and no slow network any more
STEADY_MS = 2000.0  # how long TIME must be steady after a jump before it is believed
_SLEW = 500e-6  # ms per ms


class ServerClock:
    """Fed with every reply that tells TIME; asked before sleeping and before firing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._least: float | None = None  # lower bound of (server's ms − monotonic ms)
        self._least_at = 0.0
        self._round_trip_ms = 0.0  # of the last reply
        self._unsteady_since: float | None = None

    def observe(self, now_ms: float, sent_ms: float, grain_ms: float = 1.0) -> int:
        """
        Take TIME from a reply that has just arrived, to what was sent at *sent_ms* (monotonic): it was *now_ms* or up
        to *grain_ms* more.

        Return how far TIME jumped, in ms; 0 when it is where it must be, the round trip considered.
        """
        received_ms = self._clock.monotonic_ms()
        self._round_trip_ms = received_ms - sent_ms
        low, high = now_ms - received_ms, now_ms + grain_ms - sent_ms
        known = self._decayed(received_ms)
        jumped = 0
        if known is not None and (low > known + JUMP_MS or high < known - JUMP_MS):
            jumped = round((low if low > known else high) - known)
            self._unsteady_since = received_ms
            known = None
        self._least, self._least_at = low if known is None else max(low, min(known, high)), received_ms
        return jumped

    def now_ms(self) -> float:
        """The server's time now: never more than it is, and seldom less by a millisecond."""
        now = self._clock.monotonic_ms()
        known = self._decayed(now)
        return now + known if known is not None else 0.0

    def window(self) -> Window:
        """Return the window in which TIME must be when a script that is sent now is run."""
        if self._least is None:
            return Window(0, LAST_MS)
        now = self.now_ms()
        return Window(int(now) - JUMP_MS, int(now + self._round_trip_ms) + JUMP_MS)

    def steady_in_ms(self) -> float:
        """Milliseconds to wait until TIME may be believed again after a jump; 0 when it may."""
        if self._unsteady_since is None:
            return 0.0
        left = self._unsteady_since + STEADY_MS - self._clock.monotonic_ms()
        if left <= 0:
            self._unsteady_since = None
        return max(left, 0.0)

    def _decayed(self, at_ms: float) -> float | None:
        return None if self._least is None else self._least - (at_ms - self._least_at) * _SLEW
