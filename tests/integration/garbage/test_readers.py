"""
A field of garbage in each schedule of a namespace: no reader fails, and each shows the healthy schedules as they are.

``ZSCHED_TEST_GARBAGE=20000`` sets the number of schedules, ``ZSCHED_TEST_SEED=7`` chooses other garbage. Then a daemon
runs beside the views of single schedules, whose archive answers ``why``: without one each answer reads the whole log.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import Result

from tests.builders.command_line import Zsched
from tests.builders.daemons import DaemonThread
from tests.builders.leaders import know
from tests.builders.web import Web
from tests.integration.garbage.spoiling import FUNC, JOBS, VIEWED, Garbage, Reader
from tests.integration.guard.forging import key_file
from zsched import Client
from zsched.cli.program import DONE, FAILED, UNHEALTHY, USAGE
from zsched.core.runs.job import SIGNATURE_FIELD
from zsched.embedded.guard import Guard
from zsched.errors import ZschedError
from zsched.storage import questions
from zsched.storage.records import rq_fields

NEW = f"k9 {'99' * 32}\nk2 {'22' * 32}\n"


WAIT_S = questions.WAIT_S
STEP = max(JOBS // VIEWED, 1)  # views of one schedule take turns, but for client.why
_NAMED = 50  # failures in the message of a test


class Readers:
    """Everything that reads all schedules, or one. ``all`` and ``one`` have them by name."""

    def __init__(self, ground: Garbage, zsched: Zsched, web: Web, folder: Path) -> None:
        self.ground, self.zsched, self.web, self.folder = ground, zsched, web, folder
        self.api = web.client(sees_arguments=True)
        self.pages = web.stranger()
        self.all: dict[str, Reader] = {
            "client.list": lambda: self.shows([one.to_dict() for one in ground.client.list()]),
            "ls --json": lambda: self.shows(self.array("ls", "--json")),
            "ls": lambda: self.names(self.run("ls").stdout),
            "ls --kind recurring": lambda: self.run("ls", "--kind", "recurring"),
            "status": lambda: self.run("status"),
            "status --json": lambda: json.loads(self.run("status", "--json").stdout),
            "doctor": lambda: self.run("doctor"),
            "history": lambda: self.run("history"),
            "log": lambda: self.run("log"),
            "export": self.export,
            "GET /schedules": lambda: self.shows(self.listed()),
            "GET /status": lambda: self.get("status"),
            "GET /queues": lambda: self.get("queues"),
            "GET /daemons": lambda: self.get("daemons"),
            "GET /runs": lambda: self.get("runs"),
            "page /": lambda: self.page("/"),
            "page /schedules": lambda: self.names(self.paged()),
            "page /queues": lambda: self.page("/queues"),
            "page /timeline": lambda: self.page("/timeline"),
            "page /log": lambda: self.page("/log"),
            "page /doctor": lambda: self.page("/doctor"),
        }
        self.one: dict[str, Callable[[str], Any]] = {
            "client.why": lambda id: ground.client.why(id).lines,
            "show": lambda id: self.run("show", id),
            "show --json": lambda id: json.loads(self.run("show", id, "--json").stdout),
            "why": lambda id: self.run("why", id),
            "next": lambda id: self.run("next", id, answers=(DONE, FAILED, USAGE)),
            "GET /schedules/ID": lambda id: self.get(f"schedules/{id}"),
            "GET /schedules/ID/story": lambda id: self.get(f"schedules/{id}/story"),
            "GET /schedules/ID/occurrences": lambda id: self.get(f"schedules/{id}/occurrences"),
            "page /schedules/ID": lambda id: self.page(f"/schedules/{id}"),
            "page /schedules/ID/edit": lambda id: self.page(f"/schedules/{id}/edit", (200, 422)),
        }

    def run(self, *arguments: str, answers: tuple[int, ...] = (DONE, UNHEALTHY)) -> Result:
        result = self.zsched(*arguments)
        assert result.exit_code in answers, result.output[-500:]
        assert isinstance(result.exception, SystemExit | None), result.exception
        result.output.encode()
        assert "\x1b" not in result.output
        return result

    def array(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments).stdout)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.api.get(path, params=params)
        assert 200 == answer.status_code, answer.text[:500]
        return answer.json()

    def patch(self, id: str, changes: dict[str, Any]) -> None:
        answer = self.api.patch(f"schedules/{id}", json=changes)
        assert answer.status_code < (500 if id in self.ground.spoilt else 300), answer.text[:500]

    def page(self, path: str, answers: tuple[int, ...] = (200,)) -> str:
        answer = self.pages.get(path)
        assert answer.status_code in answers, (answer.status_code, answer.text[:500])
        assert "</html>" in answer.text
        return answer.text

    def listed(self) -> list[dict[str, Any]]:
        found, token = list[Any](), None
        while True:
            page = self.get("schedules", page_size=200, **({} if token is None else {"page_token": token}))
            found += page["schedules"]
            token = page["next_page_token"]
            if token is None:
                return found

    def paged(self) -> str:
        text, after = "", ""
        for _ in range(1 + len(self.ground.ids) // 1000):
            page = self.page(f"/schedules?page_size=1000{after}")
            text += page
            after = f"&after={page.rpartition('after=')[2].partition('&')[0].partition(chr(34))[0]}"
        return text

    def export(self) -> None:
        result = self.run("export", answers=(DONE, FAILED))
        text = tomllib.loads(result.stdout)["schedules"]
        rules = [id for id, one in self.ground.canaries.items() if one["kind"] == "cron"]
        assert rules == [id for id in sorted(text) if id in self.ground.canaries]
        assert all(FUNC == text[id]["func"] for id in rules)

    def shows(self, listed: list[dict[str, Any]]) -> None:
        """Check that all schedules are *listed*, and the healthy ones as they are."""
        found = {one["id"]: {name: value for name, value in one.items() if name != "cursor"} for one in listed}
        assert sorted(found) == sorted(self.ground.ids)
        for id, healthy in self.ground.canaries.items():
            assert found[id] == json.loads(json.dumps(healthy))

    def names(self, text: str) -> None:
        assert not set(self.ground.ids) - set(re.findall(r"\bv\d{5}(?:-healthy)?\b", text))


@pytest.fixture(params=["json", "pickle"])
def readers(
    request: pytest.FixtureRequest, redis_client: redis.Redis, redis_url: str, guard: Guard, tmp_path: Path,
    unanswered: None,
) -> Iterator[Readers]:  # fmt: skip
    know(redis_client)
    settings = {"ZSCHED_RQ_SERIALIZER": request.param, "ZSCHED_SIGNING_KEYS_FILE": key_file(tmp_path)}
    client = Client.from_url(
        redis_url, serializer=request.param, signing_keys_file=settings["ZSCHED_SIGNING_KEYS_FILE"]
    )
    ground = Garbage(redis_client, client, JOBS)
    ground.put()
    web = Web(guard, redis_url, tmp_path, **settings)
    readers = Readers(ground, Zsched(redis_url, **settings), web, tmp_path)
    with readers.api, web.browser("eve", sees_arguments=True) as readers.pages:
        yield readers


@pytest.fixture
def viewed(readers: Readers, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Readers]:
    """The readers, with an archive to ask if there are very many schedules."""
    if not has_daemon():
        yield readers
        return
    monkeypatch.setattr(questions, "WAIT_S", WAIT_S)
    with DaemonThread(redis_url) as daemon:
        daemon.wait_for("archive_begins")
        yield readers


def failures_of_listings(readers: Readers) -> Iterator[str]:
    """Yield a line for each reader of all schedules that fails, with the garbage that it fails by."""
    for name, read in readers.all.items():
        try:
            read()
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error!s:.300}\n    {readers.ground.culprit(read)}"


def failures_of_views(readers: Readers) -> Iterator[str]:
    """Yield a line for each schedule at which a reader of one fails."""
    for place, (name, read) in enumerate(readers.one.items()):
        step = 1 if name == "client.why" else STEP
        for id in readers.ground.ids[place % step :: step]:
            try:
                read(id)
            except Exception as error:
                told = readers.ground.told(id)
                if has_daemon() and "status" in told and readers.ground.client._reader.find(id) is None:
                    continue  # its job says that RQ has it: the auditor took it out of its lane
                yield f"{name}: {type(error).__name__}: {error!s:.300}\n    {told}"


def has_daemon() -> bool:
    """Return True if there are so many schedules that an archive has to answer ``why``."""
    return JOBS > 3 * VIEWED


def changes(readers: Readers) -> Iterator[str]:
    """Yield a line for each schedule at which a change fails with an error of another kind than zsched's."""
    ground = readers.ground
    changes: dict[str, Callable[[str], Any]] = {
        "client.update": lambda id: ground.client.update(id, timeout=120),
        "set": lambda id: readers.run("set", id, "--timeout", "150", answers=(DONE, FAILED, USAGE)),
        "PATCH /schedules/ID": lambda id: readers.patch(id, {"timeout": 170}),
    }
    for place, (name, change) in enumerate(changes.items()):
        for id in ground.ids[place % STEP :: STEP]:
            try:
                change(id)
            except ZschedError:
                assert id in ground.spoilt
            except Exception as error:
                yield f"{name}: {type(error).__name__}: {error!s:.300}\n    {ground.told(id)}"


