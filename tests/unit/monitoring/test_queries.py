"""Grafana's dashboard, and the queries of panels and alerts: they match the metrics of daemon and web."""

import json
import re
from collections import defaultdict
from itertools import combinations
from typing import Any

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.prefix import RQ
from tests.unit.monitoring.shipped import asked, dashboard, panels, queries
from zsched import Client
from zsched.core.clock import SystemClock
from zsched.core.runs.run import RunStatus
from zsched.health.facts import DaemonHealth
from zsched.metrics.meter import DURATION_S, WAIT_S, DaemonMeter, Distribution, Names
from zsched.metrics.serving import CachedReader, DaemonCollector
from zsched.metrics.web_collector import WebCollector
from zsched.metrics.web_meter import WebMeter
from zsched.storage.archivers import Archivers, ArchiveState
from zsched.storage.connection import Link
from zsched.storage.keys import Keys
from zsched.storage.log import Log
from zsched.storage.reader import Reader
from zsched.storage.rqjob import Encoder

Labels = dict[str, set[str]]  # the values of each label

OF_TARGETS = {"namespace", "instance", "job"}  # labels that Prometheus adds
FREE = {"queue", "archive", "version"}  # labels with any values


@pytest.fixture
def exposed(redis_url: str, redis_client: redis.Redis) -> dict[str, Labels]:
    """Each sample that a daemon and a web expose, of a namespace with data of every kind."""
    keys, link = Keys("default"), Link.from_url(redis_url, 5.0)
    Client.from_url(redis_url).schedule("builtins.len", args=("a",), id="a", after=60)
    redis_client.sadd(f"{RQ}:queues", f"{RQ}:queue:email")
    redis_client.rpush(f"{RQ}:queue:email", "a job")
    last = Log(link, keys).last()
    audit = {"at": last.position.t_us // 1000, "checked": 1, "alarms": 0, "repaired": 0}
    about = {"host": "a", "path": "1.db", "audit": audit}
    Archivers(link, keys).report("some", last.position, ArchiveState.FOLLOWING, about)

    meter = DaemonMeter(keys.run_suffix, Names(), DaemonHealth(SystemClock()))
    for script in ("fire", "advance"):
        meter.ran(script, 1.0, 1)
    meter.wait_s["email"], meter.duration_s["email"] = Distribution(WAIT_S), Distribution(DURATION_S)
    meter.ended.update(("email", status.value) for status in RunStatus)
    meter.requeued.update(("email", status.value) for status in RunStatus)
    registry = CollectorRegistry()
    reader = CachedReader(Reader(link, keys, Encoder("pickle")), SystemClock())
    registry.register(DaemonCollector(meter, reader, Names(), {"version": "1.0", "rq": "2.12"}))
    web = WebMeter()
    web.answered("/api/v1/schedules", "GET", 503, 1.0)
    web.refused["redis-unavailable"] += 1
    registry.register(WebCollector(web))

    found = defaultdict[str, Labels](lambda: defaultdict(set))
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return dict(found)


def test_every_queried_metric_is_exposed(exposed: dict[str, Labels]) -> None:
    missing = [
        (place, one.metric) for place, expr in queries().items() for one in asked(expr) if one.metric not in exposed
    ]

    assert missing == []


def test_every_queried_label_and_value_is_exposed(exposed: dict[str, Labels]) -> None:
    wrong = [
        (place, one.metric, label, value)
        for place, expr in queries().items()
        for one in asked(expr)
        for label, values in one.matchers.items()
        if label not in OF_TARGETS
        for value in values
        if label not in FREE and value not in exposed[one.metric].get(label, ())
    ]

    assert wrong == []


def test_queries_group_by_labels_that_their_metrics_have(exposed: dict[str, Labels]) -> None:
    wrong = []

    for place, expr in queries().items():
        has = OF_TARGETS.union(*(exposed[one.metric] for one in asked(expr)))
        by = {label for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr) for label in labels.split(", ")}
        wrong += [(place, label) for label in by - has]

    assert wrong == []


