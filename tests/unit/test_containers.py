"""The image, the compose file and the example for Kubernetes, by their linters and by zsched's own settings."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import PROJECT
from tests.waiting import ENDS_S
from zsched import __version__
from zsched.config.settings import load_settings
from zsched.core.clock import SystemClock
from zsched.daemon.supervisor import Supervisor

DEPLOY = PROJECT / "deploy"
DOCKERFILE, COMPOSE = DEPLOY / "docker" / "Dockerfile", DEPLOY / "docker" / "compose.yaml"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
BIN = Path(sys.executable).parent


def objects() -> list[Any]:
    """Return the objects of Kubernetes."""
    return [one for file in KUBERNETES for one in yaml.safe_load_all(file.read_text())]


def of_kubernetes() -> Iterator[Any]:
    """Yield each container of zsched's image there."""
    for one in objects():
        found = one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        yield from (container for container in found if container["image"].startswith("zsched:"))


def containers() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each container of zsched's image, by its name, with its variables."""
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        if service["image"].startswith("zsched:"):
            yield f"compose: {name}", service["environment"]
    shared = next(one["data"] for one in objects() if one["kind"] == "ConfigMap")
    for container in of_kubernetes():
        own = {each["name"]: each.get("value", "redis://redis:6379/0") for each in container["env"]}
        yield f"kubernetes: {container['name']}", shared | own


LINTS = {
    "image": ["hadolint", DOCKERFILE],
    "compose": ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
    # KEDA's object has no schema there
    **{file.stem: ["kubernetes-validate", "--strict", "--quiet", file] for file in KUBERNETES},
}


@pytest.mark.parametrize("command", LINTS.values(), ids=LINTS)
def test_the_image_the_compose_file_and_the_objects_of_kubernetes_pass_their_linters(command: list[Any]) -> None:
    program, *arguments = command
    done = subprocess.run(
        [BIN / program, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=ENDS_S
    )

    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("variables", [pytest.param(variables, id=name) for name, variables in containers()])
def test_a_container_has_only_settings_that_zsched_knows(variables: dict[str, str]) -> None:
    image = dict(re.findall(r"(ZSCHED_\w+)=(\S+)", DOCKERFILE.read_text()))

    settings = load_settings(env=image | variables)

    assert "json" == settings.rq.serializer or "RQ_REDIS_URL" in variables
    assert "/var/lib/zsched/archive.db" == settings.archive.path


def probes() -> dict[str, list[str]]:
    """Return the commands that decide whether a container lives, by file and name."""
    [check] = re.findall(r"(?s)^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE.read_text(), re.MULTILINE)
    found = {one["name"]: one["livenessProbe"]["exec"]["command"] for one in of_kubernetes()}
    return {"image": json.loads(check), **found}


@pytest.mark.parametrize(("age_s", "code"), [(0, 0), (50, 0), (70, 1), (None, 1)])
def test_the_probes_of_containers_look_only_at_the_age_of_the_file_that_beats_touch(
    tmp_path: Path, age_s: int | None, code: int
) -> None:
    file = tmp_path / "alive"
    if age_s is not None:
        Supervisor.from_environment({"ZSCHED_ALIVE_FILE": str(file), "WATCHDOG_USEC": "60000000"}, SystemClock()).beat()
        at_s = file.stat().st_mtime - age_s
        os.utime(file, (at_s, at_s))
    env = os.environ | {"ZSCHED_ALIVE_FILE": str(file)}

    found = {name: subprocess.run(command, env=env, check=False).returncode for name, command in probes().items()}

    assert dict.fromkeys(("image", "daemon", "web"), code) == found


def test_the_file_that_beats_touch_is_where_containers_may_write() -> None:
    image = dict(re.findall(r"(\w+)=(\S+)", DOCKERFILE.read_text()))
    services = [one for one in yaml.safe_load(COMPOSE.read_text())["services"].values() if "tmpfs" in one]
    mounts = [{mount["mountPath"] for mount in one["volumeMounts"]} for one in of_kubernetes()]

    assert "/tmp" == str(Path(image["ZSCHED_ALIVE_FILE"]).parent)
    assert [["/tmp"]] * 4 == [one["tmpfs"] for one in services]
    assert all("/tmp" in each for each in mounts)
    assert "60000000" == image["WATCHDOG_USEC"]


def test_only_the_namespace_of_prometheus_reaches_the_port_of_metrics() -> None:
    documents = objects()
    [policy] = [one["spec"] for one in documents if one["kind"] == "NetworkPolicy"]
    daemons = next(one["spec"]["template"] for one in documents if one["kind"] == "StatefulSet")

    assert daemons["metadata"]["labels"] == policy["podSelector"]["matchLabels"]
    assert ["Ingress"] == policy["policyTypes"]
    [rule] = policy["ingress"]
    assert [{"port": "metrics"}] == rule["ports"]
    assert [["namespaceSelector"]] == [list(each) for each in rule["from"]]


def test_the_files_name_the_image_of_this_version() -> None:
    texts = [file.read_text() for file in (DOCKERFILE, COMPOSE, *KUBERNETES)]

    assert {__version__} == {version for text in texts for version in re.findall(r"zsched:(\d[\w.]*)", text)}


def test_the_image_is_built_from_files_that_are_not_ignored() -> None:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text()
    kept = {line[1:] for line in ignored.splitlines() if line[0] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)

    assert kept == {name for names in copied for name in names.split()}
    assert [] == [name for name in kept if not (PROJECT / name).exists()]
