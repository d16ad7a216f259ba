"""The image, the compose file and the example for Kubernetes, by their linters and by zsched's own settings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import PROJECT
from tests.faults.processes import ENDS_S
from zsched import __version__
from zsched.config.settings import load_settings

DEPLOY = PROJECT / "deploy"
DOCKERFILE, COMPOSE = DEPLOY / "docker" / "Dockerfile", DEPLOY / "docker" / "compose.yaml"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
BIN = Path(sys.executable).parent


def containers() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each container of zsched's image, by its name, with its variables."""
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        if service["image"].startswith("zsched:"):
            yield f"compose: {name}", service["environment"]
    documents = [one for file in KUBERNETES for one in yaml.safe_load_all(file.read_text())]
    shared = next(one["data"] for one in documents if one["kind"] == "ConfigMap")
    for one in documents:
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if container["image"].startswith("zsched:"):
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


def test_the_files_name_the_image_of_this_version() -> None:
    texts = [file.read_text() for file in (DOCKERFILE, COMPOSE, *KUBERNETES)]

    assert {__version__} == {version for text in texts for version in re.findall(r"zsched:(\d[\w.]*)", text)}


def test_the_image_is_built_from_files_that_are_not_ignored() -> None:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text()
    kept = {line[1:] for line in ignored.splitlines() if line[0] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)

    assert kept == {name for names in copied for name in names.split()}
    assert [] == [name for name in kept if not (PROJECT / name).exists()]
