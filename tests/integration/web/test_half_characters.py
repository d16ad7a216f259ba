"""
Half of a character (a lone surrogate, as JavaScript's ``text.slice`` makes) at each door: one error that names the
field, the value and the remedy. What another program has put into Redis is shown.
"""

import json
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis

from tests.builders.command_line import Zsched
from tests.builders.web import Web
from tests.prefix import RQ
from zsched import Client, InvalidSchedule, ZschedError
from zsched.cli.program import DONE, FAILED, NOT_FOUND, USAGE
from zsched.core.options.forms import RateLimit

HALF = "\ud83d"
FUNC = "app.tasks.digest"
WHOLE = "한글 😀 \\ud83d"  # whole characters, and a text that only looks like half of one


class Box:
    """An object of a class, with a text in it."""

    def __init__(self, text: str) -> None:
        self.text = text


IN_A_CALL: dict[str, tuple[str, dict[str, Any]]] = {
    "args": ("args", {"args": (HALF,)}),
    "the depth of args": ("args", {"args": ([{"a": [f"a{HALF}b"]}],)}),
    "a key in args": ("args", {"args": ({f"a{HALF}": 1},)}),
    "kwargs": ("kwargs", {"kwargs": {"a": HALF}}),
    "a name in kwargs": ("kwargs", {"kwargs": {HALF: 1}}),
    "a key in kwargs": ("kwargs", {"kwargs": {"a": {HALF: 1}}}),
    "meta": ("meta", {"meta": {"a": HALF}}),
}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = IN_A_CALL | {
    "a tag": ("tags", {"tags": ["sale", HALF]}),
    "the description": ("description", {"description": HALF}),
    "the name": ("name", {"name": HALF}),
    "the owner": ("owner", {"owner": HALF}),
    "the queue": ("queue", {"queue": HALF}),
    "the id": ("id", {"id": HALF}),
    "a callback": ("on_success", {"on_success": f"app.{HALF}"}),
    "the key of a limit": ("rate_limit", {"rate_limit": RateLimit(HALF, 3)}),
}


@pytest.fixture(params=["pickle", "json"])
def client(request: pytest.FixtureRequest, redis_client: redis.Redis, redis_url: str) -> Client:
    return Client.from_url(redis_url, serializer=request.param)


