"""
Attempts of a run: number, worker, times, error, the last lines of the traceback, and the time of the next try.

A worker of ``zsched.rq`` adds a record to the field ``zs_attempts`` of RQ's job when an attempt fails. The leader adds
one for a worker that died. The end of the run copies them into the log. The text is JSON: a list of lists, in the order
of the fields of ``Attempt``.

It is bounded, because any run may have it. If it would be too long, the oldest tracebacks are left out first, then the
attempts after the first one. The first attempt stays: a run's first start is its own.

Any writer of RQ's jobs can write the field. An invalid text counts as no record; texts in it are cleaned.

**Missing functions.** RQ's error "Invalid attribute name" does not say what a worker did not find. A worker imports the
longest part of a function's path that it can, and looks for the rest in it (rq/utils.py, ``import_attribute``, RQ 2.8
to 3.0). If something is missing, RQ names the whole path if nothing could be imported or a class lacks the method, else
the last part of the path only. It hides why a module could not be imported. So a missing function and a missing module
may look the same. Python's own error before it, in the traceback, has the difference.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import pairwise
from typing import Any, Final, NamedTuple

from zsched.core.clock import LAST_MS
from zsched.core.model import json_of
from zsched.core.wording import blanked, in_a_line

ATTEMPTS_FIELD: Final = "zs_attempts"
_MOST: Final = 20  # records
_LONGEST: Final = 4000  # bytes of the text; also in look.lua
_LONGEST_ERROR: Final = 500  # characters
_LONGEST_TRACEBACK: Final = 1500  # characters: some ten calls
_SHORT: Final = 100  # characters: a shorter traceback says nothing
_LARGEST: Final = 10**9  # number of an attempt
_RQS_CALLS: Final = re.compile(
    r"(^Traceback \(most recent call last\):\n)"
    r'(?:  File "[^"\n]*/rq/(?:job|worker|worker/\w+)\.py", .*\n(?:    .*\n)*)+',
    re.MULTILINE,
)
# Between the tracebacks of a chain; the last one is of the exception that ended the attempt.
_CHAINED: Final = re.compile(
    r"\n\n(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\n\n"
    r"(?=(?:  \+ Exception Group )?Traceback \(most recent call last\):\n)"
)
_HEADER: Final = re.compile(r"^(?:  )?(\+ Exception Group |)Traceback \(most recent call last\):\n", re.MULTILINE)
_ONLY_CLASS: Final = re.compile(r"[\w.<>]+:")
attempts_text: Final = json.JSONEncoder(separators=(",", ":")).encode  # for RQ's job; ``attempts_of`` is the inverse
_ERROR: Final = re.compile(r"ValueError: Invalid attribute name: ([\w.]+)")
_CALL: Final = ", in import_attribute\n"
_IMPORTED: Final = re.compile(r"^AttributeError: module '([\w.]+)' has no attribute '([\w.]*)'", re.MULTILINE)
_NO_BUILTIN: Final = re.compile(r"^KeyError: ", re.MULTILINE)  # the last that RQ tries, if no module was imported
_TOLD: Final = re.compile(r"ValueError: .* \((?:cannot import ([\w.]+)|([\w.]+) has no (\w+))\)")
ITS_PLACE: Final = "where its worker runs"  # until the host is known


class Attempt(NamedTuple):
    """
    One attempt; what is not known is None or ''. Instants in ms, by the worker's clock. ``error``: class and first line
    of its exception, or another reason. ``next_ms``: when the next attempt may begin; None: there is none.
    """

    number: int
    worker: str = ""
    queued_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    error: str = ""
    next_ms: int | None = None
    traceback: str = ""

    @property
    def duration_ms(self) -> int | None:
        """Milliseconds from its start to its end."""
        return None if self.started_ms is None or self.ended_ms is None else max(self.ended_ms - self.started_ms, 0)

    @property
    def wait_ms(self) -> int | None:
        """Milliseconds that it waited in its queue; at least 0, because two clocks are compared."""
        return None if self.queued_ms is None or self.started_ms is None else max(self.started_ms - self.queued_ms, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the attempt for JSON, by ``json_of``. Every key is always present."""
        times = "queued_at", "started_at", "ended_at", "duration_s"
        return json_of(self, "number", "worker", *times, "error", "next_at", "traceback")


def told_traceback(text: str) -> str:
    """Return the last lines of a traceback without RQ's own calls, which are always the same."""
    return last_lines(_RQS_CALLS.sub(r"\1", text))


def with_error(attempt: Attempt, traceback: str) -> Attempt:
    """Return *attempt* with the error and the last lines of *traceback*; a text of one line is only the error."""
    text = traceback.strip()
    return attempt._replace(error=error_of(text), traceback=told_traceback(text) if "\n" in text else "")


def error_of(traceback: str) -> str:
    """
    Return the class and the first line of the message of the exception that a traceback ends with. More lines of the
    message, notes and the exceptions of a group stand below that line. A text without a traceback: its first line. An
    error of RQ about a missing function says which part of its path is missing (``with_what_is_missing``).

    Source: Python's traceback.format_exception. A chain has the outermost exception last. A message may have a whole
    traceback in it; of one that has a whole chain in it, the last exception there is taken.
    """
    *before, text = _CHAINED.split(traceback.strip("\n"))
    header = _HEADER.search(text)
    margin = ("  | " if header[1] else "") if header else ""
    lines = [line.removeprefix(margin) for line in text[header.end() if header else 0 :].split("\n")]
    if header:  # calls are indented, the exception is not
        lines = lines[next((n for n, line in enumerate(lines) if line and not line[0].isspace()), 0) :]
    error, *more = [line.strip() for line in lines if line.strip()] or [""]
    if header and more and _ONLY_CLASS.fullmatch(error):  # the message begins with an empty line
        error = f"{error} {more[0]}"
    return with_what_is_missing(in_a_line(error, _LONGEST_ERROR), text, before[-1] if before else "")


