"""
Clients that are generated from the OpenAPI document create, list, page, update, delete, put many and follow events.

openapi-python-client makes one at each start. That of openapi-typescript is committed in tests/clients/typescript, as
not every machine has node; where it is, its compiler checks a program strictly, and node runs it.
"""

import fcntl
import filecmp
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from docs import pages
from tests.builders.web import Web
from tests.sources import PROJECT
from tests.waiting import ENDS_S

DOCUMENT = pages.path("openapi")
TYPESCRIPT = PROJECT / "tests" / "clients" / "typescript"
BUILT = PROJECT / "build" / "typescript"  # with what npm brings
UNREAD = "application/x-ndjson"  # openapi-python-client takes the array of JSON instead
RULE: dict[str, Any] = {"func": "app.x", "cron": "0 9 * * *", "tz": "Asia/Seoul", "tags": ["shop"]}
pytestmark = pytest.mark.once


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Return the output of a command that succeeds."""
    settings = {"cwd": cwd, "env": os.environ | env, "timeout": ENDS_S, "check": False, "text": True}
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)  # type: ignore[call-overload]  # a dict
    assert 0 == done.returncode, done.stdout
    return str(done.stdout)


# -- Python -------------------------------------------------------------------------------------------


class Generated:
    """The modules of the generated client, by operation."""

    def __init__(self, folder: Path) -> None:
        self.types = importlib.import_module("generated_zsched.models")
        self.client: Any = importlib.import_module("generated_zsched.client")
        self.operations = {
            file.stem: importlib.import_module(f"generated_zsched.api.{file.parent.name}.{file.stem}")
            for file in (folder / "generated_zsched" / "api").glob("*/[a-z]*.py")
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = self.operations[name].sync_detailed
        return call


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    command = "generate", "--path", DOCUMENT, "--meta", "none", "--output-path", folder / "generated_zsched"
    said = run(
        sys.executable, "-m", "openapi_python_client", *command, cwd=folder,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", COLUMNS="200",
    )  # fmt: skip
    assert [f"Unsupported content type {UNREAD}"] == re.findall("^Unsupported .*", said, re.MULTILINE), said
    assert 1 == said.count("WARNING"), said
    sys.path.insert(0, str(folder))
    yield Generated(folder)
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated_zsched"]:
        del sys.modules[name]


@pytest.fixture
def client(api: Generated, web: Web) -> Iterator[Any]:
    options = {"base_url": web.url, "token": web.token("program"), "raise_on_unexpected_status": True}
    with api.client.AuthenticatedClient(**options) as made:
        yield made


def entries(api: Generated, client: Any, after: str) -> Iterator[Any]:
    """Yield the entries after an event, as they come."""
    asked = api.operations["follow_events"]._get_kwargs(last_event_id=after)
    with client.get_httpx_client().stream(**asked) as stream:
        event = ""
        for line in stream.iter_lines():
            name, _, text = line.partition(": ")
            event = text if name == "event" else event if line else ""
            if name == "data" and not event:
                yield api.types.Entry.from_dict(json.loads(text))


def event_of_a_put(http: httpx.Client) -> str:
    """Put a schedule, and return the id of its event."""
    id = ""
    with http.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        http.put("/schedules/first", json={"func": "app.x", "every": 60})
        for line in lines:
            name, _, text = line.partition(": ")
            id = text if name == "id" else id
            if name == "data" and '"first"' in text:
                return id
    raise AssertionError("the stream ended")


def test_a_generated_client_has_each_operation_by_its_name(api: Generated) -> None:
    document = json.loads(DOCUMENT.read_text())
    names = [method["operationId"] for methods in document["paths"].values() for method in methods.values()]

    assert sorted(names) == sorted(api.operations)
    assert {"put_schedule", "list_schedules", "follow_events"} <= set(names)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", name) for name in names)


def test_a_generated_python_client_creates_pages_updates_and_deletes(api: Generated, client: Any) -> None:
    created = api.put_schedule("digest", client=client, body=api.types.ScheduleOptions.from_dict(RULE))
    rows = [api.types.ScheduleOptions.from_dict({"id": f"row-{n}", "func": "app.x", "every": 60}) for n in range(5)]
    bad = api.types.ScheduleOptions.from_dict({"func": "app.x", "every": 0})
    many = api.put_schedules(client=client, body=[*rows, bad]).parsed
    found, token = [], None
    while not found or token:
        page = api.list_schedules(client=client, match="row-*", page_size=2, page_token=token).parsed
        found, token = [*found, *page.schedules], page.next_page_token

    assert (201, "created", "digest") == (created.status_code, created.parsed.outcome, created.parsed.id)
    assert created.parsed.next_at.utcoffset() is not None
    assert (["created"] * 5, "every") == ([one.outcome for one in many[:5]], many[5].error.option)
    assert [f"row-{n}" for n in range(5)] == [one.id for one in found]

    read = api.get_schedule("digest", client=client)
    changes = [api.types.ScheduleChanges(queue=queue) for queue in ("mail", "other")]
    updated, stale = (
        api.update_schedule("digest", client=client, body=each, if_match=read.headers["ETag"]) for each in changes
    )
    again = api.get_schedule("digest", client=client, if_none_match=read.headers["ETag"])

    assert (["shop"], "active") == (read.parsed.tags, read.parsed.state)
    assert (200, "updated") == (updated.status_code, updated.parsed.outcome)
    assert (412, "urn:zsched:error:version-conflict") == (stale.status_code, stale.parsed.type_)
    assert (200, "mail") == (again.status_code, again.parsed.queue)

    filters = api.types.PauseSchedulesBodyFilter(tag="shop")
    paused = api.pause_schedules(client=client, body=api.types.PauseSchedulesBody(filter_=filters, note="rest"))
    cancelled, gone = (one("digest", client=client) for one in (api.cancel_schedule, api.get_schedule))

    assert (1, 1) == (paused.parsed.found, paused.parsed.done)
    assert (200, "cancelled", 404) == (cancelled.status_code, cancelled.parsed.outcome, gone.status_code)
    assert "urn:zsched:error:schedule-not-found" == gone.parsed.type_


def test_a_generated_python_client_follows_events(api: Generated, client: Any, http: httpx.Client) -> None:
    after = event_of_a_put(http)
    api.put_schedule("second", client=client, body=api.types.ScheduleOptions.from_dict(RULE))
    api.cancel_schedule("second", client=client)

    told = entries(api, client, after)

    seen = [(change.what, change.id) for entry in (next(told), next(told)) for change in entry.changes]
    assert [("put", "second"), ("cancelled", "second")] == seen
    told.close()


# -- TypeScript -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> None:
    """The packages of the TypeScript client, installed once."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm (node): the client of openapi-typescript is not tried")
    BUILT.mkdir(parents=True, exist_ok=True)
    wanted, installed = (TYPESCRIPT / "package-lock.json").read_text(), BUILT / "installed"
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the suite does the same
        shutil.copytree(TYPESCRIPT, BUILT, dirs_exist_ok=True)
        if not installed.exists() or installed.read_text() != wanted:
            done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=BUILT, capture_output=True, check=False)
            if done.returncode:
                pytest.skip("npm ci fails (no registry?): the client of openapi-typescript is not tried")
            installed.write_text(wanted)


