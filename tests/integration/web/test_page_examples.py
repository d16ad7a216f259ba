"""The pages about HTTP: commands answer as shown, tables are complete."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.web import Web
from tests.documents import PROJECT, program, programs
from tests.integration.web.shell import CUT, Shell, environment, is_as_shown, steps_of
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.web.problems import _STATUS, kind_of

pytestmark = pytest.mark.once
PAGE = "docs/http.md"
NODE_VERSION = 18  # the first with fetch
NEXT_YEAR = str(datetime.now(UTC).year + 1)  # the shown times are in the past some day
NOBODY = "redis://127.0.0.1:1/0"
needs_programs = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq on PATH")
ROW = {"func": "app.tasks.remind", "after": "1h", "queue": "shop-mail"}
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


@pytest.fixture
def start_service(guard: Guard, tmp_path: Path) -> Callable[[str], str]:
    """Start the service of the page with a Redis. Returns its URL."""
    (tmp_path / "service.py").write_text(programs(PAGE)["service.py"])

    def start(redis_url: str) -> str:
        log = tmp_path / "service.log"
        with log.open("wb") as file:
            command = [sys.executable, "-m", "uvicorn", "service:app", "--port", "0"]
            guard.spawn(command, stdout=file, stderr=file, cwd=tmp_path, env=environment(ZSCHED_REDIS_URL=redis_url))
        return str(eventually(lambda: re.search(r"running on (http://\S+)", log.read_text()))[1])

    return start


@needs_programs
def test_the_fastapi_service_schedules_as_the_page_shows(
    start_service: Callable[[str], str], guard: Guard, tmp_path: Path, redis_url: str
) -> None:
    url, client = start_service(redis_url), Client.from_url(redis_url)
    section = (PROJECT / PAGE).read_text().partition("## Example: a FastAPI service")[2].partition("\n## ")[0]

    for command, shown in steps_of(section):
        typed = re.sub(r"\b20\d\d-", f"{NEXT_YEAR}-", command).replace("http://127.0.0.1:8000", url)
        answer = Shell(guard, tmp_path).type(typed)
        assert is_as_shown(answer, shown), f"{command}\nprints:\n{answer}\nand not:\n{shown}"

    found = client.get("reminder-42")
    assert ("tasks.remind", "shop-mail", f"{NEXT_YEAR}-12-24T09:00:00+00:00") == (
        found.func, found.queue, found.next_at and found.next_at.isoformat(),
    )  # fmt: skip


def test_the_fastapi_service_turns_errors_into_answers(start_service: Callable[[str], str], redis_url: str) -> None:
    body = {"at": "2020-12-24T18:00:00Z", "text": "it came"}
    url = start_service(redis_url)

    past = httpx.put(f"{url}/orders/42/reminder", json=body, timeout=WITHIN_S)
    cancelled = httpx.delete(f"{url}/orders/42/reminder", timeout=WITHIN_S)
    unreachable = httpx.delete(f"{start_service(NOBODY)}/orders/42/reminder", timeout=WITHIN_S)

    assert [422, 200, 503] == [each.status_code for each in (past, cancelled, unreachable)]
    assert "at" == past.json()["option"]
    assert "not_found" == cancelled.json()["outcome"]
    assert "1" == unreachable.headers["Retry-After"]


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node."""
    if (path := shutil.which("node")) is None:
        pytest.skip("no node on PATH")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < NODE_VERSION:
        pytest.skip(f"node on PATH is {version}; the program needs {NODE_VERSION}")
    return path


class NodeProgram:
    """The program for Node, running."""

    def __init__(self, node: str, guard: Guard, folder: Path, web: Web, token: str) -> None:
        (folder / "reminders.mjs").write_text(program(PAGE, "reminders.mjs"))
        self._out = folder / f"{token[-8:]}.out"
        with self._out.open("ab") as out:
            env = environment(API=f"{web.url}/api/v1", TOKEN=token)
            self.process = guard.spawn([node, "reminders.mjs"], stdout=out, stderr=out, cwd=folder, env=env)

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    def wait_for(self, line: str) -> None:
        """Wait until it has printed *line*, or a line with this beginning."""
        eventually(lambda: any(each.startswith(line) for each in self.lines))


def put(client: Client, *ids: str) -> None:
    for id in ids:
        client.schedule("tasks.remind", id=id, after=3600)


