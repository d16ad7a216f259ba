"""
The net effects of what people and programs asked for between two times, from the index of an archive.

Not guaranteed: all of them. The newest are looked at first, for a second. Options are compared of a few recurring
schedules.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Any, Final

from zsched.archive.history import History
from zsched.archive.index import asked_by
from zsched.archive.log_search import places
from zsched.archive.records import puts_of
from zsched.archive.schema import first_since
from zsched.core.clock import Clock, SystemClock
from zsched.core.log.kinds import parse
from zsched.core.log.lives import TermEntry
from zsched.core.log.shown import changes_or_problem
from zsched.core.occurrences.changes import Change
from zsched.core.occurrences.effects import Effect, effect_text, net
from zsched.core.occurrences.outcomes import What
from zsched.storage.comparing import net_difference

_LOOKED_FOR_MS: Final = 1000.0
_COMPARED: Final = 200  # recurring schedules: some 1 ms each
_NAMED: Final = 100  # schedules of an effect
_TERMS: Final = 20
_MOST: Final = 300  # effects


def effects_of(history: History, *, since_us: int, until_us: int, clock: Clock | None = None) -> dict[str, Any]:
    """
    Return the ``effects`` in [since_us, until_us), the newest first, and of ``reached_us`` the time of the oldest entry
    that was looked at, if there may be more. New leaders and calendars are effects without a schedule.
    """
    clock = clock or SystemClock()
    first_n, end_n = (first_since(history.db, us, history.last_n) for us in (since_us, until_us))
    asked, funcs, found = dict[str, list[Change]](), dict[str, str](), list[Effect]()
    until_ms = clock.monotonic_ms() + _LOOKED_FOR_MS
    terms, reached_us = (
        f"SELECT n FROM entry WHERE kind = '{TermEntry.kind}' AND n >= ? AND n < ? ORDER BY n DESC",
        None,
    )
    leaders = [n for (n,) in islice(history.db.execute(terms, (first_n, end_n)), _TERMS)]
    for n in chain(leaders, places(history, asked_by(None), first_n, end_n)):
        if (entry := history.entry(n)) is None:
            continue
        if clock.monotonic_ms() >= until_ms:
            reached_us = entry.position.t_us
            break
        (changes, problem), t_us = changes_or_problem(entry, history.run_suffix), entry.position.t_us
        if not changes:
            words = problem or parse(entry).sentence()
            found.append(Effect(words, entry.by.decode(errors="replace"), 1, t_us, t_us))
        elif changes[0].what is What.PUT and changes[0].run_id is not None:
            funcs[changes[0].entry] = parse(entry).facets().at(0).func
        for one in changes:
            if one.what is not What.SKIPPED:
                asked.setdefault(one.id, []).append(one)
    together, compared = dict[tuple[str, str], Effect](), 0
    for id, newest_first in asked.items():
        puts = [one.entry for one in newest_first if one.what is What.PUT]
        difference = f"put {funcs.get(puts[0], '')}".rstrip() if puts else ""
        compared += bool(puts) and puts[0] not in funcs
        if puts and puts[0] not in funcs and compared <= _COMPARED:
            difference = net_difference(puts_of(history, id, puts), puts)
        left = net(newest_first[::-1])
        words = ", ".join(difference if one.what is What.PUT else effect_text(one) for one in left)
        by = ", ".join(dict.fromkeys(one.by or "" for one in left))
        effect = Effect(words, by, 1, newest_first[-1].at_us, newest_first[0].at_us, (id,))
        known = together.get((words, by))
        together[words, by] = effect if known is None else known.also(effect, _NAMED)
    newest = sorted([*found, *together.values()], key=lambda one: one.last_us, reverse=True)
    if len(newest) > _MOST:
        reached_us = newest[_MOST - 1].last_us
    return {"effects": newest[:_MOST], "reached_us": reached_us}