def last_lines(text: str, most: int = _LONGEST_TRACEBACK) -> str:
    """Return the last lines of *text*, *most* characters of it, without control characters."""
    if len(text) > most:
        tail = text[-most:]
        text = tail[tail.find("\n") + 1 :]
    return "\n".join(blanked(line).rstrip() for line in text.split("\n")).strip("\n")


def added(attempts: Sequence[Attempt], attempt: Attempt) -> tuple[Attempt, ...]:
    """
    Return *attempts* and *attempt*, within the bounds. Its number is higher than theirs: a run that somebody requeued
    begins to count anew.
    """
    number = max(attempt.number, attempts[-1].number + 1) if attempts else attempt.number
    kept = [*attempts, attempt._replace(number=number)]
    if len(kept) > _MOST:
        del kept[1 : len(kept) - _MOST + 1]
    while len(attempts_text(kept)) > _LONGEST and _has_become_smaller(kept):
        pass
    return tuple(kept)


def joined(earlier: Sequence[Attempt], later: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """
    Return *later*, preceded by the *earlier* ones that it lacks, within the bounds. What *later* does not know of the
    same attempt is taken from *earlier*: RQ's hash forgets ``queued_ms`` when the next attempt is queued.
    """
    known = {one.number: one for one in earlier}
    for one in later:
        before = known.get(one.number, one)
        is_same = one.queued_ms is None and one.started_ms == before.started_ms
        known[one.number] = one._replace(queued_ms=before.queued_ms) if is_same else one
    return reduce(added, (known[number] for number in sorted(known)), ())


def _has_become_smaller(kept: list[Attempt]) -> bool:
    """Leave the least important part out; return False if nothing can be left out."""
    for number, one in enumerate(kept[:-1]):
        if one.traceback:
            kept[number] = one._replace(traceback="")
            return True
    if len(kept) > 2:
        del kept[1]
        return True
    if newest := kept[-1].traceback:
        kept[-1] = kept[-1]._replace(traceback=last_lines(newest, len(newest) // 2) if len(newest) > _SHORT else "")
        return True
    before = kept[:]  # six bytes, or twelve, for each character of another script
    kept[:] = [one._replace(worker=one.worker[:_SHORT], error=_half(one.error)) for one in kept]
    return kept != before


def _half(error: str) -> str:
    return error[: len(error) // 2] if len(error) > _SHORT else error


def attempts_of(text: str) -> tuple[Attempt, ...]:
    """Return the attempts in *text*; none if it is not such a text, or too long."""
    if text and len(text) <= _LONGEST:
        with suppress(ValueError, TypeError, RecursionError):
            return read_attempts(json.loads(text))
    return ()


def read_attempts(value: object) -> tuple[Attempt, ...]:
    """Return the attempts in *value*, as JSON has them. Raises ValueError, TypeError."""
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise ValueError(f"not a list of attempts: {value!r}")
    found = tuple(map(_read, value))
    if any(one.number <= before.number for before, one in pairwise(found)):
        raise ValueError("attempts are not in order")
    return found


def _read(value: Any) -> Attempt:
    number, worker, queued_ms, started_ms, ended_ms, error, next_ms, traceback = value
    if not counted(number, _LARGEST):
        raise ValueError(f"not a number of an attempt: {number!r}")
    if not all(isinstance(each, str) for each in (worker, error, traceback)):
        raise TypeError("not texts of an attempt")
    queued_ms, started_ms, ended_ms, next_ms = map(counted, (queued_ms, started_ms, ended_ms, next_ms))
    error, traceback = in_a_line(error, _LONGEST_ERROR), last_lines(traceback)
    return Attempt(number, in_a_line(worker), queued_ms, started_ms, ended_ms, error, next_ms, traceback)


def counted(value: object, most: int = LAST_MS) -> int | None:
    """Return *value* if it is an instant or a count. Raises ValueError."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    raise ValueError(f"not an instant or a count: {value!r}")


def without_tracebacks(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Return *attempts* for readers who did not ask for tracebacks, which may contain secrets."""
    return tuple(one._replace(traceback="") if one.traceback else one for one in attempts)


def with_what_is_missing(error: str, traceback: str, before: str) -> str:
    """
    Return *error*, followed by what the worker did not find if it is this error of RQ: ``(cannot import app.tasks)``,
    ``(app.tasks has no charge)``. *traceback* is its own part of the text, *before* that of the exception before it.
    """
    found = _ERROR.fullmatch(error)
    if found is None or _CALL not in traceback:
        return error
    owner, _, last = found[1].rpartition(".")
    if module := _IMPORTED.search(before):
        missing = f"cannot import {module[1]}.{module[2]}" if module[2] else f"{module[1]} has no {last}"
    elif owner:
        missing = f"cannot import {owner}" if _NO_BUILTIN.search(before) else f"{owner} has no {last}"
    else:
        return error
    return f"{error} ({missing})"


def remedy_of(error: str) -> str:
    """Return what to do about *error*, a result of ``with_what_is_missing``; "" for another error."""
    if (told := _TOLD.fullmatch(error)) is None:
        return ""
    module, owner, name = told.groups()
    if module:
        how = f"python -c 'import {module}' runs it, and says why it fails"  # any writer of RQ's keys can name it
        return f"deploy {module} {ITS_PLACE}; if it is there, and yours, {how}"
    return f"deploy {owner} with its {name} {ITS_PLACE}, and restart the worker"
