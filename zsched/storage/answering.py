"""
The answers of an archive to questions about the history: of a daemon's, or of the folded log.

A question is its topic (``about``) and arguments. A daemon's go through Redis as JSON (``questions.json_form``); those
to the folded log stay values.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from zsched.archive.counts import counts_of
from zsched.archive.history import History, ScheduleHistory
from zsched.archive.index import asked_by
from zsched.archive.lookups import log_search, places, ran, waiting_with
from zsched.archive.runs import original_of, puts_of
from zsched.archive.search import Search
from zsched.core.clock import SYSTEM, Clock
from zsched.core.entry import Entry, Position
from zsched.core.facets import Facets, question_number, question_text
from zsched.core.log.kinds import parse
from zsched.core.log.shown import changes_or_problem
from zsched.core.occurrences.changes import Change, SearchCursor, Wanted
from zsched.core.occurrences.counts import WantedCounts
from zsched.core.occurrences.lateness import waited_since_us
from zsched.core.occurrences.outcomes import What
from zsched.storage.comparing import net_difference, with_definitions

T = TypeVar("T")
_MOST: Final = 1000  # changes in one answer
_ENTRIES: Final = 100  # log entries in one answer
_ENTRY_BYTES: Final = 4_194_304  # bytes of entries, after which the answer ends: one entry may hold 200 payloads
_LOOKED_FOR_MS: Final = 400.0  # and then options are compared: an asker waits for 2 s
_EFFECTS: Final = 300
_IDS: Final = 100  # of an effect
_OPPOSITE: Final = {What.RESUMED: What.PAUSED, What.SKIP_TAKEN_BACK: What.SKIP_ASKED}
_OF_RUNS: Final = (What.ENQUEUED, What.RETRIED, What.RUN_ENDED)
_NOTED: Final = (What.PAUSED, What.SKIP_ASKED, What.ENQUEUED, What.RUN_ENDED)  # with their reasons
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


def answer_from(
    opened: AbstractContextManager[ScheduleHistory], about: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the answer of a history to a question; the end of a log alone tells only of its schedule."""
    with opened as history:
        return _TOPICS[about][0](history, **arguments)


