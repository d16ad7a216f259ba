"""
``schedule_many``: turn rows into calls of put.lua; fast if the rows are alike.

Rows that differ only in id, time and arguments share a *shape*, which is checked and encoded once. The rest is checked
row by row. Rows of a shape are collected into *portions*, and a portion is sent while the next one is read. Of two rows
with the same id, the later one wins, as if they had been put in turn. A recurring row right after a one-shot with the
same id is refused. Recurring rows are put one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from zsched.client.calls import Typed, completed, new_id
from zsched.core.arguments import check_id, instant_ms, seconds_to_ms
from zsched.core.model import At, Definition, IfExists, Many, Scheduled
from zsched.core.triggers import Fold, Gap, TriggerSpec, delay_of
from zsched.errors import InvalidSchedule, ScheduleExists, TriggerError, ZschedError
from zsched.storage.rqjob import function_path
from zsched.storage.store import OneShotRow, Shape, Store, refusal

ROWS_PER_CALL = 200  # 1.5 ms of the server per call; larger calls make other clients wait (measured)
BYTES_PER_CALL = 262_144  # of payloads

Define = Callable[[Any, Mapping[str, Any], str], Definition]  # function, options, default id
Read = tuple[Shape, OneShotRow] | Definition  # a one-shot ready to send, or a recurring schedule


@dataclass(frozen=True, slots=True)
class _ShapeSeen:
    """A known shape, with the data to read another row of it."""

    shape: Shape
    path: str
    tz: str | None
    gap: Gap
    fold: Fold
    jitter_ms: int
    typed: Typed | None


@dataclass(slots=True)
class _Portion:
    """One-shots of one shape for one call: the rows, and the index of each."""

    shape: Shape
    numbers: list[int] = field(default_factory=list)
    rows: list[OneShotRow] = field(default_factory=list)
    size: int = 0

    def add(self, number: int, row: OneShotRow) -> bool:
        """Add a row; return True when the portion is full."""
        self.numbers.append(number)
        self.rows.append(row)
        self.size += len(row[2])
        return len(self.rows) >= ROWS_PER_CALL or self.size >= BYTES_PER_CALL

    def needs_op(self) -> bool:
        """Return True if sending the call twice could act twice."""
        return self.shape.if_exists is not IfExists.REPLACE or any(row[1][0] == "+" for row in self.rows)


class _RowReader:
    """Checks and encodes rows; remembers shapes."""

    def __init__(self, store: Store, define: Define) -> None:
        self._store, self._encoder, self._define = store, store.encoder, define
        self._known: dict[tuple[Any, ...], _ShapeSeen] = {}
        self._shapes: dict[Shape, Shape] = {}

    def read(self, row: Mapping[str, Any]) -> Read:
        """Return a one-shot ready to send, or the definition of a recurring schedule. Raises ZschedError."""
        rest = dict(row)
        id, at, after = rest.pop("id", None), rest.pop("at", None), rest.pop("after", None)
        args, kwargs = rest.pop("args", ()), rest.pop("kwargs", None)
        try:
            known = self._known.get(_key(rest)) if (at is None) != (after is None) else None
        except TypeError:  # an option that cannot be hashed, such as a list of tags
            known = None
        if known is None:
            return self._read_new(row, rest)
        if known.typed is not None:
            id = known.typed.checked_id(id, args, kwargs)
        own_id = new_id() if id is None else check_id(id)
        delay_ms = delay_of(own_id, known.jitter_ms) if known.jitter_ms else 0
        if at is not None:
            due = str(instant_ms("at", at, known.tz, known.gap, known.fold) + delay_ms)
        else:
            due = f"+{seconds_to_ms('after', after, 0) + delay_ms}"
        return known.shape, (
            own_id,
            due,
            self._encoder.call(known.path, () if args is None else args, kwargs),
        )

    def _read_new(self, row: Mapping[str, Any], rest: dict[str, Any]) -> Read:
        options = dict(row)
        if "func" not in options:
            raise InvalidSchedule("func", None, "the row has none", 'give "func": a dotted path or a function')
        func = options.pop("func")
        options = dict(completed(func, options))
        definition = self._define(func, options, new_id())
        if isinstance(definition.when, TriggerSpec):
            return definition
        shape = self._store.shape(definition)
        shape = self._shapes.setdefault(shape, shape)  # equal shapes are one object: portions go by identity
        own: OneShotRow = (definition.id, time_argument(definition), self._encoder.data(definition.payload))
        with suppress(TypeError):  # not hashable: checked in full each time
            self._known[_key(rest)] = _ShapeSeen(
                shape,
                function_path(func),
                options.get("tz") if options.get("tz") is None else definition.tz,
                Gap(options.get("gap") or Gap.SHIFT),
                Fold(options.get("fold") or Fold.FIRST),
                definition.jitter_ms,
                func if isinstance(func, Typed) else None,
            )
        return shape, own


def _key(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key that is equal for options of equal types and values: True is not 1 here."""
    return (*options.items(), *map(type, options.values()))


