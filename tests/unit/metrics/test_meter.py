"""Meters: labels, distributions, the metrics of a scrape, and the measurements of ``zsched web``."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from zsched.aio.link import AsyncLink
from zsched.config.settings import Settings
from zsched.core.clock import ManualClock
from zsched.core.options.choices import Priority
from zsched.health.facts import DaemonHealth
from zsched.metrics.families import exposition
from zsched.metrics.meter import OTHER, DaemonMeter, Distribution, Names
from zsched.metrics.serving import CachedReader, DaemonCollector, RedisReading
from zsched.metrics.web_collector import WebCollector
from zsched.metrics.web_meter import WebMeter
from zsched.storage.overview import Overview
from zsched.web.app import PREFIX, make_api
from zsched.web.middleware import PROBES, Recorded


@pytest.mark.parametrize(
    ("most", "names", "labels"),
    [
        (2, ["a", "b", "c", "a"], ["a", "b", OTHER, "a"]),
        (1, ["other", "unknown", "a"], ["other", "unknown", "a"]),  # which use up no label
        (9, ["\ud800", "x" * 1000], ["\\ud800", "x" * 200]),
    ],
)
def test_the_first_names_are_labels_and_later_ones_become_other(most: int, names: list[str], labels: list[str]) -> None:
    found = Names(most)

    assert labels == [found.of(name) for name in names]


BOUNDS = (0.1, 1, 10)


def test_a_value_is_in_the_first_bucket_that_it_does_not_exceed() -> None:
    distribution = Distribution(BOUNDS)

    for value in (0.05, 0.1, 0.11, 10, 11):
        distribution.observe(value)

    assert [("0.1", 2), ("1.0", 3), ("10.0", 4), ("+Inf", 5)] == distribution.buckets()
    assert 21.26 == pytest.approx(distribution.total)


@given(some.lists(some.one_of(some.floats(-1, 20), some.sampled_from(BOUNDS))))
def test_many_values_at_once_count_like_single_values(values: list[float]) -> None:
    one_by_one, at_once = Distribution(BOUNDS), Distribution(BOUNDS)

    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(list(values))

    assert one_by_one.buckets() == at_once.buckets()
    assert one_by_one.total == pytest.approx(at_once.total)


NOW_MS = 1_800_000_000_000
NONE = dict.fromkeys(Priority, 0)
NOBODY = Overview(
    now_ms=NOW_MS, waiting=NONE, overdue=NONE, oldest_due_ms=None, recurring=0, paused=0, quarantined=0, leader=None,
    lease_ms=None, led_since_ms=None, epoch=7, log_length=0, log_last=None, hold_ms=0, archives=[], held_back=[],
)  # fmt: skip


class Seen(CachedReader):
    """A reader with a given *overview*."""

    def __init__(self, overview: Overview) -> None:
        self._seen = RedisReading(overview, {}, {}, {})

    def read(self) -> RedisReading:
        return self._seen


def scraped(**changes: Any) -> dict[str, dict[str, float]]:
    """Return the values by name and by label, of a standby that sees NOBODY with *changes*."""
    meter = DaemonMeter("", Names(), DaemonHealth(ManualClock()))
    found: dict[str, dict[str, float]] = {}
    for family in DaemonCollector(meter, Seen(replace(NOBODY, **changes)), Names(), {}).collect():
        for sample in family.samples:
            found.setdefault(sample.name, {})[" ".join(sample.labels.values())] = sample.value
    return found


@pytest.mark.parametrize(("leader", "expected"), [(None, 0), ("another", 1)])
def test_a_standby_reports_whether_there_is_a_leader(leader: str | None, expected: int) -> None:
    told = scraped(leader=leader)

    assert {"": expected} == told["zsched_led"]
    assert {"": 0} == told["zsched_leader"]


def test_an_overdue_schedule_counts_as_waiting() -> None:
    told = scraped(waiting=NONE | {Priority.LOW: 5, Priority.HIGH: 1}, overdue=NONE | {Priority.LOW: 2})

    assert {"high": 1, "normal": 0, "low": 5} == told["zsched_waiting"]
    assert {"high": 0, "normal": 0, "low": 2} == told["zsched_overdue"]
    assert 6 == told["zsched_schedules"]["waiting"]


def test_the_age_of_the_oldest_due_run_is_never_negative() -> None:
    told = [scraped(oldest_due_ms=due_ms) for due_ms in (NOW_MS - 1500, NOW_MS + 1)]

    assert [1.5, 0] == [page["zsched_oldest_due_age_seconds"][""] for page in told]


def test_a_daemon_reports_the_number_of_its_failing_threads_and_chores() -> None:
    health = DaemonHealth(ManualClock())
    health.failing |= {"thread waker": "'a bug'", "chore auditor": "'a bug'"}
    meter = DaemonMeter("", Names(), health)

    families = DaemonCollector(meter, Seen(NOBODY), Names(), {}).collect()

    assert [2] == [sample.value for family in families for sample in family.samples if sample.name == "zsched_failing"]


# -- zsched web --------------------------------------------------------------------------------------


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

    run(Recorded(app, meter, clock, PREFIX), path, method)


def run(app: Any, path: str = "/schedules/a", method: str = "GET") -> None:
    async def send(message: Any) -> None:
        """Send to nobody."""

    asyncio.run(app({"type": "http", "path": path, "method": method, "headers": []}, None, send))


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


def test_request_time_stops_at_the_first_response_byte() -> None:
    meter = WebMeter()

    answer(meter, route=ROUTE)

    assert LATENCY_MS / 1000 == pytest.approx(meter.request_s["/schedules/{id}", "GET"].total)


def test_an_exception_before_the_answer_counts_as_a_failure() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("on purpose")

    meter = WebMeter()
    with pytest.raises(ValueError, match="on purpose"):
        run(Recorded(broken, meter, ManualClock(), PREFIX))

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
    meter.refused["wrong-token"] += 1

    page = exposition(WebCollector(meter))().decode().splitlines()

    assert 'zsched_web_requests_total{method="PUT",route="/schedules/{id}",status="2xx"} 1.0' in page
    assert 'zsched_web_request_seconds_bucket{le="0.005",method="PUT",route="/schedules/{id}"} 1.0' in page
    assert 'zsched_web_request_seconds_bucket{le="0.0025",method="PUT",route="/schedules/{id}"} 0.0' in page
    assert 'zsched_web_refused_total{reason="wrong-token"} 1.0' in page
    assert "zsched_web_event_streams 0.0" in page


def test_a_page_without_prometheus_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "zsched.metrics.families")

    async def ask() -> httpx.Response:
        app = make_api(Settings(), AsyncLink.from_url("redis://127.0.0.1:1/0", 1.0))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.get("/metrics")

    found = asyncio.run(ask())

    told = "this page needs prometheus_client, which is not installed: pip install 'zsched[ops]'\n"
    assert (404, told) == (found.status_code, found.text)
