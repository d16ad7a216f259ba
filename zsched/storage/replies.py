"""Many questions in few round trips, about keys that may be of a wrong type or another's. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from redis.exceptions import NoPermissionError

from zsched.core.log import text
from zsched.errors import RedisRefused
from zsched.storage.connection import Wire

_PIPELINED: Final = 500  # commands in flight

Command = tuple[Any, ...]


def replies(wire: Wire, commands: Iterable[Command]) -> list[Any]:
    """The replies to *commands*, pipelined; of what is refused its RedisRefused. Raises RedisUnavailable."""
    waiting, found = list(commands), list[Any]()
    for first in range(0, len(waiting), _PIPELINED):
        part = waiting[first : first + _PIPELINED]
        for command in part:
            wire.send(*command)
        found += [_received(wire) for _ in part]
    return found


def allowed_replies(wire: Wire, commands: Iterable[Command]) -> list[Any]:
    """The same; None of a key of a wrong type. Raises RedisRefused of what this user may not ask."""
    found = replies(wire, commands)
    for reply in found:
        if isinstance(reply, RedisRefused) and is_denied(reply):
            raise reply
    return [None if isinstance(reply, RedisRefused) else reply for reply in found]


def members(wire: Wire, key: str, most: int) -> list[str]:
    """At least *most* members of the set *key*, or all, sorted. Raises RedisRefused, RedisUnavailable."""
    if wire.execute("SCARD", key) <= most:  # not every role may scan
        return sorted(map(text, wire.execute("SMEMBERS", key)))
    found, cursor = set[str](), b""
    while cursor != b"0" and len(found) < most:
        cursor, page = wire.execute("SSCAN", key, cursor or b"0", "COUNT", most)
        found.update(map(text, page))
    return sorted(found)


def is_denied(error: RedisRefused) -> bool:
    """Whether it was refused for want of a right."""
    return isinstance(error.__cause__, NoPermissionError)


def _received(wire: Wire) -> Any:
    try:
        return wire.receive()
    except RedisRefused as error:
        return error
