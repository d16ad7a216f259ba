"""
The number of runs that are due soon, by queue: the work that workers will get. Nothing here writes.

One-shots: a lane has ids and times; the queue is in the job. So each lane is read in slices, one per window of time. A
slice of up to SAMPLE schedules is read whole, and its numbers are exact. Of a longer one, SAMPLE schedules are read,
some neighbours at each of equal distances, and its exact length is shared out in their proportions. Throttled ones are
left out, as a limit of their queue holds them back.

Recurring schedules: their rules are asked for all occurrences within the time. Of more than MOST_RULES some are asked,
and their numbers are shared out. What is overdue is in the first window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from zsched.core.entry import text
from zsched.core.model import Schedule
from zsched.core.occurrences.future import Future, Spans
from zsched.core.options.choices import Priority
from zsched.core.pages import pages_of
from zsched.storage.connection import Wire
from zsched.storage.keys import Keys
from zsched.storage.meta import server_now_ms
from zsched.storage.registries import allowed_replies

WITHIN_MS: Final = {"1m": 60_000, "10m": 600_000, "60m": 3_600_000}
MOST_RULES: Final = 1000  # that are asked: 60 ms
_MINUTE_MS: Final = 60_000
_LAST_MS: Final = max(WITHIN_MS.values())
_MINUTES: Final = _LAST_MS // _MINUTE_MS
_OF_RULE: Final = ""  # no queue has this name
_CHUNKS: Final = 10  # of a sample: each is read by one command
SAMPLE: Final = 100  # schedules of a slice whose queue is read: two questions each, 2 ms of Redis in all


def due_soon(wire: Wire, keys: Keys, rules: Sequence[Schedule], of_rules: int) -> dict[str, dict[str, int]]:
    """
    Return, by queue, the number of runs that are due within each of WITHIN_MS, by its name. *rules*: recurring
    schedules, all or some *of_rules*.

    Raises:
        RedisRefused, RedisUnavailable.
    """
    now_ms = server_now_ms(wire, keys)
    found: list[Counter[str]] = [Counter() for _ in WITHIN_MS]
    for lane in Priority:
        counts = allowed_replies(wire, (("ZCOUNT", keys.due(lane), "-inf", now_ms + ms) for ms in WITHIN_MS.values()))
        for number, (begin, end) in enumerate(pairwise([0, *(count or 0 for count in counts)])):
            found[number].update(_by_queue(wire, keys, lane, begin, end))
    minutes = Future(rules, now_ms, now_ms, now_ms + _LAST_MS).counts(
        Spans(now_ms, _MINUTE_MS, _MINUTES), lambda one: one.queue
    )
    for queue, row in minutes.rows.items():
        for number, (begin, end) in enumerate(pairwise([0, *(ms // _MINUTE_MS for ms in WITHIN_MS.values())])):
            found[number][queue] += round(sum(row[begin:end]) * of_rules / len(rules))
    sums = list(accumulate(found))
    names = sorted({queue for one in sums for queue in one})
    return {queue: {within: one[queue] for within, one in zip(WITHIN_MS, sums, strict=True)} for queue in names}


def _by_queue(wire: Wire, keys: Keys, lane: Priority, begin: int, end: int) -> dict[str, int]:
    """Count the one-shots of *lane* from rank *begin* up to *end*, by queue."""
    size, per_chunk = max(end - begin, 0), SAMPLE // _CHUNKS
    starts = range(begin, end, max(size // _CHUNKS, per_chunk))
    pages = allowed_replies(
        wire, (("ZRANGE", keys.due(lane), at, min(at + per_chunk, end) - 1, "WITHSCORES") for at in starts)
    )
    members = [(id, due) for flat in pages for id, due in pages_of(flat or (), 2)]
    shared = _shared(Counter(_queues_of(wire, keys, members)), size)
    shared.pop(_OF_RULE, None)
    return shared


def _queues_of(wire: Wire, keys: Keys, members: list[tuple[bytes, bytes]]) -> list[str]:
    """Return the queues of one-shots with due times, ``_OF_RULE`` of others; one that is gone meanwhile has none."""
    places = [(keys.template(text(id)), keys.rq.job(keys.run_id(text(id), text(due)))) for id, due in members]
    found = allowed_replies(wire, (("HGET", key, "origin") for pair in places for key in pair))
    return [_OF_RULE if template else text(job) for template, job in pages_of(found, 2) if template or job]


def _shared(seen: Counter[str], size: int) -> dict[str, int]:
    """Share *size* out by the numbers in *seen*: at least one for each, as it was seen."""
    total = seen.total()
    return {queue: max(round(size * number / total), 1) if size > total else number for queue, number in seen.items()}
