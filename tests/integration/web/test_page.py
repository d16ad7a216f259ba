"""The page docs/http.md: its tutorial answers as shown, and its tables are complete."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import redis

from tests.documents import PROJECT, program, programs
from tests.faults.processes import eventually
from tests.faults.threads import DaemonThread, know
from tests.integration.web.ground import Web
from tests.integration.web.shell import CUT, Shell, environment, is_as_shown, steps_of
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.web.problems import _STATUS, kind_of

pytestmark = pytest.mark.once
PAGE = "docs/http.md"
TEXT = (PROJECT / PAGE).read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)}
BATCH = re.compile(r"^```json\n(\{\"id\".*?)^```", re.DOTALL | re.MULTILINE)
PROBLEM = re.compile(r"^```json\n(\{\"type\".*?)^```", re.DOTALL | re.MULTILINE)
RESOURCE = re.compile(r"^\| `(GET|PUT|PATCH|POST|DELETE) (/\S+)` \| .* \| (\w+) \|$", re.MULTILINE)
RAISED = re.compile(r"Problem\(\s*(\d{3}),\s*\"([a-z-]+)\"")
LIMITED = {
    "`page_size` of schedules": ("/schedules", "page_size"), "`page_size` of runs": ("/runs", "page_size"),
    "`limit` of the log": ("/log", "limit"),
    "`page_size` and `coming` of a schedule's occurrences": ("/schedules/{id}/occurrences", "coming"),
}  # fmt: skip
needs_programs = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq on PATH")


@needs_programs
def test_the_commands_of_the_tutorial_answer_as_the_page_shows(
    start_web: Callable[..., Web], guard: Guard, tmp_path: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    web = start_web(ZSCHED_RQ_ALLOW_CALLABLES="tasks.*")
    lines = program(PAGE, "env.sh").replace(". .venv/bin/activate\n", "")
    lines = lines.replace("redis://localhost:6379/0", redis_url).replace("http://127.0.0.1:9180", web.url)
    [rows] = BATCH.findall(TEXT)
    (tmp_path / "env.sh").write_text(lines)
    (tmp_path / "tasks.py").write_text(programs(PAGE)["tasks.py"])
    (tmp_path / "reminders.ndjson").write_text(rows)
    stream, expected = tmp_path / "stream", ""
    with (tmp_path / "worker.log").open("wb") as log:
        command = ["bash", "-c", ". ./env.sh && exec rq worker shop-mail"]
        guard.spawn(command, stdout=log, stderr=log, cwd=tmp_path, env=environment())

    with DaemonThread(redis_url):
        terminal = Shell(guard, tmp_path)
        for command, shown in steps_of(SECTIONS["Tutorial"]):
            if not command:
                expected = f"{expected}{shown}\n\n{CUT}"
            elif "/events" in command:
                expected = shown
                with stream.open("wb") as file:
                    following = ["bash", "-c", f". ./env.sh\n{command}"]
                    guard.spawn(following, stdout=file, cwd=tmp_path, env=environment())
                eventually(lambda shown=shown: is_as_shown(stream.read_text().strip() + "\n\n", shown))
            elif "$(" not in command and " -X " not in command and " -d " not in command and "curl" in command:
                terminal.read(command, shown)
            else:
                answer = terminal.type(command)
                assert is_as_shown(answer, shown), f"{command}\nprints:\n{answer}\nand not:\n{shown}"

        eventually(lambda: is_as_shown(stream.read_text().strip() + "\n\n", expected))


def test_the_table_of_resources_has_exactly_the_routes_of_the_server(web: Web) -> None:
    paths = web.get("/api/v1/openapi.json").json()["paths"]

    routes = {(verb.upper(), path.removeprefix("/api/v1")) for path, verbs in paths.items() for verb in verbs}
    rows = [(verb, path) for verb, path, _ in RESOURCE.findall(SECTIONS["Resources"])]
    assert routes == set(rows)
    assert len(rows) == len(set(rows))


def test_a_viewer_is_admitted_where_the_table_says_so_and_nowhere_else(web: Web, daemon: DaemonThread) -> None:
    found = dict[str, bool]()
    with web.client("eve", "viewer") as viewer:
        rows = RESOURCE.findall(SECTIONS["Resources"])
        for verb, path, _ in rows:
            with viewer.stream(verb, path.replace("{id}", "a").replace("{run_id}", "a-1795650943297")) as answer:
                found[f"{verb} {path}"] = answer.status_code != 403

    assert {f"{verb} {path}": role == "viewer" for verb, path, role in rows} == found


def test_the_table_of_errors_has_every_problem_of_the_api() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", SECTIONS["Errors"], re.MULTILINE)
    listed = {(status, kind) for status, kinds in rows for kind in re.findall(r"`([a-z-]+)`", kinds)}

    source = "".join(file.read_text() for file in (PROJECT / "zsched" / "web").rglob("*.py"))
    raised = set(RAISED.findall(source))
    errors = {(str(status), kind_of(error)) for error, status in _STATUS.items() if error is not ZschedError}
    assert ("422", "idempotency-key-used") in raised
    assert set() == (raised | errors) - listed


def test_the_shown_problem_is_what_the_server_answers(http: httpx.Client) -> None:
    [shown] = PROBLEM.findall(SECTIONS["Errors"])

    answer = http.put("/schedules/a", json={"func": "app.x", "after": "1h", "queue": "a\nb"})

    assert json.loads(shown) == answer.json()


def test_the_table_of_limits_has_the_sizes_of_pages(web: Web) -> None:
    paths = web.get("/api/v1/openapi.json").json()["paths"]
    rows = dict(re.findall(r"^\| (.*?) \| (.*?) \|", SECTIONS["Limits"], re.MULTILINE))

    for row, (path, name) in LIMITED.items():
        [schema] = [each["schema"] for each in paths[f"/api/v1{path}"]["get"]["parameters"] if each["name"] == name]
        assert f"{schema['default']:,}, at most {schema['maximum']:,}" == rows[row]
