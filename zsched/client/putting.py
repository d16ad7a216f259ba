"""Puts: a call's options are checked and planned, sent to a script, and its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cached_property, partial
from typing import Any, Final

from zsched.client.calls import Typed, completed, effect_again, naming_lost_call, new_id
from zsched.client.first_times import REPLANS, FirstTimes, outdated
from zsched.client.many import BulkPut, put_rows
from zsched.client.rows import RowReader
from zsched.core.clock import Clock, from_ms
from zsched.core.model import Definition, Many, RowsRefused, Scheduled
from zsched.core.options.choices import Refused
from zsched.core.options.define import Presets, define, define_now
from zsched.core.options.table import ScheduleRow
from zsched.storage.archivers import Durability
from zsched.storage.shapes import Put
from zsched.storage.store import DONE, Answer, Store

_REMEMBERED: Final = 1000  # shapes of single puts


class Putting:
    """
    Puts by *store*, with the presets *urgencies*. Raises InvalidSchedule: an option is bad, and nothing was written;
    RedisUnavailable, RedisRefused.
    """

    def __init__(self, store: Store, urgencies: Presets, clock: Clock, durability: Callable[[], Durability]) -> None:
        self._store, self._clock, self._new_durability = store, clock, durability
        self.urgencies = urgencies
        self._rows = RowReader(store, urgencies, _REMEMBERED)

    @cached_property
    def _durability(self) -> Durability:
        return self._new_durability()

    def define(self, func: Any, options: Mapping[str, Any]) -> Definition:
        """Return the definition of a schedule, after all checks that need no Redis. Raises InvalidSchedule."""
        return define(func, options, new_id() if options.get("id") is None else "", self.urgencies)

    def by_store(self, store: Store) -> Putting:
        """Return the same with another *store*, which has another caller's name."""
        other = copy(self)
        other._store = store
        return other

    def put(self, func: Any, options: Mapping[str, Any], op: str | None = None) -> Scheduled:
        """Put a schedule, as the operation *op*."""
        put = self._rows.read({**options, "func": func})
        named = func.options if isinstance(func, Typed) and options.get("id") is None else options
        has_own_id = named.get("id") is not None
        if op is None and (put.is_relative or put.is_conditional or not has_own_id):
            op = new_id()  # to send the call twice could act twice, or answer differently
        return self.scheduled(put, self.answered(put, op, has_own_id=has_own_id))

    def enqueue(self, func: Any, options: Mapping[str, Any]) -> Scheduled:
        """Push a run at once."""
        given = completed(func, options, at_once=True)
        definition = define_now(func, given, new_id() if given.get("id") is None else "", self.urgencies)
        with naming_lost_call(definition.id, is_repeatable=definition.unique_ms > 0):
            act = partial(self._store.enqueue, definition, op=new_id())
            again = "waits again" if definition.unique_ms else "runs it a second time"
            answer = self._durably(definition.id, act, again) if definition.durable else act()
        if answer.word not in DONE:
            self._store.demand(answer.word, definition.id, run_id=answer.detail)
        next_at = None if answer.word == "kept" else from_ms(answer.now_ms)
        return Scheduled(definition.id, answer.word, next_at, answer.detail)

    def put_many(self, rows: Iterable[ScheduleRow], on_progress: Callable[[int], None], refused: Refused) -> Many:
        """Put rows. Raises RowsRefused, after all others were written, if *refused* says so; NotArchived."""
        reader, is_durable = RowReader(self._store, self.urgencies), False

        def demand_archive(definition: Definition) -> None:  # once per shape of rows
            nonlocal is_durable
            if definition.durable and not is_durable:
                self._durability.require("no row with durable=True was written")
                is_durable = True

        reader.on_definition = demand_archive
        puts = self.bulk()
        many = put_rows(rows, reader, puts, self._store.keys, on_progress)
        if is_durable and many.done > len(many.errors):
            self._durability.wait_for(reversed(puts.places), f"{many.done - len(many.errors)} rows")
        if many.errors and refused is Refused.RAISE:
            raise RowsRefused(many)
        return many

    def bulk(self) -> BulkPut:
        """Return a put of many items."""
        return BulkPut(self._store, FirstTimes(self._clock, self._store))

    def answered(self, put: Put, op: str | None, *, has_own_id: bool = True) -> Answer:
        """Put it, and wait for an archive if it has to be durable. Raises NotArchived."""
        with naming_lost_call(put.id, is_repeatable=not put.is_relative):
            act = partial(self._store.put if put.rule is None else self._put_recurring, put, op)
            if not put.shape.durable:
                return act()
            return self._durably(put.id, act, effect_again(has_own_id, put.is_relative))

    def scheduled(self, put: Put, answer: Answer) -> Scheduled:
        """Return the result of a put. Raises ScheduleInPast, ScheduleExists, VersionConflict: it was refused."""
        due_ms = None if answer.detail is None else int(answer.detail)
        if answer.word not in DONE:
            self._store.demand(answer.word, put.id, due_ms=due_ms, now_ms=answer.now_ms, if_version=put.if_version)
        if due_ms is None:
            return Scheduled(put.id, answer.word, None, None, answer.version)
        run_id = self._store.keys.run_id(put.id, due_ms) if put.rule is None else None
        next_at = None if answer.word == "already_fired" else from_ms(due_ms)
        return Scheduled(put.id, answer.word, next_at, run_id, answer.version)

    def _durably(self, id: str, put: Callable[[], Answer], again: str) -> Answer:
        """
        Return the answer of *put* once an archive has it. *again*: the effect of the same call once more. Raises
        NotArchived.
        """
        self._durability.require()
        answer = put()
        if answer.place.is_written or answer.word in DONE:  # by an earlier call
            self._durability.wait_for([answer.place], f"schedule {id!r}", again)
        return answer

    def _put_recurring(self, put: Put, op: str | None) -> Answer:
        assert put.rule is not None
        first_times = FirstTimes(self._clock, self._store)
        for _ in range(REPLANS):
            answer = self._store.put(put, op, first_times.plan(put.rule, put.id))
            if answer.word != "AGAIN":
                return answer
            first_times.tell(answer.now_ms)
        raise outdated()
