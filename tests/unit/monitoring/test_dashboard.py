"""Grafana's dashboard: it can be imported anywhere, and each panel has a description."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from tests.unit.monitoring.ground import dashboard, panels

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


def test_the_dashboard_file_names_no_machine() -> None:
    text = json.dumps(dashboard())

    assert "http://" not in text
    assert "localhost" not in text
