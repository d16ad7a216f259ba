"""Families of Prometheus, each made of all its values at once; names without their beginning, ``zsched_``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Sample

from zsched.metrics.meter import Distribution


def gauge(name: str, help: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(f"zsched_{name}", help, value)


def gauges(name: str, help: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    """Return a gauge with *labels*; *rows*: their values, and the gauge's."""
    family = GaugeMetricFamily(f"zsched_{name}", help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def counters(name: str, help: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    """Return a counter with *labels*; *rows* as in ``gauges``."""
    family = CounterMetricFamily(f"zsched_{name}", help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def histogram(name: str, help: str, distribution: Distribution) -> Metric:
    """Return a histogram without labels."""
    return histograms(name, help, [], [([], distribution)])


def histograms(name: str, help: str, labels: list[str], rows: Iterable[tuple[list[str], Distribution]]) -> Metric:
    """Return a histogram with *labels*; *rows* as in ``gauges``."""
    family = HistogramMetricFamily(f"zsched_{name}", help)
    for values, distribution in rows:
        family.samples += _samples(family.name, dict(zip(labels, values, strict=True)), distribution)
    return family


def _samples(name: str, labels: dict[str, str], distribution: Distribution) -> Iterator[Sample]:
    """Yield the samples of ``HistogramMetricFamily.add_metric``, in half of its time: 100 queues have 3,000 samples."""
    buckets, total = distribution.buckets(), distribution.total
    for bound, number in buckets:
        yield Sample(f"{name}_bucket", labels | {"le": bound}, number)
    yield Sample(f"{name}_count", labels, buckets[-1][1])
    yield Sample(f"{name}_sum", labels, total)
