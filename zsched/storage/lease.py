"""
The lease that makes one daemon the leader, and its term.

The lease is one key with a time to live, written with a token. Every script of a leader compares the
token: this comparison, the fence, makes a paused leader harmless. The lease itself only keeps daemons
from competing. See ``daemon/elector.py`` for the protocol.

A term is valid on one ``Server``: the process, and the history, on which it was won.

Seats of a namespace are leases, too: for daemons inside workers. However many workers run with a daemon, two daemons
have a seat: one leads, one stands by. A daemon keeps its seat every second. The seat of a daemon that is dead, stopped
or cut off lapses.
"""

import math
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from zsched.core.clock import Clock
from zsched.core.entry import text
from zsched.errors import RedisRefused
from zsched.storage.connection import Channel, Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.scripts import Scripts
from zsched.storage.server import Server

_TOKEN_PARTS: Final = 3  # of a token after the daemon: epoch, length and nonce (acquire.lua)


@dataclass(frozen=True, slots=True)
class Term:
    """
    A won lease. ``trusted_until_ms`` is by the monotonic clock, and counted from the start of the attempt, so it is
    never later than the lease's end on the server. ``now_ms``: TIME of the reply. ``gen``: the names of the data set;
    None without a name, and then nothing may be fired (``daemon.data_set``).
    """

    token: str
    epoch: int
    server_id: str
    lease_ms: int
    trusted_until_ms: float
    now_ms: int
    hold_ms: int
    gen: str | None = None

    @property
    def fence(self) -> dict[str, Any]:
        """The arguments by which a leader's scripts check the term and its server."""
        return {"token": self.token, "expected_server": self.server_id}


class Busy(NamedTuple):
    """
    Another daemon leads; its lease expires in ``retry_ms`` unless it is renewed. TIME was ``now_ms``, requested at
    ``sent_ms`` of the monotonic clock.
    """

    retry_ms: int
    now_ms: int
    sent_ms: float


def term_of(daemon_id: str, channel: Channel, keys: Keys, before: Term | None = None) -> Term | None:
    """
    Return the term of the daemon called *daemon_id* if it has the lease now; for its archivist, which writes by the
    term's fence. *before*: the last result. Nobody may trust this copy: it says nothing of the time that is left.
    """
    token = text(channel.execute("GET", keys.lease()) or b"")
    if before is not None and before.token == token:
        return before
    holder, *rest = token.split(":")
    if holder != daemon_id or len(rest) != _TOKEN_PARTS:
        return None
    if not (server_id := text(channel.execute("HGET", keys.meta(), "server") or b"")):
        return None
    epoch, lease_ms, _ = rest
    return Term(token, int(epoch), server_id, int(lease_ms), trusted_until_ms=-math.inf, now_ms=0, hold_ms=0)


class Lease:
    """The lease of one namespace, for one daemon, over one wire to *server*."""

    def __init__(self, wire: Wire, keys: Keys, server: Server, clock: Clock, daemon_id: str, lease_ms: int) -> None:
        self._wire, self._scripts, self._server, self._clock = wire, Scripts(wire, keys), server, clock
        self._daemon_id, self._lease_ms = daemon_id, lease_ms
        self._has_tried = False

    def acquire(self) -> Term | Busy:
        """
        Try to begin a term. An older lease of this daemon, over any connection, is replaced.

        Raises:
            RedisRefused: the namespace's clock is moved for tests (``meta.offset_ms``, ``frozen_ms``).
        """
        if self._has_tried:  # ask again: REPLICAOF changes the history under an open connection
            self._server = Server.of(self._wire)
        self._has_tried = True
        started_ms = self._clock.monotonic_ms()
        own = {"daemon": self._daemon_id, "nonce": uuid.uuid4().hex, "server_id": self._server.id}
        reply = self._scripts.call("acquire", lease_ms=self._lease_ms, **own)
        if reply[0] == "BUSY":
            return Busy(int(reply[2]), int(reply[1]), started_ms)
        if reply[0] == "OFFSET":
            raise RedisRefused(
                "the namespace's clock is moved for tests (meta.offset_ms or frozen_ms); a daemon does not lead there"
            )
        token, epoch, now_ms, hold_ms, names = reply
        return Term(
            token.decode(),
            int(epoch),
            self._server.id,
            self._lease_ms,
            trusted_until_ms=started_ms + self._lease_ms,
            now_ms=int(now_ms),
            hold_ms=int(hold_ms),
            gen=text(names) or None,
        )

    def renew(self, term: Term) -> Term:
        """
        Return the same term, trusted for another full length. Raises Stale, ServerChanged.
        """
        started_ms = self._clock.monotonic_ms()
        reply = self._scripts.call("renew", lease_ms=self._lease_ms, **term.fence)
        return replace(term, trusted_until_ms=started_ms + self._lease_ms, now_ms=int(reply[0]))

    def release(self, term: Term) -> None:
        """End the term at once and wake the standby. Raises Stale if it had ended already."""
        self._scripts.call("release", token=term.token)


KEEP_S: Final = 1.0  # from one call that keeps a seat to the next
_SEAT_MS: Final = 6000  # a busy machine may start its daemon, or keep its seat, some seconds late
_SEATS: Final = 2


class Seats:
    """The seats of one namespace over one channel."""

    def __init__(self, channel: Channel, keys: Keys) -> None:
        self._channel, self._keys, self._scripts = channel, keys, Scripts(channel, keys)

    def take(self, daemon: str) -> bool:
        """Take or keep a seat for the daemon of that id. Return False if others have all of them."""
        return bool(self._scripts.call("seat", daemon=daemon, most=_SEATS, lease_ms=_SEAT_MS)[0] != "FULL")

    def leave(self, daemon: str) -> None:
        """Free the seat of *daemon*, if it has one."""
        self._channel.execute("ZREM", self._keys.seats(), daemon)

    def is_free(self) -> bool:
        """Return True if a seat is free now."""
        now_ms = server_now_ms(self._channel, self._keys)
        return int(self._channel.execute("ZCOUNT", self._keys.seats(), f"({now_ms}", "+inf")) < _SEATS
