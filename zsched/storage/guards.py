"""The traces of guarded workers (``zsched.rq``) in Redis: their mode, and the jobs that they let run with a warning."""

from __future__ import annotations

from typing import Final

from zsched.core.entry import text
from zsched.core.runs.job import whole
from zsched.storage.connection import Wire
from zsched.storage.registries import allowed_replies
from zsched.storage.rqkeys import RqKeys

GUARD_FIELD: Final = "zs_guard"  # of a worker's hash: the mode of its guard
WARNED_FIELD: Final = "zs_warned"  # what enforce would have refused; of a worker's hash: how many jobs; of a job's: why


def warned_jobs(wire: Wire, rq: RqKeys) -> dict[str, int]:
    """Return, by queue, how many jobs guards in the mode ``warn`` let run. Raises RedisRefused, RedisUnavailable."""
    (flat,) = allowed_replies(wire, [("HGETALL", rq.warned())])
    flat = list(map(text, flat or []))
    return {queue: whole(number) for queue, number in zip(flat[::2], flat[1::2], strict=True)}
