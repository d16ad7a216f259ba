"""Logins of people: passwords, sessions, their ends, and what a page of another site cannot do with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from http.cookies import SimpleCookie

import httpx
import pytest
import redis

from tests.faults.processes import eventually
from tests.integration.client.ground import KEYS
from tests.integration.web.ground import PASSWORD, Web
from tests.integration.web.test_access import BODY, WRITES
from zsched import Client
from zsched.storage.people import People
from zsched.web.login import PATH

pytestmark = pytest.mark.redis
RIGHT = {"name": "ann", "password": PASSWORD}
API = "/api/v1"


@pytest.fixture
def browser(web: Web) -> Iterator[httpx.Client]:
    """A browser of Ann, an operator, who has logged in."""
    with web.browser() as client:
        yield client


@pytest.fixture
def stranger(web: Web, redis_client: redis.Redis) -> Iterator[httpx.Client]:
    """A browser without a login; there is a person Ann."""
    web.person("ann")
    with web.stranger() as client:
        yield client


def status(client: httpx.Client) -> int:
    return client.get(f"{API}/schedules").status_code


# -- logging in -----------------------------------------------------------------------------------------


def test_a_person_logs_in_and_changes_schedules_under_their_name(
    web: Web, browser: httpx.Client, redis_url: str
) -> None:
    made = browser.put(f"{API}/schedules/a", json=BODY)
    browser.post(f"{API}/schedules/a:pause", json={"note": "for now"})

    assert (200, 201) == (status(browser), made.status_code)
    assert {b"ann"} == {entry.by for entry in Client.from_url(redis_url).log()[0]}
    assert ("ann", "127.0.0.1") == (web.events("logged_in")[-1]["name"], web.events("logged_in")[-1]["address"])


@pytest.mark.parametrize("given", [
    {"name": "ann", "password": "wrong"}, {"name": "ann"}, {"name": "ann", "password": f"{PASSWORD} "},
    {"name": "bob", "password": PASSWORD}, {"name": "", "password": ""}, {"password": PASSWORD}, {},
    {"name": "ann\0", "password": PASSWORD}, {"name": "Ann", "password": PASSWORD},
])  # fmt: skip
def test_a_wrong_name_or_password_begins_no_session(
    web: Web, stranger: httpx.Client, redis_client: redis.Redis, given: dict[str, str]
) -> None:
    answer = stranger.post(PATH, data=given)

    assert (401, None) == (answer.status_code, answer.headers.get("set-cookie"))
    assert "Name or password is wrong." in answer.text
    assert 401 == status(stranger)
    assert [] == list(redis_client.scan_iter("zsched-web:*session*"))
    assert ("ann" if given.get("name") == "ann" else None) == web.events("login_refused")[-1]["name"]


def test_an_unknown_name_is_answered_as_a_wrong_password_is(stranger: httpx.Client) -> None:
    known, unknown = (stranger.post(PATH, data={"name": name, "password": "wrong"}) for name in ("ann", "bob"))

    assert known.text.replace("ann", "NAME") == unknown.text.replace("bob", "NAME")
    assert known.headers.keys() == unknown.headers.keys()
    assert 0.5 < min(known.elapsed.total_seconds(), unknown.elapsed.total_seconds())


def test_an_unknown_name_costs_the_work_of_a_password(web: Web, redis_client: redis.Redis) -> None:
    worked = []

    class Counting:
        def execute(self, *_: object) -> None:
            return None

        def compute(self, function: Callable[..., bool], *arguments: str) -> bool:
            worked.append(arguments)
            return function(*arguments)

    assert People(Counting(), KEYS).admitted("nobody", "wrong", 0) is None  # type: ignore[arg-type]  # a link's part
    assert [("wrong",)] == worked


def test_the_password_is_stored_only_as_its_hash(browser: httpx.Client, redis_client: redis.Redis) -> None:
    stored = b"".join(redis_client.dump(key) for key in redis_client.scan_iter())

    assert PASSWORD.encode() not in stored
    assert browser.cookies["zsched_session"].encode() not in stored


def test_composed_and_decomposed_accents_are_the_same_password(web: Web, redis_client: redis.Redis) -> None:
    web.run_with("Zo\u0065\u0308 zo\u0065\u0308", "users", "add", "zoë", "--role", "viewer", "--password-file", "-")
    with web.stranger() as browser:
        assert 303 == browser.post(PATH, data={"name": "zoë", "password": "Zo\u00eb zo\u00eb"}).status_code


def test_a_person_that_expired_cannot_log_in(web: Web, redis_client: redis.Redis) -> None:
    added = ("users", "add", "ann", "--role", "viewer", "--expires", "1s", "--password-file", "-")
    assert 0 == web.run_with(PASSWORD, *added).returncode
    with web.stranger() as browser:
        eventually(lambda: browser.post(PATH, data=RIGHT).status_code == 401)


def test_a_form_of_a_megabyte_is_refused(stranger: httpx.Client) -> None:
    answer = stranger.post(PATH, data={"name": "ann", "password": "x" * 1_000_000})

    assert (413, "urn:zsched:error:too-large") == (answer.status_code, answer.json()["type"])


def test_a_form_of_thousands_of_fields_is_refused(stranger: httpx.Client) -> None:
    answer = stranger.post(PATH, content="&".join("a=b" for _ in range(3000)))

    assert (400, "urn:zsched:error:not-a-form") == (answer.status_code, answer.json()["type"])


# -- the cookie -----------------------------------------------------------------------------------------


def cookie_of(answer: httpx.Response) -> dict[str, str | bool]:
    """Return the attributes of the session's cookie."""
    [morsel] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert "zsched_session" == morsel.key
    return {name: value for name, value in morsel.items() if value}


