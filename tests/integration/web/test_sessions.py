"""Sessions of people: their ends, and what a page of another site cannot do with them."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import WITHIN
from tests.integration.web.test_access import WRITES
from tests.integration.web.test_login import API, PATH, RIGHT, status
from tests.waiting import eventually


def test_a_session_is_no_token_and_a_token_goes_before_it(web: Web, browser: httpx.Client) -> None:
    wrong = browser.get(f"{API}/schedules", headers={"Authorization": "Bearer zs_wrong"})
    viewer = {"Authorization": f"Bearer {web.token('t', 'viewer')}"}

    assert 401 == wrong.status_code
    assert 403 == browser.put(f"{API}/schedules/a", json=WITHIN, headers=viewer).status_code
    with web.client_of(browser.cookies["zsched_session"]) as client:
        assert 401 == client.get("/schedules").status_code


def test_a_cookie_of_no_session_admits_nobody(web: Web) -> None:
    secret = web.token("t")
    for value in ("", "x", "*", secret, "x" * 10_000):
        assert 401 == web.get(f"{API}/schedules", headers={"Cookie": f"zsched_session={value}"}).status_code


def test_a_session_ends_at_another_login_and_at_logout(
    browser: httpx.Client, redis_client: redis.Redis, web: Web
) -> None:
    browser.post(PATH, data=RIGHT)

    assert 1 == len(list(redis_client.scan_iter("zsched-web:*session*")))
    assert 200 == status(browser)

    secret = browser.cookies["zsched_session"]
    answer = browser.post("/logout")

    assert (303, PATH) == (answer.status_code, answer.headers["location"])
    assert 401 == status(browser)
    browser.cookies.set("zsched_session", secret)
    assert 401 == status(browser)
    assert [] == list(redis_client.scan_iter("zsched-web:*session*"))
    assert "ann" == web.events("logged_out")[-1]["name"]


def test_a_session_lapses_after_its_hours(start_web: Callable[..., Web], redis_client: redis.Redis) -> None:
    web = start_web(ZSCHED_WEB_SESSION_HOURS="3")
    web.person("ann")
    with web.stranger() as browser:
        browser.post(PATH, data=RIGHT)
        [session] = redis_client.scan_iter("zsched-web:*session*")
        assert 2 * 3600 < redis_client.ttl(session) <= 3 * 3600

        redis_client.pexpire(session, 1)

        eventually(lambda: status(browser) == 401)


def test_the_sessions_of_a_removed_person_end(web: Web, browser: httpx.Client) -> None:
    assert 200 == status(browser)
    assert "removed" == web.zsched.json("users", "remove", "ann")["result"]

    eventually(lambda: status(browser) == 401)

    web.person("ann")  # with the same password
    assert 401 == status(browser)


def test_a_changed_password_ends_the_sessions_of_its_person_only(web: Web, browser: httpx.Client) -> None:
    with web.browser("bob") as other:
        web.zsched("users", "password", "ann", "--password-file", "-", input="another one")

        eventually(lambda: status(browser) == 401)
        assert 200 == status(other)
    assert 401 == browser.post(PATH, data=RIGHT).status_code
    assert 303 == browser.post(PATH, data=RIGHT | {"password": "another one"}).status_code


def test_a_changed_role_holds_for_a_session(web: Web, browser: httpx.Client, redis_client: redis.Redis) -> None:
    assert 201 == browser.put(f"{API}/schedules/a", json=WITHIN).status_code
    stored = redis_client.hget(KEYS.people(), "ann")

    redis_client.hset(KEYS.people(), "ann", stored.replace(b'"operator"', b'"viewer"'))

    eventually(lambda: browser.put(f"{API}/schedules/b", json=WITHIN).status_code == 403)
    assert 200 == status(browser)


@pytest.mark.parametrize("text", ["", "{}", "[]", "x", '{"name": "ann"}', "NAME"])
def test_a_person_that_another_program_wrote_is_not_admitted(
    web: Web, browser: httpx.Client, redis_client: redis.Redis, text: str
) -> None:
    stored = redis_client.hget(KEYS.people(), "ann")
    redis_client.hset(KEYS.people(), "ann", text if text != "NAME" else stored.replace(b'"ann"', b'"bob"'))

    eventually(lambda: status(browser) == 401)
    assert 401 == browser.post(PATH, data=RIGHT).status_code


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1", "http://[", "http://"])
def test_a_write_or_login_from_another_sites_page_is_refused(
    web: Web, browser: httpx.Client, redis_client: redis.Redis, origin: str | None
) -> None:
    browser.put(f"{API}/schedules/a", json=WITHIN)
    before = redis_client.xlen(KEYS.log())
    headers = {} if origin is None else {"Origin": origin}
    del browser.headers["Origin"]

    for method, path in [*((method, API + path) for method, path in WRITES), ("POST", "/logout")]:
        answer = browser.request(method, path, json=WITHIN, headers=headers)
        assert (403, "urn:zsched:error:cross-origin") == (answer.status_code, answer.json()["type"]), path
    login = web.request("POST", PATH, data=RIGHT, headers=headers)

    assert (403, None) == (login.status_code, login.headers.get("set-cookie"))
    assert before == redis_client.xlen(KEYS.log())
    assert 200 == status(browser)


def test_a_session_has_the_role_and_the_limits_of_its_person(web: Web, redis_client: redis.Redis) -> None:
    with web.browser("vic", "viewer") as viewer:
        for method, path in WRITES:
            answer = viewer.request(method, API + path, json=WITHIN)
            assert (403, "urn:zsched:error:read-only") == (answer.status_code, answer.json()["type"]), path
        assert 200 == status(viewer)
    assert 0 == redis_client.xlen(KEYS.log())

    with web.browser("bob", "scheduler", queues=("mail",)) as bob:
        made = bob.put(f"{API}/schedules/a", json=WITHIN)
        refused = bob.put(f"{API}/schedules/b", json={**WITHIN, "queue": "pay"})

    assert (201, 403) == (made.status_code, refused.status_code)
    assert "'bob' is limited to queue mail" in refused.json()["detail"]