def test_the_node_program_schedules_once_and_misses_no_event_while_the_server_is_away(
    node: str, start_web: Callable[..., Web], guard: Guard, tmp_path: Path, redis_url: str
) -> None:
    web, client = start_web(ZSCHED_RQ_ALLOW_CALLABLES="tasks.*"), Client.from_url(redis_url)
    first = NodeProgram(node, guard, tmp_path, web, web.token("first"))
    first.wait_for("reminder-42: created, next ")
    second = NodeProgram(node, guard, tmp_path, web, web.token("second"))
    second.wait_for("reminder-42: kept, next ")
    probes = iter(range(10_000))
    eventually(lambda: put(client, f"probe-{next(probes)}") or any("probe-" in line for line in first.lines))
    put(client, "before")
    first.wait_for("before: put")

    port = web.url.rpartition(":")[2]
    web.stop(signal.SIGKILL)
    put(client, "meanwhile-1", "meanwhile-2")
    Web(guard, redis_url, tmp_path, "--listen", f"127.0.0.1:{port}", ZSCHED_RQ_ALLOW_CALLABLES="tasks.*")
    put(client, "after")

    first.wait_for("after: put")
    news = first.lines[first.lines.index("before: put") :]
    assert ["before: put", "meanwhile-1: put", "meanwhile-2: put", "after: put"] == news


@pytest.mark.parametrize(
    ("token", "message"),
    [("zs_wrong", "the token is unknown, revoked or has expired"), ("shop", "'shop' is a viewer, who only reads")],
)
def test_the_node_program_ends_with_the_problem_of_a_refusal(
    node: str, web: Web, guard: Guard, tmp_path: Path, token: str, message: str
) -> None:
    secret = web.token(token, "viewer") if token == "shop" else token
    refused = NodeProgram(node, guard, tmp_path, web, secret)

    assert 1 == refused.process.wait(WITHIN_S)
    [line] = refused.lines
    assert message in line
    assert "(urn:zsched:error:" in line


def upload(folder: Path, url: str, token: str, rows: list[Any]) -> subprocess.CompletedProcess[str]:
    """Run the script with *rows*: texts, or values of JSON."""
    (folder / "upload.sh").write_text(program(PAGE, "upload.sh"))
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "rows.ndjson").write_text("".join(f"{line}\n" for line in lines))
    return subprocess.run(
        ["bash", "upload.sh", "rows.ndjson"], cwd=folder, env=environment(API=f"{url}/api/v1", TOKEN=token),
        capture_output=True, text=True, timeout=ENDS_S, check=False,
    )  # fmt: skip


@needs_programs
def test_the_shell_script_uploads_all_rows_and_fails_for_a_bad_one(web: Web, tmp_path: Path, redis_url: str) -> None:
    token, client = web.token("shop", "scheduler"), Client.from_url(redis_url)
    good = [{"id": f"reminder-{number}", **ROW} for number in range(2500)]
    bad = [{"id": "a", **ROW}, "", {"id": "b", **ROW, "after": "soon"}, "no JSON", {"id": "error", **ROW}]

    done, refused = upload(tmp_path, web.url, token, [*good, "", "  "]), upload(tmp_path, web.url, token, bad)

    assert (0, "2500 of 2500 rows are scheduled\n", "") == (done.returncode, done.stdout, done.stderr)
    assert (1, "2 of 4 rows are scheduled\n") == (refused.returncode, refused.stdout)
    assert ["row 1: ", "row 2: "] == sorted(line[:7] for line in refused.stderr.splitlines())
    found = {schedule.id for schedule in client.list()}
    assert (2502, {"a", "error"}) == (len(found), {id for id in found if not id.startswith("reminder-")})


@needs_programs
def test_the_shell_script_fails_when_the_upload_is_refused(web: Web, tmp_path: Path) -> None:
    refused = upload(tmp_path, web.url, "zs_wrong", [{"id": "a", **ROW}])
    unreachable = upload(tmp_path, "http://127.0.0.1:1", "zs_wrong", [{"id": "a", **ROW}])

    assert [2, 2] == [refused.returncode, unreachable.returncode]
    assert "wrong-token" in refused.stderr


@needs_programs
def test_the_commands_of_the_tutorial_answer_as_the_page_shows(
    start_web: Callable[..., Web], guard: Guard, tmp_path: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    accounts = tmp_path / "accounts-default.toml"
    web = start_web(ZSCHED_RQ_ALLOW_CALLABLES="tasks.*", ZSCHED_WEB_ACCOUNTS_FILE=str(accounts))
    lines = program(PAGE, "env.sh").replace(". .venv/bin/activate\n", "")
    lines = lines.replace("redis://localhost:6379/0", redis_url).replace("http://127.0.0.1:9180", web.url)
    [rows] = BATCH.findall(TEXT)
    (tmp_path / "env.sh").write_text(f"{lines}export ZSCHED_WEB_ACCOUNTS_FILE={accounts}\n")
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