def test_the_cookie_of_a_session_is_read_by_no_script_and_sent_by_no_other_site(stranger: httpx.Client) -> None:
    assert {"httponly": True, "samesite": "strict", "path": "/"} == cookie_of(stranger.post(PATH, data=RIGHT))


def test_the_cookie_is_secure_if_the_person_came_by_https(
    start_web: Callable[..., Web], redis_client: redis.Redis
) -> None:
    web = start_web(ZSCHED_WEB_PROXY_ADDRESSES="127.0.0.0/8")
    web.person("ann")
    headers = {"Origin": web.url.replace("http:", "https:"), "X-Forwarded-Proto": "https"}

    secure = httpx.post(f"{web.url}{PATH}", data=RIGHT, headers=headers)
    made_up = httpx.post(f"{web.url}{PATH}", data=RIGHT, headers=headers | {"X-Forwarded-Proto": "https, http"})

    assert cookie_of(secure)["secure"] is True
    assert "secure" not in cookie_of(made_up)


def test_the_pages_of_rq_are_found_without_a_slash_whatever_the_host_is(stranger: httpx.Client) -> None:
    answer = stranger.get("/rq", headers={"Host": "evil.example"})

    assert (307, "/rq/") == (answer.status_code, answer.headers["location"])


def test_a_client_cannot_say_itself_that_it_came_by_https(stranger: httpx.Client) -> None:
    assert "secure" not in cookie_of(stranger.post(PATH, data=RIGHT, headers={"X-Forwarded-Proto": "https"}))


def test_a_cookie_of_no_session_admits_nobody(web: Web, redis_client: redis.Redis) -> None:
    secret = web.token("t")
    for value in ("", "x", "*", secret, "x" * 10_000):
        answer = httpx.get(f"{web.url}{API}/schedules", headers={"Cookie": f"zsched_session={value}"})
        assert 401 == answer.status_code


def test_the_secret_of_a_session_is_no_token(web: Web, browser: httpx.Client) -> None:
    with web.client_of(browser.cookies["zsched_session"]) as client:
        assert 401 == client.get("/schedules").status_code