def assert_none(found: list[str]) -> None:
    assert not found, "\n".join(["", *found[:_NAMED], f"{len(found)} failures"])


def test_garbage_fails_no_listing_and_hides_no_healthy_schedule(readers: Readers) -> None:
    assert_none(list(failures_of_listings(readers)))


def test_a_schedule_with_garbage_is_shown_by_each_view_of_it(viewed: Readers) -> None:
    assert_none(list(failures_of_views(viewed)))


def test_a_rotation_of_keys_signs_all_but_the_spoilt_schedules_and_names_them(readers: Readers) -> None:
    key_file(readers.folder, NEW)

    result = readers.run("keys", "sign", "--match", "*", "--yes", "--json", answers=(DONE, FAILED))

    done = json.loads(result.stdout)
    refused = {one["id"]: one["reason"] for one in done["refused"]}
    assert (FAILED if refused else DONE) == result.exit_code
    assert len(readers.ground.ids) == done["found"] == done["done"] + done["skipped"] + done["refused_count"]
    assert {} == {id: reason for id, reason in refused.items() if id in readers.ground.canaries or not reason}
    for id in readers.ground.canaries:
        found = readers.ground.client._reader.find(id)
        assert found is not None
        assert rq_fields(found.record)[SIGNATURE_FIELD].startswith(b"k9.")


