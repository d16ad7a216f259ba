"""The forecast: what will fire, or in which minutes, of which queues and functions most of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from zsched.core.occurrences.forecast import By
from zsched.web.console.drawing import ShownTime
from zsched.web.console.view import View, Viewed
from zsched.web.reading import aware

router = APIRouter(include_in_schema=False)

_SPANS: Final = {"10m": "1m", "1h": "1m", "24h": "1m", "7d": "5m", "30d": "1h"}  # with the length of a heavy "minute"
_LISTED: Final = {"occurrence": 200, "minute": 10}  # rows; of queues and functions 100


@router.get("/forecast")
async def forecast(
    view: Viewed, to: str = "24h", by: str = "minute", match: str = "", tag: str = "", queue: str = "", func: str = ""
) -> Response:
    """
    Show each occurrence until *to*, or the heaviest minutes, queues or functions. With a time as *to* and a *from* of
    the query, these are the contents of a minute.
    """
    filters = {"match": match, "tag": tag, "queue": queue, "func": func}
    by = by or "occurrence"
    told = {"to": to, "by": by, "filters": filters, "spans": _SPANS, "keys": [one.value for one in By]}
    return view.later("forecast", lambda: _found(view, to, by, filters), **told)


async def _found(view: View, to: str, by: str, filters: Mapping[str, str]) -> dict[str, Any]:
    most, given = _LISTED.get(by, 100), {name: value for name, value in filters.items() if value}
    start, end = aware("from", view.request.query_params.get("from") or None), aware("to", to) if "T" in to else to
    asked: Any = given | ({} if by == "occurrence" else {"by": by, "suggest": start is None})
    if by == By.MINUTE.value and to in _SPANS:
        asked["bucket"] = _SPANS[to]
    found = await view.call.client.forecast(end, start, limit=most, **asked)  # type: ignore[arg-type]  # not None
    times = [ShownTime(one.peak_ms, one.peak_ms + found.bucket_ms).moved(0) for one in found.loads[:most]]
    whole = ShownTime(found.start_ms, found.end_ms).moved(0) if start else None
    return {"found": found, "loads": list(zip(found.loads, times, strict=False)), "whole": whole}