def test_a_token_goes_before_a_cookie(web: Web, browser: httpx.Client) -> None:
    wrong = browser.get(f"{API}/schedules", headers={"Authorization": "Bearer zs_wrong"})
    viewer = {"Authorization": f"Bearer {web.token('t', 'viewer')}"}

    assert 401 == wrong.status_code
    assert 403 == browser.put(f"{API}/schedules/a", json=BODY, headers=viewer).status_code


# -- the end of a session -------------------------------------------------------------------------------


def test_a_session_ends_at_logout(web: Web, browser: httpx.Client, redis_client: redis.Redis) -> None:
    before = dict(browser.cookies)
    answer = browser.post("/logout")

    assert (303, PATH) == (answer.status_code, answer.headers["location"])
    assert 401 == status(browser)
    browser.cookies.set("zsched_session", before["zsched_session"])
    assert 401 == status(browser)
    assert [] == list(redis_client.scan_iter("zsched-web:*session*"))
    assert "ann" == web.events("logged_out")[-1]["name"]


def test_another_login_ends_the_session_before(browser: httpx.Client, redis_client: redis.Redis) -> None:
    browser.post(PATH, data=RIGHT)

    assert 1 == len(list(redis_client.scan_iter("zsched-web:*session*")))
    assert 200 == status(browser)


def test_a_session_lapses_after_its_hours(start_web: Callable[..., Web], redis_client: redis.Redis) -> None:
    web = start_web(ZSCHED_WEB_SESSION_HOURS="3")
    with web.browser() as browser:
        [session] = redis_client.scan_iter("zsched-web:*session*")
        assert 3 * 3600 - 60 < redis_client.ttl(session) <= 3 * 3600

        redis_client.pexpire(session, 1)

        eventually(lambda: status(browser) == 401, within_s=2)


def test_a_removed_persons_session_ends_within_a_second(web: Web, browser: httpx.Client) -> None:
    assert 200 == status(browser)
    assert "removed" == web.cli("users", "remove", "ann")["result"]

    eventually(lambda: status(browser) == 401, within_s=2)

    web.person("ann")  # with the same password
    assert 401 == status(browser)


def test_a_changed_password_ends_the_sessions_of_its_person_only(web: Web, browser: httpx.Client) -> None:
    with web.browser("bob") as other:
        web.run_with("another one", "users", "password", "ann", "--password-file", "-")

        eventually(lambda: status(browser) == 401, within_s=2)
        assert 200 == status(other)
    assert 401 == browser.post(PATH, data=RIGHT).status_code
    assert 303 == browser.post(PATH, data=RIGHT | {"password": "another one"}).status_code


def test_a_changed_role_holds_within_a_second(web: Web, browser: httpx.Client, redis_client: redis.Redis) -> None:
    assert 201 == browser.put(f"{API}/schedules/a", json=BODY).status_code
    stored = redis_client.hget(KEYS.people(), "ann")

    redis_client.hset(KEYS.people(), "ann", stored.replace(b'"operator"', b'"viewer"'))

    eventually(lambda: browser.put(f"{API}/schedules/b", json=BODY).status_code == 403, within_s=2)
    assert 200 == status(browser)


@pytest.mark.parametrize("text", ["", "{}", "[]", "x", '{"name": "ann"}', "NAME"])
def test_a_person_that_another_program_wrote_is_not_admitted(
    web: Web, browser: httpx.Client, redis_client: redis.Redis, text: str
) -> None:
    stored = redis_client.hget(KEYS.people(), "ann")
    redis_client.hset(KEYS.people(), "ann", text if text != "NAME" else stored.replace(b'"ann"', b'"bob"'))

    eventually(lambda: status(browser) == 401, within_s=2)
    assert 401 == browser.post(PATH, data=RIGHT).status_code


