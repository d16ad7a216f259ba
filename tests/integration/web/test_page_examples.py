"""The programs of docs/http.md, executed as they are written there: a FastAPI service, Node, and a shell script."""

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

from tests.documents import PROJECT, program, programs
from tests.faults.processes import ENDS_S, eventually
from tests.integration.web.ground import Web
from tests.integration.web.shell import Shell, environment, is_as_shown, steps_of
from zsched import Client
from zsched.embedded.guard import Guard

pytestmark = pytest.mark.once
PAGE = "docs/http.md"
NODE_VERSION = 18  # the first with fetch
NEXT_YEAR = str(datetime.now(UTC).year + 1)  # the shown times are in the past some day
NOBODY = "redis://127.0.0.1:1/0"
needs_programs = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq on PATH")


# -- FastAPI ----------------------------------------------------------------------------------------


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

    past = httpx.put(f"{url}/orders/42/reminder", json=body)
    cancelled = httpx.delete(f"{url}/orders/42/reminder")
    unreachable = httpx.delete(f"{start_service(NOBODY)}/orders/42/reminder", timeout=20)

    assert [422, 200, 503] == [each.status_code for each in (past, cancelled, unreachable)]
    assert "at" == past.json()["option"]
    assert "not_found" == cancelled.json()["outcome"]
    assert "1" == unreachable.headers["Retry-After"]


# -- Node -------------------------------------------------------------------------------------------


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
    start_web_at(guard, redis_url, tmp_path, port)
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

    assert 1 == refused.process.wait(20)
    [line] = refused.lines
    assert message in line
    assert "(urn:zsched:error:" in line


def start_web_at(guard: Guard, redis_url: str, folder: Path, port: str) -> Web:
    return Web(guard, redis_url, folder, "--listen", f"127.0.0.1:{port}", ZSCHED_RQ_ALLOW_CALLABLES="tasks.*")


# -- a shell script ---------------------------------------------------------------------------------


def upload(folder: Path, url: str, token: str, rows: list[Any]) -> subprocess.CompletedProcess[str]:
    """Run the script with *rows*: texts, or values of JSON."""
    (folder / "upload.sh").write_text(program(PAGE, "upload.sh"))
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "rows.ndjson").write_text("".join(f"{line}\n" for line in lines))
    return subprocess.run(
        ["bash", "upload.sh", "rows.ndjson"], cwd=folder, env=environment(API=f"{url}/api/v1", TOKEN=token),
        capture_output=True, text=True, timeout=ENDS_S, check=False,
    )  # fmt: skip


ROW = {"func": "app.tasks.remind", "after": "1h", "queue": "shop-mail"}


@needs_programs
def test_the_shell_script_uploads_all_rows(web: Web, tmp_path: Path, redis_url: str) -> None:
    rows = [{"id": f"reminder-{number}", **ROW} for number in range(2500)]

    done = upload(tmp_path, web.url, web.token("shop", "scheduler"), [*rows, "", "  "])

    assert (0, "2500 of 2500 rows are scheduled\n", "") == (done.returncode, done.stdout, done.stderr)
    assert 2500 == sum(1 for _ in Client.from_url(redis_url).list())


@needs_programs
def test_the_shell_script_fails_when_a_row_is_refused(web: Web, tmp_path: Path, redis_url: str) -> None:
    rows = [{"id": "a", **ROW}, "", {"id": "b", **ROW, "after": "soon"}, "no JSON", {"id": "error", **ROW}]

    done = upload(tmp_path, web.url, web.token("shop", "scheduler"), rows)

    assert (1, "2 of 4 rows are scheduled\n") == (done.returncode, done.stdout)
    assert ["row 1: ", "row 2: "] == sorted(line[:7] for line in done.stderr.splitlines())
    assert ["a", "error"] == sorted(schedule.id for schedule in Client.from_url(redis_url).list())


@needs_programs
def test_the_shell_script_fails_when_the_upload_is_refused(web: Web, tmp_path: Path) -> None:
    refused = upload(tmp_path, web.url, "zs_wrong", [{"id": "a", **ROW}])
    unreachable = upload(tmp_path, "http://127.0.0.1:1", "zs_wrong", [{"id": "a", **ROW}])

    assert [2, 2] == [refused.returncode, unreachable.returncode]
    assert "wrong-token" in refused.stderr
