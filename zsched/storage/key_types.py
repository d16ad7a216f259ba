"""
The types of zsched's own keys. Another program may have written one of them as another type.

Scripts ask for the size of each of their keys before they write anything (lua/lib/meta.lua), so Redis' WRONGTYPE means
that nothing was written. Redis does not say which key it is: that is found when the error comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import redis

from zsched.core.entry import text
from zsched.errors import Garbled, RedisRefused
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys
from zsched.storage.throttled import throttled_sets


def own_types(channel: Channel, keys: Keys) -> Iterator[tuple[str, str]]:
    """Yield the keys that exist once per namespace, then those of throttled schedules, each with its type."""
    yield from keys.types().items()
    yield from ((throttled.key(keys), "zset") for throttled in throttled_sets(channel, keys))


def explained(channel: Channel, keys: Keys, error: RedisRefused) -> RedisRefused:
    """Return the error that names one of zsched's own keys of a wrong type, if *error* comes from it; else *error*."""
    if type(error.__cause__) is not redis.ResponseError:  # out of memory, no permission, …
        return error
    with suppress(RedisRefused):
        for key, wanted in own_types(channel, keys):
            found = text(channel.execute("TYPE", key))
            if found not in (wanted, "none"):
                first, *command = moving_away(key)
                return Garbled(wrong_text(key, found, wanted), f"{first}: {' '.join(command)}")
    return error


def wrong_text(key: str, found: str, wanted: str) -> str:
    """Return the problem of a *key* whose type is *found*."""
    return f"{key} is a {found}, and has to be a {wanted}: another program wrote it"


def moving_away(key: str) -> tuple[str, ...]:
    """Return the remedy for a *key* of a wrong type: a first step, and the command."""
    return "find out who wrote it, then", "redis-cli", "RENAME", key, f"wrong:{key}"