def test_expensive_parameters_of_another_programs_hash_are_not_computed(
    stranger: httpx.Client, redis_client: redis.Redis
) -> None:
    stored = redis_client.hget(KEYS.people(), "ann")
    redis_client.hset(KEYS.people(), "ann", re.sub(rb'"n": \d+', b'"n": 1073741824', stored))

    assert 401 == stranger.post(PATH, data=RIGHT, timeout=5).status_code


# -- pages of other sites -------------------------------------------------------------------------------

ORIGINS = [None, "null", "https://evil.example", "http://127.0.0.1:1", "http://[", "http://"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_write_from_another_sites_page_is_refused(
    browser: httpx.Client, redis_client: redis.Redis, origin: str | None
) -> None:
    browser.put(f"{API}/schedules/a", json=BODY)
    before = redis_client.xlen(KEYS.log())
    del browser.headers["Origin"]
    headers = {} if origin is None else {"Origin": origin}

    for method, path in [*((method, API + path) for method, path in WRITES), ("POST", "/logout")]:
        answer = browser.request(method, path, json=BODY, headers=headers)
        assert (403, "urn:zsched:error:cross-origin") == (answer.status_code, answer.json()["type"]), path

    assert before == redis_client.xlen(KEYS.log())
    assert 200 == status(browser)


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_login_from_another_sites_page_is_refused(stranger: httpx.Client, origin: str | None) -> None:
    del stranger.headers["Origin"]

    answer = stranger.post(PATH, data=RIGHT, headers={} if origin is None else {"Origin": origin})

    assert (403, None) == (answer.status_code, answer.headers.get("set-cookie"))


def test_a_viewer_with_a_session_changes_nothing(web: Web, redis_client: redis.Redis) -> None:
    with web.browser("vic", "viewer") as viewer:
        for method, path in WRITES:
            answer = viewer.request(method, API + path, json=BODY)
            assert (403, "urn:zsched:error:read-only") == (answer.status_code, answer.json()["type"]), path
        assert 200 == status(viewer)
    assert 0 == redis_client.xlen(KEYS.log())


def test_a_person_is_held_to_their_limits(web: Web, redis_client: redis.Redis) -> None:
    with web.browser("bob", "scheduler", queues=("mail",)) as bob:
        made = bob.put(f"{API}/schedules/a", json=BODY)
        refused = bob.put(f"{API}/schedules/b", json={**BODY, "queue": "pay"})

    assert (201, 403) == (made.status_code, refused.status_code)
    assert "'bob' is limited to queue mail" in refused.json()["detail"]


# -- the page -------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("next", [*NEXT, *NOT_LOCAL])
def test_a_login_leads_only_to_paths_of_this_server(stranger: httpx.Client, next: str) -> None:
    form = stranger.get(PATH, params={"next": next})
    [hidden] = re.findall(r'name="next" value="([^"]*)"', form.text)
    entered = stranger.post(PATH, data=RIGHT | {"next": next})
    again = stranger.get(PATH, params={"next": next})

    expected = next if next in NEXT else "/"
    assert (expected, expected) == (unescape(hidden), entered.headers["location"])
    assert next == "" or expected == again.headers["location"]


def test_texts_in_the_form_are_escaped(stranger: httpx.Client) -> None:
    given = '"><script>alert(1)</script>'
    shown = stranger.get(PATH, params={"next": f"/{given}"}).text
    refused = stranger.post(PATH, data={"name": given, "password": "x", "next": f"/{given}"}).text

    assert "<script" not in shown + refused


def test_only_pages_lead_to_the_login(stranger: httpx.Client) -> None:
    html = {"Accept": "text/html,application/xhtml+xml"}
    page, api = stranger.get("/rq/?a=b", headers=html), stranger.get(f"{API}/schedules", headers=html)

    assert (303, f"{PATH}?next=%2Frq%2F%3Fa%3Db") == (page.status_code, page.headers["location"])
    assert (401, 401) == (api.status_code, stranger.get("/rq/").status_code)
