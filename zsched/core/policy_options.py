"""From options to a recurring schedule's ``Policy``: each checked, and whether they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from zsched.core.forms import Stored
from zsched.core.option_table import OPTIONS
from zsched.core.policy import CONTRADICTIONS, USUAL, Policy
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


def made_void(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield options that say nothing beside the policies in *options*, and would contradict them."""
    for one in CONTRADICTIONS:
        beside = options.get(one.beside) or getattr(USUAL, one.beside)
        if not one.only and getattr(beside, "value", beside) not in [each.value for each in one.allowed]:
            yield one.option


def _refuse_contradictions(policy: Policy, given: Mapping[str, Any]) -> None:
    for one in CONTRADICTIONS:
        value, beside = getattr(policy, _POLICIES[one.option].field), getattr(policy, one.beside)
        is_said = value in one.only if one.only else value != getattr(USUAL, _POLICIES[one.option].field)
        if is_said and beside not in one.allowed:
            problem = f"with {one.beside}={beside.value!r} {one.problem}"
            words = f"{one.beside}=" + " or ".join(f'"{each.value}"' for each in one.allowed)
            remedy = f"give {words}, or {one.instead}" if one.instead else f"leave it out, or give {words}"
            raise InvalidSchedule(one.option, getattr(value, "value", given[one.option]), problem, remedy)
