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

from zsched.core.arguments import (
    check_id,
    check_queue,
    check_tags,
    check_text,
    choice,
    failures_in_a_row,
    flag,
    instant_ms,
    seconds_to_ms,
    zone_name,
)
from zsched.core.durations import duration_text
from zsched.core.model import After, At, Definition, IfExists, Now, OnLost, OnUncertain, Payload, Priority, When
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
from zsched.errors import InvalidSchedule, show

TRIGGERS = ("at", "after", *RULES)

_PAYLOAD = ("timeout", "retry", "result_ttl", "failure_ttl", "meta", "on_success", "on_failure")
_RULE = ("starts", "ends", "count")
_PLACE = ("queue", "priority", "at_front", "description", "tags", "created_by", "managed_by")
_POLICY = ("on_uncertain", "on_lost", "pause_after_failures", "expires_after", "jitter", "urgency")
_RECURRING = ("overlap", "overlap_limit", "catch_up", "catch_up_window", "catch_up_limit")
_PUT = ("id", "if_exists", "allow_past", "durable")

# What other schedulers call it.
_ELSEWHERE = {
    "eta": "at",
    "run_date": "at",
    "run_at": "at",
    "when": "at",
    "scheduled_time": "at",
    "datetime": "at",
    "countdown": "after",
    "delay": "after",
    "time_delta": "after",
    "interval": "every",
    "repeat": "count",
    "cron_string": "cron",
    "crontab": "cron",
    "job_id": "id",
    "name": "id",
    "job_timeout": "timeout",
    "ttl": "expires_after",
    "timezone": "tz",
    "start_date": "starts",
    "end_date": "ends",
    "queue_name": "queue",
    "max_instances": "overlap",
    "coalesce": "catch_up",
    "misfire_grace_time": "catch_up_window",
    "depends_on": "on_success",
}

SCHEDULE_OPTIONS = frozenset(
    {"args", "kwargs", "tz", "gap", "fold", *TRIGGERS, *_RULE, *_PAYLOAD, *_PLACE, *_POLICY, *_RECURRING, *_PUT}
)
ENQUEUE_OPTIONS = SCHEDULE_OPTIONS - {
    *TRIGGERS, *_RULE, *_RECURRING, "tz", "gap", "fold", "allow_past", "jitter", "pause_after_failures"
}  # fmt: skip


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
            elsewhere = _ELSEWHERE.get(name)
            near = [elsewhere] if elsewhere in known else difflib.get_close_matches(name, known, 1, 0.6)
            remedy = f"our option is {near[0]}=" if near else f"options are {', '.join(sorted(known))}"
            raise InvalidSchedule(name, value, "no such option here", remedy)


def _definition(func: Any, options: Mapping[str, Any], fallback_id: str, when: When) -> Definition:
    get = options.get
    given_id = get("id")
    jitter_ms = 0 if get("jitter") is None else seconds_to_ms("jitter", get("jitter"), 0)
    expires_ms = None if get("expires_after") is None else seconds_to_ms("expires_after", get("expires_after"), 1)
    if expires_ms is not None and expires_ms < jitter_ms:
        problem = f"shorter than jitter={show(get('jitter'))}, so some would expire before they are due"
        raise InvalidSchedule("expires_after", get("expires_after"), problem, "give a longer one, or less jitter")
    if isinstance(when, TriggerSpec) and jitter_ms:
        when = _with_jitter(when, jitter_ms, get("jitter"))
    failures = get("pause_after_failures")
    if failures is not None and not isinstance(when, TriggerSpec):
        problem = "a one-shot has one run, and no failures in a row"
        raise InvalidSchedule("pause_after_failures", failures, problem, f"leave it out, or {GIVE_A_RULE}")
    args = get("args")
    return Definition(
        id=fallback_id if given_id is None else check_id(given_id),
        when=when,
        payload=Payload(
            func=func,
            args=() if args is None else args,
            kwargs=get("kwargs"),
            description=None if get("description") is None else check_text("description", get("description")),
            **{name: get(name) for name in _PAYLOAD},
        ),
        tz=zone_name(get("tz")) or "UTC",
        queue=check_queue(get("queue", "default")),
        priority=choice("priority", get("priority", "normal"), Priority),
        at_front=flag("at_front", get("at_front", False)),
        on_uncertain=choice("on_uncertain", get("on_uncertain", "refire"), OnUncertain),
        on_lost=OnLost.RETRY if get("on_lost") is None else choice("on_lost", get("on_lost"), OnLost),
        pause_after_failures=None if failures is None else failures_in_a_row(failures),
        policy=policy_of(options, isinstance(when, TriggerSpec)),
        jitter_ms=0 if isinstance(when, TriggerSpec) else jitter_ms,
        expires_ms=expires_ms,
        tags=check_tags(get("tags", ())),
        created_by=None if get("created_by") is None else check_text("created_by", get("created_by")),
        managed_by=None if get("managed_by") is None else check_text("managed_by", get("managed_by")),
        if_exists=choice("if_exists", get("if_exists", "replace"), IfExists),
        allow_past=flag("allow_past", get("allow_past", False)),
        has_own_id=given_id is not None,
        durable=flag("durable", get("durable", False)),
    )


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
