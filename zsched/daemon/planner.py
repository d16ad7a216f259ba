"""
Plans the recurring schedules that a tick found due.

A rule without an anchor (such as cron) has the same plan at a nominal time for all schedules with that rule and the
same policies. So the plan is cached: the cost depends on the number of distinct rules, not of schedules. Jitter is
applied per schedule. A schedule with skips by hand has a plan of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from zsched.core.clock import LAST_MS
from zsched.core.occurrences.policy import plan
from zsched.core.options.checked import letters_in, read_policy
from zsched.core.options.choices import CatchUp
from zsched.core.record import skipped_in
from zsched.core.triggers.spec import NO_CALENDARS, Anchor, Calendars
from zsched.core.triggers.trigger import build, spec_of, with_calendars, with_skipped
from zsched.errors import UnknownZone
from zsched.storage.dispatch import DueRecurring, PlannedDue, WrittenPlan, advance_words

_policy = lru_cache(maxsize=1000)(read_policy)
_REMEMBERED = 100_000  # (rule, policies, nominal time); each is about 250 bytes


@dataclass(slots=True)
class Planned:
    """
    Plans; the schedules that cannot be planned, each with its reason; and those whose zone this machine lacks, each
    with the zone.
    """

    good: list[PlannedDue] = field(default_factory=list)
    lacking: list[tuple[DueRecurring, str]] = field(default_factory=list)
    bad: list[tuple[DueRecurring, bytes]] = field(default_factory=list)


class Planner:
    """
    Makes plans, with a cache; one per connection. *calendars* returns the present ones, a new value when they change;
    as new as it takes to have those in its argument, the texts of an ``exclude``.
    """

    def __init__(self, calendars: Callable[[Sequence[str]], Calendars] = lambda names: NO_CALENDARS) -> None:
        self._read_calendars, self._calendars = calendars, NO_CALENDARS
        self._shared: dict[tuple[bytes, bytes | None, bytes], WrittenPlan] = {}

    def plan(self, due: Iterable[DueRecurring], now_ms: int) -> Planned:
        """Plan each; one bad schedule never stops the others."""
        planned = Planned()
        if self._calendars is not (calendars := self._read_calendars(())):
            self._calendars = calendars
            self._shared.clear()
        for one in due:
            try:
                nominal, skipped = _nominal(one.progress)
                shared = None if skipped else self._shared.get((one.trigger, one.policy, nominal))
                if shared is None or not shared.from_ms <= now_ms <= shared.until_ms:
                    shared = self._plan(one, nominal, skipped, now_ms)
                planned.good.append((one, shared))
            except UnknownZone as error:
                planned.lacking.append((one, str(error.value)))
            except Exception as error:  # any error of a stored rule quarantines only that schedule
                reason = f"cannot be planned: {type(error).__name__}: {error}"[:300].replace("\n", " ")
                planned.bad.append((one, reason.encode(errors="backslashreplace")))
        return planned

    def _plan(self, due: DueRecurring, nominal: bytes, skipped: tuple[int, ...], now_ms: int) -> WrittenPlan:
        policy_text = (due.policy or b"").decode()
        rule, policy = spec_of(due.trigger), _policy(policy_text)
        spec = with_skipped(with_calendars(rule, partial(self._read_calendars, rule.exclude)), skipped)
        nominal_ms, anchor_ms = int(nominal), int(due.anchor_ms)
        if not (0 <= nominal_ms <= LAST_MS and 0 <= anchor_ms <= LAST_MS):  # a script would stop halfway
            raise ValueError("its nominal time or its anchor is not within the years 1970 to 9999")
        made = plan(build(spec, anchor_ms), nominal_ms, now_ms, policy, due.id.decode())
        from_ms = nominal_ms if made.fire_ms is None else made.fire_ms
        until_ms = from_ms + policy.patience_ms
        if made.next_ms is not None:
            until_ms = min(until_ms, made.next_ms - 1)
        words = advance_words(made, policy, letters_in(policy_text))
        shared = WrittenPlan(made, words, from_ms, until_ms, policy.overlap.has_chain)
        is_shared = spec.kind.anchor is Anchor.NOTHING and spec.count is None and not (spec.jitter_ms or skipped)
        if is_shared and made.fire_ms is not None and (policy.catch_up is not CatchUp.ALL or not made.passed):
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            self._shared[due.trigger, due.policy, nominal] = shared
        return shared


def _nominal(progress: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Return the nominal time in the text of lib/progress.lua, and what is skipped by hand. Raises ValueError."""
    words = progress.split(b" ")
    if len(words) != 4 or not all(words):  # advance.lua takes the four words apart
        raise ValueError("its progress is broken")
    return words[0], () if words[2] == b"-" else skipped_in(words[2].decode())
