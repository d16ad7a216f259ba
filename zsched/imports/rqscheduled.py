"""
RQ's own delayed jobs: those of ``enqueue_at`` and ``enqueue_in`` in ``rq:scheduled:<queue>``. They are moved.

The daemon pushes such jobs at their time anyway, wherever no scheduler of RQ does (``daemon/native``). Moved they get
what zsched's own have: the log, the archive, ``zsched why``, and life after a lost Redis.

Left where they are: what is due within ``SOON_S``, or has come near when its turn comes; runs that wait for another
attempt, RQ's or zsched's. RQ's scheduler takes nothing before its time, so the two never reach for the same job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zsched.imports.found import ImportSource, Item, Origin
from zsched.imports.jobs import RQJobs, not_before, status_of
from zsched.storage.connection import Link
from zsched.storage.registries import Registries

OWNER: Final = "rq-scheduled"
SOON_S: Final = 30  # from the reading on; what is due so soon is not tried
_MARGIN_MS: Final = 5000  # left when a job is moved; even without RQ's second far longer than the move takes


def read_rq_scheduled(link: Link, jobs: RQJobs, now_ms: int, queues: Collection[str] = ()) -> ImportSource:
    """Read what waits in *queues*, or in all that RQ knows, by the server's time *now_ms*."""
    source, soon, begun = ImportSource(OWNER, OWNER), 0, 0
    with link.wire() as wire:
        names = sorted(queues) or Registries(wire, jobs.rq).queues()
    for queue in names:
        waiting_key = jobs.rq.registry("scheduled", queue)
        flat = link.execute("ZRANGE", waiting_key, 0, -1, "WITHSCORES")
        due_s = {id.decode(errors="replace"): float(score) for id, score in zip(flat[::2], flat[1::2], strict=True)}
        later = {id: at_s for id, at_s in due_s.items() if at_s * 1000 > now_ms + SOON_S * 1000}
        soon += len(due_s) - len(later)
        for id, fields in jobs.read(later):
            if _has_begun(fields):
                begun += 1
                continue
            try:
                _refuse_others(fields)
                func, options = jobs.options(fields)
                options |= {"queue": queue, "at": not_before(later[id])}
            except ValueError as error:
                source.refuse(id, fields.get("description", b"").decode(errors="replace"), str(error))
                continue
            source.items.append(Item(id, id, func, options, Origin(waiting_key, id, _MARGIN_MS)))
    if soon:
        source.remarks.append(f"left to RQ, or to the daemon, as they are due within {SOON_S} s: {soon:,}")
    if begun:
        source.remarks.append(f"left where they are, as they are runs that wait for another attempt: {begun:,}")
    return source


def _has_begun(fields: Mapping[str, bytes]) -> bool:
    """Return True if a worker had the job before, or zsched pushed it."""
    return "started_at" in fields or any(name.startswith("zs") for name in fields)


def _refuse_others(fields: Mapping[str, bytes]) -> None:
    """Raises ValueError for a job that RQ would not push as waiting."""
    if fields and status_of(fields) != "scheduled":
        problem = f"RQ has it as {status_of(fields) or 'nothing'}, not as scheduled"
        raise ValueError(f"{problem}; leave it, or take it out of the registry")
