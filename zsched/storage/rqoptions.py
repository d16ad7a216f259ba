"""
RQ's options as the fields of a job: times to live, retries; and retries and callbacks as plain values.

They are checked here for the encoder (``storage.rqjob``): a malformed field kills every RQ worker that reads it.
"""

import json
from collections.abc import Callable as Function
from typing import Any

from zsched.core.options.arguments import LONGEST_S, whole_seconds
from zsched.core.options.forms import MOST_RETRIES
from zsched.core.wording import DURATION_REMEDY
from zsched.errors import InvalidSchedule

_CALLBACK_TIMEOUT_S = 60  # RQ's own
_SHORTEST_TTL_S = 60  # RQ deletes a job with ttl 0 before its end can be seen; then track.lua does

Pairs = dict[str, str | bytes]


def plain(value: object) -> object:
    """Return RQ's Retry or Callback as a number, path or dict for the encoder; other values unchanged."""
    from rq import Callback, Retry

    if isinstance(value, Retry):
        options: dict[str, object] = {"max": value.max}
        if list(value.intervals) != [0]:
            options["interval"] = list(value.intervals)
        if value.enqueue_at_front:
            options["enqueue_at_front"] = True
        return options if len(options) > 1 else value.max
    if isinstance(value, Callback):
        return value.name if value.timeout == _CALLBACK_TIMEOUT_S else {"func": value.name, "timeout": value.timeout}
    return value


def ttl_pairs(field: str, value: object) -> Pairs:
    seconds = whole_seconds(field, value)
    if seconds is None or not -1 <= seconds <= LONGEST_S:
        raise InvalidSchedule(field, value, "not a time to live", f"{DURATION_REMEDY}, or -1 for ever")
    if not 0 <= seconds < _SHORTEST_TTL_S:
        return {field: str(seconds)}
    return {field: str(_SHORTEST_TTL_S), f"zs_{field}": str(seconds)}


def retry_pairs(retry: object) -> Pairs:
    from rq import Retry

    if isinstance(retry, int) and not isinstance(retry, bool) and retry >= 1:
        retry = Retry(max=retry)
    elif isinstance(retry, dict):
        retry = made("retry", Retry, retry, "give max, interval and enqueue_at_front as rq.Retry takes them")
    if not isinstance(retry, Retry) or type(retry.max) is not int:
        raise InvalidSchedule(
            "retry", retry, "not a number of retries", "give a whole number from 1, or rq.Retry(max=…)"
        )
    if retry.max > MOST_RETRIES:
        raise InvalidSchedule("retry", retry, "too many retries", f"give 1 to {MOST_RETRIES:,}")
    if not retry.intervals or not all(_is_interval(one) for one in retry.intervals):
        raise InvalidSchedule("retry", retry, "its intervals are not whole seconds", "give interval=60 or [60, 300]")
    pairs: Pairs = {
        "retries_left": str(retry.max),
        "retry_intervals": json.dumps(list(retry.intervals)),
        "zs_retries": str(retry.max),  # RQ counts retries_left down
    }
    if getattr(retry, "enqueue_at_front", False):
        pairs["enqueue_at_front_on_retry"] = "1"
    return pairs


def _is_interval(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= LONGEST_S


def made(field: str, kind: Function[..., Any], given: dict[Any, Any], remedy: str) -> Any:
    """Return RQ's Retry or Callback from a dict of arguments. Raises InvalidSchedule."""
    try:
        return kind(**given)
    except Exception as error:  # RQ raises TypeError, ValueError or its own
        raise InvalidSchedule(field, given, f"RQ refuses it ({error})", remedy) from None
