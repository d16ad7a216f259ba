"""
An update: a stored schedule's options with some of them changed, checked like new ones; and the changed options.

``is_same`` distinguishes values that are equal by ``==``, but different for a task: 1, 1.0 and True; [1] and (1,).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, time
from typing import Any, Final

from zsched.core.clock import from_ms
from zsched.core.model import At, Definition, Schedule
from zsched.core.options.define import SCHEDULE_OPTIONS, TRIGGERS, Presets, blaming, define, expanded, made_void
from zsched.core.options.table import RuleOptions
from zsched.core.triggers.spec import TriggerSpec
from zsched.core.triggers.trigger import RULES
from zsched.core.triggers.zones import has_zone
from zsched.errors import InvalidSchedule

PAYLOAD = ("func", "args", "kwargs")
_OF_TIMES: Final = frozenset({*TRIGGERS, *RuleOptions.__annotations__, "jitter"})


_FIXED: Final = {  # options that an update cannot change, and what to do instead
    "id": "schedule and cancel instead",
    "if_exists": "schedule and cancel instead",
    "enabled": "pause or resume it",
}


def revise(
    old: Schedule, stored: Mapping[str, Any], data: bytes, changes: Mapping[str, Any], presets: Presets
) -> Definition:
    """
    Return the definition of *old* after *changes*.

    *stored*: its other options, read from RQ's fields, with args and kwargs if the payload changes. *data*: its
    payload, which is kept otherwise.

    Raises:
        InvalidSchedule: a change is invalid, or turns a one-shot into a recurring schedule or back.
    """
    for name, remedy in _FIXED.items():
        if name in changes:
            raise InvalidSchedule(name, changes[name], "an update cannot change it", remedy)
    kinds = [name for name in TRIGGERS if changes.get(name) is not None]
    for name in kinds:
        if (name in RULES) != (old.trigger is not None):
            problem = "an update keeps a one-shot a one-shot and a recurring schedule recurring"
            raise InvalidSchedule(name, changes[name], problem, f"schedule it again with id={old.id!r}")
    asked, changes = changes, expanded(changes, presets, SCHEDULE_OPTIONS)
    when: At | TriggerSpec | None = None  # the old times, if they stay
    if changes.keys().isdisjoint(_OF_TIMES):
        when = At(old.nominal_ms, old.offset_s) if old.nominal_ms and not old.trigger else old.trigger
    options = {**options_of(old, stored, with_trigger=not kinds and when is None), **changes}
    for name in made_void(options):
        if name not in changes:
            options[name] = None
    lacks_zone = when is not None and not has_zone(old.tz)
    with blaming(asked):
        zone = {"tz": None} if lacks_zone else {}
        definition = define(options.pop("func", old.func), options | zone, old.id, when=when)
    if lacks_zone:  # this machine lacks its zone, and need not know it
        definition = replace(definition, tz=old.tz, when=when or definition.when)
    if not any(name in changes for name in PAYLOAD):
        definition = replace(definition, data=data)
    return definition


def options_of(old: Schedule, stored: Mapping[str, Any], with_trigger: bool = True) -> dict[str, Any]:
    """
    Return the options of ``client.schedule`` that create *old*, without func; with args and kwargs only if *stored* has
    them. *stored*: options read from RQ's fields (``Encoder.options``). *with_trigger*: include the trigger.
    """
    spec = old.trigger
    options: dict[str, Any] = {
        **old.arguments(),
        **stored,
        "id": old.id,
        "description": None if old.description == old.func else old.description,
        "tz": old.tz if spec is None else spec.tz,
    }
    if spec is None:
        return options if old.nominal_ms is None or not with_trigger else options | {"at": from_ms(old.nominal_ms)}
    options |= {
        "starts": None if spec.starts_ms is None else from_ms(spec.starts_ms),
        "ends": None if spec.ends_ms is None else from_ms(spec.ends_ms),
        "fold": spec.fold,
        "exclude": spec.exclude or None,
        "on_excluded": spec.on_excluded,
    }
    if with_trigger:
        options |= {spec.kind.name: spec.kind.to_option(spec.expr), "gap": spec.gap, "count": spec.count}
    return options


def is_same(one: Any, other: Any) -> bool:
    """
    Return True if two values are equal in type and content, including nested dicts, lists and tuples. The order of a
    dict's keys does not count; NaN is the same as NaN, 0.0 is not -0.0.

    Values of other types are compared with their own ``==``.
    """
    if type(one) is not type(other):
        return False
    try:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(is_same, one, other))
        if isinstance(one, float):
            return repr(one) == repr(other)
        if isinstance(one, datetime | time):
            return (one, one.tzinfo, one.fold) == (other, other.tzinfo, other.fold)
        return bool(one == other)
    except Exception:  # the values' own code: an array of numpy has no truth, and a difference is the safe answer
        return False
