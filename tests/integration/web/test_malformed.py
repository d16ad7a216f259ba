"""Requests that no honest client sends: each is refused with a problem that names the cause, and nothing is written."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.raw import refused
from zsched.core.options.table import OPTIONS

pytestmark = pytest.mark.usefixtures("nothing_is_written")
HUGE = "9" * 400
LONG = "x" * 500_000
PUT = {"func": "app.x", "after": 60}


@pytest.fixture
def nothing_is_written(web: Web, http: httpx.Client, redis_client: redis.Redis) -> Iterator[None]:
    """Check after each test that its requests wrote nothing, and that the server has no failure to report."""
    http.get("/schedules")  # so that the use of the token is recorded
    before = redis_client.xlen(KEYS.log()), redis_client.dbsize()
    yield
    assert before == (redis_client.xlen(KEYS.log()), redis_client.dbsize())
    assert "request_failed" not in web.log.read_text()


def put(http: httpx.Client, text: str | bytes, id: str = "a") -> httpx.Response:
    return http.put(f"/schedules/{id}", content=text)


NOT_JSON: dict[str, str | bytes] = {
    "a float of 400 digits": f'{{"func": "app.x", "after": {HUGE}.5}}',
    "an exponent of 400 digits": f'{{"func": "app.x", "after": 1e{HUGE}}}',
    "an int of 5,000 digits": f'{{"func": "app.x", "after": {"9" * 5000}}}',
    "a hundred thousand brackets": "[" * 100_000,
    "a hundred thousand closed brackets": '{"args": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "a hundred thousand objects": '{"a":' * 100_000,
    "900 levels": '{"func": "app.x", "after": 60, "args": ' + "[" * 900 + "]" * 900 + "}",
    "101 levels": '{"func": "app.x", "after": 60, "args": ' + "[" * 101 + "]" * 101 + "}",
    "a key twice": '{"func": "app.x", "after": 60, "after": 61}',
    "a key twice, deeply": '{"func": "app.x", "after": 60, "args": [{"a": 1, "a": 1}]}',
    "a key twice after a hundred thousand": "{" + "".join(f'"{n}":0,' for n in range(80_000)) + '"79999":0}',
    "NaN": '{"func": "app.x", "after": NaN}',
    "an infinite argument": '{"func": "app.x", "after": 60, "args": [-Infinity]}',
    "invalid UTF-8": b'{"func": "app.x", "after": 60, "args": ["\xff\xfe"]}',
    "UTF-16": '{"func": "app.x", "after": 60}'.encode("utf-16"),
    "a surrogate in UTF-8": b'{"func": "app.\xed\xa0\x80", "after": 60}',
    "a control character": '{"func": "app.x", "after": 60, "args": ["\n"]}',
    "two values": '{"func": "app.x", "after": 60} {}',
    "a text": '"func"',
    "null": "null",
    "a list": "[1]",
    "half of an object": "{",
    "a float that is infinite": '{"func": "app.x", "after": 1e999}',
}


@pytest.mark.parametrize("case", NOT_JSON)
def test_a_text_that_is_not_plain_json_is_refused(http: httpx.Client, case: str) -> None:
    problem = refused(put(http, NOT_JSON[case]), 400)

    assert "urn:zsched:error:not-json" == problem["type"]


BAD_VALUES: dict[str, tuple[str, str]] = {
    "an int of 400 digits": ("after", HUGE),
    "a negative int of 400 digits": ("every", f"-{HUGE}"),
    "a timeout of 400 digits": ("timeout", HUGE),
    "retries of 400 digits": ("retry", HUGE),
    "retries of 400 digits in an object": ("retry", f'{{"max": {HUGE}}}'),
    "an interval of 400 digits": ("retry", f'{{"max": 1, "interval": {HUGE}}}'),
    "a callback's timeout of 400 digits": ("on_success", f'{{"func": "app.x", "timeout": {HUGE}}}'),
    "a callback without a function": ("on_success", '{"timeout": 5}'),
    "a callback of a forbidden function": ("on_failure", '{"func": "os.system"}'),
    "slots of 400 digits": ("rate_limit", f'["a", {HUGE}]'),
    "a newline in a queue": ("queue", r'"a\nb"'),
    "a header in a queue": ("queue", r'"a\r\nX-Evil: 1"'),
    "a NUL in a queue": ("queue", r'"a\u0000b"'),
    "a NUL in a description": ("description", r'"a\u0000b"'),
    "half of a character in a description": ("description", r'"\ud800"'),
    "half of a character in a queue": ("queue", r'"\udfff"'),
    "half of a character in a tag": ("tags", r'["\ud800"]'),
    "half of a character in a function": ("func", r'"app.\ud800"'),
    "half of a character in a zone": ("tz", r'"\ud800"'),
    "half of a character in a time": ("at", r'"2040-01-01T00:00:00\ud800"'),
    "a zone above the folder": ("tz", '"../../etc/passwd"'),
    "a folder of zones": ("tz", '"America"'),
    "a zone of 400 digits": ("tz", f'"UTC+{HUGE}"'),
    "a time before the first year": ("at", '"0001-01-01T00:00:00+14:00"'),
    "a time after the last year": ("at", '"9999-12-31T23:59:59-14:00"'),
    "a list for a time": ("starts", '["T"]'),
    "a number for tags": ("tags", "5"),
    "an object for tags": ("tags", '{"shop": 1}'),
    "a number for a function": ("func", "5"),
    "null for a function": ("func", "null"),
    "an object for a queue": ("queue", "{}"),
    "a flag as a number": ("at_front", "1"),
    "another id": ("id", '"b"'),
    "a misspelt option": ("quue", '"x"'),
    "a forbidden function": ("func", '"os.system"'),
    "a time in the past": ("at", '"2020-01-01T00:00:00Z"'),
    "a time without a zone": ("at", '"2040-01-01T00:00:00"'),
    "a word for a time": ("at", '"soon"'),
    "a number for a time": ("at", "5"),
    "a number for an id": ("id", "5"),
    "self": ("self", "1"),
    "function": ("function", "1"),
    "a callback of the client": ("on_progress", "1"),
}
OTHER_KINDS = {"a time in the past": "schedule-in-past", "half of a character in a function": "not-importable"}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_bad_value_is_refused_by_the_name_of_its_option(http: httpx.Client, case: str) -> None:
    name, value = BAD_VALUES[case]
    others = {"func": "app.x", "after": 60} if name not in ("at", "every", "starts") else {"func": "app.x"}
    rule = {"every": 60} if name == "starts" else {}
    text = ", ".join(f'"{key}": {json.dumps(given)}' for key, given in {**others, **rule}.items() if key != name)

    problem = refused(put(http, f'{{{text}, "{name}": {value}}}'), 422)

    kind = OTHER_KINDS.get(case, "invalid-schedule")
    assert (name, f"urn:zsched:error:{kind}") == (problem["option"], problem["type"])


@pytest.mark.parametrize(
    ("body", "option"), [({"after": 5}, "func"), ({"func": "app.x"}, "at, after, every, cron or rrule")]
)
def test_a_body_without_function_or_trigger_is_refused(http: httpx.Client, body: dict[str, Any], option: str) -> None:
    problem = refused(http.put("/schedules/a", json=body), 422)

    assert "urn:zsched:error:invalid-schedule" == problem["type"]
    assert problem["option"] in option or "trigger" in problem["detail"]


@pytest.mark.parametrize("limits", [{"queues": ("mail",)}, {"tags": ("s*",)}, {"queues": ("N*",)}])
@pytest.mark.parametrize("case", ["a number for tags", "an object for tags", "an object for a queue"])
def test_a_bad_value_of_a_limited_token_is_refused(web: Web, case: str, limits: dict[str, Any]) -> None:
    name, value = BAD_VALUES[case]
    with web.client("shop", "scheduler", **limits) as shop:
        shop.get("/schedules")
        text = f'{{"func": "app.x", "after": 60, "{name}": {value}}}'
        refused(put(shop, text), 403, 422)


LONG_VALUES = [
    json.dumps(LONG),
    json.dumps("9" * 500_000),
    json.dumps([LONG[:1000]] * 400),
    json.dumps({LONG: 1}),
    json.dumps(["T"] * 100_000),
]


@pytest.mark.parametrize("value", LONG_VALUES, ids=range(len(LONG_VALUES)))
def test_a_long_value_is_refused_at_once(http: httpx.Client, value: str) -> None:
    arguments = {"args", "kwargs", "meta"}  # any values, bounded by their size
    for name in [*(OPTIONS.keys() - arguments), "quue", "x" * 100_000]:
        body = {key: given for key, given in PUT.items() if key != name}
        answer = put(http, json.dumps(body)[:-1] + f', "{name}": {value}}}')

        assert refused(answer, 422)["option"]


def test_arguments_that_are_too_large_are_refused(http: httpx.Client) -> None:
    text = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(300_000))

    answers = [
        put(http, json.dumps({**PUT, **each}, ensure_ascii=False))
        for each in ({"args": [text]}, {"kwargs": {"a": text}})
    ]

    assert ["args", "args"] == [refused(answer, 422)["option"] for answer in answers]


PREVIEWS: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a start": ({"every": 60, "start": 5}, "start"),
    "a list for a start": ({"every": 60, "start": ["T"]}, "start"),
    "a local start": ({"every": 60, "start": "2026-01-01T00:00:00"}, "start"),
    "too many": ({"every": 60, "n": 10**400}, "n"),
    "a flag for a number": ({"every": 60, "n": True}, "n"),
    "a rule that never fires": ({"cron": "0 0 31 2 *"}, "cron"),
    "a number for an id": ({"id": 5}, "id"),
    "self": ({"every": 60, "self": 1}, "self"),
    "function": ({"every": 60, "function": 1}, "function"),
    "a limit": ({"every": 60, "rate_limit": "a:1"}, "rate_limit"),
}


@pytest.mark.parametrize("case", PREVIEWS)
def test_a_bad_preview_is_refused(http: httpx.Client, case: str) -> None:
    body, option = PREVIEWS[case]

    assert option == refused(http.post("/preview", json=body), 422)["option"]


IDS = "a%0A %0A a%2Fb %2F a%00 %00 ..%2F.. a%0D%0AX-Evil:%201 %ED%A0%80 %FF a%20 é a.b %E2%80%AE".split()


@pytest.mark.parametrize("id", [*IDS, "x" * 10_000])
def test_a_bad_id_names_no_schedule(http: httpx.Client, id: str) -> None:
    requests = [
        ("PUT", f"/schedules/{id}", PUT), ("GET", f"/schedules/{id}", None), ("DELETE", f"/schedules/{id}", None),
        ("PATCH", f"/schedules/{id}", {"queue": "x"}), ("POST", f"/schedules/{id}:pause", {}),
        ("POST", f"/schedules/{id}:run", {}), ("GET", f"/runs/{id}", None), ("POST", f"/runs/{id}:retry", {}),
        ("POST", f"/runs/{id}:cancel", {}),
    ]  # fmt: skip
    for method, path, body in requests:
        answer = http.request(method, path, json=body)
        refused(answer, 404, 405, 422)
        assert "x-evil" not in answer.headers


QUERIES = {
    "/schedules?state=%00": "state", "/schedules?kind=x": "kind", "/schedules?page_size=0": "page_size",
    f"/schedules?page_size={HUGE}": "page_size", "/schedules?page_size=1e3": "page_size",
    "/schedules?due_after=0001-01-01T00:00:00%2B14:00": "due_after", "/schedules?due_before=now": "due_before",
    "/schedules?page_token=!!": "page_token", "/schedules?page_token=%FF": "page_token",
    "/runs?status=x": "status", "/runs?since=5": "since", "/runs?page_token=1-2": "page_token",
    "/log?limit=-1": "limit",
    "/log?since=2026-01-01T00:00:00": "since", "/schedules/a/story?tz=%2E%2E%2Fetc": "tz",
}  # fmt: skip


@pytest.mark.parametrize("path", QUERIES)
def test_a_bad_parameter_is_refused_by_its_name(http: httpx.Client, path: str) -> None:
    problem = refused(http.get(path), 422)

    assert QUERIES[path] == problem["option"]


@pytest.mark.parametrize("path", ["/schedules", "/runs"])
@pytest.mark.parametrize("number", ["9" * 5000, "9" * 19, "-1", "1e5"])
def test_a_forged_page_token_is_refused(http: httpx.Client, path: str, number: str) -> None:
    cursors = [f"active:{number}:a", f"{number}-1-1-1-1", f"1-1-1-1-{number}/a-1"]
    for cursor in cursors:
        token = base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")
        for given in (token, cursor):
            refused(http.get(path, params={"page_token": given}), 422)
