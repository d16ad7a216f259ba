"""
The answers of an archive to questions about the history: of a daemon's, or of the folded log.

A question is its topic (``about``) and arguments. A daemon's go through Redis as JSON (``questions.json_form``); those
to the folded log stay values.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from zsched.archive.counts import counts_of
from zsched.archive.history import History
from zsched.archive.log_search import log_search
from zsched.archive.ran import ran
from zsched.archive.records import original_of, puts_of
from zsched.archive.search import Search
from zsched.core.entry import Entry, Position
from zsched.core.facets import question_number, question_text
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.counts import WantedCounts
from zsched.core.occurrences.lateness import waited_since_us
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.search import SearchCursor, Wanted
from zsched.storage.comparing import with_definitions

T = TypeVar("T")
_MOST: Final = 1000  # changes in one answer
_ENTRIES: Final = 100  # log entries in one answer
_ENTRY_BYTES: Final = 4_194_304  # bytes of entries, after which the answer ends: one entry may hold 200 payloads
NOT_UNDERSTOOD: Final = (TypeError, ValueError, KeyError, AttributeError)  # of wrong arguments


def read_arguments(about: str, shown: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a question from JSON. Raises one of NOT_UNDERSTOOD: it is from another version, or another
    writer.
    """
    readers = _TOPICS[about][1]
    if shown.keys() != readers.keys():
        raise KeyError(*(shown.keys() ^ readers.keys()))
    return {name: read(shown[name]) for name, read in readers.items()}


def answer_from(history: History, about: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of *history* to a question."""
    return _TOPICS[about][0](history, **arguments)


def answer_of(path: Path, about: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the archive at *path*, with its ``source``. Raises ArchiveError."""
    with History(path) as history:
        answer = answer_from(history, about, arguments)
        position = history.position
        source = {
            "archive": f"{socket.gethostname()}:{path}",
            "complete_since": history.complete_since,
            "as_of": position.id if position else None,
            "as_of_us": position.t_us if position else None,
        }
    return {"source": source, **answer}


def _story_of(history: History, *, id: str, newest: int, is_limited: bool) -> dict[str, Any]:
    """
    Return the changes of one schedule, with the leaders before late ones, as in ``Chronicle``. *is_limited*: its first
    put, too, is needed with what limits are about.
    """
    found, left_out = history.of_schedule(id, _bounded(newest))
    found = with_definitions(found, partial(puts_of, history, id), has_first=is_limited and not left_out)
    return {"changes": [_with_leaders(history, change) for change in found], "left_out": left_out}


def _searched(history: History, *, wanted: Wanted, after: str | None) -> dict[str, Any]:
    """
    Return a part of a search: its hits, and the cursor ``after`` which the asker continues (None: it is over), with the
    time ``reached_us`` there.
    """
    return Search(history, replace(wanted, limit=_bounded(wanted.limit))).next_part(after)._asdict()


def _log_entries(history: History, *, since_us: int | None, behind: Position | None, limit: int) -> dict[str, Any]:
    """
    Return raw entries of the log: after the position *behind*, else since *since_us*, else the newest *limit*. The
    answer has the first of them; to get more, the asker repeats the question with the last entry as *behind*.
    """
    return {"entries": list(_within_bounds(history.of_log(limit, _ENTRIES, since_us=since_us, behind=behind)))}


def _record_of(history: History, *, run_id: str) -> dict[str, Any]:
    """
    Return the record of a run: its job's fields, to push it once more. []: they are deleted. None: no such run was
    pushed.
    """
    return {"record": original_of(history, run_id)}


def _ran_between(history: History, *, id: str, start_ms: int, end_ms: int, read_to: dict[str, int]) -> dict[str, Any]:
    """
    Return occurrences of a schedule that ran, found in a part of the history. ``read_to`` is how far this archive,
    ``by``, was read (None: to its end). The asker passes it back in the next question, with the values of other
    archives.
    """
    times_ms, end_n = ran(history, id, start_ms, end_ms, read_to.get(history.id, 0))
    return {"ran": set(times_ms), "by": history.id, "read_to": end_n}


def _within_bounds(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return *entries* up to the size of one answer, and at least the first."""
    size = 0
    for entry in entries:
        own = sum(map(len, entry.texts))
        if size and size + own > _ENTRY_BYTES:
            return
        size += own
        yield entry


def _with_leaders(history: History, change: Change) -> Change:
    """Return *change*, if its occurrence was late or left out, with the leaders before it."""
    since_us = waited_since_us(change)
    found = None if since_us is None else history.term_between(since_us, change.at_us)
    return change if found is None else replace(change, term_us=found[0], led_us=found[1] or 0)


# -- questions: each topic with its answer, and what reads its arguments from JSON. Raises NOT_UNDERSTOOD -------------


def _bounded(limit: int) -> int:
    return max(1, min(limit, _MOST))


def _maybe(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return *read* for a value that may be missing."""
    return lambda value: None if value is None else read(value)


def _cursor(value: object) -> str:
    return str(SearchCursor.parse(question_text(value)))


def _position(value: Any) -> Position:
    return Position(*map(question_number, value))


def _numbers(value: Any) -> dict[str, int]:
    return {question_text(name): question_number(n) for name, n in dict(value).items()}


_TOPICS: Final[dict[str, tuple[Callable[..., dict[str, Any]], Mapping[str, Callable[[Any], Any]]]]] = {
    "schedule": (_story_of, {"id": question_text, "newest": question_number, "is_limited": bool}),
    "search": (_searched, {"wanted": Wanted.of_dict, "after": _maybe(_cursor)}),
    "entries": (
        _log_entries,
        {"since_us": _maybe(question_number), "behind": _maybe(_position), "limit": question_number},
    ),
    "counts": (counts_of, {"wanted": WantedCounts.of_dict}),
    "log_search": (
        log_search,
        {
            "by": _maybe(question_text),
            "id": _maybe(question_text),
            "what": _maybe(What),
            "limit": question_number,
            "until_us": _maybe(question_number),
            "is_all": bool,
        },
    ),
    "record": (_record_of, {"run_id": question_text}),
    "ran": (
        _ran_between,
        {"id": question_text, "start_ms": question_number, "end_ms": question_number, "read_to": _numbers},
    ),
}
