"""People whom a trusted proxy names: only from its addresses, with a role that zsched knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import redis

from tests.integration.web.ground import WITHIN, Web
from tests.integration.web.test_access import WRITES
from zsched import Client
from zsched.embedded import EmbeddedRedis
from zsched.embedded.guard import Guard

BEHIND = {
    "ZSCHED_WEB_PROXY_HEADER": "X-Forwarded-User",
    "ZSCHED_WEB_PROXY_ROLE_HEADER": "X-Forwarded-Role",
    "ZSCHED_WEB_PROXY_ADDRESSES": "192.0.2.0/24,127.0.0.1",
}
ANN = {"X-Forwarded-User": "ann", "X-Forwarded-Role": "operator"}


@pytest.fixture(scope="module")
def behind_server(redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Guard() as guard:
        yield Web(guard, redis_server.url, tmp_path_factory.mktemp("behind"), **BEHIND)


@pytest.fixture
def behind(behind_server: Web, redis_client: redis.Redis) -> Web:
    return behind_server


def ask(web: Web, headers: Any, method: str = "GET", path: str = "/schedules") -> httpx.Response:
    return web.request(method, f"/api/v1{path}", headers=headers, json=WITHIN)


def test_a_proxy_names_the_person_and_their_role(behind: Web, redis_url: str) -> None:
    made = ask(behind, ANN | {"Origin": behind.url}, "PUT", "/schedules/a")

    assert 201 == made.status_code
    assert {b"ann"} == {entry.by for entry in Client.from_url(redis_url).log()[0]}


def test_a_person_without_a_role_is_a_viewer(behind: Web) -> None:
    named = {"X-Forwarded-User": "ann", "Origin": behind.url}

    assert 200 == ask(behind, named).status_code
    for method, path in WRITES:
        assert "urn:zsched:error:read-only" == ask(behind, named, method, path).json()["type"]


@pytest.mark.parametrize("role", ["root", "Operator", "viewer,operator"])
def test_an_unknown_role_is_refused(behind: Web, role: str) -> None:
    answer = ask(behind, ANN | {"X-Forwarded-Role": role})

    assert (403, "urn:zsched:error:bad-proxy-header") == (answer.status_code, answer.json()["type"])
    assert "send one of viewer, scheduler, operator" in answer.json()["remedy"]


def test_a_header_that_came_twice_is_refused(behind: Web) -> None:
    for twice in ("X-Forwarded-User", "X-Forwarded-Role"):
        answer = ask(behind, [*ANN.items(), (twice, "viewer")])
        assert (403, "urn:zsched:error:bad-proxy-header") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize("name", ["a\tb", "x" * 300])
def test_a_name_that_the_log_cannot_have_is_refused(behind: Web, name: str) -> None:
    assert 403 == ask(behind, ANN | {"X-Forwarded-User": name}).status_code


def test_a_name_may_have_any_letters(behind: Web, redis_url: str) -> None:
    named = {"X-Forwarded-User": "Zoë 김".encode(), "X-Forwarded-Role": b"operator", "Origin": behind.url.encode()}

    assert 201 == ask(behind, named, "PUT", "/schedules/a").status_code
    assert {"Zoë 김".encode()} == {entry.by for entry in Client.from_url(redis_url).log()[0]}


def test_a_request_without_the_header_has_no_caller(behind: Web) -> None:
    assert 401 == ask(behind, {"X-Forwarded-Role": "operator"}).status_code
    assert 401 == ask(behind, {"X-Forwarded-User": "", "X-Forwarded-Role": "operator"}).status_code


@pytest.mark.parametrize("more", [{}, {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}])
def test_a_header_from_another_address_counts_as_absent(start_web: Callable[..., Web], more: dict[str, str]) -> None:
    web = start_web(**BEHIND | {"ZSCHED_WEB_PROXY_ADDRESSES": "192.0.2.0/24"})

    assert 401 == ask(web, ANN | more).status_code


def test_a_proxy_is_not_trusted_by_default(web: Web) -> None:
    assert 401 == ask(web, ANN).status_code


@pytest.mark.parametrize("origin", [{}, {"Origin": "https://evil.example"}])
def test_a_write_through_the_proxy_from_another_sites_page_is_refused(behind: Web, origin: dict[str, str]) -> None:
    for method, path in WRITES:
        assert "urn:zsched:error:cross-origin" == ask(behind, ANN | origin, method, path).json()["type"]


def test_a_person_named_by_a_proxy_sees_no_arguments(behind: Web) -> None:
    assert 403 == behind.get("/rq/", headers=ANN).status_code


def test_a_login_goes_before_the_name_of_the_proxy(behind: Web) -> None:
    with behind.browser("bob", "viewer", sees_arguments=True) as bob:
        assert "<strong>bob</strong>, viewer" in bob.get("/login", headers=ANN).text
        assert 200 == bob.get("/rq/", headers=ANN).status_code
