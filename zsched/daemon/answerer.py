"""
Answering questions about history from this daemon's archive: a thread of its own, and a reader of its own, so
that a long look into the past does not keep the archiver from following.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import structlog

from zsched.archive import History
from zsched.archive.originals import Originals
from zsched.archive.ran import Ran
from zsched.archive.runs import Runs
from zsched.core.backfill import packed
from zsched.core.changes import Change
from zsched.core.lateness import waited_since_us
from zsched.core.log import Entry, Position
from zsched.core.lookback import Wanted
from zsched.daemon.archiver import Archiver
from zsched.errors import ArchiveError, RedisRefused, RedisUnavailable
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.naming import ABOUT
from zsched.storage.questions import Inbox, Question

log = structlog.get_logger(__name__)

_WAIT_S: Final = 0.5  # for a question, before looking whether to stop
_RETRY_S: Final = 1.0
_CATCH_UP_S: Final = 1.0  # for the archive to have what the asker saw of the log
_MOST: Final = 1000  # changes in one answer
_ENTRIES: Final = 100  # log entries in one answer
_ENTRY_BYTES: Final = 4_194_304  # of them, after which the answer ends: one entry may hold 200 payloads
_NOT_UNDERSTOOD: Final = (TypeError, ValueError, AttributeError, LookupError, OverflowError)


class Answerer:
    """
    Answers from ``start`` to ``stop``, while the archive is healthy. Which names of data sets it knows, an archive says
    also when it lost its place: somebody wants to name the data set that it may have been.
    """

    def __init__(self, archiver: Archiver, link: Link, keys: Keys) -> None:
        self._archiver, self._link, self._keys = archiver, link, keys
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zsched-answerer", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more questions. The thread ends by itself, within one wait."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(self._link.open()) as wire:
                    inbox = Inbox(wire, self._keys)
                    while not self._stopping.is_set():
                        self._serve(inbox)
            except (RedisUnavailable, RedisRefused):  # the main loop says so
                self._stopping.wait(_RETRY_S)

    def _serve(self, inbox: Inbox) -> None:
        if (knowledge := self._archiver.knowledge()) is None:
            self._stopping.wait(_WAIT_S)
            return
        question = inbox.take(_WAIT_S, only_names=not self._archiver.is_healthy)
        if question is None:
            return
        if question.about == ABOUT:
            inbox.answer(question, (self._archiver.knowledge() or knowledge).to_dict())
            return
        path = self._archiver.path
        if self._stopping.is_set() or path is None or not self._archiver.is_healthy:
            inbox.give_back(question)
            return
        self._archiver.wait_until(question.seen, _CATCH_UP_S)
        inbox.answer(question, self._answer(path, question))

    def _answer(self, path: Path, question: Question) -> dict[str, Any]:
        try:
            with Runs(path) as history:
                told = _TOPICS[question.about](history, **question.arguments)
                position = history.position
                source = {
                    "archive": f"{socket.gethostname()}:{path}",
                    "complete_since": history.complete_since,
                    "as_of": position.id if position else None,
                }
        except ArchiveError as error:
            log.error("question_unanswered", about=question.about, reason=str(error))
            return {"error": str(error)}
        except _NOT_UNDERSTOOD as error:  # of another version, or a foreign hand
            return {"error": f"this daemon does not know the question {question.about!r} ({error})"}
        return {"source": source, **told}


def _schedule(history: History, *, id: str, newest: int) -> dict[str, Any]:
    """The story of one schedule, and who led before what was late: ``terms`` and ``led``, as in ``core.lateness``."""
    found, left_out = history.of_schedule(id, _bounded(newest))
    terms, led = _leaders(history, found)
    return {"changes": [change.to_dict() for change in found], "left_out": left_out, "terms": terms, "led": led}


def _runs(history: Runs, **wanted: Any) -> dict[str, Any]:
    """The newest occurrences and runs of the kinds wanted, each occurrence with its run."""
    asked = Wanted.of_dict(wanted)
    found, looked_back_to = history.look(replace(asked, limit=_bounded(asked.limit)))
    return {"occurrences": [one.to_dict() for one in found], "looked_back_to": looked_back_to}


def _entries(
    history: History, *, since_us: int | None = None, behind: list[int] | None = None, limit: int
) -> dict[str, Any]:
    """
    Entries of the log, raw: behind the position *behind*, else since *since_us*, else beginning so that *limit* are
    the newest. The first of them, that is: who wants more asks for what is behind the last.
    """
    if behind is not None:
        found = history.entries_behind(Position(*behind), min(limit, _ENTRIES))
    elif since_us is not None:
        found = history.entries_since(since_us, min(limit, _ENTRIES))
    else:
        found = history.newest_entries(limit, _ENTRIES)
    return {"entries": [_raw(entry) for entry in _within_bounds(found)]}


def _record(history: History, *, run_id: str) -> dict[str, Any]:
    """Whether a run is known, and what it was called with: a job's texts, to push it once more; None: not known."""
    with Originals.beside(history) as originals:
        original = originals.of(run_id)
    record = None if original.record is None else [text.decode("latin-1") for text in original.record]
    return {"is_known": original.is_known, "record": record}


def _ran(history: History, *, id: str, start_ms: int, end_ms: int, read_to: dict[str, int]) -> dict[str, Any]:
    """
    Occurrences of a schedule that ran, found in a part of the history: ``read_to`` says how far this archive, ``by``,
    was read for them, None: to its end; whoever asks again gives it back, and those of other archives beside it.
    """
    with Ran.beside(history) as ran:
        part = ran.of(id, int(start_ms), int(end_ms), {str(name): int(n) for name, n in read_to.items()})
    return {"ran": packed(part.times_ms), "by": part.archive, "read_to": part.read_to}


def _bounded(limit: int) -> int:
    return max(1, min(limit, _MOST))


def _within_bounds(entries: Iterable[Entry]) -> Iterator[Entry]:
    """*entries* until they are too large for one answer; the first one always."""
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


_TOPICS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "schedule": _schedule,
    "runs": _runs,
    "entries": _entries,
    "record": _record,
    "ran": _ran,
}
