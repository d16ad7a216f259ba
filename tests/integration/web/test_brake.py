"""The brake on wrong logins: by address, and that others go on at once."""

import httpx
import pytest
from starlette.requests import Request

from tests.builders.web import Web
from tests.integration.web.test_login import API, PATH
from zsched.config.settings import Settings, WebSettings
from zsched.core.clock import ManualClock
from zsched.web.access import _REMEMBERED, Brake, Proxy
from zsched.web.answers import Problem

HERE, THERE = "192.0.2.1", "192.0.2.2"
FREE = 10  # wrong attempts of an address without a wait
FORGOTTEN_MS = 300_000  # in which one attempt is forgotten


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def brake(clock: ManualClock) -> Brake:
    return Brake(clock)


def left_s(brake: Brake, address: str = HERE) -> int:
    """Begin an attempt, and return for how long it is refused; 0: it is not."""
    try:
        brake.begin(address)
    except Problem as problem:
        return int(problem.headers["Retry-After"])
    return 0


def fail(brake: Brake, number: int, address: str = HERE) -> list[int]:
    return [brake.begin(address) for _ in range(number)]


def test_the_wait_of_an_address_doubles_with_each_wrong_attempt_up_to_five_minutes(
    brake: Brake, clock: ManualClock
) -> None:
    waits = fail(brake, FREE)
    while len(waits) < 200:
        assert waits[-1] == left_s(brake)
        clock.advance(waits[-1] * 1000)
        waits += fail(brake, 1)

    assert [*[0] * (FREE - 1), 2, 3, 6, 12, 22, 41, 75] == waits[: FREE + 6]
    assert 300 == waits[-1]
    assert sorted(waits) == waits


def test_a_refused_attempt_makes_the_wait_no_longer(brake: Brake, clock: ManualClock) -> None:
    fail(brake, FREE)

    assert [2] * 50 == [left_s(brake) for _ in range(50)]

    clock.advance(2000)
    assert 0 == left_s(brake)


def test_an_address_that_is_attacked_from_brakes_no_other(brake: Brake) -> None:
    fail(brake, FREE)

    assert [2, 0] == [left_s(brake, address) for address in (HERE, THERE)]


def test_right_attempts_count_for_nothing(brake: Brake) -> None:
    for _ in range(FREE * 20):
        brake.begin(HERE)
        brake.forgive(HERE)

    assert [0] * (FREE - 1) == fail(brake, FREE - 1)


def test_a_right_attempt_forgives_no_wrong_one_of_its_address(brake: Brake) -> None:
    fail(brake, FREE - 1)
    brake.begin(HERE)
    brake.forgive(HERE)

    assert [2] == fail(brake, 1)


def test_wrong_attempts_are_forgotten_one_after_the_other(brake: Brake, clock: ManualClock) -> None:
    fail(brake, FREE - 1)
    clock.advance(FORGOTTEN_MS)
    assert [0, 2] == fail(brake, 2)

    clock.advance(FREE * FORGOTTEN_MS)
    assert [*[0] * (FREE - 1), 2] == fail(brake, FREE)


def test_right_attempts_do_not_prolong_the_memory_of_wrong_ones(brake: Brake, clock: ManualClock) -> None:
    fail(brake, FREE - 1)
    for _ in range(FREE):
        clock.advance(FORGOTTEN_MS)
        brake.begin(HERE)
        brake.forgive(HERE)

    assert [*[0] * (FREE - 1), 2] == fail(brake, FREE)


@pytest.mark.parametrize(("one", "other", "is_shared"), [
    ("2001:db8::1", "2001:db8::ffff:1", True), ("2001:db8::1", "2001:db8:0:1::1", False),
    ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False), ("fe80::1%eth0", "fe80::2%eth0", True),
])  # fmt: skip
def test_addresses_of_ipv6_count_by_their_network(brake: Brake, one: str, other: str, is_shared: bool) -> None:
    fail(brake, FREE, address=one)

    assert is_shared == (left_s(brake, other) > 0)


def test_the_memory_of_attempts_is_bounded(brake: Brake) -> None:
    for number in range(_REMEMBERED * 2):
        brake.begin(f"10.0.{number >> 8}.{number & 255}")

    assert len(brake._counts) <= _REMEMBERED


@pytest.mark.parametrize(("peer", "forwarded", "expected"), [
    (HERE, [], HERE),
    (HERE, ["203.0.113.9"], HERE),  # nobody trusts it
    ("127.0.0.1", [], "127.0.0.1"),
    ("127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
    ("::ffff:127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
    ("127.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),  # the client sent the first one itself
    ("127.0.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
    ("127.0.0.1", ["203.0.113.9, 10.0.0.7"], "203.0.113.9"),  # two proxies
    ("127.0.0.1", ["unknown"], "127.0.0.1"),
    ("127.0.0.1", ["203.0.113.9, unknown, 10.0.0.7"], "10.0.0.7"),
    ("127.0.0.1", [", ,"], "127.0.0.1"),
    ("127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
])  # fmt: skip
def test_the_address_of_a_request_is_what_a_trusted_proxy_names_last(
    peer: str, forwarded: list[str], expected: str
) -> None:
    settings = Settings(web=WebSettings(proxy_addresses=("127.0.0.1", "10.0.0.0/24")))
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    request = Request({"type": "http", "client": (peer, 1), "headers": headers})

    assert expected == Proxy(settings).address(request)


def wrong(client: httpx.Client, address: str) -> httpx.Response:
    return client.post(PATH, data={"token": "wrong"}, headers={"X-Forwarded-For": address})


def test_an_attack_on_the_login_is_braked_and_people_log_in_from_elsewhere(
    web_of_a_proxy: Web, newcomer: httpx.Client
) -> None:
    token = web_of_a_proxy.token("ann")
    first = [wrong(newcomer, HERE).status_code for _ in range(FREE)]
    while (refused := wrong(newcomer, HERE)).status_code == 401:  # on a busy machine the first wait may have passed
        pass
    page = newcomer.post(PATH, data={"token": token}, headers={"X-Forwarded-For": HERE, "Accept": "text/html"})
    right = newcomer.post(PATH, data={"token": token}, headers={"X-Forwarded-For": THERE})

    assert [401] * FREE == first
    assert (429, "urn:zsched:error:too-many-attempts") == (refused.status_code, refused.json()["type"])
    assert int(refused.headers["retry-after"]) > 0
    assert f"try again in {refused.headers['retry-after']} s" == refused.json()["remedy"]
    assert 429 == page.status_code
    assert "too many wrong tokens from 192.0.2.1" in page.text
    assert 303 == right.status_code
    told = [event["wait_s"] for event in web_of_a_proxy.events("login_refused") if event["address"] == HERE]
    assert [*[0] * (FREE - 1), 2] == told[:FREE]
    assert token not in web_of_a_proxy.log.read_text()


def test_wrong_tokens_are_refused_each_and_right_ones_of_the_same_address_continue(web: Web) -> None:
    bad, good = {"Authorization": "Bearer zs_wrong"}, {"Authorization": f"Bearer {web.token('t', 'viewer')}"}

    assert {401} == {web.get(f"{API}/schedules", headers=bad).status_code for _ in range(FREE * 2)}
    assert 200 == web.get(f"{API}/schedules", headers=good).status_code
