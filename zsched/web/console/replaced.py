"""The reader of runs that were pushed later for others (``core.replacements``), from the history."""

from __future__ import annotations

from typing import Any

from zsched.aio.client import AsyncClient
from zsched.core.changes import What
from zsched.core.clock import from_ms
from zsched.core.replacements import READ, Replacements


async def replaced_since(client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
    """Return the backfilled and retried runs since *ms*: of schedule *id*, or of all that *filters* find."""
    found = await retried_since(client, ms, id, **filters)
    return await _added(found, client, What.ENQUEUED, ms, id, **filters)


async def retried_since(client: AsyncClient, ms: int, id: str | None = None, **filters: Any) -> Replacements:
    """Return only the retried runs, which is quicker."""
    return await _added(Replacements(), client, What.RETRIED, ms, id, **filters)


async def _added(
    known: Replacements, client: AsyncClient, what: What, ms: int, id: str | None, **filters: Any
) -> Replacements:
    async for one in client.iter_history(id, status=what, since=from_ms(ms), limit=READ, **filters):
        known.add(one)
    return known
