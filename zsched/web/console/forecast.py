"""The forecast: what will fire, or in which minutes, of which queues and functions most of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from zsched.core.occurrences.forecast import By
from zsched.web.console.drawing import ShownTime
from zsched.web.console.view import View, Viewed

router = APIRouter(include_in_schema=False)

_SPANS: Final = {"10m": "1m", "1h": "1m", "24h": "1m", "7d": "5m", "30d": "1h"}  # with the length of a heavy "minute"
_LISTED: Final = {"": 200, "minute": 10}  # rows; of queues and functions 100


@router.get("/forecast")
async def forecast(
    view: Viewed, to: str = "24h", by: str = "minute", match: str = "", tag: str = "", queue: str = ""
) -> Response:
    """Show each occurrence until *to*, or the heaviest minutes, queues or functions."""
    filters = {"match": match, "tag": tag, "queue": queue}
    told = {"to": to, "by": by, "filters": filters, "spans": _SPANS, "keys": [one.value for one in By]}
    return view.later("forecast", lambda: _found(view, to, by, filters), **told)


async def _found(view: View, to: str, by: str, filters: Mapping[str, str]) -> dict[str, Any]:
    most, given = _LISTED.get(by, 100), {name: value for name, value in filters.items() if value}
    asked: Any = given | ({"by": by, "suggest": True} if by else {})
    if by == By.MINUTE.value and to in _SPANS:
        asked["bucket"] = _SPANS[to]
    found = await view.call.client.forecast(to, limit=most, **asked)
    times = [ShownTime(one.peak_ms, one.peak_ms + found.bucket_ms).moved(0) for one in found.loads[:most]]
    return {"found": found, "loads": list(zip(found.loads, times, strict=False))}
