"""From options to a recurring schedule's ``Policy``: each checked, and whether they contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zsched.core.forms import Stored
from zsched.core.option_table import OPTIONS
from zsched.core.policy import USUAL, CatchUp, Overlap, Policy
from zsched.core.triggers import GIVE_A_RULE, TriggerSpec, build
from zsched.errors import InvalidSchedule

_SAMPLE: Final = 12  # gaps between occurrences that are looked at
_POLICIES: Final = {name: option for name, option in OPTIONS.items() if option.stored is Stored.POLICY}
_HARMLESS: Final = {  # what a one-shot may say: the defaults of the signature
    "catch_up_window": USUAL.catch_up_window_ms / 1000,
    "catch_up_limit": USUAL.catch_up_limit,
}


def policy_of(options: Mapping[str, Any], is_recurring: bool) -> Policy:
    """
    The policies in *options*.

    Raises:
        InvalidSchedule: an unknown word or a bad number; one that a one-shot cannot have; two that contradict.
    """
    given = {name: options[name] for name in _POLICIES if options.get(name) is not None}
    if not is_recurring:
        for name, value in given.items():
            if value != _HARMLESS.get(name):
                remedy = f"leave it out, or {GIVE_A_RULE}"
                raise InvalidSchedule(name, value, _POLICIES[name].once, remedy)
        return USUAL
    checked = ((_POLICIES[name], value) for name, value in given.items())
    policy = Policy(**{option.field: option.form.check(option.name, value) for option, value in checked})
    _refuse_contradictions(policy, given)
    return policy


def least_gap_ms(spec: TriggerSpec) -> int | None:
    """The least time between the first occurrences of *spec*; None when it has one at most."""
    from_ms = spec.starts_ms - 1 if spec.starts_ms is not None else 0
    trigger = build(spec, from_ms)
    gaps: list[int] = []
    before_ms = trigger.next_after(from_ms)
    while before_ms is not None and len(gaps) < _SAMPLE:
        next_ms = trigger.next_after(before_ms)
        if next_ms is not None:
            gaps.append(next_ms - before_ms)
        before_ms = next_ms
    return min(gaps, default=None)


def _refuse_contradictions(policy: Policy, given: Mapping[str, Any]) -> None:
    if policy.catch_up is CatchUp.ALL and policy.overlap not in (Overlap.ALLOW, Overlap.QUEUE):
        problem = f"with overlap={policy.overlap.value!r} one of them runs and the others do not"
        raise InvalidSchedule("catch_up", "all", problem, 'give overlap="queue" or "allow", or catch_up="latest"')
    if policy.overlap_limit != USUAL.overlap_limit and policy.overlap is not Overlap.QUEUE:
        problem = f"with overlap={policy.overlap.value!r} nothing waits"
        raise InvalidSchedule("overlap_limit", given["overlap_limit"], problem, 'leave it out, or give overlap="queue"')
    if policy.catch_up_limit != USUAL.catch_up_limit and policy.catch_up is not CatchUp.ALL:
        problem = f"with catch_up={policy.catch_up.value!r} no more than one is caught up"
        remedy = 'leave it out, or give catch_up="all"'
        raise InvalidSchedule("catch_up_limit", given["catch_up_limit"], problem, remedy)
    if policy.catch_up_window_ms != USUAL.catch_up_window_ms and policy.catch_up is CatchUp.NONE:
        problem = "with catch_up='none' nothing is caught up"
        remedy = "leave it out, or give another catch_up"
        raise InvalidSchedule("catch_up_window", given["catch_up_window"], problem, remedy)
