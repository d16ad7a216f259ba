"""
Families of Prometheus, each made of all its values at once; names without their beginning, ``zsched_``. And the page of
a process that has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from zsched.metrics.meter import Distribution

Value = float | Mapping[Any, float]  # the only value; or with labels, by the value of a label or by the values of all


def exposition(collector: Collector, archivist: Callable[[], int] | None = None) -> Callable[[], bytes]:
    """
    Return a function that writes the page of *collector* for Prometheus, and of this process, and of the one whose id
    *archivist* returns.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)  # seconds of processor, memory, open files
    if archivist is not None:
        ProcessCollector("zsched_archivist", archivist, registry=registry)
    # Always the plain format: OpenMetrics takes twice as long to write, and adds nothing for these metrics.
    return partial(generate_latest, registry)


def gauge(name: str, help: str, value: Value, labels: Sequence[str] = ()) -> Metric:
    """Return a gauge."""
    return _filled(GaugeMetricFamily(f"zsched_{name}", help, labels=labels), value)


def counter(name: str, help: str, value: Value, labels: Sequence[str] = ()) -> Metric:
    """Return a counter."""
    return _filled(CounterMetricFamily(f"zsched_{name}", help, labels=labels), value)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, value: Value) -> Metric:
    for values, each in _by_labels(value):
        family.add_metric(values, each)
    return family


def histogram(
    name: str, help: str, value: Distribution | Mapping[Any, Distribution], labels: Sequence[str] = ()
) -> Metric:
    """Return a histogram."""
    family = HistogramMetricFamily(f"zsched_{name}", help)
    for values, distribution in _by_labels(value):
        family.samples += _samples(family.name, dict(zip(labels, values, strict=True)), distribution)
    return family


def _by_labels(value: Any) -> Iterator[tuple[Sequence[str], Any]]:
    """Yield each value with the values of its labels. Another thread may add some meanwhile."""
    for key, each in dict(value if isinstance(value, Mapping) else {(): value}).items():
        yield (key,) if isinstance(key, str) else key, each


def _samples(name: str, labels: dict[str, str], distribution: Distribution) -> Iterator[Sample]:
    """Yield the samples of ``HistogramMetricFamily.add_metric``, in half of its time: 100 queues have 3,000 samples."""
    buckets, total = distribution.buckets(), distribution.total
    yield from (Sample(f"{name}_bucket", labels | {"le": bound}, number) for bound, number in buckets)
    yield Sample(f"{name}_count", labels, buckets[-1][1])
    yield Sample(f"{name}_sum", labels, total)
