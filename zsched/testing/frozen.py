"""
The clock that a test turns.

It stands in Redis, where ``meta.frozen_ms`` is TIME to every script of the namespace, and here, for Python; both move
together, by ``move_to`` and ``tell``. ``meta.frozen_by`` says who turns it: acquire.lua lets nobody else lead there.

Not frozen: TIME itself and Redis' times to live, which is why ``deadlines`` exists; and whoever reads the machine's
clock, as a task does with ``datetime.now()``.
"""

from __future__ import annotations

from zsched.core.clock import Clock, ManualClock, SystemClock
from zsched.errors import ConfigError
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys


class FrozenClock(ManualClock):
    """The leader's clock. Wall and monotonic clock move together, as the leader expects of a healthy server."""

    def __init__(self, wire: Wire, keys: Keys, owner: str, now_ms: int) -> None:
        super().__init__(wall_ms=now_ms)
        self._wire, self._keys, self._owner = wire, keys, owner

    def freeze(self) -> None:
        """Stop the namespace's clock here. Raises ConfigError when somebody else has."""
        meta_key = self._keys.meta()
        if not self._wire.execute("HSETNX", meta_key, "frozen_by", self._owner):
            raise ConfigError(
                f"namespace={self._keys.namespace!r}: another test turns its clock; give each test an empty database"
            )
        self.tell()

    def thaw(self) -> None:
        """Let it go again: this owner could not lead after all."""
        self._wire.execute("HDEL", self._keys.meta(), "frozen_ms", "frozen_by")

    def move_to(self, at_ms: int) -> None:
        """It is *at_ms* now, which is not earlier than before; scripts see it with ``tell``."""
        self.advance(at_ms - self.now_ms())

    def tell(self) -> None:
        """Let Redis have the same time."""
        self._wire.execute("HSET", self._keys.meta(), "frozen_ms", self.now_ms())


class ClientClock:
    """The clients' clock: the frozen time of day, and durations that pass, lest a wait never ends."""

    def __init__(self, frozen: Clock) -> None:
        self._frozen, self._machine = frozen, SystemClock()

    def now_ms(self) -> int:
        return self._frozen.now_ms()

    def monotonic_ms(self) -> float:
        return self._machine.monotonic_ms()
