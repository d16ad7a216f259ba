"""The callers of requests, without a server: when an account is looked up, and a flood of logins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from zsched import AsyncClient
from zsched.aio.bridge import wait
from zsched.config.settings import Settings
from zsched.core.clock import ManualClock
from zsched.storage.accounts import Account, AccountRole, Limits
from zsched.web.access import Access
from zsched.web.problems import Problem
from zsched.web.proxy import Proxy

pytestmark = pytest.mark.anyio
WAITING = 20


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
