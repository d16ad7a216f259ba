"""
The triggers' interface to the rest of zsched: the list of kinds, and rules bounded by start, end and count.

``build`` makes a trigger from a ``TriggerSpec``; ``check`` is called when a schedule is put. Triggers have no state.
``count`` is computed: it counts all occurrences from the start, run or not. So a trigger gives the same answers in
every process and after any gap.

To add a kind, write its module beside ``every``, ``cron`` and ``rrule``, and name its instance in ``KINDS`` and the
type of its option in ``KindOptions``. Calls, command line, files, messages and listings follow from that.

Jitter delays the due time of an occurrence after its nominal time, so that schedules of one rule do not fire at once.
The delay depends on id and nominal time only: it is the same in every process and after any restart, and spread evenly
over ``[0, jitter]``. For a one-shot it depends on the id only: if ``at`` moves by an hour, its due time does, too.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Final, TypedDict

from zsched.core.clock import LAST_MS
from zsched.core.options.arguments import LONGEST_S, check_text
from zsched.core.triggers.cron import CRON
from zsched.core.triggers.every import EVERY
from zsched.core.triggers.exclusions import canonical, exclusions_at, exclusions_of, is_name
from zsched.core.triggers.layers import Bounded, NeverOpen, OpenTrigger, Trigger, Union, unskipped
from zsched.core.triggers.rrule import RRULE
from zsched.core.triggers.spec import Calendars, Fold, Gap, OnExcluded, TriggerKind, TriggerSpec
from zsched.core.triggers.zones import FLOOR_S, HORIZON_S
from zsched.core.wording import alternatives, parse_duration
from zsched.errors import InvalidSchedule, TriggerError

KINDS: Final[tuple[TriggerKind, ...]] = (EVERY, CRON, RRULE)


class KindOptions(TypedDict, total=False):
    """The options of the kinds, with the types that a caller gives: for editors and type checkers."""

    every: float | str | timedelta | None
    cron: str | None
    rrule: str | None


RULES: Final = tuple(kind.name for kind in KINDS)
GIVE_A_RULE: Final = f"give {alternatives(RULES)}"  # a remedy: "give every, cron or rrule"

LOCAL_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")  # of ``done_by``
_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> TriggerKind:
    """Return the kind called *name*. Raises ValueError if there is none."""
    if (kind := _BY_NAME.get(name)) is None:
        raise ValueError(f"{name!r} is not a kind of trigger; known are {', '.join(RULES)}")
    return kind


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "kind": kind_named, "gap": Gap, "fold": Fold, "exclude": partial(canonical, "exclude"), "on_excluded": OnExcluded,
}  # fmt: skip


def read_spec(text: str) -> TriggerSpec:
    """Return the rule with the ``to_text`` *text*. Raises ValueError, KeyError or TypeError for any other text."""
    fields = dict(json.loads(text))
    fields |= {name: read(fields[name]) for name, read in _READERS.items() if name in fields or name == "kind"}
    spec = TriggerSpec(**fields)
    check_text("tz", spec.tz)
    if not isinstance(spec.expr, str):
        raise TypeError("the rule is not text")
    _demand_bounds(spec)
    return spec


def with_calendars(spec: TriggerSpec, read: Callable[[], Calendars]) -> TriggerSpec:
    """Return *spec* with the calendars that *read* returns, if it names one."""
    return replace(spec, calendars=read()) if any(map(is_name, spec.exclude)) else spec


def with_skipped(spec: TriggerSpec, skipped: tuple[int, ...]) -> TriggerSpec:
    """Return *spec* without the occurrences *skipped*, in order."""
    return replace(spec, skipped=skipped) if skipped else spec


@lru_cache(maxsize=50_000)  # rules: some 500 bytes each, their text included (measured)
def spec_of(stored: bytes) -> TriggerSpec:
    """Return the rule of the text *stored* in Redis; each text is parsed once. Raises as ``read_spec``."""
    return read_spec(stored.decode())


# -- triggers -------------------------------------------------------------------------------------


def build(spec: TriggerSpec, anchor_ms: int) -> Trigger:
    """
    Return the trigger of *spec* for a schedule with a rule created at *anchor_ms*.

    Cheap: values that depend only on expression and zone are computed once and shared by all schedules.
    Occurrences are later than the anchor, or not earlier than ``spec.starts_ms`` if that is given.

    Raises:
        InvalidSchedule: the zone is unknown on this machine.
        TriggerError: ``spec.expr`` is not a text from ``spec.kind.parse``.
    """
    after_ms, count = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1, spec.count
    try:
        rule, ends_ms = spec.kind.rule(spec, anchor_ms), spec.kind.until_ms(spec.expr)
        singles = spec.kind.singles(spec, anchor_ms)
    except InvalidSchedule:
        raise
    except ValueError as exc:
        raise TriggerError(f"the stored {spec.kind.name} {spec.expr[:80]!r} cannot be read: {exc}") from exc
    if singles is not None:  # count and the rule's own end are of the rule without them
        removed, added = singles
        rule = Union(OpenTrigger(spec, Bounded(spec, rule, after_ms, ends_ms, count), removed), added)
        ends_ms = count = None
    if spec.ends_ms is not None:
        ends_ms = spec.ends_ms if ends_ms is None else min(ends_ms, spec.ends_ms)
    found: Trigger = Bounded(spec, rule, after_ms, ends_ms, count)
    if spec.exclude:
        closed = exclusions_of(spec.exclude, spec.tz, spec.calendars)
        found = OpenTrigger(spec, found, closed, spec.on_excluded is OnExcluded.NEXT_OPEN)
    return OpenTrigger(spec, found, exclusions_at(spec.skipped)) if spec.skipped else found


def check(spec: TriggerSpec, anchor_ms: int) -> None:
    """
    Make sure that a schedule of this rule, created at *anchor_ms*, fires at least once.

    Raises:
        InvalidSchedule: it would never fire, with the reason; or a bound is invalid.
    """
    _demand_bounds(spec)
    if spec.starts_ms is not None and spec.ends_ms is not None and spec.ends_ms < spec.starts_ms:
        raise InvalidSchedule("ends", _shown(spec.ends_ms), "earlier than starts", "swap them, or leave one out")
    try:
        trigger = build(spec, anchor_ms)
    except TriggerError:
        spec.kind.parse(spec.expr)  # its error has the details
        raise
    lower_ms = anchor_ms if spec.starts_ms is None else spec.starts_ms - 1
    with suppress(NeverOpen):
        if trigger.next_after(lower_ms) is not None:
            return
    if spec.exclude and build(replace(spec, exclude=()), anchor_ms).next_after(lower_ms) is not None:
        raise InvalidSchedule("exclude", list(spec.exclude), "excludes all times of the rule", "leave some out")
    if spec.kind.rule(spec, anchor_ms).next_after(lower_ms) is None:
        raise InvalidSchedule(spec.kind.name, spec.expr, f"never fires: {spec.kind.cause}", "change it")
    if spec.ends_ms is None:
        problem = "never fires: UNTIL is before its first time, or EXDATE has all times"
        raise InvalidSchedule(spec.kind.name, spec.expr, problem, "change it")
    problem = "the schedule never fires: its first time would be later"
    raise InvalidSchedule("ends", _shown(spec.ends_ms), problem, "move ends=, or leave it out")


def _demand_bounds(spec: TriggerSpec) -> None:
    """Check the numbers of a rule. Raises InvalidSchedule."""
    if spec.count is not None and (type(spec.count) is not int or spec.count < 1):
        raise InvalidSchedule("count", spec.count, "not a positive number", "give 1 or more, or leave it out")
    for name, value in (("starts", spec.starts_ms), ("ends", spec.ends_ms)):
        if value is not None and not (type(value) is int and FLOOR_S * 1000 <= value < HORIZON_S * 1000):
            raise InvalidSchedule(name, value, "outside the years 1 to 9999", "give an instant within them")
    if type(spec.jitter_ms) is not int or not 0 <= spec.jitter_ms <= LONGEST_S * 1000:
        raise InvalidSchedule("jitter", spec.jitter_ms, "not a delay in milliseconds", "leave it out")


def _shown(ms: int) -> str:
    """Return an instant for an error."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