@pytest.mark.usefixtures("node")
def test_the_committed_typescript_client_is_that_of_the_document() -> None:
    run("npx", "openapi-typescript", DOCUMENT, "--output", BUILT / "made.d.ts", cwd=BUILT)

    new, old = BUILT / "made.d.ts", TYPESCRIPT / "api.d.ts"
    remedy = f"cp {new.relative_to(PROJECT)} {old.relative_to(PROJECT)}"
    assert filecmp.cmp(new, old, shallow=False), f"the document has changed: {remedy}"


@pytest.mark.usefixtures("node")
def test_a_strict_typescript_program_uses_the_api(web: Web, http: httpx.Client, tmp_path: Path) -> None:
    after = event_of_a_put(http)
    run("npx", "tsc", "--outDir", tmp_path, cwd=BUILT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(BUILT / "node_modules")

    told = json.loads(
        run("node", tmp_path / "program.js", after, cwd=tmp_path, URL=web.url, TOKEN=web.token("program"))
    )

    rows = [f"row-{number}" for number in range(1, 6)]
    puts = ["put digest", *(f"put {row}" for row in rows), "put digest"]
    assert told.pop("seen") == [*puts, "paused digest", "cancelled digest"]
    assert told == {
        "created": [201, "created"],
        "refused": ["every"],
        "ids": rows,
        "updated": [200, 412, "urn:zsched:error:version-conflict"],
        "changed": 404,
        "paused": 1,
        "newest": "paused",
        "cancelled": [200, "cancelled", 404],
    }
