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
    """Reason of Redis to refuse writes: the cause, about Redis; the remedy for operators; and the code of its error."""

    REPLICA = (
        "it is a replica",
        "give [redis] url the master's address, or name the Sentinels, which know it",
        "READONLY",
    )
    FEW_REPLICAS = "too few replicas are in sync (min-replicas-to-write)", "bring the replicas back", "NOREPLICAS"
    FULL = "it is full (maxmemory)", "free memory, or raise maxmemory", "OOM"
    UNSAVED = (
        "it cannot save its data to its disk",
        "look at the log of Redis and at its disk; it accepts writes again after the next save",
        "MISCONF",
    )

    def __init__(self, sentence: str, remedy: str, code: str) -> None:
        self.sentence, self.remedy, self.code = sentence, remedy, code

    @classmethod
    def from_error(cls, error: BaseException | None) -> WriteRefusal | None:
        """Return the member for an error reply; None for another error."""
        if isinstance(error, redis.ReadOnlyError):  # redis-py takes the code off
            return cls.REPLICA
        if isinstance(error, redis.OutOfMemoryError):
            return cls.FULL
        found = _CODE.search(str(error))
        return next((member for member in cls if found and found[1] == member.code), None)
