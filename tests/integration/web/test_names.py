"""A schedule's free name and its owner, as every door gives, shows and finds them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.web import Web
from zsched import Client, ScheduleRow, task
from zsched.core.model import Schedule
from zsched.errors import InvalidSchedule

pytestmark = pytest.mark.once

NAME, OWNER, FUNC = "nightly: report v1.2 (ö)", "team-billing", "app.tasks.report"
AT = datetime(2020, 1, 1, tzinfo=UTC)
LABELS = {"name": NAME, "owner": OWNER}


@task
def greet(name: str) -> None: ...


@pytest.fixture
def zsched(redis_url: str) -> Zsched:
    return Zsched(redis_url)


def by_http(web: Web) -> None:
    with web.client() as http:
        assert 201 == http.put("/schedules/a", json={"func": FUNC, "every": 3600, **LABELS}).status_code


def by_form(web: Web) -> None:
    Client.from_url(web.redis_url).schedule(FUNC, id="a", every=3600)
    with web.browser("ann") as browser:
        form = browser.get("/schedules/a/edit").text
        hidden = dict(re.findall(r'<input type="hidden" name="(version|opened)" value="([^"]*)"', form))
        given = {"every": "1h", "tz": "UTC", "queue": "default", "priority": "normal", **hidden, **LABELS}
        assert 303 == browser.post("/schedules/a/edit", data=given).status_code


def by_file(web: Web, folder: Path) -> None:
    file = folder / "jobs.toml"
    file.write_text(f'owner = "{OWNER}"\n[schedules.a]\nfunc = "{FUNC}"\nevery = "1h"\nname = "{NAME}"\n')
    Zsched(web.redis_url)("apply", str(file))


PUTS: dict[str, Callable[[Web, Path], object]] = {
    "client": lambda web, _: Client.from_url(web.redis_url).schedule(FUNC, id="a", every=3600, name=NAME, owner=OWNER),
    "one-shot": lambda web, _: Client.from_url(web.redis_url).schedule(FUNC, id="a", after=60, name=NAME, owner=OWNER),
    "rows": lambda web, _: Client.from_url(web.redis_url).schedule_many(
        [ScheduleRow(func=FUNC, id="a", every=3600, name=NAME, owner=OWNER)]
    ),
    "update": lambda web, _: (
        Client.from_url(web.redis_url).schedule(FUNC, id="a", every=3600),
        Client.from_url(web.redis_url).update("a", name=NAME, owner=OWNER),
    ),
    "add": lambda web, _: Zsched(web.redis_url)("add", "a", FUNC, "--every", "1h", "--name", NAME, "--owner", OWNER),
    "http": lambda web, _: by_http(web),
    "form": lambda web, _: by_form(web),
    "file": by_file,
}


@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
def test_a_name_and_an_owner_are_given_shown_and_found_at_every_door(
    web: Web, client: Client, zsched: Zsched, tmp_path: Path, put: Callable[[Web, Path], object]
) -> None:
    client.schedule(FUNC, id="other", every=3600, name="another", owner="nobody")
    put(web, tmp_path)

    with web.client("reader") as http:
        for filters in ({"name": NAME}, {"owner": OWNER}, LABELS):
            assert ["a"] == [one.id for one in client.list(**filters)]  # type: ignore[arg-type]  # texts
            texts = [text for name, value in filters.items() for text in (f"--{name}", value)]
            assert ["a"] == [one["id"] for one in zsched.json("ls", *texts)]
            assert ["a"] == [one["id"] for one in http.get("/schedules", params=filters).json()["schedules"]]
    found: Schedule = client.get("a")
    assert (NAME, OWNER) == (found.name, found.owner)
    assert f"a ({NAME})" in zsched("ls").stdout
    assert NAME == zsched.json("show", "a")["name"]
    assert zsched("why", "a").stdout.startswith(f"a ({NAME})\n")
    with web.browser("bob") as browser:
        for page in ("/schedules", "/schedules/a", "/schedules/a/edit"):
            assert NAME in browser.get(page).text


def test_the_history_finds_by_the_name_and_the_owner_of_then(
    web: Web, redis_client: redis.Redis, client: Client, zsched: Zsched
) -> None:
    client.enqueue(FUNC, id="a", name=NAME, owner=OWNER)
    client.enqueue(FUNC, id="b", name="later", owner=OWNER)

    [occurrence] = zsched.json("history", "--name", NAME)["occurrences"]

    assert ("a", NAME, OWNER) == (occurrence["id"], occurrence["name"], occurrence["owner"])
    assert f"a ({NAME})" in zsched("history").stdout
    assert ["a"] == [run.schedule_id for run in client.runs(name=NAME)]
    assert {"a", "b"} == {run.schedule_id for run in client.runs(owner=OWNER)}
    with web.client() as http:
        [run] = http.get("/runs", params={"name": NAME}).json()["runs"]
    assert NAME == run["name"]
    with web.browser("eve") as browser:
        assert NAME in browser.get("/runs").text


def test_export_and_ls_find_the_same_schedules_of_an_owner(client: Client, zsched: Zsched) -> None:
    for id, owner in (("a", OWNER), ("b", "ann"), ("c", None)):
        client.schedule(FUNC, id=id, every=3600, owner=owner)

    for owner, ids in ((OWNER, ["a"]), ("", ["c"]), ("nobody", [])):
        assert ids == [one["id"] for one in zsched.json("ls", "--owner", owner)]
        assert ids == zsched.json("export", "--owner", owner)["ids"]


def test_show_tells_who_created_a_schedule_and_who_changed_it_last(client: Client, zsched: Zsched) -> None:
    client.acting_as("ann").schedule(FUNC, id="a", every=60)
    client.acting_as("bob").schedule(FUNC, id="a", every=120)
    client.acting_as("eve").pause("a")

    shown = zsched.json("show", "a")

    assert ("ann", "bob", None) == (shown["created_by"], shown["changed_by"], shown["owner"])
    client.cancel("a")
    client.acting_as("joe").schedule(FUNC, id="a", every=60)
    assert {("created_by", "joe"), ("changed_by", "joe")} <= {
        tuple(line.split()) for line in zsched("show", "a").stdout.splitlines()
    }


def test_the_parameter_of_a_task_that_is_called_name_stays_its_own(client: Client) -> None:
    greet.schedule(client, name="Ann", id="a", every=60)
    client.schedule(greet, id="b", every=60, kwargs={"name": "Bob"}, name=NAME)

    assert [None, NAME] == [client.get(id).name for id in "ab"]


@pytest.mark.parametrize("value", ["two\nlines", "x" * 201, 7, "\x1b[31m"])
def test_a_name_is_a_short_line_of_text(client: Client, value: object) -> None:
    with pytest.raises(InvalidSchedule, match="name="):
        client.schedule(FUNC, id="a", every=60, name=value)  # type: ignore[arg-type]  # what is given
