"""The measurements of ``zsched web``: what its middleware counts, and the labels of its metrics."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.core.clock import ManualClock
from zsched.metrics.web_collector import exposition
from zsched.metrics.web_meter import WebMeter
from zsched.web.app import PREFIX, make_api
from zsched.web.measuring import PROBES, Measured

ROUTE = SimpleNamespace(path_format="/schedules/{id}")
LATENCY_MS = 30.0


def answer(
    meter: WebMeter, *, status: int = 200, path: str = "/schedules/a", method: str = "GET", **found: Any
) -> None:
    """Let an application answer a request after 30 ms; *found*: what routing adds to the scope."""
    clock = ManualClock()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope.update(found)
        clock.advance(LATENCY_MS)
        await send({"type": "http.response.start", "status": status, "headers": []})
        clock.advance(LATENCY_MS)
        await send({"type": "http.response.body", "body": b"x"})

    run(Measured(app, meter, clock, PREFIX), path, method)


def run(app: Any, path: str = "/schedules/a", method: str = "GET") -> None:
    async def send(message: Any) -> None:
        """Send to nobody."""

    asyncio.run(app({"type": "http", "path": path, "method": method}, None, send))


API = "/api/v1/schedules"


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        ({"route": ROUTE}, ("/schedules/{id}", "GET", "2xx")),
        ({"route": ROUTE, "status": 204, "path": "/schedules/b"}, ("/schedules/{id}", "GET", "2xx")),
        ({"route": ROUTE, "status": 404}, ("/schedules/{id}", "GET", "4xx")),
        ({"route": ROUTE, "path": f"{API}/a"}, (f"{API}/{{id}}", "GET", "2xx")),
        (
            {"route": SimpleNamespace(path_format=f"{API}/{{id}}"), "path": f"{API}/a"},
            (f"{API}/{{id}}", "GET", "2xx"),
        ),
        ({"path": "/made/up", "status": 404}, ("other", "GET", "4xx")),  # a client's own words are no labels
        ({"path": "/made/up", "status": 405, "method": "BREW"}, ("other", "other", "4xx")),
        *(({"path": path, "status": 503}, None) for path in PROBES),
    ],
)
def test_a_request_counts_by_its_route_template(given: dict[str, Any], counted: tuple[str, str, str] | None) -> None:
    meter = WebMeter()

    answer(meter, **given)
    answer(meter, **given)

    assert ({counted: 2} if counted else {}) == dict(meter.requests)


def test_the_time_of_a_request_ends_with_the_beginning_of_its_answer() -> None:
    meter = WebMeter()

    answer(meter, route=ROUTE)

    assert LATENCY_MS / 1000 == pytest.approx(meter.request_s["/schedules/{id}", "GET"].total)


def test_an_exception_before_the_answer_counts_as_a_failure() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("on purpose")

    meter = WebMeter()
    with pytest.raises(ValueError, match="on purpose"):
        run(Measured(broken, meter, ManualClock(), PREFIX))

    assert {("other", "GET", "5xx"): 1} == dict(meter.requests)


def test_a_stream_counts_as_open_until_it_is_closed() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def read() -> tuple[int, int]:
        stream = meter.counted(parts())
        await anext(stream)
        during = meter.streams
        await stream.aclose()  # type: ignore[attr-defined]  # an asynchronous generator
        return during, meter.streams

    meter = WebMeter()
    assert (1, 0) == asyncio.run(read())


def test_the_page_has_a_line_for_each_series() -> None:
    meter = WebMeter()
    meter.answered("/schedules/{id}", "PUT", 201, 3.0)
    meter.refuse("wrong-token")

    page = exposition(meter)().decode().splitlines()

    assert 'zsched_web_requests_total{method="PUT",route="/schedules/{id}",status="2xx"} 1.0' in page
    assert 'zsched_web_request_seconds_bucket{le="0.005",method="PUT",route="/schedules/{id}"} 1.0' in page
    assert 'zsched_web_request_seconds_bucket{le="0.0025",method="PUT",route="/schedules/{id}"} 0.0' in page
    assert 'zsched_web_refused_total{reason="wrong-token"} 1.0' in page
    assert "zsched_web_event_streams 0.0" in page


def test_a_page_without_prometheus_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "zsched.metrics.web_collector")

    async def ask() -> httpx.Response:
        app = make_api(Settings(), AsyncLink.from_url("redis://127.0.0.1:1/0", 1.0))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.get("/metrics")

    found = asyncio.run(ask())

    assert (404, "this needs prometheus_client: pip install 'zsched[ops]'\n") == (found.status_code, found.text)
