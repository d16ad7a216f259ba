"""
Many puts: collect schedules into calls of the put scripts, and send a call while the previous one is answered.

One-shots of a shape are collected into *portions*, recurring schedules of all shapes into one. A portion is sent while
the next one is read. All go over one connection, so of two schedules with the same id, the later one wins.

If the plan of a recurring schedule is outdated on arrival, it is planned and sent again. So another schedule with its
id waits for the reply.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import uuid4

from zsched.client.putting import Putting, RowReader, outdated
from zsched.core.entry import text
from zsched.core.model import Many
from zsched.core.occurrences.first_times import REPLANS, Bracket, FirstTimes
from zsched.errors import InvalidSchedule, ScheduleExists, TriggerError, ZschedError
from zsched.storage.log import LogPlace
from zsched.storage.puts import DONE, RELATIVE, ROW_SIZE, Put, PutScripts, Replies, one_shots_call, recurring_call
from zsched.storage.refusals import refusal
from zsched.storage.scripts import BulkCall

ROWS_PER_CALL: Final = 100  # 0.5 ms of the server for one-shots; meanwhile, runs that are due wait
BYTES_PER_CALL: Final = 262_144  # of payloads
TEXTS_PER_CALL: Final = 4000  # of shapes; Lua unpacks no more than some 8,000

Numbered = tuple[int, Put]
_PortionKey = tuple[int, str]  # of a portion of one-shots: identity of the shape, and version
_GOOD: Final = {word.encode(): word for word in DONE}  # words that are no refusal, and their counters in ``Many``


class PutOutcome(NamedTuple):
    """
    Result of one item: a word of ``Answer``, and its due time or "-", as in the reply. ``error``: why it was refused;
    or why it was not sent, and the word is empty.
    """

    number: int
    put: Put
    word: bytes
    due_ms: bytes = b"-"
    error: ZschedError | None = None


@dataclass(slots=True)
class _Portion:
    """Items for one call: one-shots of one shape and version, or recurring schedules with their plans."""

    items: list[Numbered] = field(default_factory=list)
    plans: list[Bracket] = field(default_factory=list)
    shapes: set[int] = field(default_factory=set)  # of recurring schedules, by identity
    size: int = 0
    texts: int = 0  # of the shapes

    def add(self, item: Numbered, plan: Bracket | None = None) -> bool:
        """Add an item; return True when the portion is full."""
        put = item[1]
        self.items.append(item)
        self.size += len(put.data)
        if plan is not None:
            self.plans.append(plan)
            if id(put.shape) not in self.shapes:
                self.shapes.add(id(put.shape))
                self.texts += len(put.shape.own) + len(put.shape.job)
                self.size += sum(map(len, put.shape.job))
        return len(self.items) >= ROWS_PER_CALL or self.size >= BYTES_PER_CALL or self.texts >= TEXTS_PER_CALL

    def call(self, puts: PutScripts) -> BulkCall:
        """Return the call, with an operation id if sending it twice could act twice. Raises ConfigError."""
        own = [put for _, put in self.items]
        if self.plans:
            op = uuid4().hex if any(put.is_conditional for put in own) else None
            return recurring_call(zip(own, self.plans, strict=True), op)
        texts: list[Any] = []
        for put in own:
            texts += put.row
        dues = "".join(texts[1::ROW_SIZE])
        needs_op = own[0].is_conditional or any(sign in dues for sign in RELATIVE)
        rows = puts.sign(own[0].shape, texts)
        return one_shots_call(own[0].shape, own[0].if_version, rows, uuid4().hex if needs_op else None)


class BulkPut:
    """A put of many numbered items; for one use."""

    def __init__(self, puts: PutScripts, first_times: FirstTimes) -> None:
        self._puts, self._first_times = puts, first_times
        self._open: dict[_PortionKey, _Portion] = {}
        self._open_ids: set[str] = set()  # of one-shots
        self._sent: deque[_Portion] = deque()
        self._plans: dict[str, int] = {}  # by id of a recurring schedule without a reply: its plans until now
        self._again: deque[Numbered] = deque()
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
                yield self._refused + self._answered(portion, replies)
                self._refused = []
        yield self._refused

    def _answered(self, portion: _Portion, replies: Replies) -> list[PutOutcome]:
        now_ms, found = replies.place.at_ms, []
        for (number, put), word, due_ms in zip(portion.items, replies.words, replies.due_ms, strict=True):
            error: ZschedError | None = None
            if word == b"AGAIN":
                if self._plans[put.id] < REPLANS:
                    self._first_times.tell(now_ms)
                    self._again.append((number, put))
                    continue
                word, error = b"", outdated()
            elif word not in _GOOD:
                at_ms = None if due_ms == b"-" else int(due_ms)
                about: dict[str, Any] = {"due_ms": at_ms, "now_ms": now_ms, "if_version": put.if_version}
                error = refusal(text(word), put.id, self._puts.keys, **about)
            if put.rule is not None:
                del self._plans[put.id]
            found.append(PutOutcome(number, put, word, due_ms, error))
        return found

    def _calls(self, source: Iterator[Numbered]) -> Iterator[BulkCall]:
        """Read items. Yield a call for each portion when it is full, or when it must be sent before another item."""
        while not self._is_read or self._again:
            if self._again:
                item = self._again.popleft()
            else:
                next_item, self._held = self._held or next(source, None), None
                if next_item is None:
                    self._is_read = True
                    continue
                item = next_item
                if item[1].id in self._plans:
                    self._held = item
                    break
                if item[1].id in self._open_ids:
                    yield from self._close_all()
            if (call := self._add(item)) is not None:
                yield call
        yield from self._close_all()

    def _add(self, item: Numbered) -> BulkCall | None:
        """Add an item to its portion, a recurring schedule with a plan. Return the call when the portion is full."""
        (number, put), plan, key = item, None, (0, "")
        if put.rule is None:
            key = id(put.shape), put.if_version
            self._open_ids.add(put.id)
        else:
            try:
                plan = self._first_times.plan(put.rule, put.id)
            except (InvalidSchedule, TriggerError) as error:
                self._plans.pop(put.id, None)
                self._refused.append(PutOutcome(number, put, b"", error=error))
                return None
            self._plans[put.id] = self._plans.get(put.id, 0) + 1
        if (portion := self._open.get(key)) is None:
            portion = self._open[key] = _Portion()
        return self._close(key) if portion.add(item, plan) else None

    def _close(self, key: _PortionKey) -> BulkCall:
        portion = self._open.pop(key)
        self._open_ids.difference_update([put.id for _, put in portion.items])
        self._sent.append(portion)
        return portion.call(self._puts)

    def _close_all(self) -> Iterator[BulkCall]:
        yield from (self._close(key) for key in list(self._open))


def put_rows(putting: Putting, rows: Iterable[Mapping[str, Any]], on_progress: Callable[[int], None]) -> Many:
    """Put *rows* as *putting* does; see ``Client.schedule_many``. An archive is asked for by the first durable row."""
    reader, puts = RowReader(putting._puts, putting.urgencies), putting.bulk()
    many, is_durable = Many(), False

    def items() -> Iterator[Numbered]:
        nonlocal is_durable
        for number, row in enumerate(rows):
            many.ids.append(None)
            many.outcomes.append(None)
            try:
                put = reader.read(row)
                if put.shape.durable and not is_durable:
                    putting._durability.require("no row with durable=True was written")
                    is_durable = True
                yield number, put
            except (InvalidSchedule, ScheduleExists, TriggerError) as error:
                many.errors.append((number, error))
            except (TypeError, ValueError) as error:  # not a mapping of names
                problem = InvalidSchedule("row", row, f"not a row ({error})", "give a dict of options")
                many.errors.append((number, problem))

    accepted = 0
    for outcomes in puts.put(items()):
        for outcome in outcomes:
            if (word := _GOOD.get(outcome.word)) is not None:
                many.ids[outcome.number], many.outcomes[outcome.number] = outcome.put.id, word
                accepted += 1
            elif outcome.error is not None:
                many.errors.append((outcome.number, outcome.error))
        many.done = accepted + len(many.errors)
        on_progress(many.done)
    for name, count in Counter(filter(None, many.outcomes)).items():
        setattr(many, name, count)
    many.errors.sort(key=lambda failed: failed[0])
    if is_durable and accepted:
        putting._durability.wait_for(reversed(puts.places), f"{accepted} rows")
    return many
