"""The alerts: their required parts, the proof of each, the check by promtool, and their paragraphs in the runbook."""

import re
import shlex
import shutil
import subprocess
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.unit.monitoring.shipped import CHECKOUT, PROMETHEUS, RUNBOOK, alerts, fired, queries, rules, scrape, stories
from zsched.cli import program
from zsched.cli.program import LazyCommand
from zsched.health.facts import HealthCheck
from zsched.health.verdict import CHECKS
from zsched.metrics.meter import LABELS

EVERY = sorted(alerts())
NOT_OF_ZSCHED = {"up"}


def promtool(*arguments: str | Path) -> str:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not on PATH: it is in Debian's package prometheus")
    done = subprocess.run([tool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_the_rules_and_the_example() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", "alerts.yml")
    assert "1 rule files found" in promtool("check", "config", "prometheus.yml")


def test_every_story_ends_with_its_expected_alerts() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


def test_the_queries_of_the_dashboard_are_promql(tmp_path: Path) -> None:
    variables = {"$__rate_interval": "1m", "$namespace": "default", "$instance": ".*"}
    file, recorded = tmp_path / "panels.yml", []
    for number, expr in enumerate(queries().values()):
        for variable, value in variables.items():
            expr = expr.replace(variable, value)
        recorded.append({"record": f"panel:{number}", "expr": expr})
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))

    said = promtool("check", "rules", file)

    assert f"{len(recorded)} rules found" in said


@pytest.mark.parametrize("name", EVERY)
def test_an_alert_has_a_severity_a_summary_and_a_link_to_the_runbook(name: str) -> None:
    rule = alerts()[name]

    assert rule["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description", "runbook"} == rule["annotations"].keys()
    assert rule["annotations"]["summary"].startswith("{{ $labels.namespace }}: ")
    assert f"docs/reference/runbook.md#{name.lower()}" == rule["annotations"]["runbook"]


@pytest.mark.parametrize("check", [check for check in CHECKS if check.alert], ids=lambda check: check.name)
def test_the_alert_of_a_health_check_has_the_words_of_the_check(check: HealthCheck[Any]) -> None:
    summaries = [rule["annotations"]["summary"] for rule in alerts().values()]

    assert 1 == sum(check.alert in summary for summary in summaries)


@pytest.mark.parametrize("name", EVERY)
def test_an_alert_is_proven_to_fire_and_not_to_fire_with_the_labels_that_it_names(name: str) -> None:
    texts = " ".join(alerts()[name]["annotations"].values())
    told = [[now.get(name) for now in fired(story)] for story in stories()]

    assert any(None in moments and any(moments) for moments in told), f"no story of {name} has both"
    has = {label for moments in told for labels in moments for label in labels or ()}
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= has


def test_the_documents_name_no_missing_alert() -> None:
    told = {name for story in stories() for now in fired(story) for name in now}
    told |= {case["alertname"] for story in stories() for case in story.get("alert_rule_test", [])}

    assert told == set(EVERY)


def test_every_threshold_has_its_reason() -> None:
    text = (PROMETHEUS / "alerts.yml").read_text()
    waits = [name for name, rule in alerts().items() if re.search(r"[<>]=? *[\d.]*[1-9]", rule["expr"])]

    assert waits
    for name in waits:
        before = text.split(f"      - alert: {name}\n")[0].rstrip("\n").rsplit("\n", 1)[1]
        assert before.startswith("      # "), f"{name}: why this number?"


def test_the_example_scrapes_the_jobs_that_the_alerts_name() -> None:
    jobs = {job for rule in rules() for job in re.findall(r'up\{job="([\w-]+)"\}', rule["expr"])}

    assert jobs == {job["job_name"] for job in scrape()["scrape_configs"]}
    assert all("namespace" in job["static_configs"][0]["labels"] for job in scrape()["scrape_configs"])
    assert scrape()["rule_files"] == ["alerts.yml"]


# -- the runbook -------------------------------------------------------------------------------------


TEXT = RUNBOOK.read_text()
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)\n(?=\n#|\Z)", TEXT, re.MULTILINE | re.DOTALL))
QUOTED = [re.sub(r"\s+", " ", quoted) for quoted in re.findall(r"`([^`]+)`", TEXT)]
COMMANDS = sorted({quoted for quoted in QUOTED if quoted.startswith("zsched ")})
WORDS = sorted({quoted for quoted in QUOTED if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", quoted)})


def sources() -> str:
    """Return all code and all settings as text."""
    files = [*CHECKOUT.joinpath("zsched").rglob("*.py"), *CHECKOUT.joinpath("zsched").rglob("*.lua")]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("name", sorted(alerts()))
def test_an_alert_has_a_paragraph_with_meaning_look_and_remedy(name: str) -> None:
    section = SECTIONS[name]

    assert "\n\n" not in section  # one paragraph: it is read at night
    assert section.startswith(f"*{alerts()[name]['labels']['severity'].capitalize()}.* **Means:** ")
    assert re.search(r"\*\*Look:\*\*.*\*\*Do:\*\*|\*\*Look\s+and\s+do:\*\*", section, re.DOTALL)


def test_the_runbook_has_exactly_a_paragraph_per_existing_alert() -> None:
    assert set(SECTIONS) == set(alerts())
    assert set(re.findall(r"\bZsched[A-Z]\w+", TEXT)) <= set(alerts())


# What is watched, and an alert that watches it.
WATCHED = {
    "evaluation lag": "ZschedEvaluationLag",
    "missed count": "ZschedOccurrencesMissed",
    "double fires": "ZschedDuplicateSuppressed",
    "failed share": "ZschedRunsFail",
    "leader flaps": "ZschedLeaderFlaps",
    "duration": "ZschedRunsNearTimeout",
    "queue depth": "ZschedQueueDepth",
}


def test_every_row_of_the_requirement_has_alerts() -> None:
    assert set() == set(WATCHED.values()) - set(alerts())


def _command(name: str, group: click.Group) -> click.Command:
    found = group.commands[name]
    return found.load() if isinstance(found, LazyCommand) else found


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_of_the_runbook_can_be_typed(text: str) -> None:
    name, *rest = shlex.split(re.sub(r"[\[\]…]", "", text))[1:]
    command = _command(name, program)
    if isinstance(command, click.Group):
        command = _command(rest.pop(0), command)

    options = {option for parameter in command.params for option in parameter.opts}
    given = {word for word in takewhile(lambda word: word != "|", rest) if re.match(r"-\w|--\w", word)}
    assert given <= options
    values = {"--status": "status", "--state": "state"}
    for option, value in pairwise(rest):
        if option in values:
            [choice] = [parameter.type for parameter in command.params if option in parameter.opts]
            assert isinstance(choice, click.Choice)
            assert value in choice.choices


def test_every_event_outcome_and_setting_in_the_runbook_exists() -> None:
    code = sources() + " ".join(LABELS)

    assert WORDS
    assert [] == [word for word in WORDS if not re.search(rf"\b{word}\b", code)]