def test_a_change_of_a_spoilt_schedule_works_or_says_why_not(readers: Readers) -> None:
    assert_none(list(changes(readers)))

    healthy = readers.ground.client._get_many(readers.ground.canaries)
    assert STEP > 1 or {170} == {one.timeout_s for one in healthy}


def test_a_change_in_bulk_changes_the_healthy_schedules_among_spoilt_ones(readers: Readers) -> None:
    for command, state in (("pause", "paused"), ("resume", "active")):
        result = readers.run(command, "--match", "*", "--yes", "--json", answers=(DONE, FAILED))
        done = json.loads(result.stdout)
        assert done["found"] == done["done"] + done["skipped"] + done["refused_count"]
        assert {state} == {one.state.value for one in readers.ground.client._get_many(readers.ground.canaries)}

    cancelled = json.loads(readers.run("cancel", "--match", "*", "--yes", "--json").stdout)

    assert len(readers.ground.ids) == cancelled["found"] == cancelled["done"]


def test_a_spoilt_schedule_that_is_put_again_is_readable(readers: Readers) -> None:
    ground = readers.ground
    broken = [one.id for one in ground.client.list() if one.unreadable]

    ground.client.schedule_many(ground.rows)

    assert len(broken) > 10
    assert [] == [ground.told(one.id) for one in ground.client._get_many(broken) if one.unreadable]
