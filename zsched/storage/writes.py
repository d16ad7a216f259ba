"""
Reasons of Redis to refuse writes: a member for each of its error codes, with the sentence and the remedy for people.

An error of a call and a look at the server (``storage.server``) both lead to a member, so that a client, the log of a
daemon, ``zsched status`` and ``zsched doctor`` use the same words.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import redis

# Redis 6.2 wraps the errors of a script's commands: "Error running script (…): … -MISCONF …".
_CODE: Final = re.compile(r"(?:^|^(?:ERR )?Error running script .*: -)(READONLY|NOREPLICAS|OOM|MISCONF) ", re.DOTALL)


class WriteRefusal(Enum):
    """Reason of Redis to refuse writes. The value is the code of its error."""

    REPLICA = "READONLY"
    FEW_REPLICAS = "NOREPLICAS"
    FULL = "OOM"
    UNSAVED = "MISCONF"

    @property
    def sentence(self) -> str:
        """The cause, about Redis."""
        return _SENTENCES[self]

    @property
    def remedy(self) -> str:
        """The remedy for an operator."""
        return _REMEDIES[self]

    @classmethod
    def from_error(cls, error: redis.ResponseError) -> WriteRefusal | None:
        """Return the member for an error reply; None for another error."""
        if isinstance(error, redis.ReadOnlyError):  # redis-py takes the code off
            return cls.REPLICA
        if isinstance(error, redis.OutOfMemoryError):
            return cls.FULL
        code = _CODE.search(str(error))
        return cls(code[1]) if code else None


_SENTENCES: Final = {
    WriteRefusal.REPLICA: "it is a replica",
    WriteRefusal.FEW_REPLICAS: "too few of its replicas keep up (min-replicas-to-write)",
    WriteRefusal.FULL: "it is full (maxmemory)",
    WriteRefusal.UNSAVED: "it cannot save its data to its disk",
}
_REMEDIES: Final = {
    WriteRefusal.REPLICA: "give [redis] url the master's address, or name the Sentinels, which know it",
    WriteRefusal.FEW_REPLICAS: "bring the replicas back",
    WriteRefusal.FULL: "free memory, or raise maxmemory",
    WriteRefusal.UNSAVED: "look at the log of Redis and at its disk; it accepts writes again after the next save",
}