def time_argument(definition: Definition) -> str:
    """Return a one-shot's time for put.lua: ms, or "+" and ms from the server's now."""
    when, delay_ms = definition.when, delay_of(definition.id, definition.jitter_ms)
    if isinstance(when, At):
        return str(when.due_ms + delay_ms)
    return f"+{when.delay_ms + delay_ms}"  # type: ignore[union-attr]  # a one-shot


def put_rows(
    store: Store,
    rows: Iterable[Mapping[str, Any]],
    put_recurring: Callable[[Definition], Scheduled],
    define: Define,
    on_progress: Callable[[int], None],
) -> Many:
    """Put *rows*; see ``Client.schedule_many``. *put_recurring* puts one, *define* checks one."""
    return _Rows(store, put_recurring, define, on_progress).put(rows)


class _Rows:
    """One ``schedule_many`` under way."""

    def __init__(
        self,
        store: Store,
        put_recurring: Callable[[Definition], Scheduled],
        define: Define,
        on_progress: Callable[[int], None],
    ) -> None:
        self._store, self._put_recurring, self._define, self._on_progress = store, put_recurring, define, on_progress
        self._many = Many()
        self._open: dict[int, _Portion] = {}  # by identity of the shape
        self._open_ids: set[str] = set()
        self._sent: deque[_Portion] = deque()

    def put(self, rows: Iterable[Mapping[str, Any]]) -> Many:
        many = self._many
        for now_ms, words in self._store.put_many(self._calls(rows)):
            self._tally(self._sent.popleft(), words, now_ms)
            self._on_progress(many.done)
        many.errors.sort(key=lambda failed: failed[0])
        self._on_progress(many.done)
        return many

    def _calls(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Shape, list[OneShotRow], str | None]]:
        """Read the rows. Yield each portion when it is full, or when it must be sent before a row of the same id."""
        reader, ids = _RowReader(self._store, self._define), self._many.ids
        for number, row in enumerate(rows):
            ids.append(None)
            try:
                read = reader.read(row)
                if isinstance(read, Definition):
                    self._recur(number, read)
                    continue
            except (InvalidSchedule, ScheduleExists, TriggerError) as error:
                self._fail(number, error)
                continue
            except (TypeError, ValueError) as error:  # not a mapping of names
                self._fail(number, InvalidSchedule("row", row, f"not a row ({error})", "give a dict of options"))
                continue
            shape, own = read
            if own[0] in self._open_ids:
                yield from self._close_all()
            portion = self._open.get(id(shape))
            if portion is None:
                portion = self._open[id(shape)] = _Portion(shape)
            self._open_ids.add(own[0])
            if portion.add(number, own):
                yield self._close(portion)
        yield from self._close_all()

    def _close(self, portion: _Portion) -> tuple[Shape, list[OneShotRow], str | None]:
        del self._open[id(portion.shape)]
        self._open_ids.difference_update(row[0] for row in portion.rows)
        self._sent.append(portion)
        return portion.shape, portion.rows, new_id() if portion.needs_op() else None

    def _close_all(self) -> Iterator[tuple[Shape, list[OneShotRow], str | None]]:
        for portion in list(self._open.values()):
            yield self._close(portion)

    def _recur(self, number: int, definition: Definition) -> None:
        """Put a recurring row over another connection, so its id must not be in transit on this one."""
        if definition.id in self._open_ids or any(row[0] == definition.id for sent in self._sent for row in sent.rows):
            problem = "the row before it is a one-shot of the same id"
            raise InvalidSchedule("id", definition.id, problem, "give one row per id")
        self._count(self._put_recurring(definition).outcome)
        self._many.ids[number] = definition.id
        self._many.done += 1

    def _tally(self, portion: _Portion, words: list[bytes], now_ms: int) -> None:
        for number, row, word in zip(portion.numbers, portion.rows, words, strict=True):
            text = word.decode()
            error = refusal(text, row[0], self._store.keys, due_ms=int(row[1]), now_ms=now_ms)
            if error is None:
                self._many.ids[number] = row[0]
                self._many.done += 1
                self._count(text)
            else:
                self._fail(number, error)

    def _count(self, outcome: str) -> None:
        setattr(self._many, outcome, getattr(self._many, outcome) + 1)

    def _fail(self, number: int, error: ZschedError) -> None:
        self._many.errors.append((number, error))
        self._many.done += 1