def answer_of(path: Path, about: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the archive at *path*, with its ``source``. Raises ArchiveError."""
    with History(path) as history:
        answer = _TOPICS[about][0](history, **arguments)
        position = history.position
        source = {
            "archive": f"{socket.gethostname()}:{path}",
            "complete_since": history.complete_since,
            "as_of": position.id if position else None,
            "as_of_us": position.t_us if position else None,
        }
    return {"source": source, **answer}


def _story_of(history: ScheduleHistory, *, id: str, newest: int, is_limited: bool) -> dict[str, Any]:
    """
    Return the changes of one schedule, with the leaders before late ones, as in ``Chronicle``. *is_limited*: its first
    put, too, is needed with what limits are about.
    """
    found, left_out = history.of_schedule(id, max(1, min(newest, _MOST)))
    found = with_definitions(found, partial(puts_of, history, id), has_first=is_limited and not left_out)
    return {"changes": [_with_leaders(history, change) for change in found], "left_out": left_out}


def _searched(history: History, *, wanted: Wanted, after: str | None) -> dict[str, Any]:
    """
    Return a part of a search: its hits, and the cursor ``after`` which the asker continues (None: it is over), with the
    time ``reached_us`` there.
    """
    return Search(history, replace(wanted, limit=max(1, min(wanted.limit, _MOST)))).next_part(after)._asdict()


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


def effects_of(history: History, *, since_us: int, until_us: int, clock: Clock = SYSTEM) -> dict[str, Any]:
    """
    Return the ``effects`` of what people and programs asked for in [since_us, until_us), the newest first: what is left
    of the changes to each schedule, equal ones together. Terms of leaders and calendars are effects without an id. For
    400 ms it looks back: before ``reached_us`` there may be more. There are as many ``more``.
    """
    first_n, end_n = history.first_since(since_us), history.first_since(until_us)
    asked, puts, is_old = dict[str, list[Change]](), dict[str, str](), dict[str, bool]()
    found = dict[tuple[str, str], list[tuple[int, int, str]]]()
    reached_us, until_ms = None, clock.monotonic_ms() + _LOOKED_FOR_MS
    terms = history.db.execute("SELECT n FROM entry WHERE kind = 'term' AND n >= ? AND n < ?", (first_n, end_n))
    for n in chain((n for (n,) in terms), places(history, asked_by(None), first_n, end_n)):
        if (entry := history.entry(n)) is None:  # deleted by age
            continue
        t_us, (changes, problem) = entry.position.t_us, changes_or_problem(entry, history.run_suffix)
        if clock.monotonic_ms() >= until_ms:
            reached_us = t_us
            break
        if not changes:
            key = problem or parse(entry).sentence(), entry.by.decode(errors="replace")
            found.setdefault(key, []).append((t_us, t_us, ""))
        elif changes[0].what is What.PUT:
            parsed = parse(entry)
            is_old |= {id: parsed.replaces(row) for row, (id, _) in enumerate(parsed.owners())}
            if changes[0].run_id:  # the one-shots of an entry have one function
                puts[entry.position.id] = f"put {parsed.facets().at(0).func}"
        for one in changes:
            asked.setdefault(one.id, []).append(one)
    for id, changes in asked.items():
        of_puts = [one.entry for one in changes if one.what is What.PUT]
        put = puts.get(of_puts[0], "changed" if is_old.get(id) else "made") if of_puts else ""
        if put == "changed" and clock.monotonic_ms() < until_ms + _LOOKED_FOR_MS:
            put = net_difference(puts_of(history, id, of_puts), of_puts)
        key = _left(changes[::-1], put), ", ".join(dict.fromkeys(one.by or "" for one in changes[::-1]))
        found.setdefault(key, []).append((changes[-1].at_us, changes[0].at_us, id))
    effects = [
        {"words": words, "by": by, "number": len(rows), "ids": [id for *_, id in rows[:_IDS] if id],
         "first_us": min(rows)[0], "last_us": max(us for _, us, _ in rows)} for (words, by), rows in found.items()
    ]  # fmt: skip
    effects.sort(key=itemgetter("last_us"), reverse=True)
    return {"effects": effects[:_EFFECTS], "more": len(effects[_EFFECTS:]), "reached_us": reached_us}


def _left(changes: Iterable[Change], put: str) -> str:
    """
    Return what is left of *changes* to one schedule, in words: of equal and opposite ones the last one, of its runs
    all, and of those before a cancel only the *put*.
    """
    left, numbers = dict[object, str](), Counter[object]()
    for one in changes:
        kind, text = _OPPOSITE.get(one.what, one.what), one.what.value.replace("_", " ")
        text = put if kind is What.PUT else f"{text}: {one.why}" if one.why and kind in _NOTED else text
        key = text if kind in _OF_RUNS else (kind, one.nominal_ms) if kind is What.SKIP_ASKED else kind
        if kind is What.CANCELLED:
            left = {each: words for each, words in left.items() if each is What.PUT}
        left.pop(key, None)
        numbers[key] += 1
        left |= {key: text} if kind is not What.SKIPPED else {}
    times: dict[object, str] = {key: f" ×{n:,}" for key, n in numbers.items() if n > 1 and isinstance(key, str)}
    return ", ".join(text + times.get(key, "") for key, text in left.items())


def _within_bounds(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return *entries* up to the size of one answer, and at least the first."""
    size = 0
    for entry in entries:
        own = sum(map(len, entry.texts))
        if size and size + own > _ENTRY_BYTES:
            return
        size += own
        yield entry


def _with_leaders(history: ScheduleHistory, change: Change) -> Change:
    """Return *change*, if its occurrence was late or left out, with the leaders before it."""
    since_us = waited_since_us(change)
    found = None if since_us is None else history.term_between(since_us, change.at_us)
    return change if found is None else replace(change, term_us=found[0], led_us=found[1] or 0)


# -- questions: each topic with its answer, and what reads its arguments from JSON. Raises NOT_UNDERSTOOD -------------


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
    "effects": (effects_of, {"since_us": question_number, "until_us": question_number}),
    "waiting": (waiting_with, {"facets": lambda value: Facets.of_texts(*value)}),
    "record": (_record_of, {"run_id": question_text}),
    "ran": (
        ran,
        {"id": question_text, "start_ms": question_number, "end_ms": question_number, "read_to": _numbers},
    ),
}
