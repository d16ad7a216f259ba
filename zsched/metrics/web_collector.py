"""Prometheus' metric families of one ``zsched web``. Needs prometheus_client, of the extra ``ops``."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from zsched.metrics.families import counter, gauge, histogram
from zsched.metrics.web_meter import WebMeter


class WebCollector(Collector):
    """Collector of the metrics of one ``zsched web``."""

    def __init__(self, meter: WebMeter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        meter = self._meter
        help = "Requests that were answered, by template of the route and class of the status; without probes."
        yield counter("web_requests", help, meter.requests, ["route", "method", "status"])
        help = "Time from a request to the beginning of its answer."
        yield histogram("web_request_seconds", help, meter.request_s, ["route", "method"])
        help = "Requests that were answered with an error, by the end of its type, such as wrong-token."
        yield counter("web_refused", help, meter.refused, ["reason"])
        yield gauge("web_event_streams", "Open streams of events.", meter.streams)
