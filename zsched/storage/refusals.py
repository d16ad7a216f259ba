"""The words with which a script refuses, as exceptions: the one table."""

from __future__ import annotations

from zsched.core.clock import from_ms
from zsched.errors import InvalidSchedule, RedisRefused, ScheduleExists, ScheduleInPast, ScheduleNotFound, ZschedError
from zsched.storage.keys import Keys


def refusal(word: str, id: str, keys: Keys, *, due_ms: int | None = None, now_ms: int = 0) -> ZschedError | None:
    """
    The exception for *word* about schedule *id*; None when the word is no refusal.

    *due_ms* is the time asked for and *now_ms* the server's, for the message.
    """
    if word == "EXISTS":
        return ScheduleExists(f'schedule {id!r} exists; give if_exists="replace" or "keep", or another id')
    if word == "PAST":
        asked = id if due_ms is None else from_ms(due_ms).isoformat()
        problem = f"it is {from_ms(now_ms).isoformat()} on the Redis server"
        return ScheduleInPast("at", asked, problem, "give a later time, or allow_past=True to run it at once")
    if word == "NOTFOUND":
        return ScheduleNotFound(f"no schedule {id!r} in namespace {keys.namespace!r}; see zsched ls, zsched why {id}")
    if word == "WRONGTYPE":
        which = f"its key, its run's key or its {keys.rq.queue('<name>')} key"
        return RedisRefused(f"schedule {id!r}: {which} holds a value of another type; see redis-cli TYPE")
    if word == "TAKEN":
        problem = "RQ has a job by the id of its run, and zsched did not make it"
        remedy = f"give another id or time, or delete that job ({keys.rq.job('<id>-<ms>')})"
        return InvalidSchedule("id", id, problem, remedy)
    if word == "ENDED":
        return InvalidSchedule("id", id, "it has ended", "cancel it first, or give it another rule")
    if word == "QUARANTINED":
        return InvalidSchedule(
            "id", id, "it is quarantined", "see why with zsched show; schedule it again or cancel it"
        )
    return None
