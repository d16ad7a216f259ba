"""The page about HTTP and its programs in examples/http: commands answer as shown, tables are complete."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.web import Web
from tests.documents import PROJECT
from tests.integration.web.shell import Shell, environment, is_as_shown, steps_of
from tests.waiting import ENDS_S, WITHIN_S, eventually
from zsched import Client
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.web.answers import _STATUS, kind_of

pytestmark = pytest.mark.once
PROGRAMS = PROJECT / "examples" / "http"
NODE_VERSION = 18  # the first with fetch
needs_programs = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq on PATH")
ROW = {"func": "app.tasks.remind", "after": "1h", "queue": "shop-mail"}
TEXT = (PROJECT / "docs" / "http.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)}
PROBLEM = re.compile(r"^```json\n(\{\"type\".*?)^```", re.DOTALL | re.MULTILINE)
ROUTE = re.compile(r"`(GET|PUT|PATCH|POST|DELETE) (/\S+)`")
RAISED = re.compile(r"Problem\(\s*(\d{3}),\s*\"([a-z-]+)\"")
LIMITED = {
    "`page_size` of schedules": ("/schedules", "page_size"), "`page_size` of runs": ("/runs", "page_size"),
    "`limit` of the log": ("/log", "limit"),
    "`page_size` and `coming` of a schedule's occurrences": ("/schedules/{id}/occurrences", "coming"),
}  # fmt: skip


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
        self._out = folder / f"{token[-8:]}.out"
        with self._out.open("ab") as out:
            env = environment(API=f"{web.url}/api/v1", TOKEN=token)
            self.process = guard.spawn([node, PROGRAMS / "reminders.mjs"], stdout=out, stderr=out, cwd=folder, env=env)

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
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "rows.ndjson").write_text("".join(f"{line}\n" for line in lines))
    return subprocess.run(
        ["bash", PROGRAMS / "upload.sh", "rows.ndjson"], cwd=folder, env=environment(API=f"{url}/api/v1", TOKEN=token),
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
def test_the_first_commands_answer_as_the_page_shows(
    start_web: Callable[..., Web], guard: Guard, tmp_path: Path, redis_url: str, redis_client: redis.Redis
) -> None:
    know(redis_client)
    accounts = str(tmp_path / "accounts-default.toml")
    web = start_web(ZSCHED_RQ_ALLOW_CALLABLES="tasks.*", ZSCHED_WEB_ACCOUNTS_FILE=accounts)
    terminal = Shell(
        guard, tmp_path, ZSCHED_REDIS_URL=redis_url, ZSCHED_WEB_ACCOUNTS_FILE=accounts, API=f"{web.url}/api/v1"
    )

    for command, shown in steps_of(SECTIONS["Start"]):
        answer = terminal.type(command)
        assert is_as_shown(answer, shown), f"{command}\nprints:\n{answer}\nand not:\n{shown}"


def resources() -> list[tuple[str, str]]:
    """Return verb and path of each route in the list of resources."""
    requests = re.findall(r"^- (`.*?`): ", SECTIONS["Resources"], re.MULTILINE)
    return [route for request in requests for route in ROUTE.findall(request)]


def test_the_list_of_resources_has_exactly_the_routes_of_the_server(web: Web) -> None:
    paths = web.get("/api/v1/openapi.json").json()["paths"]

    routes = {(verb.upper(), path.removeprefix("/api/v1")) for path, verbs in paths.items() for verb in verbs}
    rows = resources()
    assert routes == set(rows)
    assert len(rows) == len(set(rows))


def test_a_viewer_may_send_each_get_and_a_preview(web: Web, daemon: DaemonThread) -> None:
    found = dict[str, bool]()
    with web.client("eve", "viewer") as viewer:
        rows = resources()
        for verb, path in rows:
            with viewer.stream(verb, path.replace("{id}", "a").replace("{run_id}", "a-1795650943297")) as answer:
                found[f"{verb} {path}"] = answer.status_code != 403

    assert {f"{verb} {path}": verb == "GET" or path == "/preview" for verb, path in rows} == found


def test_the_list_of_errors_has_every_problem_of_the_api() -> None:
    rows = re.findall(r"^- (\d{3}) (.*?): ", SECTIONS["Errors"], re.MULTILINE)
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


def test_the_list_of_limits_has_the_sizes_of_pages(web: Web) -> None:
    paths = web.get("/api/v1/openapi.json").json()["paths"]
    rows = dict(re.findall(r"^- (.*?): (.*)$", SECTIONS["Limits"], re.MULTILINE))

    for row, (path, name) in LIMITED.items():
        [schema] = [each["schema"] for each in paths[f"/api/v1{path}"]["get"]["parameters"] if each["name"] == name]
        assert f"{schema['default']:,}, at most {schema['maximum']:,}" == rows[row]
