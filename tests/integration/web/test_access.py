"""Tokens, roles and limits: who may do what over HTTP, and that nobody else does; see test_write_routes.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis
from starlette.requests import Request

from tests.faults.processes import eventually
from tests.integration.client.ground import KEYS
from tests.integration.web.ground import LIMITS, WITHIN, Web
from tests.integration.web.routes import write_routes
from zsched import AsyncClient
from zsched.aio.bridge import wait
from zsched.config.settings import Settings
from zsched.core.clock import ManualClock
from zsched.storage.accounts import Account, AccountRole, Limits
from zsched.web.access import Access
from zsched.web.problems import Problem
from zsched.web.proxy import Proxy

WRITES = [(method, path.format(id="a", run_id="a-1795650943297")) for method, path in write_routes()]
OUTSIDE = [{"func": "app.pay.send"}, {"queue": "pay"}, {"tags": ["other"]}, {"tags": []}]
pytestmark = pytest.mark.anyio
WAITING = 20


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic eDp4"}])
def test_a_request_without_a_token_is_refused(web: Web, header: dict[str, str]) -> None:
    for path in ("/schedules", "/schedules/a", "/runs", "/log", "/events"):
        answer = web.get(f"/api/v1{path}", headers=header)
        assert (401, "Bearer") == (answer.status_code, answer.headers["www-authenticate"])
        assert "zsched tokens add" in answer.json()["remedy"]


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_scheduler_changes_nothing_outside_of_its_limits(
    web: Web, http: httpx.Client, redis_client: redis.Redis, outside: dict[str, Any]
) -> None:
    http.put("/schedules/theirs", json={**WITHIN, **outside})
    with web.client("shop", "scheduler", **LIMITS) as shop:
        assert 201 == shop.put("/schedules/a", json=WITHIN).status_code
        before = redis_client.xlen(KEYS.log())
        key = {"Idempotency-Key": "k"}
        answers = [
            shop.put("/schedules/theirs", json=WITHIN),  # it is outside
            shop.put("/schedules/b", json={**WITHIN, **outside}),  # it would be outside
            shop.put("/schedules/a", json={**WITHIN, **outside}),
            shop.post("/schedules", json={**WITHIN, **outside}, headers=key),
            shop.patch("/schedules/a", json=outside),
            *(shop.request(method, f"/schedules/theirs{what}", json={}) for method, what in (
                ("PATCH", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume"), ("POST", ":run"), ("GET", ""),
                ("GET", "/story"),
            )),
        ]  # fmt: skip
        listed = [one["id"] for one in shop.get("/schedules").json()["schedules"]]

    assert [403] * len(answers) == [each.status_code for each in answers]
    assert {"urn:zsched:error:outside-limits"} == {each.json()["type"] for each in answers}
    assert before == redis_client.xlen(KEYS.log())
    assert ["a"] == listed


def test_a_scheduler_works_within_its_limits(web: Web) -> None:
    with web.client("shop", "scheduler", **LIMITS) as shop:
        made = [shop.put("/schedules/a", json=WITHIN), shop.put("/schedules/a", json={**WITHIN, "timeout": 60})]
        patched = shop.patch("/schedules/a", json={"timeout": 90})
        paused, resumed = shop.post("/schedules/a:pause"), shop.post("/schedules/a:resume")
        gone = shop.delete("/schedules/a")

    assert [201, 200, 200, 200, 200, 200] == [each.status_code for each in (*made, patched, paused, resumed, gone)]


def test_arguments_need_a_right_of_their_own(start_web: Callable[..., Web]) -> None:
    web = start_web(ZSCHED_RQ_SERIALIZER="json")
    with web.client("ann") as plain, web.client("eve", "viewer", sees_arguments=True) as seeing:
        plain.put("/schedules/a", json={**WITHIN, "args": ["secret"]})

        assert (None, ["secret"]) == (
            plain.get("/schedules/a").json()["args"],
            seeing.get("/schedules/a").json()["args"],
        )
        assert [None] == [one["args"] for one in plain.get("/schedules").json()["schedules"]]


def test_a_revoked_token_admits_nobody(web: Web) -> None:
    with web.client("ann") as client:
        assert 200 == client.get("/schedules").status_code
        assert {"name": "ann", "result": "revoked"} == web.zsched.json("tokens", "revoke", "ann")

        eventually(lambda: client.get("/schedules").status_code == 401)
    assert "not_found" == web.zsched.json("tokens", "revoke", "ann")["result"]


def test_a_token_that_expired_admits_nobody(web: Web) -> None:
    secret = web.zsched.json("tokens", "add", "ann", "--role", "viewer", "--expires", "1s")["token"]
    with web.client_of(secret) as client:
        eventually(lambda: client.get("/schedules").status_code == 401)


def test_the_list_of_tokens_has_no_secret(web: Web, redis_client: redis.Redis) -> None:
    added = ("add", "shop", "--role", "scheduler", "--func", "app.mail.*", "--queue", "mail", "--tag", "shop")
    secret = web.zsched.json("tokens", *added)["token"]
    web.get("/api/v1/schedules", headers={"Authorization": f"Bearer {secret}"})

    [shown] = web.zsched.json("tokens", "list")

    assert ("shop", "scheduler", ["app.mail.*"], True) == (
        shown["name"], shown["role"], shown["funcs"], shown["used_at"] is not None,
    )  # fmt: skip
    stored = b"".join(redis_client.dump(key) for key in redis_client.scan_iter())
    assert secret.encode() not in stored
    assert secret.removeprefix("zs_").encode() not in stored


class SlowPeople:
    """People whose passwords are checked when the gate opens; all are wrong."""

    def __init__(self) -> None:
        self.gate, self.at_once, self.most = asyncio.Event(), 0, 0

    def admitted(self, *_: object) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        wait(self.gate.wait())
        self.at_once -= 1

    def of_session(self, *_: object) -> None: ...

    find = of_session


def access_of(accounts: Any, clock: ManualClock) -> Access:
    """Return the access of *accounts*, which are tokens and people."""
    client = AsyncClient.from_url("redis://127.0.0.1:1/0")
    return Access(client, accounts, accounts, Proxy(Settings()), Settings(), clock)


async def test_logins_beyond_the_twentieth_are_refused_at_once_and_passwords_are_checked_one_by_one() -> None:
    people = SlowPeople()
    access = access_of(people, ManualClock())
    *waiting, last = (asyncio.create_task(access.log_in("ann", "wrong")) for _ in range(WAITING + 1))

    with pytest.raises(Problem, match="too many others log in") as refused:
        await last
    people.gate.set()

    assert 429 == refused.value.status
    assert [None] * WAITING == await asyncio.gather(*waiting)
    assert 1 == people.most


@pytest.mark.parametrize("header", [("authorization", "Bearer zs_x"), ("cookie", "zsched_session=x")])
async def test_an_account_is_looked_up_again_after_half_a_second(header: tuple[str, str]) -> None:
    class Accounts:
        def __init__(self) -> None:
            self.found: list[Account | None] = [Account("ann", AccountRole.VIEWER, Limits()), None]

        def find(self, *_: object) -> Account | None:
            return self.found.pop(0)

        of_session = find

    clock = ManualClock()
    access = access_of(Accounts(), clock)
    request = Request({"type": "http", "method": "GET", "headers": [tuple(part.encode() for part in header)]})

    first = await access.caller(request)
    clock.advance(499)
    assert first is await access.caller(request)
    clock.advance(1)
    with pytest.raises(Problem) as ended:
        await access.caller(request)

    assert ("ann", 401) == (first.account.name, ended.value.status)
