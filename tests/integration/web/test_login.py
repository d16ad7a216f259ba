"""Logins of people: the token that they paste, the cookie, the page; see test_sessions.py for the end of a session."""

import re
from collections.abc import Callable
from html import unescape
from http.cookies import SimpleCookie

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.web.routes import WITHIN
from tests.waiting import eventually
from zsched import Client
from zsched.web.login import PATH

API = "/api/v1"


def status(client: httpx.Client) -> int:
    return client.get(f"{API}/schedules").status_code


@pytest.fixture
def token(web: Web) -> str:
    """The token of Ann, an operator."""
    return web.token("ann")


def test_a_person_logs_in_and_changes_schedules_under_their_name(
    web: Web, stranger: httpx.Client, token: str, redis_client: redis.Redis, redis_url: str
) -> None:
    entered = stranger.post(PATH, data={"token": f" {token}\r\n"})
    made = stranger.put(f"{API}/schedules/a", json=WITHIN)
    stranger.post(f"{API}/schedules/a:pause", json={"note": "for now"})

    assert (303, 200, 201) == (entered.status_code, status(stranger), made.status_code)
    assert {b"ann"} == {entry.by for entry in Client.from_url(redis_url).log()[0]}
    assert ("ann", "127.0.0.1") == (web.events("logged_in")[-1]["name"], web.events("logged_in")[-1]["address"])
    kept = b"".join(redis_client.dump(key) for key in redis_client.scan_iter()) + web.accounts.path.read_bytes()
    for secret in (token, token.removeprefix("zs_"), stranger.cookies["zsched_session"]):
        assert secret.encode() not in kept
        assert secret not in web.log.read_text()


@pytest.mark.parametrize("given", [
    {"token": "wrong"}, {"token": ""}, {}, {"token": "\0"}, {"token": "é" * 1000}, {"name": "ann", "password": "TOKEN"},
    {"token": "TOKEN-"}, {"token": "Bearer TOKEN"},
])  # fmt: skip
def test_a_wrong_token_begins_no_session(web_of_a_proxy: Web, newcomer: httpx.Client, given: dict[str, str]) -> None:
    token = web_of_a_proxy.token("ann")
    answer = newcomer.post(PATH, data={name: value.replace("TOKEN", token) for name, value in given.items()})

    assert (401, None) == (answer.status_code, answer.headers.get("set-cookie"))
    assert "The token is wrong, revoked or has expired." in answer.text
    assert 401 == status(newcomer)
    assert newcomer.headers["X-Forwarded-For"] == web_of_a_proxy.events("login_refused")[-1]["address"]


def test_a_token_that_expired_begins_no_session_and_its_earlier_sessions_end(web: Web) -> None:
    added = web.zsched.json("tokens", "add", "ann", "--role", "viewer", "--expires", "2s")
    with web.stranger() as browser, web.stranger() as late:
        assert 303 == browser.post(PATH, data={"token": added["token"]}).status_code

        eventually(lambda: status(browser) == 401)
        assert 401 == late.post(PATH, data={"token": added["token"]}).status_code


@pytest.mark.parametrize(("form", "status", "kind"), [
    (f"token={'x' * 1_000_000}", 413, "too-large"), ("&".join(["a=b"] * 3000), 400, "not-a-form"),
], ids=["of a megabyte", "of thousands of fields"])  # fmt: skip
def test_a_huge_form_is_refused(stranger: httpx.Client, form: str, status: int, kind: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = stranger.post(PATH, content=form, headers=headers)

    assert (status, f"urn:zsched:error:{kind}") == (answer.status_code, answer.json()["type"])


def cookie_of(answer: httpx.Response) -> dict[str, str | bool]:
    """Return the attributes of the session's cookie."""
    [morsel] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert "zsched_session" == morsel.key
    return {name: value for name, value in morsel.items() if value}


def test_the_cookie_is_read_by_no_script_and_secure_if_the_person_came_by_https(
    stranger: httpx.Client, token: str, start_web: Callable[..., Web]
) -> None:
    right, expected = {"token": token}, {"httponly": True, "samesite": "strict", "path": "/"}
    assert expected == cookie_of(stranger.post(PATH, data=right))
    # a client cannot say itself that it came by https
    assert expected == cookie_of(stranger.post(PATH, data=right, headers={"X-Forwarded-Proto": "https"}))

    web = start_web(ZSCHED_WEB_PROXY_ADDRESSES="127.0.0.0/8")
    right = {"token": web.token("ann")}
    headers = {"Origin": web.url.replace("http:", "https:"), "X-Forwarded-Proto": "https"}

    secure = web.request("POST", PATH, data=right, headers=headers)
    made_up = web.request("POST", PATH, data=right, headers=headers | {"X-Forwarded-Proto": "https, http"})

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


def test_a_login_leads_only_to_paths_of_this_server(stranger: httpx.Client, token: str) -> None:
    for next in (*NEXT, *NOT_LOCAL):
        stranger.cookies.clear()
        form = stranger.get(PATH, params={"next": next})
        [hidden] = re.findall(r'name="next" value="([^"]*)"', form.text)
        entered = stranger.post(PATH, data={"token": token, "next": next})
        again = stranger.get(PATH, params={"next": next})

        expected = next if next in NEXT else "/"
        assert (expected, expected) == (unescape(hidden), entered.headers["location"]), next
        assert next == "" or expected == again.headers["location"]


def test_only_pages_lead_to_the_login_whose_form_escapes_texts(stranger: httpx.Client) -> None:
    given = '"><script>alert(1)</script>'
    shown = stranger.get(PATH, params={"next": f"/{given}"}).text
    refused = stranger.post(PATH, data={"token": given, "next": f"/{given}"}).text

    assert "<script" not in shown + refused

    answer = stranger.get("/rq", headers={"Host": "evil.example"})

    assert (307, "/rq/") == (answer.status_code, answer.headers["location"])

    html = {"Accept": "text/html,application/xhtml+xml"}
    page, api = stranger.get("/rq/?a=b", headers=html), stranger.get(f"{API}/schedules", headers=html)

    assert (303, f"{PATH}?next=%2Frq%2F%3Fa%3Db") == (page.status_code, page.headers["location"])
    assert (401, 401) == (api.status_code, stranger.get("/rq/").status_code)
