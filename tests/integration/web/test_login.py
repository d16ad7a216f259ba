"""Logins of people: passwords, the cookie, the page; see test_sessions.py for the end of a session."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from http.cookies import SimpleCookie

import httpx
import pytest
import redis

from tests.builders.web import PASSWORD, Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import WITHIN
from tests.waiting import eventually
from zsched import Client
from zsched.storage.people import People
from zsched.web.login import PATH

RIGHT = {"name": "ann", "password": PASSWORD}
API = "/api/v1"


def status(client: httpx.Client) -> int:
    return client.get(f"{API}/schedules").status_code


def test_a_person_logs_in_and_changes_schedules_under_their_name(
    web: Web, stranger: httpx.Client, redis_client: redis.Redis, redis_url: str
) -> None:
    entered = stranger.post(PATH, data=RIGHT)
    made = stranger.put(f"{API}/schedules/a", json=WITHIN)
    stranger.post(f"{API}/schedules/a:pause", json={"note": "for now"})

    assert (303, 200, 201) == (entered.status_code, status(stranger), made.status_code)
    assert {b"ann"} == {entry.by for entry in Client.from_url(redis_url).log()[0]}
    assert ("ann", "127.0.0.1") == (web.events("logged_in")[-1]["name"], web.events("logged_in")[-1]["address"])
    stored = b"".join(redis_client.dump(key) for key in redis_client.scan_iter())
    assert PASSWORD.encode() not in stored
    assert stranger.cookies["zsched_session"].encode() not in stored


@pytest.mark.parametrize("given", [
    {"name": "ann", "password": "wrong"}, {"name": "ann"}, {"name": "ann", "password": f"{PASSWORD} "},
    {"name": "bob", "password": PASSWORD}, {"name": "", "password": ""}, {"password": PASSWORD}, {},
    {"name": "ann\0", "password": PASSWORD}, {"name": "Ann", "password": PASSWORD},
])  # fmt: skip
def test_a_wrong_name_or_password_begins_no_session(
    web_of_a_proxy: Web, newcomer: httpx.Client, redis_client: redis.Redis, given: dict[str, str]
) -> None:
    answer = newcomer.post(PATH, data=given)

    assert (401, None) == (answer.status_code, answer.headers.get("set-cookie"))
    assert "Name or password is wrong." in answer.text
    assert 401 == status(newcomer)
    assert [] == list(redis_client.scan_iter("zsched-web:*session*"))
    assert ("ann" if given.get("name") == "ann" else None) == web_of_a_proxy.events("login_refused")[-1]["name"]


def test_an_unknown_name_is_answered_as_a_wrong_password_and_costs_its_work(stranger: httpx.Client, web: Web) -> None:
    known, unknown = (stranger.post(PATH, data={"name": name, "password": "wrong"}) for name in ("ann", "bob"))

    assert known.text.replace("ann", "NAME") == unknown.text.replace("bob", "NAME")
    assert known.headers.keys() == unknown.headers.keys()

    worked = []

    class Counting:
        def execute(self, *_: object) -> None:
            return None

        def compute(self, function: Callable[..., bool], *arguments: str) -> bool:
            worked.append(arguments)
            return function(*arguments)

    assert People(Counting(), KEYS).admitted("nobody", "wrong", 0) is None  # type: ignore[arg-type]  # a link's part
    assert [("wrong",)] == worked


def test_composed_and_decomposed_accents_are_the_same_password(web: Web) -> None:
    added = ("users", "add", "zoë", "--role", "viewer", "--password-file", "-")
    web.zsched(*added, input="Zo\u0065\u0308 zo\u0065\u0308")
    with web.stranger() as browser:
        assert 303 == browser.post(PATH, data={"name": "zoë", "password": "Zo\u00eb zo\u00eb"}).status_code


def test_a_person_that_expired_cannot_log_in(web: Web) -> None:
    added = ("users", "add", "ann", "--role", "viewer", "--expires", "1s", "--password-file", "-")
    assert 0 == web.zsched(*added, input=PASSWORD).exit_code
    with web.stranger() as browser:
        eventually(lambda: browser.post(PATH, data=RIGHT).status_code == 401)


@pytest.mark.parametrize(("form", "status", "kind"), [
    (f"name=ann&password={'x' * 1_000_000}", 413, "too-large"), ("&".join(["a=b"] * 3000), 400, "not-a-form"),
], ids=["of a megabyte", "of thousands of fields"])  # fmt: skip
def test_a_huge_form_is_refused(stranger: httpx.Client, form: str, status: int, kind: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = stranger.post(PATH, content=form, headers=headers)

    assert (status, f"urn:zsched:error:{kind}") == (answer.status_code, answer.json()["type"])


def test_expensive_parameters_of_foreign_hashes_are_ignored(stranger: httpx.Client, redis_client: redis.Redis) -> None:
    stored = redis_client.hget(KEYS.people(), "ann")
    redis_client.hset(KEYS.people(), "ann", re.sub(rb'"n": \d+', b'"n": 1073741824', stored))

    assert 401 == stranger.post(PATH, data=RIGHT).status_code


def cookie_of(answer: httpx.Response) -> dict[str, str | bool]:
    """Return the attributes of the session's cookie."""
    [morsel] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert "zsched_session" == morsel.key
    return {name: value for name, value in morsel.items() if value}


