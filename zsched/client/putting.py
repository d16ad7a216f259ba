"""
Puts: a call's options are checked and planned, sent to a script, and its answer is read.

Calls, and rows of ``schedule_many``, that differ only in id, time or rule, and arguments share a *shape*, which is
checked and encoded once (``RowReader``). The rest is checked call by call. If recurring rows of a shape share a rule,
the rule is checked and planned once, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from zsched.client.calls import Typed, lost_call, naming_lost_call
from zsched.core.clock import Clock, from_ms
from zsched.core.model import At, Many, RowsRefused, Scheduled
from zsched.core.occurrences.first_times import REPLANS, FirstTimes, PlannedRule
from zsched.core.options.arguments import check_id, seconds_to_ms
from zsched.core.options.choices import Refused
from zsched.core.options.define import Presets, at_open_time, define, define_now, define_rule
from zsched.core.options.table import ScheduleRow
from zsched.core.triggers.spec import Fold, Gap, TriggerSpec
from zsched.core.triggers.trigger import RULES, delay_of
from zsched.core.triggers.zones import instant_ms, local_offset_s
from zsched.core.wording import nearest
from zsched.errors import NOT_GIVEN, InvalidSchedule, NotArchived, RedisUnavailable
from zsched.storage.archivers import Durability
from zsched.storage.puts import DONE, Answer, Put, PutScripts, Shape
from zsched.storage.refusals import demand
from zsched.storage.rqjob import function_path

if TYPE_CHECKING:
    from zsched.client.many import BulkPut

_OF_RULE: Final = (*RULES, "starts", "ends", "count")  # options in which rows of a shape may differ
_MANY: Final = 10_000  # shapes of rows, and rules of a shape, that are remembered
_SINGLE: Final = 1000  # those of single puts

V = TypeVar("V")
_Key = tuple[Any, ...]
_Shapes = dict[int | None, Shape]  # by the offset of a local time, or None
_NONE: Final[Mapping[_Key, Any]] = {}


class _Known(NamedTuple):
    """
    The facts that rows of a shape share. ``shapes``: by the offset of a local time, or None. ``rules``: those of
    recurring schedules, by their options.
    """

    path: str
    typed: Typed | None
    jitter_ms: int
    if_version: str
    shapes: _Shapes
    rules: dict[_Key, PlannedRule]
    tz: str | None = None
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST


class RowReader:
    """
    Checks and encodes rows by the presets *urgencies*; remembers *remembered* shapes. Thread-safe.
    """

    def __init__(self, puts: PutScripts, urgencies: Presets, remembered: int = _MANY) -> None:
        self._puts, self._encoder, self._urgencies, self._remembered = puts, puts.encoder, urgencies, remembered
        self._calendars = puts.calendars if remembered == _SINGLE else cache(puts.calendars)  # once for many rows
        self._one_shots: dict[_Key, _Known] = {}
        self._recurring: dict[_Key, _Known] = {}
        self._shapes: dict[Shape, Shape] = {}

    def read(self, row: Mapping[str, Any]) -> Put:
        """Return the schedule of *row*, ready to be put. Raises ZschedError; TypeError, ValueError: it is not a row."""
        rest = dict(row)
        if rest.get("exclude") and not (rest.get("at") is None and rest.get("after") is None):
            row = at_open_time(rest, self._calendars, self._puts.server_now_ms)
            rest = dict(row)
        id, at, after = rest.pop("id", None), rest.pop("at", None), rest.pop("after", None)
        args, kwargs = rest.pop("args", ()), rest.pop("kwargs", None)
        args = () if args is None else args
        if at is None and after is None:
            return self._read_recurring(row, rest, id, args, kwargs)
        key, known = _look_up(self._one_shots, rest)
        if known is None or (at is not None and after is not None):
            return self._read_new(row, key, None)
        if known.typed is not None:
            id = known.typed.checked_id(id, args, kwargs)
        own_id = uuid4().hex if id is None else check_id(id)
        delay_ms, offset_s = delay_of(own_id, known.jitter_ms) if known.jitter_ms else 0, None
        if at is not None:
            at_ms = instant_ms("at", at, known.tz, known.gap, known.fold)
            due, offset_s = str(at_ms + delay_ms), local_offset_s(at, known.tz, at_ms)
        else:
            due = f"+{seconds_to_ms('after', after, 0) + delay_ms}"
        if (shape := known.shapes.get(offset_s)) is None:
            return self._read_new(row, key, None, known.shapes)
        return self._puts.one_shot(shape, own_id, due, self._encoder.call(known.path, args, kwargs), known.if_version)

    def _read_recurring(self, row: Mapping[str, Any], rest: dict[str, Any], id: Any, args: Any, kwargs: Any) -> Put:
        """Do the same for a row of a recurring schedule; *rest*: its options without id and arguments."""
        if getattr(rest.get("starts"), "fold", 0) or getattr(rest.get("ends"), "fold", 0):
            return self._read_new(row, None, None)  # datetimes that differ in it alone are equal (PEP 495)
        options: dict[str, Any] = {}
        func = rest.get("func")
        if type(func) is str or not isinstance(func, Typed):  # its own options depend on these
            options = {name: rest.pop(name) for name in _OF_RULE if name in rest}
        key, known = _look_up(self._recurring, rest)
        rule_key, rule = _look_up(_NONE if known is None else known.rules, options)
        if known is not None and rule is None:
            with suppress(InvalidSchedule):  # the check of the whole row reports it
                rule = PlannedRule(define_rule({**rest, **options}, known.jitter_ms))
                self._remember(known.rules, rule_key, rule)
        if known is None or rule is None:
            return self._read_new(row, key, rule_key)
        if known.typed is not None:
            id = known.typed.checked_id(id, args, kwargs)
        own_id = uuid4().hex if id is None else check_id(id)
        data = self._encoder.call(known.path, args, kwargs)
        return self._puts.recurring(known.shapes[None], own_id, rule, data, known.if_version)

    def _read_new(
        self, row: Mapping[str, Any], key: _Key | None, rule_key: _Key | None, shapes: _Shapes | None = None
    ) -> Put:
        """
        Check *row* in full, and remember its shape under *key* (None: do not remember it), besides known *shapes*.
        """
        options = dict(row)
        if "func" not in options:
            near = nearest("func", [name for name in options if isinstance(name, str)])
            remedy = f"did you mean func where it says {near}?" if near else "give a dotted path or a function"
            raise InvalidSchedule("func", NOT_GIVEN, "the row has none", remedy)
        func = options.pop("func")
        typed = func if isinstance(func, Typed) else None
        options = options if typed is None else typed.complete_options(options)
        definition = define(func, options, uuid4().hex if options.get("id") is None else "", self._urgencies)
        put, path = self._puts.from_definition(definition), function_path(func)
        if isinstance(definition.when, TriggerSpec):
            assert put.rule is not None
            known = _Known(path, typed, definition.when.jitter_ms, put.if_version, {None: put.shape}, {})
            self._remember(known.rules, rule_key, put.rule)
            self._remember(self._recurring, key if rule_key is not None else None, known)
            return put
        if len(self._shapes) >= self._remembered:
            self._shapes.clear()
        shape = self._shapes.setdefault(put.shape, put.shape)  # equal shapes are one object: portions go by identity
        shapes = {} if shapes is None else shapes
        shapes[definition.when.offset_s if isinstance(definition.when, At) else None] = shape
        tz = options.get("tz") if options.get("tz") is None else definition.tz
        gap, fold = Gap(options.get("gap") or Gap.SHIFT), Fold(options.get("fold") or Fold.FIRST)
        known = _Known(path, typed, definition.jitter_ms, put.if_version, shapes, {}, tz, gap, fold)
        self._remember(self._one_shots, key if rule_key is None else None, known)
        return put._replace(shape=shape)

    def _remember(self, known: dict[_Key, V], key: _Key | None, value: V) -> None:
        if len(known) >= self._remembered:
            known.clear()
        if key is not None:
            known[key] = value


class Putting:
    """
    Puts by the scripts *puts*, with the presets *urgencies*. Raises InvalidSchedule: an option is bad, and nothing was
    written; RedisUnavailable, RedisRefused.
    """

    def __init__(
        self, puts: PutScripts, urgencies: Presets, clock: Clock, durability: Callable[[], Durability]
    ) -> None:
        self._puts, self._clock, self._new_durability = puts, clock, durability
        self.urgencies = urgencies
        self._rows = RowReader(puts, urgencies, _SINGLE)

    @cached_property
    def _durability(self) -> Durability:
        return self._new_durability()

    def put(self, func: Any, options: Mapping[str, Any], op: str | None = None) -> Scheduled:
        """Put a schedule, as the operation *op*."""
        put = self._rows.read({**options, "func": func})
        named = func.options if isinstance(func, Typed) and options.get("id") is None else options
        has_own_id = named.get("id") is not None
        if op is None and (put.is_relative or put.is_conditional or not has_own_id):
            op = uuid4().hex  # to send the call twice could act twice, or answer differently
        return self.scheduled(put, self.answered(put, op, has_own_id=has_own_id))

    def enqueue(self, func: Any, options: Mapping[str, Any]) -> Scheduled:
        """Push a run at once."""
        given = func.complete_options(options, at_once=True) if isinstance(func, Typed) else options
        definition = define_now(func, given, uuid4().hex if given.get("id") is None else "", self.urgencies)
        with naming_lost_call(definition.id, is_repeatable=definition.unique_ms > 0):
            act = partial(self._puts.enqueue, definition)
            again = "waits again" if definition.unique_ms else "runs it a second time"
            answer = self._durably(definition.id, act, again) if definition.durable else act()
        if answer.word not in DONE:
            demand(answer.word, definition.id, self._puts.keys, run_id=answer.detail)
        next_at = None if answer.word == "kept" else from_ms(answer.place.at_ms)
        return Scheduled(definition.id, answer.word, next_at, answer.detail)

    def put_many(self, rows: Iterable[ScheduleRow], on_progress: Callable[[int], None], refused: Refused) -> Many:
        """Put rows. Raises RowsRefused, after all others were written, if *refused* says so; NotArchived."""
        from zsched.client.many import put_rows

        many = put_rows(self, rows, on_progress)
        if many.errors and refused is Refused.RAISE:
            raise RowsRefused(many)
        return many

    def bulk(self) -> BulkPut:
        """Return a put of many items."""
        from zsched.client.many import BulkPut

        return BulkPut(self._puts, self._first_times())

    def answered(self, put: Put, op: str | None, *, has_own_id: bool = True) -> Answer:
        """Put it, and wait for an archive if it has to be durable. Raises NotArchived."""
        act = partial(self._puts.put if put.rule is None else self._put_recurring, put, op)
        try:
            if not put.shape.durable:
                return act()
            return self._durably(put.id, act, _effect_again(has_own_id, put.is_relative), partial(self.scheduled, put))
        except RedisUnavailable as error:
            raise lost_call(error, put.id, is_repeatable=not put.is_relative) from error

    def scheduled(self, put: Put, answer: Answer) -> Scheduled:
        """Return the result of a put. Raises ScheduleInPast, ScheduleExists, VersionConflict: it was refused."""
        due_ms = None if answer.detail is None else int(answer.detail)
        if answer.word not in DONE:
            about = {"due_ms": due_ms, "now_ms": answer.place.at_ms, "if_version": put.if_version}
            demand(answer.word, put.id, self._puts.keys, **about)
        if due_ms is None:
            return Scheduled(put.id, answer.word, None, None, answer.version)
        run_id = self._puts.keys.run_id(put.id, due_ms) if put.rule is None else None
        next_at = None if answer.word == "already_fired" else from_ms(due_ms)
        return Scheduled(put.id, answer.word, next_at, run_id, answer.version)

    def _durably(
        self, id: str, put: Callable[[], Answer], again: str, told: Callable[[Answer], Scheduled] | None = None
    ) -> Answer:
        """
        Return the answer of *put* once an archive has it. *again*: the effect of the same call once more. *told*: makes
        the result that the error has. Raises NotArchived.
        """
        self._durability.require()
        answer = put()
        if answer.place.is_written or answer.word in DONE:  # by an earlier call
            try:
                self._durability.wait_for([answer.place], f"schedule {id!r}", again)
            except NotArchived as error:
                if told is not None and error.is_in_redis and answer.word in DONE:
                    error.scheduled = told(answer)
                raise
        return answer

    def _put_recurring(self, put: Put, op: str | None) -> Answer:
        assert put.rule is not None
        first_times = self._first_times()
        for _ in range(REPLANS):
            answer = self._puts.put(put, op, first_times.plan(put.rule, put.id))
            if answer.word != "AGAIN":
                return answer
            first_times.tell(answer.place.at_ms)
        raise outdated()

    def _first_times(self) -> FirstTimes:
        return FirstTimes(self._clock, self._puts.server_now_ms, self._puts.calendars)


def _effect_again(has_own_id: bool, is_relative: bool) -> str:
    """Return the effect of the same put once more, for the message about a change that no archive has yet."""
    if not has_own_id:
        return "makes a second one: with an id it can be repeated"
    return "replaces it, and its delay begins anew" if is_relative else "waits again"


def outdated() -> RedisUnavailable:
    """Return the error for a schedule with ``REPLANS`` plans that were all outdated on arrival."""
    return RedisUnavailable("the occurrences pass faster than Redis answers", "give a longer interval")


def _look_up(known: Mapping[_Key, V], options: Mapping[str, Any]) -> tuple[_Key | None, V | None]:
    """
    Return the key of *options* and its value in *known*. Keys are equal for equal types and values: True is not 1 here.
    None: one of the options cannot be hashed. A list of texts, such as tags, can be hashed.
    """
    key = (*options.items(), *map(type, options.values()))
    try:
        return key, known.get(key)
    except Exception:  # a datetime asks its tzinfo
        texts = {name: tuple(value) if _is_texts(value) else value for name, value in options.items()}
    key = (*texts.items(), *map(type, options.values()))
    with suppress(Exception):
        return key, known.get(key)
    return None, None


def _is_texts(value: object) -> bool:
    return type(value) is list and all(type(each) is str for each in value)
