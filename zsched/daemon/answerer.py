"""
Answer questions about history from this daemon's archive, in a separate thread with a separate reader. So a long query
does not stop the archiver. Questions about names of data sets have another thread, because a leader waits for their
answer, for a lease at most.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from zsched.archive import History
from zsched.archive.originals import Originals
from zsched.archive.ran import Ran
from zsched.archive.records import records
from zsched.archive.search import Search
from zsched.core.backfill import packed
from zsched.core.changes import Change
from zsched.core.lateness import waited_since_us
from zsched.core.log import Entry, Position
from zsched.core.lookback import SearchCursor, Wanted, question_text
from zsched.daemon.archiver import Archiver
from zsched.daemon.failures import Failures
from zsched.daemon.loop import Loop
from zsched.errors import ArchiveError, show
from zsched.storage.comparing import with_definitions
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.questions import Inbox, Question

log = structlog.get_logger(__name__)

_WAIT_S: Final = 2.0  # wait for a question, at most, between two checks for the stop
_LOOK_S: Final = 0.5  # the same if Sentinels may choose another master, and between two looks at an unhealthy archive
_CATCH_UP_S: Final = 1.0  # wait until the archive has the log entries that the asker saw
_MOST: Final = 1000  # changes in one answer
_ENTRIES: Final = 100  # log entries in one answer
_ENTRY_BYTES: Final = 4_194_304  # bytes of entries, after which the answer ends: one entry may hold 200 payloads
_WHOLE: Final = 2**62  # bound of whole numbers in a question: SQLite's integers have 64 bits
_NOT_UNDERSTOOD: Final = (TypeError, ValueError, KeyError)  # of wrong arguments

CheckedQuestion = Callable[[History], dict[str, Any]]  # called with an archive, it returns the answer


class Answerer:
    """
    Answers questions from ``start`` to ``stop``, while the archive is healthy. Questions about names of data sets are
    also answered when the archive lost its place: the asker may want to name the data set that it followed.
    """

    def __init__(self, archiver: Archiver, link: Link, keys: Keys, failures: Failures | None = None) -> None:
        self._archiver, self._link, self._keys = archiver, link, keys
        self._failures = failures or Failures()
        self._wait_s = _LOOK_S if link.finds_master else min(_WAIT_S, link.timeout_s / 2)
        self._loop = Loop("answerer", lambda: self._serve_all(self._loop, self._serve), self._failures)
        self._names = Loop("names", lambda: self._serve_all(self._names, self._serve_names), self._failures)

    def start(self) -> None:
        """Begin to answer."""
        self._loop.start()
        self._names.start()

    def stop(self) -> None:
        """Take no more questions. The threads end within one wait; this call does not wait for them."""
        self._loop.stop()
        self._names.stop()

    def _serve_all(self, loop: Loop, serve: Callable[[Inbox], None]) -> None:
        """Answer over one connection, until stopped or until it breaks."""
        with closing(self._link.open()) as wire:
            inbox = Inbox(wire, self._keys)
            while not loop.is_stopping:
                serve(inbox)
                loop.well()

    def _serve_names(self, inbox: Inbox) -> None:
        if (knowledge := self._archiver.knowledge()) is None:
            self._names.pause(_LOOK_S)
        elif (question := inbox.take(self._wait_s, names=True)) is not None:
            inbox.answer(question, (self._archiver.knowledge() or knowledge).to_dict())

    def _serve(self, inbox: Inbox) -> None:
        if not self._archiver.is_healthy:
            self._loop.pause(_LOOK_S)
            return
        if (question := inbox.take(self._wait_s)) is None:
            return
        path = self._archiver.path
        if self._loop.is_stopping or path is None or not self._archiver.is_healthy:
            inbox.give_back(question)
            return
        self._archiver.wait_until(question.seen, _CATCH_UP_S)
        inbox.answer(question, self._answer(path, question))

    def _answer(self, path: Path, question: Question) -> dict[str, Any]:
        about = question.about
        try:
            look = _TOPICS[about](**question.arguments)
        except _NOT_UNDERSTOOD as error:  # from another version, or another writer
            return {"error": f"this daemon does not know the question {about!r} ({error})"}
        try:
            answer = _looked(path, look)
        except ArchiveError as error:
            log.error("question_unanswered", about=about, reason=str(error))
            return {"error": str(error)}
        except Exception as error:  # a bug: report it to the asker, and continue with the next question
            self._failures.begin("question", about, error)
            problem = f"this daemon failed to answer {about!r} ({error!r})"
            return {"error": f"{problem}; see question_failed in the log of {socket.gethostname()}"}
        self._failures.end("question", about)
        return answer


def answer_from(path: Path, about: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of the archive at *path* to a question of this version, without Redis. Raises ArchiveError."""
    return _looked(path, _TOPICS[about](**arguments))


def _looked(path: Path, look: CheckedQuestion) -> dict[str, Any]:
    with History(path) as history:
        answer = look(history)
        position = history.position
        source = {
            "archive": f"{socket.gethostname()}:{path}",
            "complete_since": history.complete_since,
            "as_of": position.id if position else None,
            "as_of_us": position.t_us if position else None,
        }
    return {"source": source, **answer}


