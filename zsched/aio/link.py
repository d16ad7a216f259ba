"""
A link of redis-py's connections that wait in the event loop.

A connection is made by a blocking one, in a thread: look-up of names, TLS, password, and the questions to Sentinels or
a Cluster's nodes. Then its socket is taken over. So whatever redis-py or ``storage.found`` does for a new connection
also holds here. All sends and receives after that happen in the event loop.

Commands of one turn of the event loop go together (``Pipeline``). Their connection belongs to none of the calls: the
reply to a cancelled one is read and dropped, so no other call reads it (CVE-2023-28858). A bulk call has a connection
of its own (``Wire``), which is closed if the call is cancelled.

The settings of an asyncio client of redis-py are taken as those of a client that blocks. Nothing connects by that one.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from copy import copy
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

import redis
import redis.asyncio
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.connection import ConnectionPool
from redis.sentinel import Sentinel, SentinelConnectionPool

from zsched.aio.bridge import demand_run, run, wait, yield_turn
from zsched.core.clock import Clock
from zsched.errors import ConfigError, RedisUnavailable
from zsched.storage.connection import Command, Link, Wire

_AT_ONCE: Final = 16  # commands: Redis serves no other client while it reads them; 1 ms of puts


class _Pending(NamedTuple):
    """A command, and what waits for its reply."""

    command: Command
    reply: asyncio.Future[Any]


class Pipeline:
    """
    Sends commands of one turn of the event loop over one connection of *wire*: one write for all, and usually one read
    of their replies. For one event loop at a time.

    A server with many requests at once has many commands in a turn. With 50 puts at once, one event loop puts 7,900
    schedules per second, and 5,300 if each command has a write and a read of its own (measured).
    """

    def __init__(self, wire: Callable[[], AbstractContextManager[Wire]]) -> None:
        self._wire = wire
        self._open: list[_Pending] = []  # of this turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself keeps no reference

    def reply(self, command: Command) -> asyncio.Future[Any]:
        """Return the reply to *command*, which is sent at the end of this turn. It fails as ``Wire.execute`` does."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not 0 < len(self._open) < _AT_ONCE:
            self._loop, self._open = loop, []
            loop.call_soon(self._begin, self._open)
        call = _Pending(command, loop.create_future())
        self._open.append(call)
        return call.reply

    def _begin(self, calls: list[_Pending]) -> None:
        if calls is self._open:
            self._open = []
        task = asyncio.create_task(run(self._exchange, calls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _exchange(self, calls: list[_Pending]) -> None:
        """Send *calls*, and give each its reply or its error."""
        try:
            with self._wire() as wire:
                _send(wire, calls)
        except BaseException as error:
            _fail(calls, error)
            if not isinstance(error, Exception):
                raise


def _send(wire: Wire, calls: list[_Pending]) -> None:
    """Send *calls* over *wire*. Raises RedisUnavailable: it could not be sent, or replies were lost."""
    packed, sent = list[bytes](), list[_Pending]()
    for call in calls:
        try:
            packed.append(wire.pack(call.command))
        except Exception as error:  # no other command fails
            _fail([call], error)
        else:
            sent.append(call)
    wire.send_packed(packed)
    for number, call in enumerate(sent):
        try:
            reply = wire.receive()
        except Exception as error:
            _fail([call], error)
            if wire.is_broken:
                _fail(sent[number + 1 :], error, is_sent=True)
                return
        else:
            if not call.reply.done():
                call.reply.set_result(reply)


def _fail(calls: Iterable[_Pending], error: BaseException, *, is_sent: bool = False) -> None:
    """Raise a copy of *error* where the replies to *calls* are awaited. *is_sent*: they may have been applied."""
    for call in (one for one in calls if not one.reply.done()):  # others were cancelled
        if not isinstance(error, Exception):
            call.reply.cancel()
            continue
        own = copy(error)
        if isinstance(own, RedisUnavailable):
            own.may_have_been_applied = own.may_have_been_applied or is_sent
        call.reply.set_exception(own)


_OWN = ("connection_pool", "retry")  # of each client


def blocking(client: Any) -> Any:
    """
    Return a ``redis.Redis`` with the settings of *client*, a ``redis.asyncio.Redis``; any other object unchanged.

    Raises:
        ConfigError: *client* is an asyncio client of a Cluster.
    """
    if isinstance(client, redis.asyncio.RedisCluster):
        remedy = "use AsyncClient.from_url('redis+cluster://host:6379,host2:6379')"
        raise ConfigError(f"redis=RedisCluster: it may send a command twice; {remedy}")
    if not isinstance(client, redis.asyncio.Redis):
        return client
    theirs = client.connection_pool
    connection_class: Any = getattr(redis.sentinel, name := theirs.connection_class.__name__, None)
    connection_class = connection_class or getattr(redis.connection, name, None)
    if connection_class is None:
        raise ConfigError(f"redis=a client with connections of class {name}: give one with connections of redis-py")
    given = theirs.connection_kwargs | {"max_connections": theirs.max_connections}
    options = {name: value for name, value in given.items() if name not in _OWN}
    if not isinstance(theirs, AsyncSentinelPool):
        return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=connection_class, **options))
    manager = copy(theirs.sentinel_manager)
    found_by: Any = Sentinel([], min_other_sentinels=manager.min_other_sentinels)  # type: ignore[no-untyped-call]
    found_by.sentinels = [blocking(one) for one in manager.sentinels]
    pool: Any = SentinelConnectionPool(  # type: ignore[no-untyped-call]
        theirs.service_name, found_by, is_master=theirs.is_master, connection_class=connection_class, **options
    )
    return redis.Redis(connection_pool=pool)


