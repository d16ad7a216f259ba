"""
Reading ``meta`` and other keys from outside of scripts, and the errors for values of other writers.

If a number of ``meta`` is invalid, scripts answer GARBLED (lua/lib/time.lua has the same rule) and do nothing: a
guessed epoch, doubt or format could fire runs twice.

This module also reads the server's clock as scripts see it: ``meta`` may move it for tests. And it names the keys of
throttled schedules, which only ``meta`` knows.

Another program may have written one of zsched's own keys as another type. Scripts ask for the size of each of their
keys before they write anything (lua/lib/meta.lua), so Redis' WRONGTYPE means that nothing was written. Redis does not
say which key it is: that is found when the error comes.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import redis

from zsched.config.settings import LONGEST_LEASE_MS
from zsched.core.clock import LAST_MS
from zsched.core.entry import text
from zsched.core.options.choices import Priority
from zsched.errors import Garbled, RedisRefused
from zsched.storage.connection import Channel
from zsched.storage.keys import Keys

NUMBERS: Final = ("epoch", "seq", "hold", "doubt", "format")  # without those of test clocks

# The fields to delete if one is invalid. Epochs and seqs continue from the log; a term on an unrecorded server sets
# doubt and hold again.
_TOGETHER: Final = {
    "epoch": "epoch seq", "seq": "epoch seq", "hold": "hold doubt server", "doubt": "hold doubt server"
}  # fmt: skip
_DIGITS: Final = 16  # after leading zeros; more than any time has
_OF_TESTS: Final = ("offset_ms", "frozen_ms")
_READ_BY_SCRIPTS: Final = (
    "epoch", "seq", "server", "hold", "doubt", "offset_ms", "frozen_ms", "throttled", "format", "rq_prefix"
)  # fmt: skip


def number(keys: Keys, field: str, value: bytes | None) -> int:
    """
    Return *value* of *field* in ``meta`` as a number; 0 if it is missing. Valid are digits, with or without a minus, no
    further from 0 than the last time. Raises Garbled.
    """
    if value is None:
        return 0
    digits = value.removeprefix(b"-")
    if not digits.isdigit() or len(digits.lstrip(b"0")) > _DIGITS or int(digits.lstrip(b"0") or b"0") > LAST_MS:
        raise garbled(keys, field, value)
    return int(value)


def numbers(keys: Keys, values: list[Any]) -> dict[str, int]:
    """Return the *values* of NUMBERS by name. Raises Garbled."""
    return {field: number(keys, field, value) for field, value in zip(NUMBERS, values, strict=True)}


def garbled(keys: Keys, field: str, value: bytes) -> Garbled:
    """Return the error for *value* in *field* of ``meta``, with its remedy."""
    if field in _OF_TESTS:
        remedy = f"HDEL {keys.meta()} {field}: tests alone set it, and without it the server's clock counts"
    else:
        remedy = f"HDEL {keys.meta()} {_TOGETHER.get(field, field)}, then DEL {keys.lease()}: the next term sets them"
    return Garbled(f"{keys.meta()} has {field} {text(value)!r}, which zsched never wrote", remedy)


def garbled_among(keys: Keys, values: list[Any]) -> Garbled:
    """Return the error for the invalid one of the *values* of ``meta`` that a script read (lua/lib/time.lua)."""
    found = dict(zip(_READ_BY_SCRIPTS, values, strict=True))
    try:
        for field in (*NUMBERS, *_OF_TESTS):
            number(keys, field, found[field])
    except Garbled as error:
        return error
    field = "offset_ms" if found["frozen_ms"] is None else "frozen_ms"  # they make a time that is none
    return garbled(keys, field, found[field] or b"")


@contextmanager
def asking(key: str) -> Iterator[None]:
    """Convert refusals inside the block that have no type in redis-py, such as WRONGTYPE: the error names the *key*."""
    try:
        yield
    except RedisRefused as error:
        if type(error.__cause__) is not redis.ResponseError:
            raise
        raise Garbled(f"{key}: {error}", "zsched doctor looks at the types of all keys") from error.__cause__


def is_empty(channel: Channel, keys: Keys) -> bool:
    """Return True if the namespace has no key: nothing was ever put into it, and no daemon has served it."""
    return not channel.execute("EXISTS", keys.meta(), keys.log(), keys.archivers())


def server_now_ms(channel: Channel, keys: Keys) -> int:
    """Return the server's time in ms; a test may have moved or stopped it (lua/lib/time.lua). Raises Garbled."""
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


def data_set_names(channel: Channel, keys: Keys) -> str | None:
    """Return the names of the data set, separated by blanks, or None."""
    found = channel.execute("HGET", keys.meta(), "gen")
    return text(found) if found else None


def is_held(channel: Channel, keys: Keys, now_ms: int) -> bool:
    """Return True if nothing fires now. A longer hold was written before the clock was set back (lib/hold.lua)."""
    return now_ms < number(keys, "hold", channel.execute("HGET", keys.meta(), "hold")) <= now_ms + LONGEST_LEASE_MS


def doubted_until_ms(channel: Channel, keys: Keys) -> int:
    """
    Return ``meta.doubt``, at least now: schedules due until then are marked as uncertain when they fire, or skipped. On
    a changed server the next leader marks all due schedules. Raises Garbled.
    """
    doubt = number(keys, "doubt", channel.execute("HGET", keys.meta(), "doubt"))
    return max(doubt, server_now_ms(channel, keys))


class Throttled(NamedTuple):
    """Schedules of one lane and queue, or zone (``zone_in``), in the ZSET ``Keys.throttled``; it may be empty now."""

    lane: Priority
    queue: str

    def key(self, keys: Keys) -> str:
        """Return the key of the ZSET."""
        return keys.throttled(self.lane, self.queue)


def zone_in(queue: str) -> str | None:
    """Return the zone in the place of a queue's name, or None: no name of a queue begins with - (set_aside.lua)."""
    return queue[1:] if queue.startswith("-") else None


def throttled_sets(channel: Channel, keys: Keys) -> list[Throttled]:
    """
    Return the sets that may hold schedules. A schedule moves there from its lane without a log entry, and back only
    with one. So read the lanes first, then call this and read the sets: a schedule missed that way is in the log.
    """
    found = []
    with asking(keys.meta()):
        words = channel.execute("HGET", keys.meta(), "throttled")
    for word in text(words or b"").split(" "):
        lane, _, queue = word.partition(":")
        with suppress(ValueError):  # a word of another writer
            found += [Throttled(Priority(lane), queue)] if queue else []
    return found


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
            if (found := text(channel.execute("TYPE", key))) not in (wanted, "none"):
                first, *command = moving_away(key)
                return Garbled(wrong_text(key, found, wanted), f"{first}: {' '.join(command)}")
    return error


def wrong_text(key: str, found: str, wanted: str) -> str:
    """Return the problem of a *key* whose type is *found*."""
    return f"{key} is a {found}, and has to be a {wanted}: another program wrote it"


def moving_away(key: str) -> tuple[str, ...]:
    """Return the remedy for a *key* of a wrong type: a first step, and the command."""
    return "find out who wrote it, then", "redis-cli", "RENAME", key, f"wrong:{key}"
