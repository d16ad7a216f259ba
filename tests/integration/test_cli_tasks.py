"""``zsched tasks``, and tasks that ``zsched add`` names."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.builders import command_line
from tests.documents import PROJECT
from tests.waiting import ENDS_S
from zsched.cli.program import DONE, USAGE
from zsched.client import Client

pytestmark = pytest.mark.once

TASKS = '''
"""A product's tasks, in a folder that nobody put on the path."""
from datetime import timedelta
from typing import Literal
import zsched

print("imported")

def done(job, connection, result): ...

@zsched.task(queue="email", id="reminder-{event_id}", on_success=done, timeout=timedelta(minutes=1), tags=["a"])
def send_reminder(event_id: str, channel: Literal["push", "email"], minutes: int = 60) -> None:
    """
    Remind somebody.

    By whatever way.
    """

@zsched.task(cron="0 9 * * *", tz="Asia/Seoul", owner="me")
def digest(): ...
'''
NOTE = (
    "zsched: not checked, and options of tasks not used, as they cannot be imported from here: elsewhere.tasks.send "
    "(no module 'elsewhere')\n"
)
FITTING = '{"event_id": "e1", "channel": "push"}'


class Zsched(command_line.Zsched):
    """A command line in a separate folder."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, ZSCHED_RQ_SERIALIZER="json")
        self.folder, self.client = folder, Client.from_url(url, serializer="json")

    def holds(self, redis_client: redis.Redis) -> list[bytes]:
        return redis_client.keys("*due*") + redis_client.keys("*schedule*")


@pytest.fixture
def zsched(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zsched]:
    (tmp_path / "shelf.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shelf", raising=False)
    yield Zsched(redis_url, tmp_path)
    sys.modules.pop("shelf", None)


def test_the_tasks_of_a_module_are_listed(zsched: Zsched) -> None:
    result = zsched("tasks", "shelf")

    assert DONE == result.exit_code
    assert "imported\n" == result.stderr
    header, reminder, digest = result.stdout.splitlines()
    assert ["NAME", "FUNC", "PARAMETERS", "OPTIONS", "ABOUT"] == header.split()
    assert reminder.startswith("send_reminder  shelf.send_reminder  event_id: str, channel: Literal['push', 'email']")
    assert "minutes: int = 60" in reminder
    assert "queue='email', id='reminder-{event_id}', on_success='shelf.done', timeout='0:01:00', tags=['a']" in reminder
    assert reminder.endswith("  Remind somebody.")
    assert digest.endswith("cron='0 9 * * *', tz='Asia/Seoul', owner='me'")


def test_json_of_tasks_has_parameters_options_and_description(zsched: Zsched) -> None:
    assert [
        {
            "name": "send_reminder",
            "func": "shelf.send_reminder",
            "parameters": [
                {"name": "event_id", "type": "str", "required": True, "default": None},
                {"name": "channel", "type": "Literal['push', 'email']", "required": True, "default": None},
                {"name": "minutes", "type": "int", "required": False, "default": 60},
            ],
            "options": {
                "queue": "email", "id": "reminder-{event_id}", "on_success": "shelf.done", "timeout": "0:01:00",
                "tags": ["a"],
            },
            "about": "Remind somebody.",
        },
        {
            "name": "digest",
            "func": "shelf.digest",
            "parameters": [],
            "options": {"cron": "0 9 * * *", "tz": "Asia/Seoul", "owner": "me"},
            "about": "",
        },
    ] == zsched.json("tasks", "shelf")  # fmt: skip


def test_a_module_without_tasks_has_an_empty_list(zsched: Zsched) -> None:
    assert [] == zsched.json("tasks", "json")
    assert "json has no task\n" == zsched("tasks", "json").stdout


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("nowhere", "task nowhere: there is no such module here; give the dotted name"),
        ("broken", "task broken: importing it here raises ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_usage_error(zsched: Zsched, module: str, told: str) -> None:
    (zsched.folder / "broken.py").write_text("1 / 0")

    result = zsched("tasks", module)

    assert USAGE == result.exit_code
    assert told in result.stderr
    assert "InvalidTask" == json.loads(zsched("tasks", module, "--json").stderr)["type"]


def test_adding_a_task_uses_its_options_unless_the_command_line_has_others(zsched: Zsched) -> None:
    told = zsched.json("add", "mine", "shelf.send_reminder", "--after", "1h", "--kwargs", FITTING)
    zsched.json("add", "slow", "shelf.send_reminder", "--after", "1h", "--args", '["e1", "push"]', "--queue", "slow")

    assert ("mine", "created") == (told["id"], told["outcome"])
    found = zsched.client.get("mine")
    assert ("email", 60, ("a",)) == (found.queue, found.timeout_s, found.tags)
    assert {"event_id": "e1", "channel": "push"} == found.kwargs
    assert "slow" == zsched.client.get("slow").queue


def test_a_task_that_recurs_needs_no_trigger_and_local_times_are_read_in_its_zone(zsched: Zsched) -> None:
    result = zsched("add", "mine", "shelf.digest")
    once = zsched.json("add", "once", "shelf.digest", "--at", "2030-01-01T09:00")

    assert DONE == result.exit_code, result.stderr
    assert "next " in result.stdout
    found = zsched.client.get("mine")
    assert ("cron", "Asia/Seoul", "me") == (found.kind, found.tz, found.owner)
    assert "2030-01-01T00:00:00.000Z" == once["next_at"]


@pytest.mark.parametrize(
    ("func", "payload", "told"),
    [
        ("shelf.send_reminder", ("--kwargs", '{"event_id": "e1", "channel": "fax"}'),
         "imported\nzsched: channel='fax': task shelf.send_reminder: give one of 'push', 'email'"),
        ("shelf.send_reminder", ("--args", '["e1", "push", "60"]'),
         "imported\nzsched: minutes='60': task shelf.send_reminder wants int"),
        ("shelf.send_reminder", ("--args", '["e1"]'),
         "imported\nzsched: channel: task shelf.send_reminder needs it; give channel=…"),
        ("shelf.send_reminder", (),
         "imported\nzsched: event_id: task shelf.send_reminder needs it; give event_id=…"),
        ("shelf.digset", (),
         "imported\nzsched: func='shelf.digset': there is no digset in shelf; did you mean digest?\n"),
        ("broken.send", (), "importing it here raises ModuleNotFoundError: No module named 'nowhere'"),
    ],
)  # fmt: skip
def test_a_task_that_does_not_fit_is_refused(
    zsched: Zsched, redis_client: redis.Redis, func: str, payload: tuple[str, ...], told: str
) -> None:
    (zsched.folder / "broken.py").write_text("import nowhere")

    result = zsched("add", "mine", func, "--after", "1h", *payload)

    assert USAGE == result.exit_code
    assert told in result.stderr
    assert [] == zsched.holds(redis_client)


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("add other elsewhere.tasks.send --after 1h --args [1]", NOTE),
        ("add other shelf.timedelta --after 1h", ""),
        ("add other json.dumps --after 1h", ""),
        ("set mine --args [2]", NOTE),
        ('set mine --kwargs {"a":1}', NOTE),
        ("set mine --func elsewhere.tasks.send", NOTE),
        ("set mine --tag ops --description why", ""),
    ],
)
def test_a_named_function_that_cannot_be_imported_is_accepted_with_a_note(
    zsched: Zsched, command: str, note: str, as_json: tuple[str, ...]
) -> None:
    zsched("add", "mine", "elsewhere.tasks.send", "--after", "1h", "--args", "[1]")

    result = zsched(*command.split(), *as_json)

    assert (DONE, note) == (result.exit_code, result.stderr.removeprefix("imported\n"))
    assert command.split()[1] in result.stdout
    assert ("created" in result.stdout) is command.startswith("add")


@pytest.mark.parametrize(
    "command",
    [
        f"add other shelf.send_reminder --after 1h --kwargs {FITTING.replace(' ', '')}",
        "add other app.run --after 1h --on-success shelf.done",
        "set mine --func shelf.send_reminder",
        "set mine --on-failure shelf.done",
    ],
)
def test_a_function_that_is_not_allowed_is_not_imported(
    zsched: Zsched, redis_client: redis.Redis, command: str
) -> None:
    zsched.env["ZSCHED_RQ_ALLOW_CALLABLES"] = "app.*"
    zsched("add", "mine", "app.run", "--after", "1h")
    before = redis_client.xlen("zsched:{default}:log")

    result = zsched(*command.split())

    assert USAGE == result.exit_code
    assert "allow_callables" in result.stderr
    assert "shelf" not in sys.modules
    assert "imported" not in result.output
    assert before == redis_client.xlen("zsched:{default}:log")


def test_the_current_folder_is_last_on_the_import_path_as_for_rqs_worker(zsched: Zsched) -> None:
    for name in ("colorsys", "wsgiref", "rq"):
        (zsched.folder / f"{name}.py").write_text("raise SystemExit('a module of this folder ran')")
    sys.modules.pop("colorsys", None)

    result = zsched("add", "mine", "colorsys.rgb_to_hsv", "--after", "1h")

    assert (DONE, "") == (result.exit_code, result.stderr)
    assert os.getcwd() == sys.path[-1]


@pytest.mark.true_start
@pytest.mark.parametrize(("options", "is_imported"), [((), True), (("-P",), False)])
def test_python_itself_imports_from_the_current_folder_first_unless_forbidden(
    tmp_path: Path, options: tuple[str, ...], is_imported: bool
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('a module of this folder ran')")
    command = [sys.executable, *options, "-m", "zsched.cli", "--version"]
    env = os.environ | {"PYTHONPATH": str(PROJECT)}

    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=ENDS_S)

    assert is_imported is ("a module of this folder ran" in done.stderr)
    assert is_imported is not done.stdout.startswith("zsched ")


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o702])
@pytest.mark.parametrize("command", [("tasks", "shelf"), ("add", "mine", "shelf.digest", "--after", "1h")])
def test_root_does_not_import_from_a_folder_writable_by_others(
    zsched: Zsched, redis_client: redis.Redis, command: tuple[str, ...], mode: int
) -> None:
    zsched.folder.chmod(mode)

    result = zsched(*command)

    assert USAGE == result.exit_code
    assert f"others may write to {zsched.folder}, and root would run their code" in result.stderr
    assert f"PYTHONPATH={zsched.folder}" in result.stderr
    assert "imported" not in result.output
    assert "shelf" not in sys.modules
    assert [] == zsched.holds(redis_client)


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("func", ["elsewhere.tasks.send", "builtins.len"])
def test_root_can_name_functions_of_installed_modules_in_any_folder(zsched: Zsched, func: str) -> None:
    zsched.folder.chmod(0o777)

    assert DONE == zsched("add", "mine", func, "--after", "1h").exit_code


@pytest.mark.parametrize("is_root", [True, False])
def test_root_imports_from_a_folder_on_pythonpath_and_an_ordinary_user_from_any(
    zsched: Zsched, monkeypatch: pytest.MonkeyPatch, is_root: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
    zsched.folder.chmod(0o777)
    if is_root:
        monkeypatch.syspath_prepend(zsched.folder)  # what PYTHONPATH does at the start

    assert DONE == zsched("tasks", "shelf").exit_code


def test_set_checks_a_changed_payload_of_a_task(zsched: Zsched) -> None:
    zsched("add", "r", "shelf.send_reminder", "--after", "1h", "--kwargs", FITTING)

    refused = zsched("set", "r", "--kwargs", '{"event_id": "e1", "channel": "fax"}')
    done = zsched("set", "r", "--kwargs", '{"event_id": "e1", "channel": "email"}')

    assert (USAGE, DONE) == (refused.exit_code, done.exit_code)
    assert "channel='fax': task shelf.send_reminder: give one of 'push', 'email'" in refused.stderr
    [held] = zsched.client.list()
    assert {"event_id": "e1", "channel": "email"} == held.kwargs
    assert "shelf.send_reminder" == held.func