def test_the_cookie_is_read_by_no_script_and_secure_if_the_person_came_by_https(
    stranger: httpx.Client, start_web: Callable[..., Web]
) -> None:
    expected = {"httponly": True, "samesite": "strict", "path": "/"}
    assert expected == cookie_of(stranger.post(PATH, data=RIGHT))
    # a client cannot say itself that it came by https
    assert expected == cookie_of(stranger.post(PATH, data=RIGHT, headers={"X-Forwarded-Proto": "https"}))

    web = start_web(ZSCHED_WEB_PROXY_ADDRESSES="127.0.0.0/8")
    headers = {"Origin": web.url.replace("http:", "https:"), "X-Forwarded-Proto": "https"}

    secure = web.request("POST", PATH, data=RIGHT, headers=headers)
    made_up = web.request("POST", PATH, data=RIGHT, headers=headers | {"X-Forwarded-Proto": "https, http"})

    assert cookie_of(secure)["secure"] is True
    assert "secure" not in cookie_of(made_up)


def test_the_page_of_the_login_allows_only_parts_of_this_server(stranger: httpx.Client) -> None:
    answer = stranger.get(PATH)
    icon, style = re.findall(r'href="([^"]+)"', answer.text)

    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert {"'none'"} == {policy.pop(name) for name in ("default-src", "frame-ancestors", "base-uri")}
    assert {"'self'", "'self' data:"} == set(policy.values())
    assert ("no-store", "nosniff") == (answer.headers["cache-control"], answer.headers["x-content-type-options"])
    assert "<script" not in answer.text
    assert "style=" not in answer.text
    kinds = {"image/svg+xml": icon, "text/css; charset=utf-8": style}
    assert list(kinds) == [stranger.get(path).headers["content-type"] for path in kinds.values()]


def test_the_page_says_who_is_logged_in(browser: httpx.Client) -> None:
    page = browser.get(PATH).text

    assert "<strong>ann</strong>, operator" in page
    assert 'action="/logout"' in page
    assert 'href="/rq/"' not in page  # without the right to see arguments


NEXT = ["/rq/", "/rq/0/view/queues?a=b&c=%20d", "/api/docs#x", "/", "/a/..//b"]
NOT_LOCAL = [
    "", "//evil.example", "/\\evil.example", "\\/evil.example", "https://evil.example", "javascript:alert(1)",
    "/\t/evil.example", "/\n/evil.example", "\t//evil.example", " //evil.example", "evil.example", "/a b", "/\x00",
    "/\r\nSet-Cookie: a=b", "///evil.example", "http:evil.example", "/\x7f/evil.example",
]  # fmt: skip


def test_a_login_leads_only_to_paths_of_this_server(stranger: httpx.Client) -> None:
    for next in (*NEXT, *NOT_LOCAL):
        stranger.cookies.clear()
        form = stranger.get(PATH, params={"next": next})
        [hidden] = re.findall(r'name="next" value="([^"]*)"', form.text)
        entered = stranger.post(PATH, data=RIGHT | {"next": next})
        again = stranger.get(PATH, params={"next": next})

        expected = next if next in NEXT else "/"
        assert (expected, expected) == (unescape(hidden), entered.headers["location"]), next
        assert next == "" or expected == again.headers["location"]


def test_only_pages_lead_to_the_login_whose_form_escapes_texts(stranger: httpx.Client) -> None:
    given = '"><script>alert(1)</script>'
    shown = stranger.get(PATH, params={"next": f"/{given}"}).text
    refused = stranger.post(PATH, data={"name": given, "password": "x", "next": f"/{given}"}).text

    assert "<script" not in shown + refused

    answer = stranger.get("/rq", headers={"Host": "evil.example"})

    assert (307, "/rq/") == (answer.status_code, answer.headers["location"])

    html = {"Accept": "text/html,application/xhtml+xml"}
    page, api = stranger.get("/rq/?a=b", headers=html), stranger.get(f"{API}/schedules", headers=html)

    assert (303, f"{PATH}?next=%2Frq%2F%3Fa%3Db") == (page.status_code, page.headers["location"])
    assert (401, 401) == (api.status_code, stranger.get("/rq/").status_code)
