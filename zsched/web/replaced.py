"""The reader of runs that were pushed later for others (``core.occurrences.replacements``), from the history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from zsched.aio.client import AsyncClient
from zsched.core.clock import from_ms
from zsched.core.occurrences.outcomes import What
from zsched.core.occurrences.replacements import READ, Replacements
from zsched.core.runs.run import Run


async def replaced_since(client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
    """Return the backfilled and retried runs since *ms*: of schedule *id*, or of all that *filters* find."""
    known = Replacements()
    for what in (What.RETRIED, What.ENQUEUED):
        await _add(known, client, what, id, from_ms(ms), **filters)
    return known


async def retries_of(client: AsyncClient, runs: Iterable[Run], id: str | None = None) -> Replacements:
    """Return the retries of *runs*, which are of schedule *id* or of any."""
    known = Replacements()
    if times := known.further_back(runs):
        await _add(known, client, What.RETRIED, id, *times)
    return known


async def _add(
    known: Replacements,
    client: AsyncClient,
    what: What,
    id: str | None,
    since: datetime,
    until: datetime | None = None,
    **filters: Any,
) -> None:
    async for one in client.iter_history(id, status=what, since=since, until=until, limit=READ, **filters):
        known.add(one)