T = TypeVar("T")
_POLL_S: Final = 0.005  # between two looks for a free connection, while all are in use
_WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class AsyncLink(Link):
    """A link for functions that ``bridge.run`` calls. Not thread-safe; for one event loop at a time."""

    def __init__(self, pool: ConnectionPool, where: str, timeout_s: float, clock: Clock | None = None) -> None:
        super().__init__(pool, where, timeout_s, clock)
        pool.connection_class = _awaited(pool.connection_class)
        self._idle: list[Wire] = []
        self._pipeline = Pipeline(self.wire)

    @classmethod
    def adopt(cls, client: Any) -> Link:
        """Return a link with the settings of *client*, a ``redis.asyncio.Redis`` or a ``redis.Redis``."""
        return super().adopt(blocking(client))

    def _attempt(self, command: Command) -> Any:
        demand_run()
        if command[0] == "XREAD":  # it waits in Redis, and other commands of its turn would wait behind it
            return super()._attempt(command)
        return wait(self._pipeline.reply(command))

    def _taken(self) -> Wire:
        """Return the connection that was given back last, unless its server closed it: the event loop tells that."""
        while self._idle:
            wire = self._idle.pop()
            if wire.connection.is_open():
                return wire
            super()._give_back(wire)
        return super()._taken()

    def _spare(self) -> Any:
        return self._idle.pop().connection if self._idle else super()._spare()

    def _await(self, turn: threading.Event, seconds: float) -> None:
        self.pause(min(_POLL_S, seconds))

    def _give_back(self, wire: Wire) -> None:
        if not wire.is_broken and not wire.in_flight:
            self._idle.append(wire)
            return
        super()._give_back(wire)
        while self._idle:  # they may be broken, too: redis-py looks at each before its next use
            super()._give_back(self._idle.pop())

    def pause(self, seconds: float) -> None:
        """Wait; other tasks run."""
        wait(asyncio.sleep(seconds))

    def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calculate in a thread; other tasks run."""
        return wait(asyncio.to_thread(function, *arguments))


@cache
def _awaited(blocking_class: type[Any]) -> type[Any]:
    """Return the class of connections like *blocking_class* that wait in the event loop."""

    class Awaited(blocking_class):  # type: ignore[misc]  # any class of redis-py's
        _sock: Any

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._options = options

        def connect(self) -> None:
            if self._sock:
                return
            other = wait(asyncio.to_thread(_connected, blocking_class, self._options))
            if hasattr(other, "port"):  # a Sentinel or a node named them
                self.host, self.port = other.host, other.port
            self._sock, other._sock = AsyncSocket(other._sock), None
            self._parser.on_connect(self)

        def is_open(self) -> bool:
            """Return True if the running event loop watches its socket, and found it open."""
            return self._sock is not None and self._sock.is_open()

    return Awaited


def _connected(blocking_class: type[Any], options: dict[str, Any]) -> Any:
    """Return a new connection. If it is no longer needed, it is closed with its last reference (redis-py)."""
    connection = blocking_class(**options)
    connection.connect()
    return connection


class AsyncSocket:
    """
    The part of a socket that redis-py uses. It has the timeout of *connected*, the socket that it takes over.

    It stays registered for reading between two replies, and has one timer for all of its waits: to register and to time
    each wait cost 50 µs of 270 for a put (measured).
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._timeout_s = connected, connected.gettimeout()
        self._waiter: asyncio.Future[Any] | None = None  # of a call that waits
        self._step: Callable[[], Any] | None = None  # what the waiting call does with data
        self._read_by: asyncio.AbstractEventLoop | None = None  # the loop that it is registered with
        self._deadline_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        connected.setblocking(False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def is_open(self) -> bool:
        """Return True if the running event loop watches it, and found it open."""
        return self._read_by is asyncio.get_running_loop()

    def settimeout(self, seconds: float | None) -> None:
        """Set the timeout of later calls; 0: they do not wait."""
        self._timeout_s = seconds

    def sendall(self, data: bytes) -> None:
        """Send *data*. Raises TimeoutError, OSError."""
        yield_turn()
        rest = memoryview(data)
        while rest:
            rest = rest[self._do(self._socket.send, rest) :]

    def recv(self, *arguments: int) -> bytes:
        """Receive, with the arguments of ``socket.recv``. Raises TimeoutError, OSError."""
        return self._do(self._socket.recv, *arguments)

    def recv_into(self, buffer: bytearray) -> int:
        """Receive into *buffer*. Raises TimeoutError, OSError."""
        return self._do(self._socket.recv_into, buffer)

    def close(self) -> None:
        """Close it. A call that waits for it fails."""
        self._unregister()
        if (waiter := self._waiting()) is not None:
            waiter.set_exception(ConnectionResetError("the connection was closed"))
        self._socket.close()

    def _do(self, step: Callable[..., T], *arguments: Any) -> T:
        """Return ``step(*arguments)`` of the socket, as soon as it need not wait."""
        while True:
            try:
                return step(*arguments)
            except _WOULD_BLOCK as error:
                if self._timeout_s == 0:
                    raise
                is_sending = step == self._socket.send and not isinstance(error, ssl.SSLWantReadError)
                wants_to_write = is_sending or isinstance(error, ssl.SSLWantWriteError)  # TLS may want the other one
            if wants_to_write:
                self._wait_to_write()
            elif (found := self._wait_to_read(partial(step, *arguments))) is not None:
                return found

    def _wait_to_read(self, step: Callable[[], T]) -> T | None:
        """Wait for data, and return the result of *step*, which is called at once then; None: it wants to write."""
        loop = asyncio.get_running_loop()
        if self._read_by is not loop:
            self._unregister()
            loop.add_reader(self._socket.fileno(), self._on_readable)
            self._read_by = loop
        self._step = step
        found: T | None = self._waited(loop)
        return found

    def _wait_to_write(self) -> None:
        self._unregister()  # replies are read later
        loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()
        loop.add_writer(descriptor, self._on_writable)
        try:
            self._waited(loop)
        finally:
            loop.remove_writer(descriptor)

    def _waited(self, loop: asyncio.AbstractEventLoop) -> Any:
        self._waiter = loop.create_future()
        if self._timeout_s is not None:
            self._deadline_s = loop.time() + self._timeout_s
            if self._timer is None:
                self._timer = loop.call_at(self._deadline_s, self._on_time)
        return wait(self._waiter)

    def _waiting(self) -> asyncio.Future[Any] | None:
        """Return the waiter of a call that waits now."""
        return None if self._waiter is None or self._waiter.done() else self._waiter

    def _on_readable(self) -> None:
        waiter = self._waiting()
        if waiter is None or self._step is None:  # the server closed an idle connection: the next call finds that out
            self._unregister()
            return
        try:
            found = self._step()
        except _WOULD_BLOCK as error:
            if isinstance(error, ssl.SSLWantWriteError):
                waiter.set_result(None)
        except Exception as error:
            waiter.set_exception(error)
        else:
            waiter.set_result(found)

    def _on_writable(self) -> None:
        if (waiter := self._waiting()) is not None:
            waiter.set_result(None)

    def _on_time(self) -> None:
        self._timer = None
        if (waiter := self._waiting()) is None:
            return
        loop = waiter.get_loop()
        if loop.time() < self._deadline_s:  # an earlier wait set the timer
            self._timer = loop.call_at(self._deadline_s, self._on_time)
        else:
            waiter.set_exception(TimeoutError("timed out"))

    def _unregister(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._read_by is not None and not self._read_by.is_closed():
            self._read_by.remove_reader(self._socket.fileno())
        self._read_by = None
