"""``/metrics``, ``/readyz`` of a running ``zsched web``."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.processes import eventually
from tests.integration.web.ground import Web
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.redis
Start = Callable[..., Web]
SCHEDULE, LIST = "/api/v1/schedules/{id}", "/api/v1/schedules"


def scraped(web: Web, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of *labels*."""
    text = web.get("/metrics").raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {tuple(each.labels[label] for label in labels): each.value for each in samples if each.name == name}


def test_requests_count_by_route_and_never_by_path(start_web: Start, redis_client: redis.Redis) -> None:
    web = start_web()
    with web.client() as http:
        for name in ("a", "b"):
            http.put(f"/schedules/{name}", json={"func": "app.x", "every": 60})
        http.get("/schedules/missing")
        http.get("/schedules")
        http.get("/made/up")

    counted = scraped(web, "zsched_web_requests_total", "route", "method", "status")
    timed = scraped(web, "zsched_web_request_seconds_count", "route", "method")

    assert {
        (SCHEDULE, "PUT", "2xx"): 2, (SCHEDULE, "GET", "4xx"): 1, (LIST, "GET", "2xx"): 1, ("other", "GET", "4xx"): 1,
    } == counted  # fmt: skip
    assert {(SCHEDULE, "PUT"): 2, (SCHEDULE, "GET"): 1, (LIST, "GET"): 1, ("other", "GET"): 1} == timed


def test_refused_requests_count_by_their_reason(start_web: Start, redis_client: redis.Redis) -> None:
    web = start_web()
    web.get(f"{LIST}")
    web.get(f"{LIST}", headers={"Authorization": "Bearer zs_made_up"})
    with web.client("viewer", "viewer") as viewer, web.client("shop", "scheduler", queues=("shop",)) as shop:
        viewer.put("/schedules/a", json={"func": "app.x", "every": 60})
        shop.put("/schedules/a", json={"func": "app.x", "every": 60, "queue": "other"})
        shop.put("/schedules/a", json={"func": "app.x", "every": "often", "queue": "shop"})
        shop.get("/schedules/a")

    reasons = scraped(web, "zsched_web_refused_total", "reason")

    assert {
        ("no-token",), ("wrong-token",), ("read-only",), ("outside-limits",), ("invalid-schedule",),
        ("schedule-not-found",),
    } == set(reasons)  # fmt: skip


def test_open_streams_are_counted(web: Web, http: httpx.Client) -> None:
    with http.stream("GET", "/events") as stream:
        assert 200 == stream.status_code, stream.read()
        lines = stream.iter_lines()
        next(lines)
        assert {(): 1} == scraped(web, "zsched_web_event_streams")

    eventually(lambda: scraped(web, "zsched_web_event_streams") == {(): 0})


def test_probes_need_no_token_and_do_not_count(web: Web) -> None:
    before = scraped(web, "zsched_web_requests_total", "route", "method", "status")

    answers = [web.get(f"/{probe}") for probe in ("healthz", "readyz", "metrics")]

    assert [200] * 3 == [each.status_code for each in answers]
    assert before == scraped(web, "zsched_web_requests_total", "route", "method", "status")


def test_a_readiness_probe_is_one_ping(start_web: Start, redis_client: redis.Redis) -> None:
    web = start_web()
    web.get("/readyz")  # a connection is there
    redis_client.config_resetstat()

    assert "ok\n" == web.get("/readyz").text

    called = {name.removeprefix("cmdstat_") for name in redis_client.info("commandstats")}
    assert {"ping"} == called - {"config|resetstat", "config", "info"}


def test_a_web_without_redis_is_alive_and_not_ready(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedRedis() as server:
        web = Web(guard, server.url, tmp_path_factory.mktemp("web"))
        assert 200 == web.get("/readyz").status_code

        server.stop()
        away = web.get("/readyz")
        assert (503, 200) == (away.status_code, web.get("/healthz").status_code)
        assert "cannot reach Redis" in away.text

        server.start()
        eventually(lambda: web.get("/readyz").status_code == 200)
