"""
From the keyword arguments of ``client.schedule`` to a checked ``Definition``.

Every refusal names the option, the value and the remedy. What an option means to RQ (timeout, retry,
callbacks, the payload itself) is checked by the encoder in ``storage.rqjob``; the trigger's text by
``core.triggers``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zsched.core.arguments import choice, instant_ms, seconds_to_ms, zone_name
from zsched.core.forms import Stored
from zsched.core.model import After, At, Definition, Now, Payload, When
from zsched.core.option_table import ELSEWHERE, FOR_ENQUEUE, OPTIONS
from zsched.core.policy_options import least_gap_ms, policy_of
from zsched.core.triggers import (
    GIVE_A_RULE,
    RULES,
    Fold,
    Gap,
    TriggerSpec,
    kind_named,
)
from zsched.core.urgency import PRESETS, Presets, blaming, expanded
from zsched.core.wording import duration_text
from zsched.errors import InvalidSchedule, show

TRIGGERS = ("at", "after", *RULES)

_RULE = ("starts", "ends", "count")

SCHEDULE_OPTIONS = frozenset(OPTIONS)
ENQUEUE_OPTIONS = FOR_ENQUEUE

# What is left to triggers, policies, the payload's encoder and ``expanded``.
_CHECKED_ELSEWHERE = (Stored.RULE, Stored.POLICY, Stored.DATA)
_CHECKED = {
    name: option for name, option in OPTIONS.items() if option.stored not in _CHECKED_ELSEWHERE and name != "urgency"
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """The zone and its choices, as given."""

    tz: str
    gap: Gap | None
    fold: Fold | None


def define(func: Any, options: Mapping[str, Any], fallback_id: str, presets: Presets = PRESETS) -> Definition:
    """
    The definition of a schedule; *presets* are what ``urgency`` may name.

    *fallback_id* is used when ``id`` is absent: made before the first attempt, so that sending the
    same call again is safe.

    Raises:
        InvalidSchedule: an option is unknown, missing or bad, or two contradict each other.
    """
    _refuse_unknown(options, SCHEDULE_OPTIONS)
    with blaming(options):
        options = expanded(options, presets, SCHEDULE_OPTIONS)
        return _definition(func, options, fallback_id, _when(options))


def define_now(func: Any, options: Mapping[str, Any], fallback_id: str, presets: Presets = PRESETS) -> Definition:
    """The definition of a run that goes straight to its queue. Raises as ``define``."""
    _refuse_unknown(options, ENQUEUE_OPTIONS)
    with blaming(options):
        options = expanded(options, presets, ENQUEUE_OPTIONS)
        return _definition(func, options, fallback_id, Now())


def define_trigger(options: Mapping[str, Any]) -> TriggerSpec:
    """The recurring rule in *options* alone, for a preview. Raises as ``define``."""
    _refuse_unknown(options, frozenset({"tz", "gap", "fold", "jitter", *RULES, *_RULE}))
    if options.get("jitter") is not None:
        problem = "when an occurrence is due within its jitter depends on the schedule's id"
        raise InvalidSchedule("jitter", options["jitter"], problem, "leave it out, or preview a schedule by its id")
    when = _when(options)
    if not isinstance(when, TriggerSpec):  # the option names above leave no other
        raise InvalidSchedule("at", when, "a single instant has no preview", GIVE_A_RULE)
    return when


def _refuse_unknown(options: Mapping[str, Any], known: frozenset[str]) -> None:
    for name, value in options.items():
        if name not in known:
            elsewhere = ELSEWHERE.get(name)
            near = [elsewhere] if elsewhere in known else difflib.get_close_matches(name, known, 1, 0.6)
            remedy = f"our option is {near[0]}=" if near else f"options are {', '.join(sorted(known))}"
            raise InvalidSchedule(name, value, "no such option here", remedy)


def _definition(func: Any, options: Mapping[str, Any], fallback_id: str, when: When) -> Definition:
    is_recurring = isinstance(when, TriggerSpec)
    values, of_rq = _checked(options, is_recurring)
    expires_ms, jitter_ms = values.get("expires_ms"), values.get("jitter_ms", 0)
    if expires_ms is not None and expires_ms < jitter_ms:
        problem = f"shorter than jitter={show(options['jitter'])}, so some would expire before they are due"
        raise InvalidSchedule("expires_after", options["expires_after"], problem, "give a longer one, or less jitter")
    if isinstance(when, TriggerSpec) and jitter_ms:
        when, values["jitter_ms"] = _with_jitter(when, jitter_ms, options["jitter"]), 0
    args = options.get("args")
    payload = Payload(func=func, args=() if args is None else args, kwargs=options.get("kwargs"), **of_rq)
    policy = policy_of(options, is_recurring)
    has_own_id = "id" in values
    return Definition(**{"id": fallback_id, **values}, when=when, payload=payload, policy=policy, has_own_id=has_own_id)


def _checked(options: Mapping[str, Any], is_recurring: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Return the values of *options* by the attributes of a definition, and those for RQ by their names. An option that is
    None where None may be given says nothing.
    """
    values: dict[str, Any] = {}
    of_rq: dict[str, Any] = {}
    for name, option in _CHECKED.items():
        if name not in options or (options[name] is None and option.is_optional):
            continue
        value = options[name]
        if option.once and not is_recurring:
            raise InvalidSchedule(name, value, option.once, f"leave it out, or {GIVE_A_RULE}")
        checked = option.form.check(name, value)
        if option.stored is Stored.RQ:
            of_rq[name] = checked
        else:
            values[option.attribute] = checked
    return values, of_rq