# -- questions: each checks its arguments and gives the look that answers it. Raises _NOT_UNDERSTOOD -----------------


def _schedule(*, id: object, newest: object) -> CheckedQuestion:
    return partial(_story_of, id=question_text(id), newest=_bounded(newest))


def _search(*, after: object = None, **wanted: Any) -> CheckedQuestion:
    asked = Wanted.of_dict(wanted)
    place = None if after is None else SearchCursor.parse(question_text(after))
    return partial(_searched, wanted=replace(asked, limit=_bounded(asked.limit)), after=place)


def _entries(*, since_us: object = None, behind: Any = None, limit: object) -> CheckedQuestion:
    position = None if behind is None else Position(*map(_whole, behind))
    return partial(
        _log_entries, since_us=None if since_us is None else _whole(since_us), behind=position, limit=_whole(limit)
    )


def _record(*, run_id: object) -> CheckedQuestion:
    return partial(_record_of, run_id=question_text(run_id))


def _ran(*, id: object, start_ms: object, end_ms: object, read_to: Any) -> CheckedQuestion:
    numbers = {question_text(name): _whole(n) for name, n in dict(read_to).items()}
    return partial(
        _ran_between, id=question_text(id), start_ms=_whole(start_ms), end_ms=_whole(end_ms), read_to=numbers
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{show(value)} is no whole number")
    if abs(value) >= _WHOLE:
        raise ValueError(f"{show(value)} is too large")
    return value


def _bounded(limit: object) -> int:
    return max(1, min(_whole(limit), _MOST))


_TOPICS: Final[dict[str, Callable[..., CheckedQuestion]]] = {
    "schedule": _schedule,
    "search": _search,
    "entries": _entries,
    "record": _record,
    "ran": _ran,
}


# -- answers ----------------------------------------------------------------------------------------


def _story_of(history: History, *, id: str, newest: int) -> dict[str, Any]:
    """
    Return the story of one schedule, and the leaders before late fires: ``terms`` and ``led``, as in ``core.lateness``.
    """
    found, left_out = history.of_schedule(id, newest)
    found = with_definitions(found, partial(records, history, id), has_first=not left_out)
    terms, led = _leaders(history, found)
    return {"changes": [change.to_dict() for change in found], "left_out": left_out, "terms": terms, "led": led}


def _searched(history: History, *, wanted: Wanted, after: SearchCursor | None) -> dict[str, Any]:
    """
    Return a part of a search: its hits, and the cursor ``after`` which the asker continues (None: it is over), with the
    time ``reached_us`` there.
    """
    part = Search(history, wanted).look(after)
    after_part = None if part.cursor is None else str(part.cursor)
    return {"occurrences": [one.to_dict() for one in part.hits], "after": after_part, "reached_us": part.reached_us}


def _log_entries(history: History, *, since_us: int | None, behind: Position | None, limit: int) -> dict[str, Any]:
    """
    Return raw entries of the log: after the position *behind*, else since *since_us*, else the newest *limit*. The
    answer has the first of them; to get more, the asker repeats the question with the last entry as *behind*.
    """
    if behind is not None:
        found = history.entries_behind(behind, min(limit, _ENTRIES))
    elif since_us is not None:
        found = history.entries_since(since_us, min(limit, _ENTRIES))
    else:
        found = history.newest_entries(limit, _ENTRIES)
    return {"entries": [_raw(entry) for entry in _within_bounds(found)]}


def _record_of(history: History, *, run_id: str) -> dict[str, Any]:
    """Return whether a run is known, and its record (the job's fields, to push it once more) or None."""
    original = Originals(history).of(run_id)
    record = None if original.record is None else [text.decode("latin-1") for text in original.record]
    return {"is_known": original.is_known, "record": record}


def _ran_between(history: History, *, id: str, start_ms: int, end_ms: int, read_to: dict[str, int]) -> dict[str, Any]:
    """
    Return occurrences of a schedule that ran, found in a part of the history. ``read_to`` is how far this archive,
    ``by``, was read (None: to its end). The asker passes it back in the next question, with the values of other
    archives.
    """
    part = Ran(history).of(id, start_ms, end_ms, read_to)
    return {"ran": packed(part.times_ms), "by": part.archive, "read_to": part.read_to}


def _within_bounds(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return *entries* up to the size of one answer, and at least the first."""
    size = 0
    for entry in entries:
        own = sum(map(len, entry.texts))
        if size and size + own > _ENTRY_BYTES:
            return
        size += own
        yield entry


def _raw(entry: Entry) -> tuple[list[int], list[str]]:
    return list(entry.position), [text.decode("latin-1") for text in entry.texts]


def _leaders(history: History, changes: list[Change]) -> tuple[dict[str, int], dict[str, int]]:
    terms: dict[str, int] = {}
    led: dict[str, int] = {}
    for change in changes:
        since_us = waited_since_us(change)
        found = None if since_us is None else history.term_between(since_us, change.at_us)
        if found is not None:
            terms[change.entry], led_us = found
            led |= {} if led_us is None else {change.entry: led_us}
    return terms, led
