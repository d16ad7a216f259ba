"""
Many scripts in a row with the next one sent while one is under way.

Twice as fast as one call at a time (measured: 109,000 to 136,000 rows/s against 50,000 to 67,000). What
was sent and not answered is sent again after a broken connection, so only for calls that are safe to repeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from redis.exceptions import NoScriptError

from zsched.errors import RedisUnavailable
from zsched.storage.connection import RESENDS, Link, Wire
from zsched.storage.keys import Keys
from zsched.storage.scripts import Scripts, checked

_IN_FLIGHT = 2  # calls sent and not answered; more only delays other clients of this Redis

BulkCall = tuple[list[Any], dict[str, Any]]  # rows, arguments


def stream(link: Link, keys: Keys, name: str, calls: Iterable[BulkCall]) -> Iterator[list[Any]]:
    """
    The replies of script *name* to each call, in order; as lazy as its consumer, but for the calls in flight.

    Raises:
        RedisUnavailable: the connection broke more often than it is re-sent; what was in flight may
            have been applied.
    """
    flight: deque[BulkCall] = deque()
    losses = 0
    with ExitStack() as stack:
        wire, scripts = _connect(link, keys, name, stack)
        source = iter(calls)
        exhausted = False
        while flight or not exhausted:
            call = next(source, None) if not exhausted and len(flight) < _IN_FLIGHT else None  # its errors are its own
            exhausted = exhausted or (call is None and len(flight) < _IN_FLIGHT)
            try:
                if call is not None:
                    flight.append(call)
                    wire.send(*scripts.command(name, *call))
                if not flight or (len(flight) < _IN_FLIGHT and not exhausted):
                    continue
                reply = checked(wire.receive(), keys)
            except (RedisUnavailable, NoScriptError) as error:
                losses += 1
                if losses > RESENDS:
                    raise RedisUnavailable(str(error), may_have_been_applied=True) from error
                wire.close()
                stack.close()
                try:
                    wire, scripts = _connect(link, keys, name, stack)
                except RedisUnavailable as gone:
                    raise RedisUnavailable(str(gone), may_have_been_applied=True) from gone
                for call in flight:
                    wire.send(*scripts.command(name, *call))
            else:
                flight.popleft()
                losses = 0
                yield reply


def _connect(link: Link, keys: Keys, name: str, stack: ExitStack) -> tuple[Wire, Scripts]:
    wire = stack.enter_context(link.wire())
    scripts = Scripts(wire, keys)
    scripts.ensure(name)  # inside a pipeline a NOSCRIPT could not be answered by loading
    return wire, scripts