def _with_jitter(spec: TriggerSpec, jitter_ms: int, given: object) -> TriggerSpec:
    gap_ms = least_gap_ms(spec)
    if gap_ms is not None and jitter_ms > gap_ms:
        problem = f"larger than the time from one occurrence to the next, {duration_text(gap_ms)}"
        raise InvalidSchedule("jitter", given, problem, "give less")
    return replace(spec, jitter_ms=jitter_ms)


def _when(options: Mapping[str, Any]) -> When:
    given = [name for name in TRIGGERS if options.get(name) is not None]
    if len(given) != 1:
        problem = "no trigger" if not given else "more than one trigger"
        raise InvalidSchedule(" and ".join(given) or "at", None, problem, f"give exactly one of {', '.join(TRIGGERS)}")
    kind = given[0]
    rule = _Rule(
        tz=zone_name(options.get("tz")) or "UTC",
        gap=None if options.get("gap") is None else choice("gap", options["gap"], Gap),
        fold=None if options.get("fold") is None else choice("fold", options["fold"], Fold),
    )
    if kind in ("at", "after"):
        for name in _RULE:
            if options.get(name) is not None:
                raise InvalidSchedule(name, options[name], f"bounds a recurrence, and {kind}= is none", "leave it out")
    if kind == "at":
        tz = zone_name(options.get("tz"))
        return At(instant_ms("at", options["at"], tz, rule.gap or Gap.SHIFT, rule.fold or Fold.FIRST))
    if kind == "after":
        return After(seconds_to_ms("after", options["after"], 0))
    return _recurring(kind, options, rule)


def _recurring(name: str, options: Mapping[str, Any], rule: _Rule) -> TriggerSpec:
    count = options.get("count")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InvalidSchedule("count", count, "not a number of occurrences", "give a whole number from 1")
    kind = kind_named(name)
    expr, counted = kind.parse(options[name])
    if counted is not None and count is not None:
        raise InvalidSchedule("count", count, f"the {name.upper()} has a COUNT of its own", "give one of the two")
    bounds = {
        name: None if options.get(name) is None else instant_ms(name, options[name], zone_name(options.get("tz")))
        for name in ("starts", "ends")
    }
    if bounds["starts"] is not None and bounds["ends"] is not None and bounds["ends"] < bounds["starts"]:
        raise InvalidSchedule("ends", options["ends"], "before starts", "give a later time")
    return TriggerSpec(
        kind=kind,
        expr=expr,
        tz=rule.tz,
        starts_ms=bounds["starts"],
        ends_ms=bounds["ends"],
        count=counted if count is None else count,
        gap=rule.gap or kind.gap,
        fold=rule.fold or Fold.FIRST,
    )
