"""
Check and encode the rows of ``schedule_many``; fast if the rows are alike.

Rows that differ only in id, time or rule, and arguments share a *shape*, which is checked and encoded once. The rest is
checked row by row. If recurring rows of a shape share a rule, the rule is checked and planned once, too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from zsched.client.calls import Typed, new_id
from zsched.core.model import After, At, Definition
from zsched.core.occurrences.planning import PlannedRule
from zsched.core.options.arguments import check_id, seconds_to_ms
from zsched.core.options.define import Presets, define, define_rule
from zsched.core.options.instants import instant_ms, local_offset_s
from zsched.core.triggers import RULES, Fold, Gap, TriggerSpec, delay_of
from zsched.errors import NOT_GIVEN, InvalidSchedule
from zsched.storage.rqjob import function_path
from zsched.storage.shapes import Put, Shape
from zsched.storage.store import Store

_OF_RULE: Final = (*RULES, "starts", "ends", "count")  # options in which rows of a shape may differ
REMEMBERED: Final = 10_000  # shapes, and rules of a shape

V = TypeVar("V")
_Key = tuple[Any, ...]
_NONE: Final[Mapping[_Key, Any]] = {}


@dataclass(frozen=True, slots=True)
class _OneShots:
    """
    A known shape of one-shots, with the data to read another row of it. ``shapes``: by the offset of a local time, or
    None.
    """

    shapes: dict[int | None, Shape]
    path: str
    tz: str | None
    gap: Gap
    fold: Fold
    jitter_ms: int
    typed: Typed | None
    if_version: str


@dataclass(frozen=True, slots=True)
class _Rules:
    """A known shape of recurring schedules. ``rules``: the rules of its rows, by their options."""

    shape: Shape
    path: str
    jitter_ms: int
    typed: Typed | None
    if_version: str
    rules: dict[_Key, PlannedRule] = field(default_factory=dict)


class RowReader:
    """
    Checks and encodes rows by the presets *urgencies*; remembers *remembered* shapes. ``on_definition`` is called
    with that of each new one. Thread-safe.
    """

    def __init__(self, store: Store, urgencies: Presets, remembered: int = REMEMBERED) -> None:
        self._store, self._encoder, self._urgencies, self._remembered = store, store.encoder, urgencies, remembered
        self.on_definition: Callable[[Definition], None] | None = None
        self._one_shots: dict[_Key, _OneShots] = {}
        self._rules: dict[_Key, _Rules] = {}
        self._shapes: dict[Shape, Shape] = {}

    def read(self, row: Mapping[str, Any]) -> Put:
        """Return the schedule of *row*, ready to be put. Raises ZschedError; TypeError, ValueError: it is not a row."""
        rest = dict(row)
        id, at, after = rest.pop("id", None), rest.pop("at", None), rest.pop("after", None)
        args, kwargs = rest.pop("args", ()), rest.pop("kwargs", None)
        args = () if args is None else args
        if at is None and after is None:
            return self._recurring(row, rest, id, args, kwargs)
        key, known = _look_up(self._one_shots, rest)
        if known is None or (at is not None and after is not None):
            return self._read_new(row, key, None)
        if known.typed is not None:
            id = known.typed.checked_id(id, args, kwargs)
        own_id = new_id() if id is None else check_id(id)
        delay_ms, offset_s = delay_of(own_id, known.jitter_ms) if known.jitter_ms else 0, None
        if at is not None:
            at_ms = instant_ms("at", at, known.tz, known.gap, known.fold)
            due, offset_s = str(at_ms + delay_ms), local_offset_s(at, known.tz, at_ms)
        else:
            due = f"+{seconds_to_ms('after', after, 0) + delay_ms}"
        shape = known.shapes.get(offset_s)
        if shape is None:
            return self._read_new(row, key, None, known.shapes)
        return self._store.one_shot(shape, own_id, due, self._encoder.call(known.path, args, kwargs), known.if_version)

    def _recurring(self, row: Mapping[str, Any], rest: dict[str, Any], id: Any, args: Any, kwargs: Any) -> Put:
        """Do the same for a row of a recurring schedule; *rest*: its options without id and arguments."""
        if getattr(rest.get("starts"), "fold", 0) or getattr(rest.get("ends"), "fold", 0):
            return self._read_new(row, None, None)  # datetimes that differ in it alone are equal (PEP 495)
        options: dict[str, Any] = {}
        func = rest.get("func")
        if type(func) is str or not isinstance(func, Typed):  # its own options depend on these
            options = {name: rest.pop(name) for name in _OF_RULE if name in rest}
        key, known = _look_up(self._rules, rest)
        rule_key, rule = _look_up(_NONE if known is None else known.rules, options)
        if known is not None and rule is None:
            with suppress(InvalidSchedule):  # the check of the whole row reports it
                rule = PlannedRule(define_rule({**rest, **options}, known.jitter_ms))
                self._remember(known.rules, rule_key, rule)
        if known is None or rule is None:
            return self._read_new(row, key, rule_key)
        if known.typed is not None:
            id = known.typed.checked_id(id, args, kwargs)
        own_id = new_id() if id is None else check_id(id)
        data = self._encoder.call(known.path, args, kwargs)
        return self._store.recurring(known.shape, own_id, rule, data, known.if_version)

    def _read_new(
        self,
        row: Mapping[str, Any],
        key: _Key | None,
        rule_key: _Key | None,
        shapes: dict[int | None, Shape] | None = None,
    ) -> Put:
        """
        Check *row* in full, and remember its shape under *key* (None: do not remember it), besides known *shapes*.
        """
        options = dict(row)
        if "func" not in options:
            near = difflib.get_close_matches("func", [name for name in options if isinstance(name, str)], 1)
            remedy = f"did you mean func where it says {near[0]}?" if near else "give a dotted path or a function"
            raise InvalidSchedule("func", NOT_GIVEN, "the row has none", remedy)
        func = options.pop("func")
        typed = func if isinstance(func, Typed) else None
        options = options if typed is None else typed.complete_options(options)
        definition = define(func, options, new_id() if options.get("id") is None else "", self._urgencies)
        if self.on_definition is not None:
            self.on_definition(definition)
        put = put_of(self._store, definition)
        if isinstance(definition.when, TriggerSpec):
            assert put.rule is not None
            known = _Rules(put.shape, function_path(func), definition.when.jitter_ms, typed, put.if_version)
            self._remember(known.rules, rule_key, put.rule)
            self._remember(self._rules, key if rule_key is not None else None, known)
            return put
        if len(self._shapes) >= self._remembered:
            self._shapes.clear()
        shape = self._shapes.setdefault(put.shape, put.shape)  # equal shapes are one object: portions go by identity
        shapes = {} if shapes is None else shapes
        shapes[definition.when.offset_s if isinstance(definition.when, At) else None] = shape
        one_shots = _OneShots(
            shapes,
            function_path(func),
            options.get("tz") if options.get("tz") is None else definition.tz,
            Gap(options.get("gap") or Gap.SHIFT),
            Fold(options.get("fold") or Fold.FIRST),
            definition.jitter_ms,
            typed,
            put.if_version,
        )
        self._remember(self._one_shots, key if rule_key is None else None, one_shots)
        return put._replace(shape=shape)

    def _remember(self, known: dict[_Key, V], key: _Key | None, value: V) -> None:
        if len(known) >= self._remembered:
            known.clear()
        if key is not None:
            known[key] = value


def put_of(store: Store, definition: Definition) -> Put:
    """Return the schedule of a checked *definition*, ready to be put. Raises InvalidSchedule."""
    shape, data = store.shape(definition), store.encoder.data(definition.payload)
    when, if_version = definition.when, definition.if_version or ""
    if isinstance(when, TriggerSpec):
        return store.recurring(shape, definition.id, PlannedRule(when), data, if_version)
    delay_ms = delay_of(definition.id, definition.jitter_ms) if definition.jitter_ms else 0
    due = f"{when.due_ms + delay_ms}" if isinstance(when, At) else f"+{cast(After, when).delay_ms + delay_ms}"
    return store.one_shot(shape, definition.id, due, data, if_version)


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
    try:
        return key, known.get(key)
    except Exception:
        return None, None


def _is_texts(value: object) -> bool:
    return type(value) is list and all(type(each) is str for each in value)
