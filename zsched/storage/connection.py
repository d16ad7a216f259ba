"""
Connections to Redis: no command is sent twice unless zsched itself decides so.

redis-py ≥ 6 re-sends a command when only its *reply* was lost, which pushes a job twice (measured through a proxy that
cuts replies). So commands go over redis-py's connections without its client's retries. ``Link`` is a pool for calls
that are safe to repeat by their ids, and re-sends them itself. ``Wire`` is one physical connection that never
reconnects silently, for a leader's scripts. RESP 2 is pinned: replies differ in shape between the protocols, not in
speed (measured).
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import hiredis
import redis
from redis.connection import ConnectionPool
from redis.exceptions import MaxConnectionsError

from zsched.core.clock import Clock, SystemClock
from zsched.core.pages import pages_of
from zsched.errors import RedisRefused, RedisUnavailable, SlotMoves
from zsched.storage import cluster, remedies
from zsched.storage.found import FoundPool
from zsched.storage.keys import Keys, keys_of
from zsched.storage.pools import pool_by_url, pool_like

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from zsched.config.settings import Settings
    from zsched.storage.failures import Destination

RESENDS = 2  # after the first attempt
_PIPELINED = 500  # commands in flight
REST_S = 0.05  # between two attempts while a slot is being moved
_LOST = (redis.ConnectionError, redis.TimeoutError, OSError)
_UNREADABLE = (ValueError, RecursionError)  # raised by redis-py's own parser, used without hiredis
_TEXTS = frozenset({str, bytes})  # types of the parts of most commands

Command = tuple[Any, ...]
T = TypeVar("T")


class Channel(Protocol):
    """A ``Link`` or a ``Wire``."""

    def execute(self, *command: Any) -> Any:
        """Return the reply to *command*."""


class Link:
    """
    A pool of connections to one Redis, thread-safe, without I/O until its first use. ``where`` names it without its
    password. ``given_by``: the place of its URL in the settings, or "". ``finds_master``: Sentinels, or a Cluster's
    nodes, name the master for every new connection. ``is_to_cluster``: it follows a slot of a Redis Cluster.
    ``execute`` may send a command three times if replies are lost: use it for reads and for scripts that are safe to
    repeat.
    """

    def __init__(self, pool: ConnectionPool, where: str, timeout_s: float, clock: Clock | None = None) -> None:
        self.pool, self.where, self.timeout_s, self.given_by = pool, where, timeout_s, ""
        self._clock = clock or SystemClock()
        self._found = pool if isinstance(pool, FoundPool) else None
        self.finds_master, self.is_to_cluster = self._found is not None, isinstance(pool, cluster.ClusterPool)
        self._waiting, self._pid = deque[threading.Event](), os.getpid()

    @classmethod
    def from_url(cls, url: str, timeout_s: float, password: str | None = None, keys: Keys | None = None) -> Link:
        """
        Return a link to *url* (redis://, rediss://, unix://, redis+sentinel:// or, with *keys*, redis+cluster://), with
        *timeout_s* for connection and reply.

        Raises:
            ConfigError: not a Redis URL; or *keys* are in more than one slot of the Cluster.
        """
        return cls(*pool_by_url(url, timeout_s, password, keys))

    @classmethod
    def adopt(cls, client: redis.Redis) -> Link:
        """
        Return a link to the server of *client*, with zsched's policy for sending again instead of the client's. Raises
        ConfigError if *client* is not a ``redis.Redis``, but for example an asyncio client or a URL.
        """
        return cls(*pool_like(client))

    def client_pool(self) -> ConnectionPool:
        """Return the pool for a client of redis-py's: this link's, or one whose connections follow the slot."""
        return self.pool.like(cluster.FOLLOWING) if isinstance(self.pool, cluster.ClusterPool) else self.pool

    def look_for_master(self) -> None:
        """Ask Sentinels or nodes for the master, if any, so that connections to a former one break. Raises nothing."""
        if self._found is not None:
            with suppress(*_LOST):  # open connections may work without them
                self._found.find_master()

    def execute(self, *command: Any) -> Any:
        """
        Return the reply to *command*.

        Raises:
            RedisUnavailable: within ``timeout_s`` not reached, or every reply was lost, or the slot was not whole.
            RedisRefused: an error reply, except NOSCRIPT, which the script loader handles.
        """
        deadline_ms = self._clock.monotonic_ms() + self.timeout_s * 1000
        lost, failures = False, 0
        while True:
            try:
                return self._attempt(command)
            except RedisUnavailable as error:
                lost = lost or error.may_have_been_applied
                failures += not isinstance(error, SlotMoves)
                if failures > RESENDS or self._clock.monotonic_ms() >= deadline_ms:
                    raise error.but(may_have_been_applied=lost) from error
                if isinstance(error, SlotMoves):
                    self.pause(REST_S)

    def _attempt(self, command: Command) -> Any:
        """Send *command* once, and return the reply. Raises as ``execute``."""
        wire = self._taken()
        try:
            wire.send(*command)
            return wire.receive()
        finally:
            self._give_back(wire)

    def pause(self, seconds: float) -> None:
        """Sleep before a retry. A client waits here, and for replies."""
        time.sleep(seconds)

    def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments)``, a calculation that may take more than some milliseconds."""
        return function(*arguments)

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        """
        Take one connection from the pool, and give it back after the block unless it broke.

        Raises:
            RedisUnavailable: it could not be opened; nothing was sent.
        """
        wire = self._taken()
        try:
            yield wire
        finally:
            self._give_back(wire)

    def _taken(self) -> Wire:
        try:
            try:
                connection = self._in_turn() if self._waiting else self.pool.get_connection()
            except MaxConnectionsError:
                connection = self._in_turn()
        except Exception:
            with self._converted():
                raise
        return Wire(connection, self.where, self._found, self.given_by)

    def _in_turn(self) -> Any:
        """Return a connection. While all are in use, wait for one up to ``timeout_s``: first come, first served."""
        if self._pid != os.getpid():  # the threads that wait are those of the parent process
            self._pid, self._waiting = os.getpid(), deque()
        turn, until_ms = threading.Event(), self._clock.monotonic_ms() + self.timeout_s * 1000
        self._waiting.append(turn)
        try:
            while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
                turn.clear()
                if self._waiting[0] is turn:
                    with suppress(MaxConnectionsError):
                        return self._spare()
                self._await(turn, left_ms / 1000)
        finally:
            self._waiting.remove(turn)
            self._call()
        busy = f"all {self.pool.max_connections} connections of this client to Redis at {self.where} are busy"
        raise RedisUnavailable(f"{busy} for {self.timeout_s:g} s", remedies.MORE_CONNECTIONS)

    def _spare(self) -> Any:
        """Return an unused connection. Raises MaxConnectionsError."""
        return self.pool.get_connection()

    def _await(self, turn: threading.Event, seconds: float) -> None:
        """Wait for *turn*, for a connection that another call gives back."""
        turn.wait(seconds)

    def _call(self) -> None:
        with suppress(IndexError):
            self._waiting[0].set()

    def _give_back(self, wire: Wire) -> None:
        if wire.is_broken or wire.in_flight:
            wire.connection.disconnect()
        self.pool.release(wire.connection)
        if self._waiting:
            self._call()

    def open(self) -> Wire:
        """Open a connection outside of the pool, until its ``close``. Raises RedisUnavailable."""
        with self._converted():
            connection = self.pool.connection_class(**self.pool.connection_kwargs)
            connection.connect()
        return Wire(connection, self.where, self._found, self.given_by)

    @contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except (TypeError, redis.RedisError, OSError) as error:
            raise _destination(self.where, self.given_by, self._server).of_opening(error) from error

    @property
    def _server(self) -> remedies.Endpoint:
        """The server, as far as it was found."""
        address = None if self._found is None else self._found.master_address
        return remedies.Endpoint.of_pool(self.pool, **dict(zip(("host", "port"), address or (), strict=False)))


class Wire:
    """
    One physical connection. After any failure it stays broken; its owner opens another one, and so notices that the
    server may be a different one. ``found``: the pool that knows the present master, behind Sentinels or in a Cluster.
    A wire to a former master has failed.
    """

    def __init__(self, connection: Any, where: str, found: FoundPool | None = None, given_by: str = "") -> None:
        self.connection, self.where, self.found, self._given_by = connection, where, found, given_by
        self.is_broken, self.in_flight = False, 0

    @property
    def follows_slot(self) -> bool:
        """Return True if its link follows a slot of a Redis Cluster."""
        return isinstance(self.found, cluster.ClusterPool)

    def execute(self, *command: Any) -> Any:
        """Send *command* once, and return the reply. Raises as ``Link.execute``."""
        self.send(*command)
        return self.receive()

    def replies(self, commands: Iterable[Command]) -> list[Any]:
        """Return the replies to *commands*, pipelined; a RedisRefused for a refused one. Raises RedisUnavailable."""
        found = list[Any]()
        for page in pages_of(commands, _PIPELINED):
            for command in page:
                self.send(*command)
            found += [self._received() for _ in page]
        return found

    def execute_all(self, commands: Iterable[Command]) -> list[Any]:
        """Return the same. Raises RedisRefused for the first refused command; all commands were sent."""
        found = self.replies(commands)
        for reply in found:
            if isinstance(reply, RedisRefused):
                raise reply
        return found

    def send(self, *command: Any) -> None:
        """Send without waiting; ``receive`` gives the replies in order."""
        if self.is_broken or self.found is not None:
            self._demand_usable()
        try:  # a block of _converted would cost some microseconds per command
            self.connection.send_packed_command([self.pack(command)], check_health=False)
        except BaseException:
            with self._converted():
                raise
        self.in_flight += 1

    def pack(self, command: Command) -> bytes:
        """
        Return *command* as bytes for ``send_packed``, its numbers as text: hiredis 3.5 crashes the process if Ctrl-C
        comes while it packs a number (``PyObject_Repr`` handles signals). Raises redis.DataError, UnicodeError.
        """
        if not _TEXTS.issuperset(map(type, command)):
            command = tuple(
                repr(part) if part.__class__ is int or part.__class__ is float else part for part in command
            )
        try:  # redis-py looks at each part twice before: 5 % of a client's time in a bulk insert (measured)
            packed: bytes = hiredis.pack_command(tuple(command))
        except TypeError as error:
            raise redis.DataError(str(error)) from error
        return packed

    def send_packed(self, commands: Sequence[bytes]) -> None:
        """Send packed *commands* in one write; ``receive`` gives the replies in order."""
        self._demand_usable()
        with self._converted():
            self.connection.send_packed_command([b"".join(commands)], check_health=False)
        self.in_flight += len(commands)

    def receive(self) -> Any:
        """Return the next reply."""
        if self.is_broken:
            raise self._closed()
        try:
            reply = self.connection.read_response()
        except BaseException as error:
            with self._converted():
                if isinstance(error, _UNREADABLE):
                    raise redis.InvalidResponse(str(error)) from error
                raise
        self.in_flight -= 1
        return reply

    def hear(self) -> Any:
        """Return the next message of a subscription, which answers no call, or the next reply."""
        message = self.receive()
        self.in_flight += message[0] == b"message"
        return message

    def _received(self) -> Any:
        try:
            return self.receive()
        except RedisRefused as error:
            if self.is_broken:  # no more replies
                raise
            return error

    def wait_for_data(self, timeout_s: float, interruption: HasFileno | None = None) -> bool:
        """
        Return True when data can be read, within *timeout_s*. With *interruption*, which ends the wait, return False as
        soon as that is readable; then a reply must be awaited, and no part of it read.
        """
        self._demand_usable()
        with self._converted():
            if interruption is None:
                return bool(self.connection.can_read(timeout=timeout_s))
            socket = self.connection._sock
            return socket in select.select([socket, interruption], (), (), timeout_s)[0]

    def close(self) -> None:
        """Close the connection; calls in flight are lost."""
        self.is_broken = True
        self.connection.disconnect()

    def _demand_usable(self) -> None:
        """Raise RedisUnavailable if it is closed, or if its server is a former master and no call is in flight."""
        if self.is_broken:
            raise self._closed()
        if self.found is not None and self.in_flight == 0 and self.found.has_moved(self.connection):
            self.close()
            raise RedisUnavailable(f"Redis at {self.where} has another master now", remedies.ASKED_AGAIN)

    def _closed(self) -> RedisUnavailable:
        return RedisUnavailable(f"the connection to Redis at {self.where} is closed", remedies.ASKED_AGAIN)

    @contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.NoScriptError:
            self.in_flight -= 1
            raise
        except (redis.RedisError, OSError) as error:
            found = _destination(self.where, self._given_by, remedies.Endpoint.of(self.connection)).of_call(
                error,
                has_moved=isinstance(error, redis.exceptions.MovedError)
                and self.found is not None
                and self.found.redirected(self.connection, error),
                follows_slot=self.follows_slot,
                is_one_of_many=self.in_flight > 1,
            )
            if isinstance(error, redis.ResponseError) and isinstance(found, RedisRefused):
                self.in_flight -= 1
            else:  # another server may answer next time
                self.close()
            raise found from error
        except BaseException:  # Ctrl-C between command and reply: the next reply would be this one's
            self.close()
            raise


def _destination(where: str, given_by: str, server: remedies.Endpoint) -> Destination:
    from zsched.storage.failures import Destination  # a client without an error need not wait for it

    return Destination(where, given_by, server)


def link_of(settings: Settings, most_s: float | None = None) -> Link:
    """Return a link by *settings*, with at most *most_s* per wait, not connected yet. Raises ConfigError."""
    given = settings.redis
    timeout_s = given.timeout_s if most_s is None else min(given.timeout_s, most_s)
    link = Link.from_url(given.url, timeout_s, given.read_password(), keys_of(settings))
    password = f", password from {given.password_file}" if given.password_file else ""
    link.given_by = given.given_by and given.given_by + password
    return link
