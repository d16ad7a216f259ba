"""
Many puts: collect schedules into calls of the put scripts, and send a call while the previous one is answered.

One-shots of a shape are collected into *portions*, recurring schedules of all shapes into one. A portion is sent while
the next one is read. All go over one connection, so of two schedules with the same id, the later one wins.

If the plan of a recurring schedule is outdated on arrival, it is planned and sent again. So another schedule with its
id waits for the reply.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import uuid4

from zsched.client.putting import RowReader, outdated
from zsched.core.entry import text
from zsched.core.model import Many
from zsched.core.occurrences.first_times import REPLANS, Bracket, FirstTimes
from zsched.core.options.choices import IfExists
from zsched.errors import InvalidSchedule, ScheduleExists, TriggerError, ZschedError
from zsched.storage.keys import Keys
from zsched.storage.log import LogPlace
from zsched.storage.puts import RELATIVE, ROW_SIZE, Put, PutScripts, Replies, Shape, one_shots_call, recurring_call
from zsched.storage.refusals import refusal
from zsched.storage.scripts import BulkCall

ONE_SHOTS_PER_CALL: Final = 100  # 0.5 ms of the server (measured); meanwhile, runs that are due wait
RECURRING_PER_CALL: Final = 100  # 1.3 ms if they are new, 2.3 if all of them change
BYTES_PER_CALL: Final = 262_144  # of payloads
TEXTS_PER_CALL: Final = 4000  # of shapes; Lua unpacks no more than some 8,000

Numbered = tuple[int, Put]
_GOOD: Final = {  # words that are no refusal, and their counters in ``Many``
    word.encode(): word for word in ("created", "updated", "unchanged", "kept", "already_fired")
}


class PutOutcome(NamedTuple):
    """
    Result of one item: a word of ``Answer``, and its due time or "-", as in the reply. ``if_version``: of the item.
    ``error``: why it was not sent; then the word is empty.
    """

    number: int
    id: str
    word: bytes
    due_ms: bytes = b"-"
    now_ms: int = 0
    if_version: str = ""
    error: ZschedError | None = None

    def refusal(self, keys: Keys) -> ZschedError | None:
        """Return the error, or the error for the word, or None."""
        due_ms = None if self.due_ms == b"-" else int(self.due_ms)
        return self.error or refusal(
            text(self.word), self.id, keys, due_ms=due_ms, now_ms=self.now_ms, if_version=self.if_version
        )


@dataclass(slots=True)
class _OneShotPortion:
    """One-shots of one shape for one call: the texts of their rows, one after another, and the number of each."""

    shape: Shape
    if_version: str
    numbers: list[int] = field(default_factory=list)
    texts: list[Any] = field(default_factory=list)
    size: int = 0

    def add(self, number: int, put: Put) -> bool:
        """Add a row; return True when the portion is full."""
        self.numbers.append(number)
        self.texts += put.row
        self.size += len(put.data)
        return len(self.numbers) >= ONE_SHOTS_PER_CALL or self.size >= BYTES_PER_CALL

    @property
    def ids(self) -> list[str]:
        return self.texts[::ROW_SIZE]

    def call(self, puts: PutScripts) -> BulkCall:
        """Return the call, signed, with an operation id if sending it twice could act twice. Raises ConfigError."""
        is_conditional = self.shape.if_exists is not IfExists.REPLACE or self.if_version
        dues = "".join(self.texts[1::ROW_SIZE])
        needs_op = is_conditional or any(sign in dues for sign in RELATIVE)
        texts = puts.sign(self.shape, self.texts)
        return one_shots_call(self.shape, self.if_version, texts, uuid4().hex if needs_op else None)


class _Waiting(NamedTuple):
    """A recurring schedule without a reply yet, and the number of plans that were made for it."""

    number: int
    put: Put
    plans: int


@dataclass(slots=True)
class _RecurringPortion:
    """Recurring schedules for one call, with their plans."""

    waiting: list[_Waiting] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    shapes: set[int] = field(default_factory=set)  # by identity
    size: int = 0
    texts: int = 0  # of the shapes

    def add(self, waiting: _Waiting, bracket: Bracket) -> bool:
        """Add a schedule; return True when the portion is full."""
        put = waiting.put
        self.waiting.append(waiting)
        self.brackets.append(bracket)
        self.size += len(put.data)
        if id(put.shape) not in self.shapes:
            self.shapes.add(id(put.shape))
            self.texts += len(put.shape.own) + len(put.shape.job)
            self.size += sum(map(len, put.shape.job))
        is_long = self.texts >= TEXTS_PER_CALL or self.size >= BYTES_PER_CALL
        return is_long or len(self.waiting) >= RECURRING_PER_CALL

    def call(self) -> BulkCall:
        """Return the call, with an operation id if sending it twice could answer differently."""
        puts = [waiting.put for waiting in self.waiting]
        is_conditional = any(put.is_conditional for put in puts)
        return recurring_call(zip(puts, self.brackets, strict=True), uuid4().hex if is_conditional else None)


class BulkPut:
    """A put of many numbered items; for one use."""

    def __init__(self, puts: PutScripts, first_times: FirstTimes) -> None:
        self._puts, self._first_times = puts, first_times
        self._open: dict[tuple[int, str], _OneShotPortion] = {}  # by identity of the shape, and version
        self._open_ids: set[str] = set()
        self._recurring = _RecurringPortion()
        self._sent: deque[_OneShotPortion | _RecurringPortion] = deque()
        self._unanswered: set[str] = set()  # ids of recurring schedules
        self._again: deque[_Waiting] = deque()
        self._refused: list[PutOutcome] = []  # not sent
        self._held: Numbered | None = None  # it waits for the replies to sent items
        self._is_read = False  # True: all items were read
        self.places: list[LogPlace] = []  # of the answered calls in the log

    def put(self, items: Iterable[Numbered]) -> Iterator[list[PutOutcome]]:
        """Put *items*. Yield their outcomes, one list per call. Raises RedisUnavailable, RedisRefused."""
        source = iter(items)
        while not self._is_read or self._again:
            for replies in self._puts.put_many(self._calls(source)):
                portion = self._sent.popleft()
                self.places.append(replies.place)
                if isinstance(portion, _OneShotPortion):
                    rows = zip(portion.numbers, portion.ids, replies.words, replies.due_ms, strict=True)
                    about = replies.now_ms, portion.if_version
                    yield self._refused + [PutOutcome(*row, *about) for row in rows]
                else:
                    yield self._refused + self._answered(portion, replies)
                self._refused = []
        yield self._refused

    def _answered(self, portion: _RecurringPortion, replies: Replies) -> list[PutOutcome]:
        found = []
        for waiting, word, due_ms in zip(portion.waiting, replies.words, replies.due_ms, strict=True):
            id = waiting.put.id
            if word != b"AGAIN":
                self._unanswered.discard(id)
                found.append(PutOutcome(waiting.number, id, word, due_ms, replies.now_ms, waiting.put.if_version))
            elif waiting.plans >= REPLANS:
                self._unanswered.discard(id)
                found.append(PutOutcome(waiting.number, id, b"", error=outdated()))
            else:
                self._first_times.tell(replies.now_ms)
                self._again.append(waiting)
        return found

    def _calls(self, source: Iterator[Numbered]) -> Iterator[BulkCall]:
        """Read items. Yield a call for each portion when it is full, or when it must be sent before another item."""
        while not self._is_read or self._again:
            if self._again:
                if self._plan(self._again.popleft()):
                    yield self._close_recurring()
                continue
            numbered, self._held = self._held or next(source, None), None
            if numbered is None:
                self._is_read = True
                continue
            number, put = numbered
            if put.id in self._unanswered:
                self._held = numbered
                break
            if put.id in self._open_ids:
                yield from self._close_one_shots()
            if put.rule is not None:
                self._unanswered.add(put.id)
                if self._plan(_Waiting(number, put, 0)):
                    yield self._close_recurring()
                continue
            key = id(put.shape), put.if_version
            portion = self._open.get(key)
            if portion is None:
                portion = self._open[key] = _OneShotPortion(put.shape, put.if_version)
            self._open_ids.add(put.id)
            if portion.add(number, put):
                yield self._close(portion)
        yield from self._close_one_shots()
        if self._recurring.waiting:
            yield self._close_recurring()

    def _plan(self, waiting: _Waiting) -> bool:
        """Plan and add a recurring schedule; return True when the portion is full."""
        number, put, plans = waiting
        assert put.rule is not None
        try:
            bracket = self._first_times.plan(put.rule, put.id)
        except (InvalidSchedule, TriggerError) as error:
            self._unanswered.discard(put.id)
            self._refused.append(PutOutcome(number, put.id, b"", error=error))
            return False
        return self._recurring.add(_Waiting(number, put, plans + 1), bracket)

    def _close(self, portion: _OneShotPortion) -> BulkCall:
        del self._open[id(portion.shape), portion.if_version]
        self._open_ids.difference_update(portion.ids)
        self._sent.append(portion)
        return portion.call(self._puts)

    def _close_one_shots(self) -> Iterator[BulkCall]:
        for portion in list(self._open.values()):
            yield self._close(portion)

    def _close_recurring(self) -> BulkCall:
        portion, self._recurring = self._recurring, _RecurringPortion()
        self._sent.append(portion)
        return portion.call()


def put_rows(
    rows: Iterable[Mapping[str, Any]], reader: RowReader, puts: BulkPut, keys: Keys, on_progress: Callable[[int], None]
) -> Many:
    """Put *rows*; see ``Client.schedule_many``."""
    many = Many()

    def fail(number: int, error: ZschedError) -> None:
        many.errors.append((number, error))
        many.done += 1

    def items() -> Iterator[Numbered]:
        for number, row in enumerate(rows):
            many.ids.append(None)
            many.outcomes.append(None)
            try:
                yield number, reader.read(row)
            except (InvalidSchedule, ScheduleExists, TriggerError) as error:
                fail(number, error)
            except (TypeError, ValueError) as error:  # not a mapping of names
                fail(number, InvalidSchedule("row", row, f"not a row ({error})", "give a dict of options"))

    for outcomes in puts.put(items()):
        for outcome in outcomes:
            if (word := _GOOD.get(outcome.word)) is not None:
                many.ids[outcome.number], many.outcomes[outcome.number] = outcome.id, word
            elif (error := outcome.refusal(keys)) is not None:
                fail(outcome.number, error)
        for answered, count in Counter(outcome.word for outcome in outcomes).items():
            if (name := _GOOD.get(answered)) is not None:
                setattr(many, name, getattr(many, name) + count)
                many.done += count
        on_progress(many.done)
    many.errors.sort(key=lambda failed: failed[0])
    return many
