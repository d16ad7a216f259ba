"""The files for Prometheus and Grafana, read for tests: rules, the stories that prove them, panels, their queries."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CHECKOUT = Path(__file__).parents[3]
PROMETHEUS = CHECKOUT / "deploy" / "prometheus"
DASHBOARD = CHECKOUT / "deploy" / "grafana" / "zsched.json"
RUNBOOK = CHECKOUT / "docs" / "reference" / "runbook.md"

_NAMED = re.compile(r"([a-z_:]*zsched_[a-z0-9_:]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_RECORDED = re.compile(r"^[a-z_]+:(zsched_[a-z_]+):(\w+)$")  # labels:metric:what was computed of it


class Asked(NamedTuple):
    """A metric in a query, and the values of its labels."""

    metric: str
    matchers: dict[str, list[str]]


@cache
def rules() -> list[dict[str, Any]]:
    """Return all rules of alerts.yml, in order."""
    groups = _yaml("alerts.yml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts, by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def stories() -> list[dict[str, Any]]:
    """Return the unit tests of alerts.yml."""
    tests: list[dict[str, Any]] = _yaml("alerts_test.yml")["tests"]
    return tests


def scrape() -> dict[str, Any]:
    """Return the example of a configuration of Prometheus."""
    return _yaml("prometheus.yml")


@cache
def dashboard() -> dict[str, Any]:
    """Return Grafana's dashboard."""
    read: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return read


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the rows' headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> dict[str, str]:
    """Return all shipped PromQL, by its place."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    for panel in panels():
        found |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return found | {note["name"] + " (annotation)": note["expr"] for note in dashboard()["annotations"]["list"]}


def asked(expr: str) -> Iterator[Asked]:
    """Yield the metrics of zsched in *expr*; for a recorded rule, the metric that it is computed from."""
    for name, braces in _NAMED.findall(expr):
        recorded = _RECORDED.match(name)
        if recorded:
            name = f"{recorded[1]}_total" if recorded[2].startswith("increase") else recorded[1]
        yield Asked(name, _matchers(braces))


def fired(story: dict[str, Any]) -> Iterator[dict[str, dict[str, str]]]:
    """Yield the expected alerts of each moment at which *story* checks all alerts: by name, with their labels."""
    for case in story["promql_expr_test"]:
        samples = [_matchers(sample["labels"]) for sample in case.get("exp_samples", [])]
        labels = [{name: values[0] for name, values in sample.items()} for sample in samples]
        yield {each["alertname"]: each for each in labels}


def _matchers(braces: str) -> dict[str, list[str]]:
    return {label: value.split("|") for label, value in _MATCHER.findall(braces)}


def _yaml(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((PROMETHEUS / name).read_text())
    return read