def test_a_threshold_on_a_histogram_is_one_of_its_bounds(exposed: dict[str, Labels]) -> None:
    compared = [
        (place, metric, float(threshold))
        for place, expr in queries().items()
        for metric, threshold in re.findall(r"histogram_quantile\(.*(zsched_\w+_bucket).*\) > ([\d.]+)", expr)
    ]

    assert compared, "no alert compares a quantile"
    for place, metric, threshold in compared:
        bounds = sorted(float(bound) for bound in exposed[metric]["le"])
        assert threshold in bounds[:-2], (
            f"{place}: between two bounds a quantile is a guess, and the last one is the most"
        )


def test_a_legend_names_labels_that_its_query_leaves(exposed: dict[str, Labels]) -> None:
    wrong = []

    for panel in panels():
        for target in panel["targets"]:
            by = {label for labels in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in labels.split(", ")}
            wrong += [
                (panel["title"], label)
                for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
                if label not in (by or OF_TARGETS)
            ]

    assert wrong == []


def test_every_exposed_metric_is_shown_somewhere(exposed: dict[str, Labels]) -> None:
    shown = {re.sub(r"_bucket$", "", one.metric) for expr in queries().values() for one in asked(expr)}
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exposed if name.startswith("zsched_")}

    assert families - shown == set()


def test_the_variables_of_the_dashboard_query_exposed_labels(exposed: dict[str, Labels]) -> None:
    asked_for = [one for each in dashboard()["templating"]["list"] for one in asked(str(each.get("definition", "")))]

    assert len(asked_for) == 2
    assert {one.metric for one in asked_for} <= exposed.keys()


# -- the dashboard -----------------------------------------------------------------------------------


COLUMNS = 24
FROM_VARIABLE = {"type": "prometheus", "uid": "${datasource}"}


def spot(panel: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom."""
    at = panel["gridPos"]
    return at["x"], at["y"], at["x"] + at["w"], at["y"] + at["h"]


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    left, top, right, bottom = spot(one)
    other_left, other_top, other_right, other_bottom = spot(other)
    return left < other_right and other_left < right and top < other_bottom and other_top < bottom


def test_the_dashboard_can_be_imported_into_any_grafana() -> None:
    read = dashboard()

    assert "id" not in read  # a number of somebody's database
    assert read["schemaVersion"] >= 36  # Grafana 9: data sources by uid
    sources = [panel["datasource"] for panel in panels()]
    sources += [target["datasource"] for panel in panels() for target in panel["targets"]]
    sources += [each["datasource"] for each in read["templating"]["list"] if each["type"] == "query"]
    sources += [note["datasource"] for note in read["annotations"]["list"]]
    assert all(source == FROM_VARIABLE for source in sources)
    assert [] == [machine for machine in ("http://", "localhost") if machine in json.dumps(read)]


def test_the_dashboard_asks_for_source_namespace_and_daemon() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}

    assert ["datasource", "namespace", "instance"] == list(variables)
    assert ("datasource", "prometheus") == (variables["datasource"]["type"], variables["datasource"]["query"])
    assert '{namespace=~"$namespace"}' in variables["instance"]["definition"]


def test_the_dashboard_has_a_row_for_each_topic() -> None:
    rows = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"]

    assert ["Health", "Firing", "Runs", "Redis and archives", "HTTP API"] == rows


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_a_description_and_a_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    assert all("$namespace" in target["expr"] for target in panel["targets"])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_two_panels_never_share_an_id_a_title_or_a_spot() -> None:
    every = dashboard()["panels"]

    assert len({panel["id"] for panel in every}) == len(every)
    assert len({panel["title"] for panel in every}) == len(every)
    assert [] == [(one["title"], other["title"]) for one, other in combinations(every, 2) if overlap(one, other)]
    assert all(spot(panel)[2] <= COLUMNS for panel in every)
