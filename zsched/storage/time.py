"""The server's clock, as scripts see it, asked from outside of them; and due times as it keeps them."""

from __future__ import annotations

from zsched.core.clock import LAST_MS
from zsched.storage.keys import Keys
from zsched.storage.meta import asking, garbled, number
from zsched.storage.scripts import Channel


def server_now_ms(channel: Channel, keys: Keys) -> int:
    """The server's time in ms; a test may have moved or stopped it (lua/lib/time.lua). Raises Garbled."""
    seconds, micros = channel.execute("TIME")
    with asking(keys.meta()):
        offset_ms, frozen_ms = channel.execute("HMGET", keys.meta(), "offset_ms", "frozen_ms")
    if frozen_ms is not None:
        field, value, now_ms = "frozen_ms", frozen_ms, number(keys, "frozen_ms", frozen_ms)
    else:
        real_ms = int(seconds) * 1000 + int(micros) // 1000
        field, value, now_ms = "offset_ms", offset_ms, real_ms + number(keys, "offset_ms", offset_ms)
    if not 0 <= now_ms <= LAST_MS:
        raise garbled(keys, field, value)
    return now_ms


def doubted_until_ms(channel: Channel, keys: Keys) -> int:
    """
    Return the time until which due runs are marked when they fire, or skipped: ``meta.doubt``, at least now. On a
    changed server the next leader casts doubt on all that is due. Raises Garbled.
    """
    doubt = number(keys, "doubt", channel.execute("HGET", keys.meta(), "doubt"))
    return max(doubt, server_now_ms(channel, keys))


def due_from_score(score: bytes) -> int:
    """A due time in ms; what another writer wrote (1.5, 1e300, inf) is brought into the range of time."""
    return int(min(max(float(score), 0.0), float(LAST_MS)))