# -- jitter ---------------------------------------------------------------------------------------


def due_of(trigger: Trigger, id: str, nominal_ms: int) -> int:
    """
    Return the due time of the occurrence *nominal_ms* of schedule *id*: within its jitter, before the next occurrence.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    return nominal_ms + lag_of(id, nominal_ms, max_jitter_of(trigger, nominal_ms))


def max_jitter_of(trigger: Trigger, nominal_ms: int) -> int:
    """
    Return the largest delay of the occurrence *nominal_ms*: the rule's jitter, or less if the next one comes before,
    skipped or not: so a skip changes no other due time.

    Raises:
        TriggerError: the trigger cannot produce a time.
    """
    most_ms = trigger.spec.jitter_ms
    next_ms = unskipped(trigger).next_after(nominal_ms) if most_ms else None
    return most_ms if next_ms is None else min(most_ms, next_ms - nominal_ms - 1)


def lag_of(id: str, nominal_ms: int, max_jitter_ms: int) -> int:
    """Return the delay of the occurrence *nominal_ms* of schedule *id*, at most *max_jitter_ms*."""
    return delay_of(f"{id} {nominal_ms}", max_jitter_ms) if max_jitter_ms else 0


def delay_of(id: str, most_ms: int) -> int:
    """Return the delay of one-shot *id* with jitter *most_ms*: from 0 to *most_ms*, it depends on *id* only."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "big") % (most_ms + 1)


# -- deadlines ------------------------------------------------------------------------------------
#
# The option ``done_by`` is a text: a local time (``06:00``), which means the first such time after the occurrence's
# nominal time, or a duration (``30m``) after that. A local time follows the rules of a daily cron schedule: one that is
# skipped when clocks go forward is the next valid time, and of one that is repeated the first counts.


@lru_cache(maxsize=1000)
def deadlines(done_by: str, tz: str) -> Callable[[int], int]:
    """
    Return the function from the nominal time of an occurrence to its deadline: the instant by which its run has to have
    succeeded. Raises InvalidSchedule, ValueError: another program wrote *done_by* or *tz*.
    """
    if not LOCAL_TIME.fullmatch(done_by):
        ms = round(parse_duration(done_by).total_seconds() * 1000)
        return lambda nominal_ms: min(nominal_ms + ms, LAST_MS)
    hour, minute, second = (*map(int, done_by.split(":")), 0)[:3]
    expr, _ = CRON.parse(f"{second} {minute} {hour} * * *", tz)
    daily = build(TriggerSpec(kind=CRON, expr=expr, tz=tz, gap=CRON.gap), 0)
    return lambda nominal_ms: daily.next_after(nominal_ms) or LAST_MS
