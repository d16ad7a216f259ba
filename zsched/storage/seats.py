"""
Seats of a namespace for daemons inside workers: the typed calls of seat.lua.

However many workers run with a daemon, two daemons have a seat: one leads, one stands by. A seat is a lease: its daemon
keeps it every second. The seat of a daemon that is dead, stopped or cut off lapses.
"""

from __future__ import annotations

from typing import Final

from zsched.storage.connection import Channel
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts

KEEP_S: Final = 1.0  # from one call that keeps a seat to the next
_LEASE_MS: Final = 6000  # a busy machine may start its daemon, or keep its seat, some seconds late
_MOST: Final = 2


class Seats:
    """The seats of one namespace over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys)

    def take(self, daemon: str) -> bool:
        """Take or keep a seat for the daemon of that id. Return False if others have all of them."""
        return bool(self._scripts.call("seat", daemon=daemon, most=_MOST, lease_ms=_LEASE_MS)[0] != "FULL")

    def leave(self, daemon: str) -> None:
        """Free the seat of *daemon*, if it has one."""
        self._channel.execute("ZREM", self._keys.seats(), daemon)

    def is_free(self) -> bool:
        """Return True if a seat is free now."""
        now_ms = server_now_ms(self._channel, self._keys)
        return int(self._channel.execute("ZCOUNT", self._keys.seats(), f"({now_ms}", "+inf")) < _MOST