def assert_refuses(field: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        call()
    assert field == refused.value.field
    assert "\\ud83d" in str(refused.value)
    str(refused.value).encode()
    assert refused.value.remedy


@pytest.mark.parametrize("where", OPTIONS)
def test_half_of_a_character_is_refused_by_each_call_that_puts(client: Client, where: str) -> None:
    field, options = OPTIONS[where]
    client.schedule(FUNC, id="a", every=60)
    once: dict[str, Any] = {"after": 60} | options

    assert_refuses(field, lambda: client.schedule(FUNC, **once))
    assert_refuses(field, lambda: client.schedule(FUNC, every=60, **options))
    assert_refuses(field, lambda: client.enqueue(FUNC, **options))
    [(_, refused)] = client.schedule_many([{"func": FUNC, **once}], errors="return").errors
    assert isinstance(refused, InvalidSchedule)
    assert field == refused.field
    if where != "the id":
        assert_refuses(field, lambda: client.update("a", **options))
    assert ["a"] == [one.id for one in client.list()]


def test_every_other_text_of_a_call_is_refused(client: Client, redis_url: str) -> None:
    client.schedule(FUNC, id="a", every=60)

    assert_refuses("note", lambda: client.pause("a", note=HALF))
    assert_refuses("note", lambda: client.pause_many(note=HALF, match="a"))
    assert_refuses("by", lambda: Client.from_url(redis_url, by=HALF))
    assert_refuses("by", lambda: client.acting_as(HALF))
    assert_refuses("match", lambda: client.cancel_many(match=HALF))
    assert_refuses("tag", lambda: list(client.list(tag=HALF)))
    assert_refuses("tag", lambda: client.history(tag=HALF))
    assert_refuses("if_version", lambda: client.cancel("a", if_version=HALF))
    assert_refuses("tz", lambda: client.preview(cron="* * * * *", tz=HALF))
    assert_refuses("cron", lambda: client.preview(cron=HALF))
    calls: list[Callable[[str], Any]] = [
        client.get, client.why, client.cancel, client.run_now, client.get_run, client.cancel_run, client.retry,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ZschedError):
            call(HALF)


def test_calendars_refuse_half_of_a_character_at_each_door(http: httpx.Client, client: Client, zsched: Zsched) -> None:
    given = {"dates": [f"12-25 {HALF}"], "events": [f"2026-01-05/1d FREQ=MONTHLY;BYDAY=1MO {HALF}"]}

    for part, texts in given.items():
        answer = http.put("/calendars/holidays", content=json.dumps({part: texts}))
        assert (422, part) == (answer.status_code, answer.json()["option"])
        assert_refuses(part, lambda part=part, texts=texts: client.put_calendar("holidays", **{part: texts}))  # type: ignore[misc]
    assert_refuses("owner", lambda: client.put_calendar("holidays", owner=HALF))
    assert USAGE == zsched("calendars", "put", "holidays", "--date", "12-25 \udcff").exit_code
    assert {} == client.calendars()


def test_an_object_with_half_of_a_character_is_refused_by_pickle(redis_client: redis.Redis, redis_url: str) -> None:
    client = Client.from_url(redis_url)

    assert_refuses("args", lambda: client.schedule(FUNC, args=(Box(HALF),), after=60))
    client.schedule(FUNC, args=(Box(WHOLE), b"\xed\xa0\xbd", WHOLE), id="a", after=60)


@pytest.mark.parametrize("where", ["args", "a name in kwargs", "meta", "a tag", "the description"])
def test_http_refuses_half_of_a_character_with_422(http: httpx.Client, web: Web, where: str) -> None:
    field, options = OPTIONS[where]
    body = json.dumps({"func": FUNC, "every": 60, **options})
    http.put("/schedules/b", json={"func": FUNC, "every": 60})

    answers = [
        http.put("/schedules/a", content=body),
        http.post("/schedules", content=body, headers={"Idempotency-Key": "once"}),
        http.patch("/schedules/b", content=json.dumps(options)),
    ]
    lines = http.post("/schedules:batch", content=json.dumps({"id": "a", "func": FUNC, "every": 60, **options}))

    for answer in answers:
        assert 422 == answer.status_code, answer.text
        assert field == answer.json()["option"]
    assert "\\\\ud83d" in lines.text
    assert 404 == http.get("/schedules/a").status_code


def test_the_command_line_and_files_refuse_half_of_a_character(zsched: Zsched, tmp_path: Any) -> None:
    half = json.dumps([HALF])
    file = tmp_path / "schedules.toml"
    file.write_text(f"[schedules.a]\nfunc = '{FUNC}'\nevery = 60\nargs_json = '{half}'\n")

    for arguments in (
        ("add", "a", FUNC, "--every", "60", "--args", half),
        ("add", "a", FUNC, "--every", "60", "--kwargs", json.dumps({HALF: 1})),
        ("add", "a", FUNC, "--every", "60", "--description", "\udcff"),  # a byte that is no UTF-8
        ("apply", str(file)),
    ):
        result = zsched(*arguments)
        assert USAGE == result.exit_code, result.output
        assert isinstance(result.exception, SystemExit)
    assert NOT_FOUND == zsched("show", "a").exit_code


def test_whole_characters_pass_and_come_back(client: Client, redis_client: redis.Redis) -> None:
    made = client.schedule(FUNC, args=(WHOLE,), kwargs={"가": WHOLE}, meta={"나": WHOLE}, id="a", after=60)

    raw = redis_client.hget(f"{RQ}:job:{made.run_id}", "data") or b""
    _, args, kwargs = client._encoder.open(raw)
    assert ((WHOLE,), {"가": WHOLE}) == (args, kwargs)
    assert "updated" == client.update("a", queue="mail").outcome


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_half_of_a_character_of_another_program_is_shown(
    web: Web, start_web: Any, redis_client: redis.Redis, redis_url: str, serializer: str
) -> None:
    client = Client.from_url(redis_url, serializer=serializer)
    client.schedule(FUNC, args=("x",), id="a", every=3600)
    call = [FUNC, None, [HALF], {HALF: HALF}]
    raw = json.dumps(call).encode() if serializer == "json" else pickle.dumps((FUNC, None, (HALF,), {HALF: HALF}))
    redis_client.hset("zsched:{default}:template:a", mapping={"data": raw, "meta": json.dumps({"a": HALF})})
    redis_client.hset("zsched:{default}:schedule:a", "tags", json.dumps([HALF]))
    served = start_web(ZSCHED_RQ_SERIALIZER=serializer)
    zsched = Zsched(redis_url, ZSCHED_RQ_SERIALIZER=serializer)

    with served.client(sees_arguments=True) as http, served.browser("eve", sees_arguments=True) as browser:
        for path in ("/schedules", "/schedules/a", "/schedules/a/story"):
            assert 200 == http.get(path).status_code
        for path in ("/", "/schedules", "/schedules/a", "/schedules/a/edit"):
            assert 200 == browser.get(path).status_code, path
        if serializer == "json":
            assert "\\ud83d" in browser.get("/schedules/a").text
    for command in (("ls",), ("ls", "--json"), ("show", "a"), ("show", "a", "--json"), ("why", "a"), ("export",)):
        assert zsched(*command).exit_code in (DONE, FAILED, 4)
    assert "unreadable" in zsched("ls").stdout
    assert "its tags cannot be read" in zsched("why", "a").output
