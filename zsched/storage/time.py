"""The server's clock, as scripts see it, asked from outside of them."""

from __future__ import annotations

from zsched.storage.keys import Keys
from zsched.storage.scripts import Channel


def server_now_ms(channel: Channel, keys: Keys) -> int:
    """The server's time in ms; a test may have moved or stopped it (lua/lib/meta.lua)."""
    seconds, micros = channel.execute("TIME")
    offset_ms, frozen_ms = channel.execute("HMGET", keys.meta(), "offset_ms", "frozen_ms")
    if frozen_ms:
        return int(frozen_ms)
    return int(seconds) * 1000 + int(micros) // 1000 + int(offset_ms or 0)
