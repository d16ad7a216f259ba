"""
Repairs in bulk: find the candidates, then change them portion by portion.

::

    filters ──► candidates: a list that stays ──► confirm ──► a portion ──► wait for the rate ──► … ──► Repaired
                                                                 └ one script, one log entry, an outcome for each

**Nothing is done twice.** A schedule that is cancelled, paused or resumed is no candidate any more, or needs no change.

Not guaranteed: that the candidates have not changed since they were found. Each is judged once more in its portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from zsched.core.arguments import flag
from zsched.core.clock import SystemClock
from zsched.core.listing import Filter, select
from zsched.core.pages import pages_of
from zsched.core.repair import CHANGED_PER_SECOND, PUSHED_PER_SECOND, IdOutcome, Rate, Repaired, Tally
from zsched.core.story import Source
from zsched.errors import InvalidSchedule, RedisUnavailable
from zsched.storage.reader import Reader

Act = Callable[[Sequence[str]], Mapping[str, IdOutcome]]  # changes some candidates in one step


class _Options(NamedTuple):
    """The options of one call, checked; the field names are those of ``RepairOptions``."""

    dry_run: bool = False
    limit: int | None = None
    per_second: int | None = None
    confirm: Callable[[Repaired], bool] | None = None
    on_progress: Callable[[int, int], None] | None = None

    @classmethod
    def taken(cls, given: dict[str, Any]) -> _Options:
        """Take the options out of *given*; the filters are left. Raises InvalidSchedule."""
        options = cls(**{name: given.pop(name) for name in cls._fields if name in given})
        flag("dry_run", options.dry_run)
        for name in ("limit", "per_second"):
            value = getattr(options, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidSchedule(name, value, "not a whole number above 0", "give one, or leave it out")
        return options


class Portions:
    """The repairs of one client."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._clock = reader, SystemClock()

    def change(self, act: Act, given: dict[str, Any], *, is_pushing: bool = False, **usual: Any) -> Repaired:
        """Change schedules by *act*. *usual*: filters that hold unless others are given."""
        options = _Options.taken(given)
        _require_one(given)
        found = select(Filter.of(limit=options.limit, **(usual | given)), self._reader)
        per_second = PUSHED_PER_SECOND if is_pushing else CHANGED_PER_SECOND
        return self._carry_out([schedule.id for schedule in found], act, options, per_second)

    # -- changes ----------------------------------------------------------------------------------

    def _carry_out(
        self, ids: Iterable[str], act: Act, options: _Options, per_second: int, source: Source | None = None
    ) -> Repaired:
        candidates = list(dict.fromkeys(ids))[: options.limit]
        tally, rate, total = Tally(candidates, source), Rate(options.per_second or per_second), len(candidates)
        plan = tally.result(is_dry_run=True)
        if options.dry_run or (candidates and options.confirm is not None and not options.confirm(plan)):
            return plan
        on_progress = options.on_progress or (lambda done, total: None)
        on_progress(0, total)
        began_ms = self._clock.monotonic_ms()
        for some in pages_of(candidates, rate.portion):
            time.sleep(max(began_ms + rate.due_ms(tally.done) - self._clock.monotonic_ms(), 0) / 1000)
            with _telling(tally.number, total):
                tally.add(act(some))
            on_progress(tally.number, total)
        return tally.result()


@contextmanager
def _telling(done: int, total: int) -> Iterator[None]:
    """Report a lost Redis with the number of candidates that were done before."""
    try:
        yield
    except RedisUnavailable as error:
        message = f"{error} ({done:,} of {total:,} were done before; repeating the call continues)"
        raise RedisUnavailable(message, may_have_been_applied=error.may_have_been_applied) from error


def _require_one(filters: Mapping[str, Any]) -> None:
    if all(value is None for value in filters.values()):
        raise InvalidSchedule("match", None, "no filter is given", 'give one, or match="*" for all')
