"""
Single arguments of the client, checked: ids, texts, choices, durations, queue names; and the filters that it takes.
``core.triggers.zones`` has the times.

Every refusal is an InvalidSchedule that names the option, the value and the remedy.
"""

import json
import math
import re
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypedDict, TypeVar

from zsched.core.options.choices import ScheduleState
from zsched.core.runs.run_id import ID
from zsched.core.wording import DURATION_REMEDY, duration_argument, duration_text
from zsched.errors import InvalidSchedule

_MS_PER_S = 1000
LONGEST_S = 100 * 366 * 86400
VERSION = re.compile(r"[!-~]{1,64}")  # lua/lib/version.lua
LONGEST_FILTER = 512  # characters of a filter
_TEXT = 200  # characters of name, description, note, tag, owner, and of by

E = TypeVar("E", bound=Enum)


def check_id(id: object) -> str:
    """Return *id* if it is valid. Raises InvalidSchedule otherwise."""
    if not isinstance(id, str) or not ID.fullmatch(id):
        remedy = "give 1 to 128 of A-Z, a-z, 0-9, _ and -, not beginning with -"
        raise InvalidSchedule("id", id, "not a schedule id", remedy + for_match(id))
    return id


def for_match(id: object) -> str:
    """Return the end of a remedy that names the place of patterns, if *id* is one; otherwise ""."""
    return "; a pattern is for match= (--match)" if isinstance(id, str) and {*"*?["} & {*id} else ""


def check_filter(field: str, value: object) -> str | None:
    """Return *value* if it can be searched for, or None. Raises InvalidSchedule."""
    if value is None or (isinstance(value, str) and 0 < len(value) <= LONGEST_FILTER and value.isprintable()):
        return value
    raise InvalidSchedule(field, value, "not a text to search for", "give a text, or leave it out")


class FacetFilters(TypedDict, total=False):
    """Filters that schedules, occurrences and runs share: the glob ``match`` over ids, the others exact."""

    match: str | None
    func: str | None
    queue: str | None
    tag: str | None
    owner: str | None
    name: str | None


class ScheduleFilters(FacetFilters, total=False):
    """Filters of schedules, as a caller gives them; times are aware."""

    state: str | ScheduleState | None
    kind: str | None
    due_after: datetime | None
    due_before: datetime | None


class SearchFilters(FacetFilters, total=False):
    """
    Filters of the history: values are those that the schedule had then. ``since`` (included) and ``until`` (excluded)
    are aware times of the outcome, or of the end of a run that did not succeed.
    """

    since: datetime | None
    until: datetime | None


def check_run_id(run_id: object) -> str:
    """Return *run_id* if it is a text. Raises InvalidSchedule otherwise."""
    if not isinstance(run_id, str):
        raise InvalidSchedule("run_id", run_id, "not a run id", "give the text that zsched history shows")
    return run_id


def check_number(field: str, value: object, most: int | None, noun: str, least: int = 1) -> int:
    """Return *value* if it is a number of *noun* from *least* to *most*, if there is one. Raises InvalidSchedule."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= (most or value):
        remedy = f"give a whole number from {least}" + (f" to {most}" if most else "")
        raise InvalidSchedule(field, value, f"not a number of {noun}", remedy)
    return value


def check_text(field: str, value: object) -> str:
    """Return *value* if it is a short single-line text. Raises InvalidSchedule otherwise."""
    if not isinstance(value, str) or len(value) > _TEXT or not value.isprintable():
        raise InvalidSchedule(field, value, "not a short line of text", f"give up to {_TEXT} printable characters")
    return value


def check_version(value: object) -> str | None:
    """Return *value* if it can be a schedule's version, or None. Raises InvalidSchedule otherwise."""
    if value is not None and (not isinstance(value, str) or not VERSION.fullmatch(value)):
        raise InvalidSchedule("if_version", value, "not a version", "give the one that zsched show or client.get shows")
    return value


def check_by(value: object) -> str:
    """Return *value* if it can name a caller in the log: a short single-line text. Raises InvalidSchedule otherwise."""
    if value == "":
        raise InvalidSchedule("by", value, "not a name", f"give 1 to {_TEXT} printable characters")
    return check_text("by", value)


