"""
Checks before a put: of the functions that a definition names by the patterns of ``[rq] allow_callables``, and of its
queue.

**Doubtful queues** are shared by urgent and bulk schedules, or misspelt. ``zsched add`` and ``zsched apply`` note them.
Priority decides the order of pushes. In the queue a run waits behind all that was pushed before, so an urgent one waits
behind a campaign. A run in a misspelt queue waits until somebody corrects it. Not guaranteed: only the next
``_LOOKED_AT`` schedules of a lane are compared, so that the look stays cheap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from zsched.client.client import Client
from zsched.core.model import Definition, Schedule
from zsched.core.options.allowed import is_allowed
from zsched.core.options.choices import Priority
from zsched.core.runs.job import CALLBACKS
from zsched.errors import InvalidSchedule
from zsched.storage.queues import similar
from zsched.storage.reader import Reader
from zsched.storage.rqoptions import plain

Prioritized: TypeAlias = Schedule | Definition

_LOOKED_AT: Final = 200
_OPPOSITE: Final = {Priority.HIGH: Priority.LOW, Priority.LOW: Priority.HIGH}


def doubtful_queues(client: Client, put: Iterable[Prioritized]) -> list[str]:
    """
    Return a text for each queue of *put* that urgent (high) and bulk (low) schedules share, among each other or with
    the next few hundred of each priority in Redis. And one for each that has no worker, and a name that is similar to
    one with workers.
    """
    given, heard = list(put), client._history.heard_queues()
    return [*_shared_queues(client._reader, given), *_misspelt_queues(heard or set(), given)]


def _misspelt_queues(heard: set[str], put: Iterable[Prioritized]) -> Iterator[str]:
    """Yield a text for each queue of *put* that may be misspelt; *heard*: those with workers."""
    for queue in sorted({one.queue for one in put} - heard):
        if meant := similar(queue, heard):
            yield f"no worker listens to queue {queue!r}; did you mean {meant!r}?"


def _shared_queues(reader: Reader, put: Iterable[Prioritized]) -> Iterator[str]:
    """Yield a text for each queue in which schedules of *put* share with each other, or with what Redis has."""
    found: dict[str, dict[Priority, str]] = {}
    for one in put:
        if one.priority in _OPPOSITE:
            found.setdefault(one.queue, {}).setdefault(one.priority, one.id)
    for lane, opposite in _OPPOSITE.items():
        lacking = {queue for queue, ids in found.items() if lane not in ids and opposite in ids}
        for held in reader.head_of(lane, _LOOKED_AT) if lacking else ():
            if held.queue in lacking:
                found[held.queue].setdefault(lane, held.id)
    for queue, ids in sorted(found.items()):
        if len(ids) == len(_OPPOSITE):
            yield (
                f"queue {queue!r} has urgent schedules (high: {ids[Priority.HIGH]}) and bulk ones (low: "
                f"{ids[Priority.LOW]}). Priority ends at the push: an urgent run waits behind the bulk runs in the "
                "queue. Give it a queue and workers of its own, or at_front"
            )


def functions_named(func: object, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the functions that a definition names, by option, without values that the client will refuse."""
    named = {"func": func, **{name: _path(options[name]) for name in CALLBACKS if name in options}}
    return {name: path for name, path in named.items() if isinstance(path, str)}


def check_allowed(patterns: Sequence[str], func: str | None, options: Mapping[str, Any]) -> None:
    """Check every named function against *patterns*, ``[rq] allow_callables``. Raises InvalidSchedule."""
    for name, path in functions_named(func, options).items():
        if not is_allowed(path, patterns):
            problem = f"[rq] allow_callables = {list(patterns)} does not allow it"
            raise InvalidSchedule(name, path, problem, "name an allowed function, or add a pattern to that setting")


def _path(callback: object) -> object:
    """Return the path that *callback* names: RQ's own class, a dict or a text."""
    named = plain(callback)
    return named.get("func") if isinstance(named, dict) else named
