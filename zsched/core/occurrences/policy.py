"""
The policies of a schedule, and the pure decision of the tick: what becomes of a due recurring schedule?

An occurrence that did not fire at its time is *late*: no daemon led, the schedule was paused, or Redis was away.
Catch-up decides what becomes of it, at a cost that does not grow with the number of occurrences. The overlap policy is
only passed on here: the script that pushes decides whether the previous run is open, by the job that the worker writes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from zsched.core.clock import LAST_MS
from zsched.core.occurrences.outcomes import Outcome
from zsched.core.options.choices import CatchUp, Overlap
from zsched.core.triggers.layers import Trigger, excluding, nth_after, unskipped
from zsched.core.triggers.trigger import due_of
from zsched.errors import TriggerError

ON_TIME_MS: Final = 5000  # a shorter delay is on time, with any window: a take-over lasts half as long

_CODES: Final = {"%": "%25", " ": "%20", ",": "%2C", ":": "%3A"}  # of signs between words, in a note
_ENCODED: Final = str.maketrans(_CODES)
_MOST_EXCLUDED: Final = 20  # excluded times between two occurrences that are recorded one by one
_MOST_WORDS: Final = 5  # reasons in one range
_WAIT: Final = tuple(policy for policy in Overlap if policy.waits)
_RUN_EACH: Final = tuple(policy for policy in Overlap if policy.runs_each)


class Contradiction(NamedTuple):
    """
    An option that needs one of the values ``allowed`` of option ``beside``. ``only``: its own values with this need, if
    not all but its default. ``instead``: another remedy for the caller.
    """

    option: str
    beside: str
    allowed: tuple[Enum, ...]
    problem: str
    only: tuple[Enum, ...] = ()
    instead: str = ""


CONTRADICTIONS: Final = (
    Contradiction(
        "catch_up", "overlap", _RUN_EACH, "one of them runs and the others do not", (CatchUp.ALL,), 'catch_up="latest"'
    ),
    Contradiction("overlap_limit", "overlap", _WAIT, "nothing waits"),
    Contradiction("catch_up_limit", "catch_up", (CatchUp.ALL,), "no more than one is caught up"),
    Contradiction("catch_up_window", "catch_up", (CatchUp.LATEST, CatchUp.ALL), "nothing is caught up"),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """
    The policies of a recurring schedule.

    An occurrence fires at most ``catch_up_window_ms`` after its due time. ``catch_up="all"`` fires the latest
    ``catch_up_limit`` ones. With ``overlap="queue"`` at most ``overlap_limit`` runs wait.
    """

    catch_up: CatchUp = CatchUp.LATEST
    catch_up_window_ms: int = 86_400_000
    catch_up_limit: int = 100
    overlap: Overlap = Overlap.SKIP
    overlap_limit: int = 100

    @property
    def patience_ms(self) -> int:
        """Milliseconds after its due time for which an occurrence still fires."""
        return ON_TIME_MS if self.catch_up is CatchUp.NONE else max(self.catch_up_window_ms, ON_TIME_MS)


USUAL: Final = Policy()


class Passed(NamedTuple):
    """
    Consecutive occurrences that are recorded, not pushed: first and last nominal time, and their number. ``why``: the
    word of their ``Outcome``; ``note``: more, for people.
    """

    why: str
    first_ms: int
    last_ms: int
    number: int
    note: str = ""


class Plan(NamedTuple):
    """
    The decision: push the occurrence ``fire_ms``, due at ``due_ms`` (None: push nothing), and record ``passed``, the
    oldest first.

    Occurrences that the schedule excludes are in ``passed`` up to the next one, so some of them are still to come.
    ``next_ms`` is the next occurrence, due at ``next_due_ms`` (None: the trigger is exhausted). It has passed, too, if
    there is more to catch up.
    """

    fire_ms: int | None
    due_ms: int | None
    passed: tuple[Passed, ...]
    next_ms: int | None
    next_due_ms: int | None


def plan(trigger: Trigger, nominal_ms: int, now_ms: int, policy: Policy = USUAL, id: str = "") -> Plan:
    """
    Decide what becomes of schedule *id*, whose next occurrence was *nominal_ms*, at *now_ms*.

    Pure: same arguments, same plan. An occurrence that is not pushed is in ``passed`` with its reason, never dropped
    silently. The occurrence *nominal_ms* was promised, so it counts even if the zone's rules changed meanwhile; but not
    if a calendar excludes it by now, or somebody skips it.

    Raises:
        TriggerError: the trigger cannot produce a time (evaluation bound reached).
    """
    if nominal_ms in trigger.spec.skipped:
        return _plan(trigger, id, None, (), nominal_ms, nominal_ms)
    if (layer := excluding(trigger)) is not None and (closed := layer.closed.at(nominal_ms)) is not None:
        excluded = Passed(Outcome.EXCLUDED.word, nominal_ms, nominal_ms, 1, closed.why)
        return _plan(trigger, id, None, (excluded,), nominal_ms, nominal_ms)
    latest_ms = latest_due(trigger, nominal_ms, now_ms, id)
    if policy.catch_up is CatchUp.ALL:
        fire_ms, passed = _each(trigger, nominal_ms, latest_ms, now_ms, policy, id)
    else:
        fire_ms = latest_ms if now_ms - due_of(trigger, id, latest_ms) <= policy.patience_ms else None
        why = Outcome.MISSED if policy.catch_up is CatchUp.NONE or fire_ms is None else Outcome.COALESCED
        passed = _passed(why, trigger, nominal_ms, latest_ms, fire_ms is None)
    return _plan(trigger, id, fire_ms, passed, nominal_ms, latest_ms if fire_ms is None else fire_ms)


def _plan(
    trigger: Trigger, id: str, fire_ms: int | None, passed: tuple[Passed, ...], nominal_ms: int, last_ms: int
) -> Plan:
    """
    Return the plan: next comes the occurrence after *last_ms*. Add the excluded ones from *nominal_ms* to it, and the
    skipped ones.
    """
    next_ms = trigger.next_after(last_ms)
    if next_ms is not None and next_ms <= nominal_ms:
        raise TriggerError(f"the trigger went back from {nominal_ms} to {next_ms}")
    if trigger.spec.exclude:
        passed += excluded(trigger, nominal_ms, last_ms) if last_ms > nominal_ms else ()
        passed += excluded(trigger, last_ms, next_ms)
    if trigger.spec.skipped:
        by_hand = _skipped(unskipped(trigger), nominal_ms if next_ms is not None else LAST_MS)
        passed = tuple(sorted((*passed, *by_hand), key=lambda one: one.first_ms))
    due_ms = None if fire_ms is None else due_of(trigger, id, fire_ms)
    return Plan(fire_ms, due_ms, passed, next_ms, None if next_ms is None else due_of(trigger, id, next_ms))


def excluded(trigger: Trigger, after_ms: int, until_ms: int | None) -> tuple[Passed, ...]:
    """Return ``OpenTrigger.excluded``, after many times as one range."""
    layer = excluding(trigger)
    found = [] if layer is None else [*layer.excluded(after_ms, until_ms)]
    if len(found) > _MOST_EXCLUDED:
        rest, words = found[_MOST_EXCLUDED - 1 :], dict.fromkeys(one[3] for one in found[_MOST_EXCLUDED - 1 :])
        why = "; ".join(words) if len(words) <= _MOST_WORDS else f"{len(words)} reasons"
        found[_MOST_EXCLUDED - 1 :] = [(rest[0][0], rest[-1][1], sum(one[2] for one in rest), why)]
    return tuple(Passed(Outcome.EXCLUDED.word, first, last, count, why) for first, last, count, why in found)


def _skipped(trigger: Trigger, until_ms: int) -> Iterator[Passed]:
    """
    Yield the occurrences of *trigger* until *until_ms* that were skipped by hand. Later ones can be taken back still: a
    later plan has them. advance.lua removes the same skips from the state, so each is recorded once.
    """
    for at_ms in trigger.spec.skipped:
        if at_ms <= until_ms and trigger.has(at_ms):
            yield Passed(Outcome.BY_HAND.word, at_ms, at_ms, 1)


def latest_due(trigger: Trigger, nominal_ms: int, now_ms: int, id: str) -> int:
    """Return the latest occurrence that is due by now, with its jitter; *nominal_ms* is due."""
    latest_ms = trigger.last_until(now_ms)
    if latest_ms is not None and latest_ms > nominal_ms and due_of(trigger, id, latest_ms) > now_ms:
        latest_ms = trigger.last_until(latest_ms - 1)
    return nominal_ms if latest_ms is None else max(latest_ms, nominal_ms)


def _each(
    trigger: Trigger, nominal_ms: int, latest_ms: int, now_ms: int, policy: Policy, id: str
) -> tuple[int | None, tuple[Passed, ...]]:
    """Return the oldest occurrence that may still fire, and the earlier ones: too old, or too many."""
    first_ms = nominal_ms
    passed: tuple[Passed, ...] = ()
    oldest_ms = now_ms - policy.patience_ms  # the oldest due time that may still fire
    if due_of(trigger, id, first_ms) < oldest_ms:
        if due_of(trigger, id, latest_ms) < oldest_ms:
            return None, _passed(Outcome.MISSED, trigger, nominal_ms, latest_ms, True)
        first_ms = _due_from(trigger, id, nominal_ms, oldest_ms, latest_ms)
        passed = _passed(Outcome.MISSED, trigger, nominal_ms, first_ms, False)
    surplus = 1 + trigger.count_between(first_ms, latest_ms) - policy.catch_up_limit
    if surplus > 0:
        kept_ms = nth_after(trigger, first_ms, surplus, latest_ms)
        passed += _passed(Outcome.LIMIT, trigger, first_ms, kept_ms, False)
        first_ms = kept_ms
    return first_ms, passed


def _due_from(trigger: Trigger, id: str, after_ms: int, oldest_ms: int, latest_ms: int) -> int:
    """Return the first occurrence after *after_ms* that is due at *oldest_ms* or later; *latest_ms* is."""
    before_ms = trigger.last_until(oldest_ms - 1)  # earlier ones were due before this one
    if before_ms is not None and before_ms > after_ms and due_of(trigger, id, before_ms) >= oldest_ms:
        return before_ms
    return trigger.next_after(oldest_ms - 1) or latest_ms


def _passed(why: Outcome, trigger: Trigger, first_ms: int, until_ms: int, with_it: bool) -> tuple[Passed, ...]:
    """Return the occurrences from *first_ms* to *until_ms*; *with_it*: including *until_ms*."""
    count = 1 + trigger.count_between(first_ms, until_ms) - (not with_it) if until_ms > first_ms else int(with_it)
    if count <= 0:
        return ()
    last_ms = until_ms if with_it else trigger.last_until(until_ms - 1)
    return (Passed(why.word, first_ms, first_ms if last_ms is None else max(last_ms, first_ms), count),)


def passed_text(passed: Iterable[Passed]) -> str:
    """Return ``<why>:<first ms>:<last ms>:<count>`` for each, some with ``:<note>``, by commas; - for none."""
    found = (
        f"{why}:{first_ms}:{last_ms}:{number}{note and ':'}{note.translate(_ENCODED)}"
        for why, first_ms, last_ms, number, note in passed
    )
    return ",".join(found) or "-"


def passed_in(words: str) -> tuple[Passed, ...]:
    """Parse ``<why>:<first ms>:<last ms>:<count>``, some with ``:<note>``, separated by commas."""
    if words == "-":
        return ()
    parts = (one.split(":") for one in words.split(","))
    return tuple(
        Passed(why, int(first), int(last), int(count), _decoded("".join(note)))
        for why, first, last, count, *note in parts
    )


def _decoded(note: str) -> str:
    for sign, code in reversed(_CODES.items()):
        note = note.replace(code, sign)
    return note
