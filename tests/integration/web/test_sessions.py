"""Sessions of people: their ends, and what a page of another site cannot do with them."""

import re
from collections.abc import Callable

import httpx
import pytest
import redis

from tests.builders.web import Web
from tests.integration.client.calls import KEYS
from tests.integration.web.routes import LIMITS, WITHIN
from tests.integration.web.test_access import WRITES
from tests.integration.web.test_login import API, status
from zsched.core.clock import LAST_MS, SystemClock
from zsched.web.accounts import Accounts
from zsched.web.login import PATH


def test_a_session_is_not_a_token_and_a_token_goes_before_it(web: Web, browser: httpx.Client) -> None:
    wrong = browser.get(f"{API}/schedules", headers={"Authorization": "Bearer zs_wrong"})
    viewer = {"Authorization": f"Bearer {web.token('t', 'viewer')}"}

    assert 401 == wrong.status_code
    assert 403 == browser.put(f"{API}/schedules/a", json=WITHIN, headers=viewer).status_code
    with web.client_of(browser.cookies["zsched_session"]) as client:
        assert 401 == client.get("/schedules").status_code


def test_a_cookie_without_a_session_is_rejected(web: Web) -> None:
    secret, accounts = web.token("t"), web.accounts.read()
    [digest] = accounts.by_digest
    good, ended = accounts.cookie(digest, LAST_MS), accounts.cookie(digest, 1)
    forged = [Accounts().cookie(digest, LAST_MS), good.replace(digest, digest[::-1]), good[:-1], f"{digest}.{LAST_MS}."]
    for value in ("", "x", "*", ".", "..", secret, "x" * 10_000, digest, ended, *forged, f"{good}x", "é.é.é"):
        assert 401 == web.get(f"{API}/schedules", headers={"Cookie": f"zsched_session={value}".encode()}).status_code
    assert 200 == web.get(f"{API}/schedules", headers={"Cookie": f"zsched_session={good}"}).status_code


def test_a_session_lasts_for_its_hours(start_web: Callable[..., Web]) -> None:
    web = start_web(ZSCHED_WEB_SESSION_HOURS="3")
    first_ms = SystemClock().now_ms() + 3 * 3_600_000
    with web.browser() as browser:
        until_ms = int(browser.cookies["zsched_session"].split(".")[1])

    assert first_ms <= until_ms <= SystemClock().now_ms() + 3 * 3_600_000


def test_a_logout_takes_the_session_from_the_browser(browser: httpx.Client, web: Web) -> None:
    answer = browser.post("/logout")

    assert (303, PATH) == (answer.status_code, answer.headers["location"])
    assert "zsched_session" not in browser.cookies
    assert 401 == status(browser)
    assert "ann" == web.events("logged_out")[-1]["name"]


def test_another_login_of_a_browser_takes_the_place_of_the_first(browser: httpx.Client, web: Web) -> None:
    browser.post(PATH, data={"token": web.token("eve", "viewer")})

    assert "<strong>eve</strong>, viewer" in browser.get(PATH).text


def test_a_session_of_a_revoked_token_ends_and_others_continue(web: Web, browser: httpx.Client) -> None:
    with web.browser("bob") as other:
        assert [200, 200] == [status(each) for each in (browser, other)]
        web.zsched.json("tokens", "revoke", "ann")

        assert [401, 200] == [status(each) for each in (browser, other)]
        web.token("ann")  # another one
        assert [401, 200] == [status(each) for each in (browser, other)]


def test_a_changed_role_holds_for_a_session(web: Web, browser: httpx.Client) -> None:
    assert 201 == browser.put(f"{API}/schedules/a", json=WITHIN).status_code
    file = web.accounts.path

    file.write_text(file.read_text().replace('"operator"', '"viewer"'))

    assert 403 == browser.put(f"{API}/schedules/b", json=WITHIN).status_code
    assert 200 == status(browser)


def test_a_new_key_of_cookies_ends_all_sessions_and_no_token(web: Web, browser: httpx.Client) -> None:
    token, file = web.token("shop"), web.accounts.path

    file.write_text(re.sub("cookie_key.*\n", "", file.read_text()))

    assert 401 == status(browser)
    with web.client_of(token) as shop:
        assert 200 == shop.get("/schedules").status_code


def test_a_session_outlives_the_server_and_is_good_at_others_that_share_the_file(
    web: Web, browser: httpx.Client, start_web: Callable[..., Web]
) -> None:
    other = start_web(ZSCHED_WEB_ACCOUNTS_FILE=str(web.accounts.path))
    cookie = {"Cookie": f"zsched_session={browser.cookies['zsched_session']}"}

    assert 200 == other.get(f"{API}/schedules", headers=cookie).status_code


@pytest.mark.true_start
def test_a_lost_redis_loses_no_session_and_no_token_and_a_revoked_one_ends_within_a_second(
    start_web: Callable[..., Web], redis_client: redis.Redis
) -> None:
    web = start_web()
    shop, keys = web.token("shop", "scheduler", **LIMITS), redis_client.dbsize()
    with web.client_of(shop) as script, web.browser("ann") as ann:
        assert 201 == ann.put(f"{API}/schedules/a", json=WITHIN).status_code
        assert 0 == keys
        redis_client.flushall()

        assert [200, 200] == [status(ann), script.get("/schedules").status_code]
        assert 201 == script.put("/schedules/b", json=WITHIN).status_code
        assert 201 == ann.put(f"{API}/schedules/a", json=WITHIN).status_code

        web.zsched.json("tokens", "revoke", "shop")
        assert [200, 401] == [status(ann), script.get("/schedules").status_code]
        web.zsched.json("tokens", "revoke", "ann")
        assert 401 == status(ann)


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
    login = web.request("POST", PATH, data={"token": web.token("eve")}, headers=headers)

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
