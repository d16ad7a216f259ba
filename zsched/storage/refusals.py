"""The words by which scripts refuse a call about a schedule, and the exception for each."""

from typing import Any, Final

from zsched import errors
from zsched.core.clock import from_ms
from zsched.storage.keys import Keys

CHANGED: Final = "CHANGED"  # the word for another version than the caller's; a colon and the present one follow
NO_VERSION: Final = "-"  # of a schedule whose version another program removed


def is_changed(word: str) -> bool:
    """Return True if *word* says that the schedule has another version than the caller's."""
    return word.startswith(CHANGED)


def refusal(
    word: str,
    id: str,
    keys: Keys,
    *,
    due_ms: int | None = None,
    now_ms: int = 0,
    run_id: str | None = None,
    if_version: str | None = None,
) -> errors.ZschedError | None:
    """
    Return the exception for *word* about schedule *id*; None if the word is not a refusal.

    *due_ms* is the requested time, *now_ms* the server's, and *run_id* the run that has the id, for the message.
    *if_version* is the version that the call named.
    """
    if is_changed(word):
        present = word.removeprefix(f"{CHANGED}:")
        return errors.VersionConflict(id, if_version or NO_VERSION, None if present == NO_VERSION else present)
    if word == "EXISTS" and run_id is not None:
        return errors.ScheduleExists(
            f'id {id!r} was enqueued already: run {run_id}; give if_exists="keep", or another id'
        )
    if word == "EXISTS":
        return errors.ScheduleExists(f'schedule {id!r} exists; give if_exists="replace" or "keep", or another id')
    if word == "PAST":
        asked = id if due_ms is None else from_ms(due_ms).isoformat()
        problem = f"it is {from_ms(now_ms).isoformat()} on the Redis server"
        return errors.ScheduleInPast("at", asked, problem, "give a later time, or allow_past=True to run it at once")
    if word == "NOTFOUND":
        return not_found(id, keys)
    if word == "WRONGTYPE":
        which = f"its key, its run's key, its {keys.rq.queue('<name>')} key or a key of its rate limit"
        return errors.RedisRefused(f"schedule {id!r}: {which} holds a value of another type; see redis-cli TYPE")
    if word == "TAKEN":
        problem = "RQ has a job by the id of its run, and zsched did not make it"
        remedy = f"give another id or time, or delete that job ({keys.rq.job('<id>-<ms>')})"
        return errors.InvalidSchedule("id", id, problem, remedy)
    if word == "OVER":
        return errors.InvalidSchedule("until", id, "the time has come by the Redis server's clock", "give a later time")
    if word == "ONCE":
        return errors.InvalidSchedule("id", id, "it is a one-shot, which has no other time", f"zsched cancel {id}")
    if word == "ENDED":
        return errors.InvalidSchedule("id", id, "it has ended", "cancel it first, or give it another rule")
    if word == "QUARANTINED":
        remedy = f"zsched why {id} says why; zsched release {id} releases it, or schedule it again, or cancel it"
        return errors.InvalidSchedule("id", id, "it is quarantined", remedy)
    if word == "BROKEN":
        problem = "it is quarantined, and its data is missing from Redis, or corrupted"
        remedy = "a daemon restores it if its archive has it; otherwise schedule it again, or cancel it"
        return errors.InvalidSchedule("id", id, problem, remedy)
    return None


def demand(word: str, id: str, keys: Keys, **about: Any) -> None:
    """Raise the ``refusal`` of *word*, if it is one; *about*: for its message."""
    if (error := refusal(word, id, keys, **about)) is not None:
        raise error


def contended(id: str, remedy: str = "nothing was written: call again") -> errors.Contended:
    """Return the error of a change of schedule *id* that met another writer at every attempt."""
    return errors.Contended(f"schedule {id!r} was changed by another writer at every attempt; {remedy}")


def not_found(id: str, keys: Keys) -> errors.ScheduleNotFound:
    """Return the error that there is no schedule *id*."""
    return errors.ScheduleNotFound(f"no schedule {id!r} in namespace {keys.namespace!r}", f"zsched ls, zsched why {id}")
