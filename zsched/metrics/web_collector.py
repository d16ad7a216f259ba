"""Prometheus' metric families of one ``zsched web``. Needs prometheus_client, of the extra ``ops``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from zsched.metrics.families import counters, gauge, histograms
from zsched.metrics.web_meter import WebMeter


class WebCollector(Collector):
    """Collector of the metrics of one ``zsched web``."""

    def __init__(self, meter: WebMeter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        meter = self._meter
        help = "Requests that were answered, by template of the route and class of the status; without probes."
        rows = [([*labels], number) for labels, number in meter.requests.items()]
        yield counters("web_requests", help, ["route", "method", "status"], rows)
        help = "Time from a request to the beginning of its answer."
        times = [([*labels], each) for labels, each in meter.request_s.items()]
        yield histograms("web_request_seconds", help, ["route", "method"], times)
        help = "Requests that were answered with an error, by the end of its type, such as wrong-token."
        yield counters(
            "web_refused", help, ["reason"], [([reason], number) for reason, number in meter.refused.items()]
        )
        yield gauge("web_event_streams", "Open streams of events.", meter.streams)


def exposition(meter: WebMeter) -> Callable[[], bytes]:
    """Return a function that writes the page of *meter*, and of this process, for Prometheus."""
    registry = CollectorRegistry()
    registry.register(WebCollector(meter))
    ProcessCollector(registry=registry)  # seconds of processor, memory, open files
    return partial(generate_latest, registry)