def choice(field: str, value: object, enum: type[E]) -> E:
    """Return the member of *enum* with the value *value*. Raises InvalidSchedule otherwise."""
    try:
        return enum(value)
    except ValueError:
        names = ", ".join(str(member.value) for member in enum)
        raise InvalidSchedule(field, value, "not one of its values", f"give one of {names}") from None


def seconds_to_ms(field: str, value: object, least_ms: int, most_s: float = LONGEST_S) -> int:
    """Return a duration, given as seconds, text or timedelta, in whole ms, rounded up. Raises InvalidSchedule."""
    value = duration_argument(field, value) if isinstance(value, str) else value
    if isinstance(value, timedelta):
        ms = -(-(value // timedelta(microseconds=1)) // 1000)  # -timedelta.max would overflow
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value * _MS_PER_S
    elif isinstance(value, float) and math.isfinite(value):
        ms = math.ceil(round(min(value, 2 * most_s) * _MS_PER_S, 6))  # 1e308 s would become infinite
    else:
        raise InvalidSchedule(field, value, "not a duration", DURATION_REMEDY)
    if not least_ms <= ms <= most_s * _MS_PER_S:
        least, most = duration_text(least_ms), duration_text(int(most_s * _MS_PER_S))
        raise InvalidSchedule(field, value, "out of range", f"give {least} to {most}")
    return ms


def whole_seconds(field: str, value: object) -> int | None:
    """Return the duration *value* in whole seconds, rounded up; None: it is not one. Raises InvalidSchedule."""
    value = duration_argument(field, value) if isinstance(value, str) else value
    if isinstance(value, timedelta):
        return -(-value // timedelta(seconds=1))
    if isinstance(value, float):
        return math.ceil(value) if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def timeout_s(timeout: object) -> int:
    """
    Return the time limit of a run in whole seconds, rounded up; -1: no limit.

    Raises:
        InvalidSchedule: not a duration, or out of range; it would kill RQ's worker.
    """
    seconds = whole_seconds("timeout", timeout)
    if seconds is None or not (seconds == -1 or 1 <= seconds <= LONGEST_S):
        raise InvalidSchedule("timeout", timeout, "not a time limit", f"{DURATION_REMEDY}, or -1 for none")
    return seconds


def check_queue(queue: object, kind: str = "queue") -> str:
    """
    Return *queue* if it can name an RQ queue, or another *kind*. Raises InvalidSchedule for names that a terminal, ``rq
    worker`` or RQ's own keys cannot handle: white space, control and invisible characters, a leading -, RQ's
    ``:intermediate``.
    """
    if (
        isinstance(queue, str)
        and 1 <= len(queue.encode("utf-8", "replace")) <= 128
        and queue.isprintable()
        and not any(c.isspace() for c in queue)
        and not queue.startswith("-")
        and not queue.endswith(":intermediate")
    ):
        return queue
    remedy = "give a name of 1 to 128 printable characters without spaces, not beginning with -"
    raise InvalidSchedule(kind, queue, f"not a usable {kind} name", remedy)


def is_queue_name(queue: object) -> bool:
    """Return True if *queue* can name an RQ queue."""
    with suppress(InvalidSchedule):
        return bool(check_queue(queue))
    return False


def check_tags(tags: object) -> tuple[str, ...]:
    """Return *tags*, sorted, without duplicates. Raises InvalidSchedule."""
    if isinstance(tags, str) or not isinstance(tags, list | tuple | set | frozenset) or len(tags) > 32:
        raise InvalidSchedule("tags", tags, "not a list of tags", "give up to 32 short texts")
    return tuple(sorted({check_text("tags", tag) for tag in tags}))


def flag(field: str, value: object) -> bool:
    """Return *value* if it is True or False. Raises InvalidSchedule for any other value, 0 and 1 too."""
    if not isinstance(value, bool):
        raise InvalidSchedule(field, value, "not a boolean", "give True or False")
    return value


def strict_json(text: str) -> Any:
    """Return the value of a JSON text; NaN and Infinity are not in JSON. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def refuse_constant(constant: str) -> None:
    """Refuse NaN and Infinity. Raises ValueError."""
    raise ValueError(f"{constant} is not in JSON")


def serializer_name(value: object) -> str:
    """Return *value* if it names a serializer of payloads. Raises InvalidSchedule."""
    if value not in ("pickle", "json"):
        raise InvalidSchedule("serializer", value, "not a serializer", "give pickle or json")
    return str(value)
