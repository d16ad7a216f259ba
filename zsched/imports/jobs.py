"""
RQ's job hashes, as options of ``client.schedule``.

With the serializer pickle this opens what the jobs are called with, as RQ's workers do: for somebody who trusts this
Redis as they do, where the modules of the arguments' classes can be imported.

What zsched cannot say of a job is refused with its name. A job that ran already (a retry that waits, one of a Repeat)
and one of zsched's own are nobody's to move.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from zsched.core.clock import from_ms
from zsched.errors import InvalidSchedule
from zsched.storage.connection import Link
from zsched.storage.rqjob import Encoder
from zsched.storage.rqkeys import RqKeys

_PAGE: Final = 200  # hashes read in one round trip
_SHOWN: Final = 200  # characters of a description, the most that one takes
_READ: Final = (  # what the encoder turns into options
    *("origin", "timeout", "result_ttl", "failure_ttl", "retries_left", "retry_intervals", "enqueue_at_front_on_retry"),
    *("success_callback_name", "success_callback_timeout", "failure_callback_name", "failure_callback_timeout", "meta"),
)
_UNSAID: Final = {  # fields of RQ, and what is to be done instead
    "dependency_ids": "it depends on other jobs; let those schedule it when they are done (Next, README)",
    "dependency_id": "it depends on another job; let that schedule it when it is done (Next, README)",
    "stopped_callback_name": "it has a callback for being stopped; leave that out",
    "repeats_left": "it repeats itself (rq.Repeat); give it a rule: zsched add … --every … --count …",
    "webhooks": "it has webhooks; call them in its callbacks",
    "group_id": "it is one of a group; let RQ finish the group",
}


class RQJobs:
    """RQ's jobs of one Redis, at the keys *rq*, written by the serializer of *encoder*."""

    def __init__(self, link: Link, rq: RqKeys, encoder: Encoder) -> None:
        self._link, self.rq, self._encoder = link, rq, encoder

    def read(self, ids: Iterable[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
        """The fields that are not empty of each of *ids*, in their order; none of one that is gone."""
        source = iter(ids)
        while page := list(islice(source, _PAGE)):
            with self._link.wire() as wire:
                for id in page:
                    wire.send("HGETALL", self.rq.job(id))
                replies = [wire.receive() for _ in page]
            for id, flat in zip(page, replies, strict=True):
                pairs = zip(flat[::2], flat[1::2], strict=True)
                yield id, {bytes(name).decode(errors="replace"): value for name, value in pairs if value != b""}

    def options(self, fields: Mapping[str, bytes]) -> tuple[str, dict[str, Any]]:
        """
        The function of the job with *fields*, and its options without a time.

        Raises:
            ValueError: zsched cannot say it; the message says why, and what to do.
        """
        _refuse(fields)
        try:
            func, args, kwargs = self._encoder.open(fields["data"], runs=True)
            options = self._encoder.options({name: fields[name] for name in _READ if name in fields}, runs=True)
        except InvalidSchedule as error:
            cause = f" ({error.__cause__})" if error.__cause__ else ""
            remedy = "run this where its modules are, with the workers' [rq] serializer"
            raise ValueError(f"what it is called with cannot be read here{cause}; {remedy}") from error
        except Exception as error:  # fields of another writer, or a pickle of a class that is gone
            problem = f"its fields cannot be read ({type(error).__name__}: {error})"
            raise ValueError(f"{problem}; schedule it again by hand") from error
        if not isinstance(func, str) or "." not in func:
            raise ValueError(f"it calls {func!r}, the method of an object; give it a function of a module")
        options |= {"args": list(args), "kwargs": dict(kwargs)}
        if fields.get("enqueue_at_front") == b"1":
            options["at_front"] = True
        if int(fields.get("ttl", 0)) > 0:  # -1: for ever
            options["expires_after"] = int(fields["ttl"])
        described = fields.get("description", b"").decode(errors="replace")
        if described and not described.startswith(f"{func}("):  # RQ's own, of function and arguments: ours is shorter
            options["description"] = "".join(c if c.isprintable() else " " for c in described)[:_SHOWN]
        return func, options


def instant_of_score(score_s: float) -> datetime:
    """
    The time that a job's score says, in seconds.

    Raises:
        ValueError: it is none that the calendar has; one in milliseconds, say.
    """
    try:
        return from_ms(round(score_s * 1000))
    except (ValueError, OverflowError) as error:
        problem = f"its time, {score_s:.16g} s after 1970, is none"
        raise ValueError(f"{problem}; set its score to seconds (ZADD), or take it out of its set") from error


def not_before(score_s: float) -> datetime:
    """
    Return the first time at which a one-shot is not early. RQ and rq-scheduler cut due times to whole seconds, so it
    is the end of that second. A score with a fraction is from ``score_of`` or lua/native.lua: it has the millisecond.

    Raises:
        ValueError: as ``instant_of_score``.
    """
    if score_s % 1 > 0:
        return instant_of_score(math.ceil(score_s * 1000) / 1000)
    return instant_of_score(score_s) + timedelta(seconds=1)


def score_of(due_ms: int) -> float:
    """Return the score from which ``not_before`` reads *due_ms*: a bit earlier, so that it always has a fraction."""
    return due_ms / 1000 - 0.0001


def status_of(fields: Mapping[str, bytes]) -> str:
    """RQ's word."""
    return fields.get("status", b"").decode(errors="replace")


def _refuse(fields: Mapping[str, bytes]) -> None:
    """Raises ValueError for what cannot be said, and for what is not to be moved."""
    if "data" not in fields:
        raise ValueError("its job is gone, so nothing says what to call; take it out of its set, or leave it")
    for field, problem in _UNSAID.items():
        if field in fields:
            raise ValueError(problem)
